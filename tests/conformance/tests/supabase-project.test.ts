import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unique } from "../support/clients";
import { Server } from "../support/server";

/** A small project as Supabase's CLI makes it, unedited. */
const files = {
  "supabase/config.toml": `
project_id = "notes"
[api]
schemas = ["public", "graphql_public"]
max_rows = 100
[auth]
site_url = "env(SITE_URL)"
minimum_password_length = 8
[auth.email]
enable_confirmations = false
[storage.buckets.avatars]
public = true
file_size_limit = "1KiB"
allowed_mime_types = ["text/plain"]
[analytics]
enabled = false
`,
  "supabase/.env": "SITE_URL=http://127.0.0.1:3000\n",
  "supabase/migrations/20240101000000_notes.sql": `
create extension if not exists moddatetime schema extensions;
create table public.profiles (id uuid primary key references auth.users (id) on delete cascade, name text);
create table public.notes (
  id uuid primary key default gen_random_uuid(),
  owner uuid not null default auth.uid() references auth.users (id),
  body text not null,
  updated_at timestamptz
);
alter table public.profiles enable row level security;
alter table public.notes enable row level security;
create policy "own profile" on public.profiles for select using ((select auth.uid()) = id);
create policy "own notes" on public.notes for all to authenticated using ((select auth.uid()) = owner);
create trigger handle_updated_at before update on public.notes
  for each row execute procedure extensions.moddatetime(updated_at);
create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into public.profiles (id, name) values (new.id, new.raw_user_meta_data ->> 'name');
  return new;
end $$;
create trigger on_auth_user_created after insert on auth.users
  for each row execute procedure public.handle_new_user();
alter publication supabase_realtime add table public.notes;
`,
  "supabase/migrations/20240102000000-5b1c-hyphen.sql": `
create policy "avatars of their owner" on storage.objects for insert to authenticated
  with check (bucket_id = 'avatars' and (storage.foldername(name))[1] = auth.uid()::text);
create function public.server_url() returns text language sql stable
  as $$ select current_setting('app.settings.supabase_url', true) $$;
`,
  "supabase/migrations/20240103000000_broken.sql": "create table public.half (id int);\nselect * from missing;\n",
  "supabase/seed.sql": `
insert into auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, raw_app_meta_data,
  raw_user_meta_data, created_at, updated_at, confirmation_token, email_change, email_change_token_new, recovery_token)
values ('00000000-0000-0000-0000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', 'authenticated', 'authenticated',
  'ada@example.org', extensions.crypt('correct horse', extensions.gen_salt('bf')), now(), '{"provider":"email"}',
  '{"name":"Ada"}', now(), now(), '', '', '', '');
insert into public.notes (owner, body) values ('aaaaaaaa-0000-4000-8000-000000000001', 'first');
`,
};

describe("an unmodified Supabase project", () => {
  const folder = mkdtempSync(join(tmpdir(), "basalt-supabase-"));
  let server: Server;

  beforeAll(async () => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    server = await Server.start({}, folder);
  }, 120_000);

  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  const client = (key: string): SupabaseClient =>
    createClient(server.url, key, { auth: { persistSession: false, autoRefreshToken: false } });

  test("sign-up runs the project's trigger, and policies separate users", async () => {
    const [first, second] = [client(server.anonKey), client(server.anonKey)];
    for (const basalt of [first, second]) {
      const { data, error } = await basalt.auth.signUp({
        email: `${unique("user")}@example.org`,
        password: "correct horse",
        options: { data: { name: "Ben" } },
      });
      expect(error).toBeNull();
      expect(data.session).not.toBeNull();
    }
    expect((await first.from("profiles").select("name")).data).toEqual([{ name: "Ben" }]);
    const { data: note, error } = await first.from("notes").insert({ body: "mine" }).select().single();
    expect(error).toBeNull();
    expect(
      (await first.from("notes").update({ body: "changed" }).eq("id", note.id).select().single()).data.updated_at,
    ).not.toBeNull();
    expect((await second.from("notes").select("body")).data).toEqual([]);
    const { data: visible, error: denied } = await client(server.anonKey).from("notes").select("body");
    expect({ visible, denied }).toEqual({ visible: [], denied: null });
  });

  test("a seeded account signs in with its bcrypt hash", async () => {
    const basalt = client(server.anonKey);
    const { error } = await basalt.auth.signInWithPassword({ email: "ada@example.org", password: "correct horse" });
    expect(error).toBeNull();
    expect((await basalt.from("notes").select("body")).data).toEqual([{ body: "first" }]);
  });

  test("config.toml applies: bucket, password length, rows, settings of the SQL", async () => {
    const basalt = client(server.anonKey);
    const short = await basalt.auth.signUp({ email: `${unique("user")}@example.org`, password: "seven77" });
    expect(short.error?.code).toBe("weak_password");
    const { data } = await basalt.auth.signUp({ email: `${unique("user")}@example.org`, password: "correct horse" });
    const avatars = basalt.storage.from("avatars");
    const path = `${data.user?.id}/me.txt`;
    expect((await avatars.upload(path, "hello", { contentType: "text/plain" })).error).toBeNull();
    expect((await avatars.upload("other/me.txt", "hello", { contentType: "text/plain" })).error).not.toBeNull();
    expect(
      (await avatars.upload(`${data.user?.id}/x.png`, "hello", { contentType: "image/png" })).error,
    ).not.toBeNull();
    const large = await avatars.upload(`${data.user?.id}/l.txt`, "x".repeat(2000), { contentType: "text/plain" });
    expect(large.error).not.toBeNull();
    expect(await (await fetch(avatars.getPublicUrl(path).data.publicUrl)).text()).toBe("hello");
    expect((await basalt.rpc("server_url")).data).toBe(server.publicUrl);
  });

  test("a broken file leaves nothing behind and the next start continues", async () => {
    const service = client(server.serviceKey);
    expect((await service.from("half").select()).error?.code).toBe("PGRST205");
    writeFileSync(join(folder, "supabase/migrations/20240103000000_broken.sql"), "create table public.half (id int);");
    await server.kill();
    await server.startAgain();
    expect((await service.from("half").select()).data).toEqual([]);
    expect((await service.from("notes").select("body").eq("body", "first")).data).toHaveLength(1);
  });
});
