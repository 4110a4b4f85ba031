import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { program } from "../support/environment";
import { Server } from "../support/server";

const docs = join(import.meta.dirname, "../../../docs/use");

/** The examples of a page: their code, and what each `console.log` must print. */
function examples(page: string): { code: string; expected: string[] }[] {
  const text = readFileSync(join(docs, page), "utf8");
  return [...text.matchAll(/```js example(?:=\w+)?\n([^`]*(?:`[^`]+`[^`]*)*?)```/g)].map(([, code = ""]) => ({
    code,
    expected: [...code.matchAll(/\/\/=> (.*)/g)].map(([, printed = ""]) => printed),
  }));
}

/** Runs an example; returns what it printed, as JSON. */
async function run(code: string, scope: Record<string, unknown>): Promise<string[]> {
  const printed: string[] = [];
  const log = (...values: unknown[]) => printed.push(values.map((value) => JSON.stringify(value)).join(" "));
  const AsyncFunction = (async () => {}).constructor as new (
    ...source: string[]
  ) => (...values: unknown[]) => Promise<void>;
  const names = { ...scope, console: { log } };
  await new AsyncFunction(...Object.keys(names), code)(...Object.values(names));
  return printed;
}

describe("docs/use", () => {
  const folder = mkdtempSync(join(tmpdir(), "basalt-docs-"));
  const project = join(folder, "todo");
  let server: Server;
  let service: SupabaseClient;

  beforeAll(async () => {
    execFileSync(program, ["init", project, "--template", "todo"]);
    const functions = readFileSync(join(docs, "FUNCTIONS.md"), "utf8").matchAll(
      /```ts function=(\w+)\n([^`]*(?:`[^`]+`[^`]*)*?)```/g,
    );
    for (const [, name = "", code = ""] of functions) {
      const file = join(project, "functions", name, "index.ts");
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, code);
    }
    server = await Server.start({}, project);
    service = createClient(server.url, server.serviceKey, { auth: { persistSession: false } });
  }, 120_000);

  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  test.each(["AUTH.md", "REST.md", "STORAGE.md", "REALTIME.md"])(
    "the examples of %s print what they say",
    async (page) => {
      const client = createClient(server.url, server.anonKey, { auth: { persistSession: false } });
      const email = `${page.replace(/\W/g, "")}@example.org`.toLowerCase();
      const signUp = await client.auth.signUp({ email, password: "correct horse" });
      expect(signUp.error).toBeNull();
      const found = examples(page);
      expect(found.length).toBeGreaterThan(1);
      for (const { code, expected } of found) {
        expect(expected.length, code).toBeGreaterThan(0);
        expect(await run(code, { client, service }), code).toEqual(expected);
      }
      await client.removeAllChannels();
    },
    60_000,
  );
});
