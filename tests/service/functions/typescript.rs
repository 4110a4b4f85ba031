//! TypeScript functions on Deno workers: what a function sees and may do, and how its output reaches the log (functions.md 3.1 to 3.10).

use std::fs;
use std::path::Path;
use std::time::Duration;

use basalt_testkit::{Basalt, Builder, Message, Request};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// A project whose functions need no token, with these `(name, code)`.
pub(super) struct Project(TempDir);

impl Project {
    pub(super) fn new(functions: &[(&str, &str)]) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        let mut config = String::new();
        for (name, code) in functions {
            project.write(&format!("functions/{name}/index.ts"), code);
            config.push_str(&format!("[functions.{name}]\nverify_jwt = false\n"));
        }
        project.write("basalt.toml", &config);
        project
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn server(&self) -> Builder {
        Basalt::builder().project(self.0.path())
    }
}

pub(super) fn call(server: &Basalt, path: &str) -> Request {
    server.post(&format!("/functions/v1/{path}"))
}

/// The body of a successful call.
pub(super) async fn answer(server: &Basalt, path: &str) -> String {
    call(server, path).send().await.expect(200).text()
}

const ECHO: &str = r#"
Deno.serve(async (request, info) => {
  const bytes = new Uint8Array(await request.arrayBuffer());
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return Response.json({
    method: request.method,
    url: request.url,
    headers: Object.fromEntries(request.headers),
    length: bytes.length,
    digest: [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
    info,
    main: import.meta.main,
  }, { status: 201, headers: { "x-own": "yes", "set-cookie": "a=1" } });
});
"#;

#[tokio::test]
async fn function_sees_the_request_as_it_was_sent() {
    let project = Project::new(&[("echo", ECHO)]);
    let server = project.server().start().await;
    let path = "echo/sub/path?x=1&y=%20";
    let request = call(&server, path).apikey(server.publishable_key()).header("x-custom", "ä-no");
    let request =
        request.header("x-worker-secret", "no").header("sb-request-id", "forged").body("exact \r\n bytes");
    let response = request.send().await.expect(201);
    let seen = response.json();
    assert_eq!(seen["method"], "POST");
    assert_eq!(seen["url"], server.url("/echo/sub/path?x=1&y=%20"));
    assert_eq!(seen["length"], 14);
    assert_eq!(seen["main"], true);
    assert_eq!(seen["info"]["remoteAddr"], json!({"transport": "tcp", "hostname": "0.0.0.0", "port": 9999}));
    let headers = &seen["headers"];
    assert_eq!(headers["apikey"], server.publishable_key());
    assert_eq!(headers["authorization"], format!("Bearer {}", server.anon_key()));
    assert_eq!(headers["x-forwarded-prefix"], "/functions/v1");
    assert_eq!(headers["x-forwarded-proto"], "http");
    assert_eq!(headers["x-forwarded-port"], server.port().to_string());
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(headers["x-worker-secret"], Value::Null);
    assert_eq!(headers["sb-request-id"], response.header("sb-request-id"));
    assert_eq!((response.header("x-own"), response.header("set-cookie")), ("yes", "a=1"));
    assert_eq!(response.header("access-control-allow-origin"), "");
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let response = server.request(method.clone(), "/functions/v1/echo").send().await.expect(201);
        assert_eq!(response.json()["method"], method.as_str());
    }
    server.request(Method::HEAD, "/functions/v1/echo").send().await.expect(201);
    // Bytes that are no text, over several frames.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let seen = call(&server, "echo").body(bytes).send().await.expect(201).json();
    assert_eq!(seen["length"], 3_000_000);
    assert_eq!(seen["digest"], "4d3870d4655ed773027a713ea136507d22e076248e0e9cc920a996039653b76f");
}

const ENVIRONMENT: &str = r#"
Deno.serve(async () => {
  const attempt = async (run: () => unknown) => {
    try { await run(); return "allowed"; } catch (error) { return (error as Error).name; }
  };
  const own = new URL(import.meta.url).pathname;
  return Response.json({
    env: Deno.env.toObject(),
    passwd: await attempt(() => Deno.readTextFile("/etc/passwd")),
    dotenv: await attempt(() => Deno.readTextFile(new URL("../.env", import.meta.url))),
    own: await attempt(() => Deno.readTextFile(own)),
    write: await attempt(() => Deno.writeTextFile(own, "x")),
    temporary: await attempt(async () => Deno.remove(await Deno.makeTempFile())),
    run: await attempt(() => new Deno.Command("/bin/ls").output()),
    ffi: await attempt(() => Deno.dlopen("libc.so.6", {})),
    metadata: await attempt(() => fetch("http://169.254.169.254/latest")),
    smtp: await attempt(() => Deno.connect({ port: 25 })),
    worker: typeof Worker,
    exit: await attempt(() => Deno.exit(3)),
    processExit: await attempt(() => process.exit(3)),
  });
});
"#;

#[tokio::test]
async fn environment_and_permissions_are_limited() {
    let project = Project::new(&[("env", ENVIRONMENT)]);
    project.write("functions/.env", "# ours\nFROM_FILE=\"a\\nb\"\n");
    project.write(
        "basalt.toml",
        "[functions.env]\nverify_jwt = false\nenv = { OWN = \"1\" }\n[functions.secrets]\nFROM_CONFIG = \"2\"\n",
    );
    let server = project.server().start().await;
    let seen = call(&server, "env").send().await.expect(200).json();
    let env = seen["env"].as_object().unwrap();
    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            "DENO_DEPLOYMENT_ID",
            "FROM_CONFIG",
            "FROM_FILE",
            "OWN",
            "SB_EXECUTION_ID",
            "SB_REGION",
            "SUPABASE_ANON_KEY",
            "SUPABASE_DB_URL",
            "SUPABASE_JWKS",
            "SUPABASE_PUBLISHABLE_KEYS",
            "SUPABASE_SECRET_KEYS",
            "SUPABASE_SERVICE_ROLE_KEY",
            "SUPABASE_URL"
        ]
    );
    assert_eq!(env["FROM_FILE"], "a\nb");
    assert_eq!(env["SUPABASE_URL"], server.url(""));
    assert_eq!(env["SUPABASE_ANON_KEY"], server.anon_key());
    assert_eq!(env["SUPABASE_SERVICE_ROLE_KEY"], server.service_key());
    let secret: Value = serde_json::from_str(env["SUPABASE_SECRET_KEYS"].as_str().unwrap()).unwrap();
    assert_eq!(secret["default"], server.secret_key());
    let jwks: Value = serde_json::from_str(env["SUPABASE_JWKS"].as_str().unwrap()).unwrap();
    let shared = jwks["keys"].as_array().unwrap().iter().find(|key| key["kty"] == "oct").unwrap();
    assert!(shared["alg"] == "HS256" && shared["kid"].is_string(), "{shared}");
    let outcome = |name: &str| seen[name].as_str().unwrap().to_owned();
    for name in ["passwd", "dotenv", "write", "run", "ffi", "metadata", "smtp"] {
        assert_eq!(outcome(name), "NotCapable", "{name}");
    }
    for name in ["own", "temporary", "exit", "processExit"] {
        assert_eq!(outcome(name), "allowed", "{name}");
    }
    assert_eq!(outcome("worker"), "undefined");
    // The worker survived its calls of exit.
    let again = call(&server, "env").send().await.expect(200).json();
    assert_eq!(again["env"]["SB_EXECUTION_ID"], env["SB_EXECUTION_ID"]);
}

const STREAMS: &str = r#"
let aborted = 0;
Deno.serve((request) => {
  const path = new URL(request.url).pathname;
  if (path.endsWith("/aborted")) return Response.json(aborted);
  if (path.endsWith("/upper")) {
    const upper = new TransformStream({ transform: (chunk, out) => out.enqueue(chunk.toUpperCase()) });
    const body = request.body!.pipeThrough(new TextDecoderStream()).pipeThrough(upper);
    return new Response(body.pipeThrough(new TextEncoderStream()));
  }
  let count = 0;
  const body = new ReadableStream({
    async pull(out) {
      count += 1;
      out.enqueue(new TextEncoder().encode(`data: ${count}\n\n`));
      await new Promise((resolve) => setTimeout(resolve, 20));
    },
    cancel() { aborted += 1; },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
});
"#;

#[tokio::test]
async fn bodies_are_streamed_in_both_directions() {
    let project = Project::new(&[("streams", STREAMS)]);
    let server = project.server().start().await;
    let mut events = call(&server, "streams/events").open().await.unwrap();
    assert_eq!(events.headers["content-type"], "text/event-stream");
    assert_eq!(events.chunk().await.unwrap().unwrap(), "data: 1\n\n");
    assert_eq!(events.chunk().await.unwrap().unwrap(), "data: 2\n\n");
    drop(events);
    // The client is gone: the function's stream is cancelled.
    let started = Instant::now();
    while answer(&server, "streams/aborted").await != "1" {
        assert!(started.elapsed() < Duration::from_secs(10), "the stream goes on");
        sleep(Duration::from_millis(50)).await;
    }
    // Each part comes back before the next is sent.
    let (parts, receiver) = tokio::sync::mpsc::channel::<std::io::Result<Bytes>>(1);
    let body = futures_util::stream::unfold(receiver, |mut receiver| async {
        Some((receiver.recv().await?, receiver))
    });
    parts.send(Ok(Bytes::from_static(b"one"))).await.unwrap();
    let mut response = call(&server, "streams/upper").stream(body).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "ONE");
    parts.send(Ok(Bytes::from_static(b"two"))).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "TWO");
    drop(parts);
    assert_eq!(response.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn too_large_body_gets_413() {
    let project = Project::new(&[("echo", ECHO)]);
    let server = project.server().config("functions.max_body_bytes", "64KiB");
    // The function sees that its request is cut.
    let server = server.expect_log("Cannot read body").start().await;
    let response = call(&server, "echo").body(vec![0; 70_000]).send().await.expect(413);
    assert_eq!(response.json()["code"], "PAYLOAD_TOO_LARGE");
    // Of unknown length.
    let part = || Ok(Bytes::from(vec![0; 40_000]));
    let parts = futures_util::stream::iter([part(), part()]);
    let response = call(&server, "echo").stream(parts).await.unwrap();
    assert_eq!(response.status, 413);
    call(&server, "echo").body(vec![0; 60_000]).send().await.expect(201);
}

const SOCKET: &str = r#"
Deno.serve((request) => {
  const { socket, response } = Deno.upgradeWebSocket(request);
  socket.onmessage = (event) => socket.send(`echo ${event.data} ${new URL(request.url).search}`);
  return response;
});
"#;

#[tokio::test]
async fn websocket_reaches_the_function() {
    let project = Project::new(&[("socket", SOCKET)]);
    let server = project.server().start().await;
    let mut socket = server.websocket("/functions/v1/socket?room=1").await;
    socket.send("hi").await;
    assert_eq!(socket.next().await, Message::Text("echo hi ?room=1".into()));
    socket.close().await;
}

/// Every way to serve that projects use.
#[tokio::test]
async fn every_kind_of_server_listens_on_the_socket() {
    let project = Project::new(&[
        ("declared", "export default { fetch: (request: Request) => new Response('declared ' + new URL(request.url).pathname) }"),
        ("options", "Deno.serve({ port: 3000, onListen: ({ port }) => console.log(port) }, () => new Response('options'))"),
        ("object", "Deno.serve({ handler: () => new Response('object') })"),
        ("onerror", "Deno.serve({ onError: (error) => new Response(String(error), { status: 418 }) }, () => { throw new TypeError('own') })"),
        (
            "http",
            "import http from 'node:http'; http.createServer((request, response) => response.end('http ' + request.url)).listen(3000)",
        ),
        // As std's `serve` of Deno 1.
        (
            "old",
            "for await (const connection of Deno.listen({ port: 8000 })) (async () => {
               for await (const event of (Deno as any).serveHttp(connection)) event.respondWith(new Response('old'));
             })();",
        ),
    ]);
    let server = project.server().start().await;
    assert_eq!(answer(&server, "declared/x").await, "declared /declared/x");
    assert_eq!(answer(&server, "options").await, "options");
    assert_eq!(answer(&server, "object").await, "object");
    assert_eq!(answer(&server, "http/x?y").await, "http /http/x?y");
    assert_eq!((answer(&server, "old").await, answer(&server, "old").await), ("old".into(), "old".into()));
    assert_eq!(call(&server, "onerror").send().await.expect(418).text(), "TypeError: own");
}

#[tokio::test]
async fn imports_resolve_through_maps_shared_modules_and_packages() {
    let project = Project::new(&[
        ("shared", "import { cors } from '../_shared/cors.ts'; Deno.serve(() => new Response(cors))"),
        ("mapped", "import { word } from 'words'; Deno.serve(() => new Response(word))"),
        ("configured", "import { word } from 'words/one.ts'; Deno.serve(() => new Response(word))"),
        (
            "static",
            "Deno.serve(async () => new Response(await Deno.readTextFile(new URL('./page.txt', import.meta.url))))",
        ),
    ]);
    project.write("functions/_shared/cors.ts", "export const cors: string = 'shared';");
    project.write("functions/import_map.json", r#"{"imports": {"words": "./_shared/words.ts"}}"#);
    project.write("functions/_shared/words.ts", "export const word = 'mapped';");
    project.write("functions/configured/deno.json", r#"{"imports": {"words/": "./own/"}}"#);
    project.write("functions/configured/own/one.ts", "export const word = 'configured';");
    project.write("functions/static/page.txt", "static");
    // The project's own package.json does not concern its functions.
    project.write("package.json", r#"{"type": "commonjs", "dependencies": {"left-pad": "*"}}"#);
    let server = project.server().start().await;
    for name in ["shared", "mapped", "configured", "static"] {
        assert_eq!(answer(&server, name).await, name);
    }
    // An import map would win.
    let project =
        Project::new(&[("package", "import { word } from 'words'; Deno.serve(() => new Response(word))")]);
    project.write("functions/package/package.json", r#"{"dependencies": {"words": "1.0.0"}}"#);
    project.write(
        "functions/package/node_modules/words/package.json",
        r#"{"name": "words", "version": "1.0.0", "main": "index.js"}"#,
    );
    project.write("functions/package/node_modules/words/index.js", "exports.word = 'package';");
    let server = project.server().start().await;
    assert_eq!(answer(&server, "package").await, "package");
}

const LOGS: &str = r#"
console.debug("at the top");
Deno.serve(async (request) => {
  const { pathname } = new URL(request.url);
  if (pathname.endsWith("/many")) { for (let i = 0; i < 500; i++) console.log("line", i); return new Response("many"); }
  if (pathname.endsWith("/throw")) throw new Error("a secret reason");
  console.log("plain %s", "text", { a: 1 });
  await new Promise((resolve) => setTimeout(resolve, 1));
  console.warn("careful");
  console.error(new Error("logged"));
  console.log("x".repeat(20_000));
  EdgeRuntime.waitUntil(new Promise<void>((resolve) => setTimeout(() => { console.info("in the background"); resolve(); }, 100)));
  return new Response("ok");
});
"#;

#[tokio::test]
async fn messages_reach_the_log_with_function_request_and_level() {
    let project = Project::new(&[("logs", LOGS)]);
    let server = project.server();
    let server = ["careful", "Error: logged", "a secret reason", "dropped"]
        .into_iter()
        .fold(server, Builder::expect_log);
    let server = server.start().await;
    let response = call(&server, "logs").send().await.expect(200);
    let id = response.header("sb-request-id").to_owned();
    server.wait_for_log("in the background").await;
    let found = |text: &str| {
        let line = server.log().into_iter().find(|line| line.message.contains(text));
        let line = line.unwrap_or_else(|| panic!("{text:?} is not in the log"));
        assert_eq!(line.fields["function"], "logs", "{}", line.raw);
        (line.level, line.fields["function_request_id"].as_str().unwrap().to_owned())
    };
    for (text, level) in [
        ("plain text { a: 1 }", "INFO"),
        ("careful", "WARN"),
        ("Error: logged", "ERROR"),
        ("xxx", "INFO"),
        ("in the background", "INFO"),
    ] {
        assert_eq!(found(text), (level.to_owned(), id.clone()), "{text}");
    }
    let longest = server.log().iter().map(|line| line.message.chars().count()).max();
    assert_eq!(longest, Some(10_000));
    // A stack trace is in the log only.
    let failed = call(&server, "logs/throw").send().await.expect(500);
    assert_eq!(
        (failed.text(), failed.header("sb-error-code")),
        ("Internal Server Error".into(), "EDGE_FUNCTION_ERROR")
    );
    server.wait_for_log("a secret reason").await;
    call(&server, "logs/many").send().await.expect(200);
    server.wait_for_log("line 50").await;
    let lines = || server.log().iter().filter(|line| line.message.starts_with("line ")).count();
    assert!(lines() <= 100, "{}", lines());
}

#[tokio::test]
async fn saved_file_takes_effect_without_a_lost_request() {
    let code = |text: &str| {
        format!(
            "Deno.serve(async () => {{ await new Promise((done) => setTimeout(done, 30)); return new Response('{text}'); }})"
        )
    };
    let project = Project::new(&[("hot", &code("old"))]);
    let server = project.server().start().await;
    assert_eq!(answer(&server, "hot").await, "old");
    let calls = async {
        let mut answers = Vec::new();
        let started = Instant::now();
        while answers.last().is_none_or(|(_, text)| text == "old") {
            assert!(started.elapsed() < Duration::from_secs(10), "the new file has no effect");
            answers.push((Instant::now(), answer(&server, "hot").await));
        }
        answers
    };
    let save = async {
        sleep(Duration::from_millis(100)).await;
        project.write("functions/hot/index.ts", &code("new"));
        Instant::now()
    };
    let (answers, saved) = tokio::join!(calls, save);
    let (sent, text) = answers.last().unwrap();
    assert_eq!(text, "new");
    // Generous: builds and other tests run beside.
    assert!(*sent - saved < Duration::from_secs(2), "{:?}", *sent - saved);
    // A new function, and one that is removed.
    project.write("functions/added/index.ts", "Deno.serve(() => new Response('added'))");
    let added = server.post("/functions/v1/added").apikey(server.anon_key());
    let limit = Duration::from_secs(10);
    server.until(limit, &added, |response| response.status == 200).await;
    fs::remove_dir_all(project.0.path().join("functions/added")).unwrap();
    server.until(limit, &added, |response| response.status == 404).await;
}

#[tokio::test]
async fn killed_server_leaves_no_worker() {
    let project =
        Project::new(&[("hello", "console.log('pid', Deno.pid); Deno.serve(() => new Response('hi'))")]);
    let server = project.server();
    let mut server = server.start().await;
    assert_eq!(answer(&server, "hello").await, "hi");
    server.wait_for_log("pid ").await;
    let line = server.log().into_iter().find(|line| line.message.starts_with("pid ")).unwrap();
    let process = format!("/proc/{}", line.message.trim_start_matches("pid "));
    assert!(Path::new(&process).exists());
    server.kill();
    let started = Instant::now();
    while Path::new(&process).exists() {
        assert!(started.elapsed() < Duration::from_secs(10), "the worker still runs");
        sleep(Duration::from_millis(50)).await;
    }
}
