// From the executable alone, in a root file system without Node and PostgreSQL: a project, a sign-up, a row, an upload, and a second
// start that has all of it. Runs in the repository, as root; the argument is the root file system.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createClient } from "@supabase/supabase-js";

const [root] = process.argv.slice(2);
const START_LIMIT_MS = 60_000;

/** The arguments of `unshare` that run `basalt ARGUMENTS` in the root file system, as the user basalt. */
function inRoot(...basalt) {
  const script = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && exec chroot --userspec=1000:1000 "$root" "$@"';
  return ["--mount", "--propagation", "private", "sh", "-c", script, root, "/bin/basalt", ...basalt, "--project", "/srv/app"];
}

const options = { env: { PATH: "/bin", HOME: "/srv" }, encoding: "utf8" };

function run(...basalt) {
  const done = spawnSync("/usr/bin/unshare", inRoot(...basalt), { ...options, env: { ...options.env, PATH: process.env.PATH } });
  assert.equal(done.status, 0, `basalt ${basalt.join(" ")}: ${done.error ?? done.stderr}`);
  return done.stdout;
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

/** Starts the server and waits until it is ready. */
async function serve(port) {
  const started = performance.now();
  const child = spawn("/usr/bin/unshare", inRoot("serve", "--port", String(port)), {
    env: { ...options.env, PATH: process.env.PATH },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (data) => (log += data));
  for (;;) {
    assert.equal(child.exitCode, null, log);
    assert.ok(performance.now() - started < START_LIMIT_MS, `not ready:\n${log}`);
    const answer = await fetch(`http://127.0.0.1:${port}/ready`).catch(() => undefined);
    if (answer?.status === 200) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const ms = Math.round(performance.now() - started);
  return {
    ms,
    stop: async () => {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

run("init", "/srv/app", "--template", "todo");
const port = await freePort();
const first = await serve(port);
const key = run("keys").match(/^SUPABASE_PUBLISHABLE_KEY=(.*)$/m)[1];
const url = `http://127.0.0.1:${port}`;
const client = createClient(url, key);
const credentials = { email: "ada@example.org", password: "correct horse battery" };
const signUp = await client.auth.signUp(credentials);
assert.equal(signUp.error, null);
const inserted = await client.from("todos").insert({ title: "from one file" }).select().single();
assert.equal(inserted.error, null);
const path = `${signUp.data.user.id}/note.txt`;
const uploaded = await client.storage.from("attachments").upload(path, new Blob(["kept"]));
assert.equal(uploaded.error, null);
const dump = run("db", "dump");
assert.match(dump, /CREATE TABLE public\.todos/);
await first.stop();

const second = await serve(port);
const again = createClient(url, key);
assert.equal((await again.auth.signInWithPassword(credentials)).error, null);
const rows = await again.from("todos").select("title");
assert.deepEqual(rows.data, [{ title: "from one file" }]);
const file = await again.storage.from("attachments").download(path);
assert.equal(await file.data.text(), "kept");
await second.stop();
console.log(`first start ${first.ms} ms, second start ${second.ms} ms`);
