import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Server } from "../support/server";

const cli = join(dirname(createRequire(import.meta.url).resolve("supabase/package.json")), "dist/supabase.js");

/** Supabase's own CLI, a program of 140 MB that takes seconds to start on a busy machine, against a server that runs the same folder. */
describe("Supabase's CLI", { timeout: 240_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "basalt-supabase-cli-"));
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  let server: Server;

  beforeAll(async () => {
    put("supabase/config.toml", 'project_id = "cli"\n[storage.buckets.docs]\npublic = true\n');
    put(
      "supabase/migrations/20240101000000_tasks.sql",
      "create table public.tasks (id bigint generated always as identity primary key, title text not null);\nalter table public.tasks enable row level security;\n",
    );
    server = await Server.start({}, folder);
    // The CLI finds the local API by the port of config.toml.
    put(
      "supabase/config.toml",
      `project_id = "cli"\n[api]\nport = ${server.port}\n[db]\nport = ${server.databasePort}\n[storage.buckets.docs]\npublic = true\n[storage.buckets.more]\npublic = false\n`,
    );
  }, 120_000);

  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  const run = (...args: string[]) => runIn(folder, ...args);

  function runIn(workdir: string, ...args: string[]): Promise<{ code: number; output: string }> {
    const env = {
      ...process.env,
      SUPABASE_TELEMETRY_DISABLED: "1",
      SUPABASE_AUTH_SERVICE_ROLE_KEY: server.serviceKey,
    };
    return new Promise((resolve) => {
      const child = execFile(process.execPath, [cli, "--workdir", workdir, ...args], { env }, (error, stdout, stderr) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, output: stdout + stderr }),
      );
      child.stdin?.end();
    });
  }

  const remote = (...args: string[]) => run(...args, `--remote=${server.databaseUrl}`);

  async function succeeds(result: Promise<{ code: number; output: string }>): Promise<string> {
    const { code, output } = await result;
    expect(code, output).toBe(0);
    return output;
  }

  test("migration list shows what the server applied", async () => {
    const output = await succeeds(remote("migration", "list"));
    expect(output).toMatch(/`20240101000000`\s*\|\s*`20240101000000`/);
  });

  test("db push applies a migration, which the next start knows", async () => {
    put(
      "supabase/migrations/20240102000000_done.sql",
      'alter table public.tasks add column done boolean not null default false;\ncreate policy "all read" on public.tasks for select using (true);\n',
    );
    await server.kill();
    await server.startAgain(["--strict"]);
    // In a copy first: the running server applies new files of its own folder as soon as they are saved.
    const [file, text] = [
      "supabase/migrations/20240103000000_more.sql",
      "create table public.more (id int primary key);\n",
    ];
    const copy = mkdtempSync(join(tmpdir(), "basalt-supabase-cli-copy-"));
    cpSync(folder, copy, { recursive: true });
    writeFileSync(join(copy, file), text);
    const output = await succeeds(runIn(copy, "db", "push", "--yes", `--remote=${server.databaseUrl}`));
    rmSync(copy, { recursive: true, force: true });
    expect(output).toContain("20240103000000_more.sql");
    await server.kill();
    put(file, text);
    await server.startAgain(["--strict"]);
    const service = createClient(server.url, server.serviceKey);
    expect((await service.from("more").select()).error).toBeNull();
    expect(await succeeds(remote("migration", "list"))).toMatch(/`20240103000000`\s*\|\s*`20240103000000`/);
    expect((await remote("db", "push", "--yes", "--dry-run")).output).toContain("up to date");
  });

  test("migration repair is honoured", async () => {
    const isApplied = /`20240101000000`\s*\|\s*`20240101000000`/;
    await succeeds(remote("migration", "repair", "20240101000000", "--status", "reverted", "--yes"));
    expect(await succeeds(remote("migration", "list"))).not.toMatch(isApplied);
    await succeeds(remote("migration", "repair", "20240101000000", "--status", "applied", "--yes"));
    expect(await succeeds(remote("migration", "list"))).toMatch(isApplied);
  });

  test("--local finds the database port of config.toml", async () => {
    const local = (...args: string[]) => run(...args, "--local");
    expect(await succeeds(local("migration", "list"))).toMatch(/`20240101000000`\s*\|\s*`20240101000000`/);
    put("supabase/migrations/20240104000000_local.sql", "create table public.by_local (id int primary key);\n");
    // A development server may have applied the file already.
    await succeeds(local("db", "push", "--yes"));
    expect(await succeeds(local("migration", "list"))).toMatch(/`20240104000000`\s*\|\s*`20240104000000`/);
    await succeeds(local("inspect", "db", "table-stats"));
    await succeeds(local("db", "advisors"));
  });

  test("gen types sees the tables", async () => {
    const types = await succeeds(remote("gen", "types", "--lang", "typescript", "--schema", "public"));
    expect(types).toMatch(/"?tasks"?: \{\s+Row: \{/);
    expect(types).toMatch(/"?title"?: string/);
  });

  test("inspect db and db advisors answer", async () => {
    const reports = ["table-stats", "index-stats", "role-stats", "locks", "bloat", "vacuum-stats"];
    await Promise.all(reports.map((report) => succeeds(remote("inspect", "db", report))));
    await succeeds(remote("db", "advisors"));
  });

  test("seed buckets and storage commands work with the service key", async () => {
    await succeeds(run("seed", "buckets", "--yes"));
    put("note.txt", "hello");
    const storage = (...args: string[]) => run("storage", ...args, "--experimental", "--yes");
    await succeeds(storage("cp", join(folder, "note.txt"), "ss:///docs/a/note.txt", "--content-type", "text/plain"));
    expect(await succeeds(storage("ls", "ss:///docs/", "--recursive"))).toContain("/docs/a/note.txt");
    expect(await succeeds(storage("ls", "ss:///"))).toContain("more/");
    await succeeds(storage("cp", "ss:///docs/a/note.txt", join(folder, "copy.txt")));
    expect(readFileSync(join(folder, "copy.txt"), "utf8")).toBe("hello");
    await succeeds(storage("rm", "ss:///docs/a/note.txt"));
    expect(await succeeds(storage("ls", "ss:///docs/", "--recursive"))).not.toContain("note.txt");
  });
});
