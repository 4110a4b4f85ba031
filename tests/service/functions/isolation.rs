//! What a function must not reach: the workers of other functions, the code that they run, and the server's admin port.

use std::fs;
use std::path::PathBuf;

use basalt_testkit::{Basalt, free_port};
use serde_json::json;
use tokio::net::UnixStream;

use super::typescript::{Project, answer, call};

const CALM: (&str, &str) = ("calm", "Deno.serve(() => new Response('calm'))");

/// The socket of a function's worker, from the worker's command line.
fn socket_of(server: &Basalt, function: &str) -> PathBuf {
    let state = server.state_dir().to_string_lossy().into_owned();
    let entry = format!("/functions/{function}/index.ts");
    let sockets = fs::read_dir("/proc").unwrap().flatten().filter_map(|process| {
        let command = fs::read(process.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).into_owned();
        let arguments: Vec<&str> = command.split('\0').collect();
        let is_worker =
            command.contains(&state) && arguments.iter().any(|argument| argument.ends_with(&entry));
        let writable = arguments.iter().find_map(|argument| argument.strip_prefix("--allow-write="));
        writable?.split(',').next().filter(|_| is_worker).map(PathBuf::from)
    });
    sockets.into_iter().next().unwrap()
}

const SPY: &str = r#"
import net from "node:net";
Deno.serve(async (request) => {
  const path = await request.text();
  const attempt = async (run: () => unknown) => {
    try { await run(); return "allowed"; } catch (error) { return (error as Error).name; }
  };
  const folder = path.slice(0, path.lastIndexOf("/"));
  return Response.json({
    connect: await attempt(async () => (await Deno.connect({ transport: "unix", path })).close()),
    node: await attempt(() => new Promise((resolve, reject) => net.connect(path).on("connect", resolve).on("error", reject))),
    proxy: await attempt(() => fetch("http://worker/", { client: Deno.createHttpClient({ proxy: { transport: "unix", path } }) })),
    list: await attempt(() => [...Deno.readDirSync(folder)]),
    link: await attempt(() => Deno.symlink(folder, "/tmp/basalt-test-link")),
    rename: await attempt(() => Deno.rename(path, "/tmp/basalt-test-socket")),
    remove: await attempt(() => Deno.remove(path)),
  });
});
"#;

#[tokio::test]
async fn function_cannot_open_or_replace_another_workers_socket() {
    // The state folder is in memory or has a long path, so the sockets are elsewhere.
    let project = Project::new(&[("spy", SPY), CALM]);
    let server = project.server().start().await;
    assert_eq!(answer(&server, "calm").await, "calm");
    let socket = socket_of(&server, "calm");
    let _connected = UnixStream::connect(&socket).await.unwrap();
    let path = socket.display().to_string();
    let seen = call(&server, "spy").body(path).send().await.expect(200).json();
    for name in ["connect", "node", "proxy", "list", "link", "rename", "remove"] {
        assert!(
            matches!(seen[name].as_str(), Some("NotCapable" | "PermissionDenied")),
            "{name} {}: {seen}",
            socket.display()
        );
    }
    assert_eq!(answer(&server, "calm").await, "calm");
}

const WRITER: &str = r#"
Deno.serve(async () => {
  const state = Deno.env.get("STATE")!;
  const attempt = async (run: () => unknown) => {
    try { await run(); return "allowed"; } catch (error) { return (error as Error).name; }
  };
  const bootstrap = [...Deno.readDirSync(`${state}/functions`)].find(({ name }) => name.startsWith("bootstrap"))!.name;
  return Response.json({
    secrets: await attempt(() => Deno.readTextFile(`${state}/secrets.json`)),
    bootstrap: await attempt(() => Deno.writeTextFile(`${state}/functions/${bootstrap}`, "")),
    cache: await attempt(() => Deno.writeTextFile(`${state}/functions/cache/own`, "")),
    other: await attempt(() => Deno.writeTextFile(new URL("../calm/index.ts", import.meta.url), "")),
  });
});
"#;

/// A state folder below `/tmp`, which every function may write.
#[tokio::test]
async fn function_cannot_change_the_code_of_others() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let state = dir.path().join("state");
    let project = Project::new(&[("writer", WRITER), CALM]);
    let config = format!(
        "[functions.writer]\nverify_jwt = false\nenv = {{ STATE = {} }}\n",
        json!(state.display().to_string())
    );
    project.write("basalt.toml", &config);
    let server = project.server().state_dir(&state).start().await;
    let seen = call(&server, "writer").send().await.expect(200).json();
    let refused = "NotCapable";
    assert_eq!(seen, json!({ "secrets": refused, "bootstrap": refused, "cache": refused, "other": refused }));
}

/// The admin port trusts its callers, so functions must not be among them, whatever they call this machine.
#[tokio::test]
async fn function_cannot_reach_the_admin_port() {
    let admin = free_port();
    let code = r#"Deno.serve(async (request) => {
        const outcomes: Record<string, string> = {};
        for (const url of await request.json()) {
            try { outcomes[url] = String((await fetch(url)).status); } catch (error) { outcomes[url] = (error as Error).name; }
        }
        return Response.json(outcomes);
    })"#;
    let project = Project::new(&[("caller", code)]);
    let server = project.server().config("server.admin_port", &admin.to_string()).start().await;
    let hosts = [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "127.0.0.2",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
    ];
    let urls: Vec<String> = hosts.map(|host| format!("http://{host}:{admin}/metrics")).into();
    let seen = call(&server, "caller").json(&json!(urls)).send().await.expect(200).json();
    for url in &urls {
        assert_ne!(seen[url], "200", "{url}: {seen}");
    }
    assert_eq!(seen[&urls[0]], "NotCapable", "{seen}");
    // The same routes on the public port require the secret key.
    let public = json!([server.url("/metrics")]);
    let seen = call(&server, "caller").json(&public).send().await.expect(200).json();
    assert_eq!(seen[server.url("/metrics")], "401", "{seen}");
}
