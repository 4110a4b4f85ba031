import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { program } from "../support/environment";
import { Server } from "../support/server";

const templates = join(import.meta.dirname, "../../../gateway/src/cli/init");

test("the templates' copy of supabase-js is the installed one", () => {
  const module = dirname(createRequire(import.meta.url).resolve("@supabase/supabase-js/package.json"));
  const { version } = JSON.parse(readFileSync(join(module, "package.json"), "utf8"));
  const [about = "", ...copy] = readFileSync(join(templates, "supabase.js"), "utf8").split("\n");
  expect(about, "copy dist/umd/supabase.js behind this line").toContain(` ${version}, `);
  expect(copy.join("\n")).toBe(readFileSync(join(module, "dist/umd/supabase.js"), "utf8"));
});

describe.each(["todo", "chat", "supabase"])("the template %s", (template) => {
  const folder = mkdtempSync(join(tmpdir(), "basalt-template-"));
  const project = join(folder, "my-app");
  let server: Server;

  beforeAll(async () => {
    execFileSync(program, ["init", project, "--template", template]);
    server = await Server.start({}, project);
  }, 120_000);

  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  /** A person with an address, or a guest. */
  async function person(name: string) {
    const client = createClient(server.url, server.anonKey, { auth: { persistSession: false } });
    const { data, error } =
      template === "chat"
        ? await client.auth.signInAnonymously({ options: { data: { name } } })
        : await client.auth.signUp({ email: `${name}@example.org`, password: "correct horse" });
    if (error || !data.user) throw error ?? new Error("no user");
    return { client, id: data.user.id };
  }

  test("serves its page and a copy of supabase-js", async () => {
    const page = await (await fetch(server.url)).text();
    for (const [, path = ""] of page.matchAll(/(?:src|href)="([^"]+)"/g)) {
      const answer = await fetch(new URL(path, server.url));
      expect([path, answer.status]).toEqual([path, 200]);
    }
    expect(page).not.toMatch(/https?:/);
    const config = await (await fetch(`${server.url}/app-config.json`)).json();
    expect(config.anonKey).toMatch(/^sb_publishable_/);
  });

  test("its policies pass their tests and have no findings", () => {
    expect(server.command("policies", "test")).toMatch(/\d+/);
    expect(server.command("policies", "check")).not.toContain("error");
  });

  test.skipIf(template === "chat")("keeps each person's list and files apart", async () => {
    const [ada, bob] = [await person("ada"), await person("bob")];
    const added = await ada.client.from("todos").insert({ title: "hers" }).select().single();
    expect(added.error).toBeNull();
    expect((await bob.client.from("todos").select()).data).toEqual([]);
    const path = `${ada.id}/a.txt`;
    expect((await ada.client.storage.from("attachments").upload(path, new Blob(["hers"]))).error).toBeNull();
    expect((await bob.client.storage.from("attachments").download(path)).error).not.toBeNull();
    const signed = await ada.client.storage.from("attachments").createSignedUrl(path, 60);
    expect(await (await fetch(signed.data?.signedUrl ?? "")).text()).toBe("hers");
    // The seed's rows, for development.
    const service = createClient(server.url, server.serviceKey, { auth: { persistSession: false } });
    expect((await service.from("todos").select().neq("user_id", ada.id)).data).toHaveLength(3);
    const demo = createClient(server.url, server.anonKey, { auth: { persistSession: false } });
    const signIn = await demo.auth.signInWithPassword({ email: "demo@example.org", password: "demo-password" });
    expect(signIn.error).toBeNull();
  });

  test.skipIf(template !== "chat")("delivers messages under the name of the guest", async () => {
    const [ada, bob] = [await person("Ada"), await person("Bob")];
    const received = new Promise((resolve, reject) => {
      const room = bob.client.channel("room", { config: { private: true, presence: { key: bob.id } } });
      room
        .on("postgres_changes", { event: "INSERT", schema: "public", table: "messages" }, (change) =>
          resolve(change.new),
        )
        .subscribe(async (status, error) => {
          if (error) reject(error);
          if (status === "SUBSCRIBED") await ada.client.from("messages").insert({ body: "hello" });
        });
    });
    expect(await received).toMatchObject({ author: "Ada", body: "hello", user_id: ada.id });
    const forged = await bob.client.from("messages").insert({ body: "x", author: "Ada" });
    expect(forged.error?.code).toBe("42501");
    await bob.client.removeAllChannels();
  });
});
