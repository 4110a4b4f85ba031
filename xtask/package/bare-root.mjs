// From the executable alone, in a root file system without Node and PostgreSQL: a project, a sign-up, a row, an upload, a backup; then
// the project is deleted and restored, and everything is there. Runs in the repository, as root. Arguments: the root file system, and
// `--timed` if the start times have to be within the limits.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createClient } from "@supabase/supabase-js";

const [root, mode] = process.argv.slice(2);
const START_LIMIT_MS = 60_000;
const FIRST_START_MS = 6_000;
const LATER_START_MS = 1_000;
const PROJECT = "/srv/app";
const BACKUPS = "/srv/backups";

const inherited = {
  PATH: process.env.PATH,
  HOME: "/srv",
  BASALT_BACKUP_PASSPHRASE: "correct horse battery staple",
  // Password hashing has a low priority: beside a build, a sign-in can exceed the default limit of ten seconds (0183).
  BASALT_AUTH_API_MAX_REQUEST_DURATION: "60",
};

/** The arguments of `unshare` that run `basalt ARGUMENTS` in the root file system, as the user basalt. */
function inRoot(basalt) {
  const script = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && exec chroot --userspec=1000:1000 "$root" "$@"';
  return ["--mount", "--propagation", "private", "sh", "-c", script, root, "/bin/basalt", ...basalt];
}

function run(...basalt) {
  const done = spawnSync("/usr/bin/unshare", inRoot(basalt), { env: inherited, encoding: "utf8" });
  assert.equal(done.status, 0, `basalt ${basalt.join(" ")}: ${done.error ?? done.stderr}`);
  return done.stdout;
}

function timed(...basalt) {
  const started = performance.now();
  return { printed: run(...basalt), ms: Math.round(performance.now() - started) };
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
  const child = spawn("/usr/bin/unshare", inRoot(["serve", "--port", String(port), "--project", PROJECT]), {
    env: inherited,
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

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const publishableKey = () => run("keys", "--project", PROJECT).match(/^SUPABASE_PUBLISHABLE_KEY=(.*)$/m)[1];

run("init", PROJECT, "--template", "todo");
const port = await freePort();
const url = `http://127.0.0.1:${port}`;
const first = await serve(port);
const key = publishableKey();
const client = createClient(url, key);
const credentials = { email: "ada@example.org", password: "correct horse battery" };
const signUp = await client.auth.signUp(credentials);
assert.equal(signUp.error, null);
const inserted = await client.from("todos").insert({ title: "from one file" }).select().single();
assert.equal(inserted.error, null);
const path = `${signUp.data.user.id}/photo.bin`;
const content = randomBytes(3_000_000);
const uploaded = await client.storage.from("attachments").upload(path, new Blob([content]));
assert.equal(uploaded.error, null);
assert.match(run("db", "dump", "--project", PROJECT), /CREATE TABLE public\.todos/);
const backup = timed("backup", "--to", BACKUPS, "--project", PROJECT);
assert.match(backup.printed, /is complete in/);
const verify = timed("backup", "verify", "--from", BACKUPS, "--project", PROJECT);
assert.match(verify.printed, /1 objects/);
await first.stop();

/** Everything that was written, seen through a newly started server. */
async function check() {
  const server = await serve(port);
  assert.equal(publishableKey(), key, "the API keys are the same");
  const again = createClient(url, key);
  const signedIn = await again.auth.signInWithPassword(credentials);
  assert.equal(signedIn.error, null);
  assert.equal(signedIn.data.user.id, signUp.data.user.id);
  const rows = await again.from("todos").select();
  assert.deepEqual(rows.data, [inserted.data]);
  const file = await again.storage.from("attachments").download(path);
  assert.equal(file.error, null);
  assert.equal(sha256(Buffer.from(await file.data.arrayBuffer())), sha256(content));
  await server.stop();
  return server.ms;
}

const later = await check();
rmSync(join(root, PROJECT), { recursive: true });
const restore = timed("restore", BACKUPS, PROJECT);
const restored = await check();
console.log(
  `first start ${first.ms} ms, second ${later} ms, after the restore ${restored} ms; backup ${backup.ms} ms, verify ${verify.ms} ms, restore ${restore.ms} ms`,
);
if (mode === "--timed") {
  assert.ok(first.ms < FIRST_START_MS, `the first start took ${first.ms} ms`);
  assert.ok(later < LATER_START_MS, `the second start took ${later} ms`);
}
