import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { program } from "./environment";

/** The variables of `cargo xtask conformance` must not configure this server. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BASALT_")));

const ownProject = join(import.meta.dirname, "../project");

/** A server with its own state that a test can kill and restart. */
export class Server {
  readonly url: string;
  readonly folder: string;
  readonly project: string;
  readonly port: number;
  readonly databasePort: number;
  serviceKey = "";
  anonKey = "";
  /** The database port, as the owner of the project's objects. */
  databaseUrl = "";
  #child: ChildProcess | undefined;
  readonly #settings: Record<string, string>;

  private constructor(project: string, folder: string, ports: [number, number], settings: Record<string, string>) {
    const [port, databasePort] = ports;
    this.#settings = settings;
    this.project = project;
    this.url = `http://127.0.0.1:${port}`;
    this.folder = folder;
    this.port = port;
    this.databasePort = databasePort;
  }

  /** Starts a server; `settings` are environment variables. */
  static async start(settings: Record<string, string> = {}, project = ownProject): Promise<Server> {
    const server = await Server.prepare(project, settings);
    await server.begin();
    return server;
  }

  /** A server that is not started yet. */
  static async prepare(project: string, settings: Record<string, string> = {}): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), "basalt-conformance-"));
    return new Server(project, folder, [await freePort(), await freePort()], settings);
  }

  /** Starts it for the first time and reads its keys. */
  async begin(): Promise<void> {
    await this.startAgain();
    const keys = this.command("keys");
    for (const [token = "", payload = ""] of keys.matchAll(/eyJ[\w-]+\.([\w-]+)\.[\w-]+/g)) {
      const { role } = JSON.parse(Buffer.from(payload, "base64url").toString());
      if (role === "service_role") this.serviceKey = token;
      if (role === "anon") this.anonKey = token;
    }
    this.databaseUrl = /^SUPABASE_DB_URL=(.*)$/m.exec(keys)?.[1] ?? "";
  }

  /** The address that the server uses for itself. */
  get publicUrl(): string {
    return `http://localhost:${this.port}`;
  }

  #place() {
    return ["--project", this.project, "--data", this.folder, "--db-port", `${this.databasePort}`];
  }

  /** Runs a command of the program on this server, in its project folder; returns what it prints. */
  command(...args: string[]): string {
    return execFileSync(program, [...args, ...this.#place()], {
      encoding: "utf8",
      env: { ...env, ...this.#settings },
      cwd: this.project,
      stdio: "pipe",
    });
  }

  async startAgain(options: string[] = []): Promise<void> {
    const ports = ["--port", `${this.port}`, ...options];
    this.#child = spawn(program, ["serve", ...this.#place(), ...ports], {
      stdio: "ignore",
      env: { ...env, ...this.#settings },
    });
    for (let tries = 0; tries < 1200; tries++) {
      const response = await fetch(`${this.url}/ready`).catch(() => undefined);
      if (response?.ok) return;
      await sleep(50);
    }
    throw new Error("the server did not get ready within a minute");
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  /** Kills the server without a shutdown. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A port that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === "object" ? resolve(address.port) : reject()));
    });
  });
}
