import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Server } from "../support/server";

const cli = join(dirname(createRequire(import.meta.url).resolve("supabase/package.json")), "dist/supabase.js");
const page = readFileSync(join(import.meta.dirname, "../../../docs/FROM-SUPABASE.md"), "utf8");

/** The command of a step of docs/FROM-SUPABASE.md. */
function step(name: string): string {
  const command = new RegExp(`\`\`\`sh step=${name}\\n([^\`]*)\`\`\``).exec(page)?.[1];
  if (!command) throw new Error(`docs/FROM-SUPABASE.md has no step ${name}`);
  return command.trim();
}

const ada = "aaaaaaaa-0000-4000-8000-000000000001";
/** bcrypt of "correct horse". */
const hash = "$2a$06$T7.inwg9/fNyRm.bWWzwrelm1jkm36MP3subbP7FzSeNnj6n/u7U.";
/** What `pg_dump --data-only` of a Supabase stack contains, shortened: tables that are not here, COPY blocks, sequences. */
const dump = `--
-- PostgreSQL database dump
--
\\restrict abc
SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
SET session_replication_role = replica;

COPY auth.audit_log_entries_of_an_old_release (id, payload) FROM stdin;
1\tsemicolon; and 'quote
\\.


COPY auth.schema_migrations (version) FROM stdin;
20171026211738
\\.


COPY auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, confirmation_token, recovery_token, email_change_token_new, email_change, raw_app_meta_data, raw_user_meta_data, is_super_admin, created_at, updated_at, phone, is_sso_user, is_anonymous) FROM stdin;
00000000-0000-0000-0000-000000000000\t${ada}\tauthenticated\tauthenticated\tada@example.org\t${hash}\t2024-01-01 00:00:00+00\t\t\t\t\t{"provider": "email", "providers": ["email"]}\t{"name": "Ada"}\t\\N\t2024-01-01 00:00:00+00\t2024-01-01 00:00:00+00\t\\N\tf\tf
\\.


COPY auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at, id) FROM stdin;
${ada}\t${ada}\t{"sub": "${ada}", "email": "ada@example.org"}\temail\t2024-01-01 00:00:00+00\t2024-01-01 00:00:00+00\t2024-01-01 00:00:00+00\tbbbbbbbb-0000-4000-8000-000000000001
\\.


COPY public.notes (id, owner, body) FROM stdin;
7\t${ada}\tfirst\\nsecond
\\.


COPY storage.buckets (id, name, owner, created_at, updated_at, public) FROM stdin;
avatars\tavatars\t\\N\t2024-01-01 00:00:00+00\t2024-01-01 00:00:00+00\tf
private\tprivate\t\\N\t2024-01-01 00:00:00+00\t2024-01-01 00:00:00+00\tf
\\.


COPY storage.objects (id, bucket_id, name, owner, created_at, updated_at, last_accessed_at, metadata, version, owner_id, user_metadata) FROM stdin;
cccccccc-0000-4000-8000-000000000001\tavatars\t${ada}/me.txt\t${ada}\t2024-02-02 00:00:00+00\t2024-02-02 00:00:00+00\t2024-02-02 00:00:00+00\t{"size": 5}\told-version\t${ada}\t{"from": "phone"}
cccccccc-0000-4000-8000-000000000002\tavatars\tfile-that-was-not-downloaded.txt\t${ada}\t2024-02-02 00:00:00+00\t2024-02-02 00:00:00+00\t2024-02-02 00:00:00+00\t{"size": 5}\tother\t${ada}\t\\N
\\.


INSERT INTO "public"."labels" ("name") VALUES ('a;b'), ('it''s');

SELECT pg_catalog.setval('public.notes_id_seq', 7, true);

\\unrestrict abc
`;

describe("docs/FROM-SUPABASE.md", () => {
  const folder = mkdtempSync(join(tmpdir(), "basalt-from-supabase-"));
  let server: Server;
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };

  beforeAll(async () => {
    put("supabase/config.toml", "[storage.buckets.avatars]\npublic = true\n");
    put(
      "supabase/migrations/1_notes.sql",
      `create table public.notes (id bigint generated always as identity primary key, owner uuid references auth.users (id), body text);
       create table public.labels (name text primary key);
       insert into public.labels values ('a;b');
       alter table public.notes enable row level security;
       create policy own on public.notes for select using (owner = auth.uid());
       create policy avatars on storage.objects for delete using (bucket_id = 'avatars' and owner_id = auth.uid()::text);
       create policy avatars_seen on storage.objects for select using (bucket_id = 'avatars');`,
    );
    put("supabase/seed.sql", "insert into public.labels values ('seed');");
    server = await Server.prepare(folder);
    server.command(...step("migrate").split(" ").slice(1));
    await server.begin();
  }, 120_000);

  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  test("the data of a Supabase stack moves", async () => {
    const service = createClient(server.url, server.serviceKey, { auth: { persistSession: false } });
    // The CLI finds the API by the port of config.toml.
    put("supabase/config.toml", `[api]\nport = ${server.port}\n[storage.buckets.avatars]\npublic = true\n`);
    put(`files/avatars/${ada}/me.txt`, "hello");
    execFileSync("sh", ["-c", step("upload").replace("supabase ", `"${process.execPath}" "${cli}" `)], {
      cwd: folder,
      env: {
        ...process.env,
        FILES: join(folder, "files"),
        SUPABASE_TELEMETRY_DISABLED: "1",
        SUPABASE_AUTH_SERVICE_ROLE_KEY: server.serviceKey,
      },
    });
    put("dump.sql", dump);
    const output = server.command(...step("restore").split(" ").slice(1));
    expect(output).toContain("auth.users: 1");
    expect(output).toContain("auth.audit_log_entries_of_an_old_release");

    const basalt = createClient(server.url, server.anonKey, { auth: { persistSession: false } });
    const signedIn = await basalt.auth.signInWithPassword({ email: "ada@example.org", password: "correct horse" });
    expect(signedIn.error).toBeNull();
    expect(signedIn.data.user?.id).toBe(ada);
    expect((await basalt.from("notes").select("id, body")).data).toEqual([{ id: 7, body: "first\nsecond" }]);
    const next = await service.from("notes").insert({ owner: ada, body: "next" }).select("id").single();
    expect(next.data?.id).toBe(8);
    expect((await service.from("labels").select("name").order("name")).data).toEqual([
      { name: "a;b" },
      { name: "it's" },
    ]);
    const avatars = basalt.storage.from("avatars");
    expect(await (await avatars.download(`${ada}/me.txt`)).data?.text()).toBe("hello");
    expect((await avatars.list()).data?.map((object) => object.name)).toEqual([ada]);
    // The bucket that the project made stays as it is; the other one came with the dump.
    expect((await service.storage.getBucket("avatars")).data?.public).toBe(true);
    expect((await service.storage.getBucket("private")).error).toBeNull();
    // The owner came with the row.
    expect((await avatars.remove([`${ada}/me.txt`])).data).toHaveLength(1);
  });

  test("a dump that fails changes nothing", () => {
    put("bad.sql", "INSERT INTO public.labels VALUES ('x');\nINSERT INTO public.notes (id) VALUES ('y');\n");
    expect(() => server.command("db", "restore", "bad.sql")).toThrow(/bad.sql, line 2.*invalid input syntax/s);
  });
});
