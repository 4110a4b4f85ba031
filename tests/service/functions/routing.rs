//! Routing to functions: names, methods, preflights, tokens, limits (functions.md 3.1 to 3.4).

use std::fs;
use std::path::Path;

use basalt_testkit::{Basalt, Request};
use http::Method;
use serde_json::{Value, json};

use super::{app, call, failure, shown};

/// A project with TypeScript functions.
async fn project() -> (Basalt, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    };
    for name in ["hello", "open", "own", "off", "_shared", "1st"] {
        write(&format!("functions/{name}/index.ts"), "Deno.serve(() => new Response('hi'))");
    }
    write("functions/empty/readme.md", "");
    write(
        "basalt.toml",
        "[functions.open]\nverify_jwt = false\n[functions.own]\ncors = \"function\"\n[functions.off]\nenabled = false\n",
    );
    (Basalt::builder().project(dir.path()).start().await, dir)
}

fn hello(server: &Basalt) -> Request {
    server.post("/functions/v1/hello")
}

/// Status, code and message; checks that the header has the code too.
async fn refused(request: Request) -> (u16, String, String) {
    let response = request.send().await;
    let body = response.json();
    assert_eq!(response.header("sb-error-code"), body["code"], "{body}");
    assert_eq!(response.header("content-type"), "application/json");
    if response.status == 401 {
        assert_eq!(body["msg"], body["message"]);
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (response.status.as_u16(), text("code"), text("message"))
}

fn expected(status: u16, code: &str, message: &str) -> (u16, String, String) {
    (status, code.to_owned(), message.to_owned())
}

#[tokio::test]
async fn token_check_is_configured_per_function() {
    let (server, _dir) = project().await;
    let sign = |claims: Value| format!("Bearer {}", server.token(&claims));
    let header = |text: &str| hello(&server).header("authorization", text);
    // These requests reach the function.
    for request in [
        hello(&server).bearer(server.anon_key()),
        hello(&server).bearer(server.service_key()),
        hello(&server).apikey(server.publishable_key()),
        hello(&server).apikey(server.publishable_key()).bearer(server.publishable_key()),
        hello(&server).apikey(server.secret_key()),
        header(&sign(json!({"exp": 4_102_444_800_u32}))),
        header(&sign(json!({})).replace("Bearer", "BEARER")),
        server.post("/functions/v1/open"),
        server.get("/functions/v1/open/sub/path?x=1"),
        server.request(Method::OPTIONS, "/functions/v1/hello"),
    ] {
        let shown = format!("{request:?}");
        assert_eq!(request.send().await.text(), "hi", "{shown}");
    }
    let legacy = expected(401, "UNAUTHORIZED_LEGACY_JWT", "Invalid JWT");
    let format = expected(401, "UNAUTHORIZED_INVALID_JWT_FORMAT", "Invalid JWT format");
    let none = "Bearer eyJhbGciOiJub25lIn0.e30.";
    let forged = "Bearer eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.e30.AAAA";
    for (request, response) in [
        (hello(&server), expected(401, "UNAUTHORIZED_NO_AUTH_HEADER", "Missing authorization header")),
        (header(&sign(json!({"exp": 1}))), legacy.clone()),
        (header(&sign(json!({"nbf": 4_102_444_800_u32}))), legacy.clone()),
        (header(&format!("{}x", sign(json!({})))), legacy),
        (header("Bearer nonsense"), format.clone()),
        (header("Basic abc"), format.clone()),
        (header("Bearer sb_publishable_other"), format.clone()),
        (hello(&server).apikey("other"), format),
        (
            header(none),
            expected(401, "UNAUTHORIZED_UNSUPPORTED_TOKEN_ALGORITHM", "Unsupported JWT algorithm none"),
        ),
        (header(forged), expected(401, "UNAUTHORIZED_ASYMMETRIC_JWT", "Invalid JWT")),
    ] {
        let shown = format!("{request:?}");
        assert_eq!(refused(request).await, response, "{shown}");
    }
}

#[tokio::test]
async fn unknown_names_and_methods_get_404_and_405() {
    let (server, _dir) = project().await;
    let missing = expected(404, "NOT_FOUND", "Requested function was not found");
    for name in ["nothing", "off", "_shared", "1st", "empty", "", "invite-member", "hello%2F"] {
        let request = server.post(&format!("/functions/v1/{name}")).bearer(server.anon_key());
        assert_eq!(refused(request).await, missing, "{name}");
    }
    let method = Method::from_bytes(b"PURGE").unwrap();
    let response = server.request(method, "/functions/v1/hello").send().await.expect(405);
    assert_eq!(response.header("allow"), "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    assert_eq!(response.json()["code"], "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn gateway_handles_preflights_unless_disabled() {
    let (server, _dir) = project().await;
    let preflight = |name: &str| {
        server
            .request(Method::OPTIONS, &format!("/functions/v1/{name}"))
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "x-webhook-replay, x-region")
    };
    for request in [preflight("hello"), preflight("hello").header("origin", "https://app.example")] {
        let response = request.send().await.expect(204);
        assert_eq!(response.header("access-control-allow-origin"), "*");
        assert_eq!(response.header("access-control-allow-methods"), "GET, POST, PUT, PATCH, DELETE, OPTIONS");
        let allowed = response.header("access-control-allow-headers").to_lowercase();
        assert!(allowed.contains("x-webhook-replay") && allowed.contains("authorization"), "{allowed}");
        assert_eq!(response.header("access-control-max-age"), "86400");
    }
    // This function handles its own preflights, without a token.
    let own = preflight("own").header("origin", "https://app.example").send().await.expect(200);
    assert_eq!(own.text(), "hi");
    // Errors have CORS headers too.
    for (request, status) in
        [(server.post("/functions/v1/hello"), 401), (server.post("/functions/v1/none"), 404)]
    {
        let response = request.header("origin", "https://app.example").send().await.expect(status);
        assert_eq!(response.header("access-control-allow-origin"), "*");
        assert!(response.header("access-control-expose-headers").contains("sb-error-code"));
        assert_eq!(response.header("x-content-type-options"), "nosniff");
    }
}

#[tokio::test]
async fn built_in_function_accepts_post_with_small_json_object() {
    let server = app().start().await;
    let user = server.sign_up("ada@example.org").await;
    let path = "/functions/v1/invite-member";
    let get = server.get(path).send().await;
    assert_eq!(shown(&get), (405, failure("Method not allowed")));
    assert_eq!(get.header("allow"), "POST, OPTIONS");
    server.request(Method::OPTIONS, path).send().await.expect(204);
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for body in ["", "x", "[]", "null", "{\"email\":", &deep] {
        let request = server.post(path).bearer(&user.access_token).body(body.to_owned());
        assert_eq!(shown(&request.send().await), (400, failure("Invalid request body")), "{body}");
    }
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    let refused = server.post(path).bearer(&user.access_token).body(long).send().await.expect(413);
    assert_eq!(refused.json()["code"], "PAYLOAD_TOO_LARGE");
    // Content-Type is not checked, unknown fields are ignored, and a blank value counts as missing.
    let odd = server.post(path).bearer(&user.access_token).header("content-type", "text/plain");
    let odd = odd.body("{\"email\":\"  \",\"more\":[1]}").send().await;
    assert_eq!(shown(&odd), (400, failure("email is required")));
    assert!(!odd.header("sb-request-id").is_empty());
    assert_eq!(odd.header("x-sb-edge-region"), "local");
    assert_eq!(odd.header("content-encoding"), "");
}

#[tokio::test]
async fn only_user_tokens_authenticate() {
    let server = app().start().await;
    let user = server.sign_up("ada@example.org").await;
    let refused = (401, failure("Not authenticated"));
    let of = |claims: Value| server.token(&claims);
    let exp = 4_102_444_800_u32;
    let unknown = "0a0a0a0a-0000-4000-8000-000000000001";
    for token in [
        String::new(),
        "nonsense".to_owned(),
        server.anon_key().to_owned(),
        server.service_key().to_owned(),
        of(json!({"role": "authenticated", "sub": user.id, "exp": 1})),
        of(json!({"role": "authenticated", "sub": user.id})),
        of(json!({"role": "authenticated", "sub": unknown, "exp": exp})),
        of(json!({"role": "authenticated", "sub": "x", "exp": exp})),
        of(json!({"role": "service_role", "sub": user.id, "exp": exp})),
    ] {
        for name in ["invite-member", "test-email"] {
            let response = call(&server, name, None, &json!({})).bearer(&token).send().await;
            assert_eq!(shown(&response), refused, "{name} {token}");
        }
    }
    let key = call(&server, "invite-member", None, &json!({})).apikey(server.secret_key()).send().await;
    assert_eq!(shown(&key), refused);
    let response = call(&server, "invite-member", Some(&user), &json!({})).send().await;
    assert_eq!(shown(&response), (400, failure("email is required")));
    let response = call(&server, "test-email", Some(&user), &json!({})).send().await;
    assert_eq!(shown(&response), (403, failure("Administrators only")));
    server
        .database()
        .admin_sql(&format!(
            "update auth.users set banned_until = now() + interval '1 day' where id = '{}'",
            user.id
        ))
        .await;
    let response = call(&server, "invite-member", Some(&user), &json!({})).send().await;
    assert_eq!(shown(&response), refused);
}

#[tokio::test]
async fn without_deno_calls_log_and_doctor_name_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["hello", "open"] {
        fs::create_dir_all(dir.path().join("functions").join(name)).unwrap();
        fs::write(dir.path().join("functions").join(name).join("index.ts"), "").unwrap();
    }
    let server = Basalt::builder().project(dir.path()).config("functions.deno_path", "/nowhere/deno");
    let server = server.expect_log("cannot run, and calls return 503 BOOT_ERROR").start().await;
    let (status, code, message) = refused(hello(&server).bearer(server.anon_key())).await;
    assert_eq!((status, code.as_str()), (503, "BOOT_ERROR"));
    assert!(message.contains("npm install deno") && message.contains("functions.deno_path"), "{message}");
    let output = server.same_settings().current_dir(dir.path()).arg("doctor").output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    let log = server.log();
    for name in ["hello", "open"] {
        let path = format!("functions/{name}/index.ts");
        let logged = log.iter().filter(|line| line.level == "WARN" && line.message.contains(&path));
        assert_eq!(logged.count(), 1, "{name}");
        let line = report.lines().find(|line| line.contains(&path));
        assert!(
            line.is_some_and(|line| line.starts_with("warn") && line.contains("/nowhere/deno")),
            "{report}"
        );
    }
}
