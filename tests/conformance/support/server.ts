import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { program } from "./environment";

/** The variables of `cargo xtask conformance` must not configure this server. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BASALT_")));

/** A server with its own state that a test can kill and restart. */
export class Server {
  readonly url: string;
  readonly folder: string;
  readonly project = join(import.meta.dirname, "../project");
  readonly port: number;
  readonly databasePort: number;
  anonKey = "";
  serviceKey = "";
  #child: ChildProcess | undefined;
  readonly #settings: Record<string, string>;

  private constructor(folder: string, port: number, databasePort: number, settings: Record<string, string>) {
    this.#settings = settings;
    this.url = `http://127.0.0.1:${port}`;
    this.folder = folder;
    this.port = port;
    this.databasePort = databasePort;
  }

  /** Starts a server; `settings` are environment variables. */
  static async start(settings: Record<string, string> = {}): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), "basalt-conformance-"));
    const server = new Server(folder, await freePort(), await freePort(), settings);
    await server.startAgain();
    const keys = execFileSync(program, ["keys", ...server.#place()], { encoding: "utf8", env });
    for (const [token = "", payload = ""] of keys.matchAll(/eyJ[\w-]+\.([\w-]+)\.[\w-]+/g)) {
      const { role } = JSON.parse(Buffer.from(payload, "base64url").toString());
      if (role === "service_role") server.serviceKey = token;
      if (role === "anon") server.anonKey = token;
    }
    return server;
  }

  #place() {
    return ["--project", this.project, "--data", this.folder];
  }

  async startAgain(): Promise<void> {
    const ports = ["--port", `${this.port}`, "--db-port", `${this.databasePort}`];
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
