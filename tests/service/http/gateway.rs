//! The gateway: keys, CORS, limits, metrics, static files, shutdown (DESIGN §12).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers fail a test as the tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::json;

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn bearer_scheme_is_case_insensitive_in_every_service() {
    let server = Basalt::builder().app().start().await;
    let user = server.sign_up("ada@example.org").await;
    let user_token = &user.access_token;
    let broadcast = json!({"messages": [{"topic": "t", "event": "e", "payload": {}}]});
    for scheme in ["Bearer", "bearer", "BEARER", "bEARER"] {
        let user = format!("{scheme} {user_token}");
        for (request, authorization, status) in [
            (server.get("/rest/v1/plans?select=id"), user.clone(), 200),
            (server.get("/auth/v1/user"), user.clone(), 200),
            (server.get("/storage/v1/bucket"), user.clone(), 200),
            (server.post("/realtime/v1/api/broadcast").json(&broadcast), user.clone(), 202),
            // The token is accepted, and the function knows the caller.
            (server.post("/functions/v1/invite-member").json(&json!({})), user, 400),
            (server.get("/metrics"), format!("{scheme} {}", server.secret_key()), 200),
        ] {
            let shown = format!("{request:?}");
            let response = request.apikey(server.publishable_key()).header("authorization", &authorization);
            assert_eq!(response.send().await.status, status, "{scheme} {shown}");
        }
    }
}

#[tokio::test]
async fn missing_or_unknown_key_is_rejected() {
    let server = Basalt::start().await;
    let missing = server.get("/rest/v1/plans").send().await.expect(401);
    assert_eq!(
        missing.json(),
        json!({
            "message": "No API key found in request",
            "hint": "No `apikey` request header or url param was found."
        })
    );
    let user_token = server.token_of("authenticated");
    for wrong in ["sb_publishable_unknown", "not.a.token", ""] {
        let refused = server
            .get("/rest/v1/plans")
            .apikey(wrong)
            .bearer(&user_token)
            .header("origin", "https://a.example");
        let refused = refused.send().await.expect(401);
        assert!(refused.json()["message"].is_string());
        assert_eq!(refused.header("access-control-allow-origin"), "*", "browsers can read the error");
    }
    for open in ["/auth/v1/health", "/auth/v1/.well-known/jwks.json", "/health", "/ready", "/app-config.json"]
    {
        server.get(open).send().await.expect(200);
    }
    server.get("/auth/v1/settings").send().await.expect(401);
}

#[tokio::test]
async fn key_is_accepted_in_the_query() {
    let server = Basalt::builder().app().start().await;
    let path = format!("/rest/v1/plans?apikey={}&select=id", server.secret_key());
    let response = server.get(&path).send().await.expect(200);
    assert_eq!(response.header("content-location"), "/plans?select=id", "the key is removed");
}

#[tokio::test]
async fn preflight_needs_no_key() {
    let server = Basalt::start().await;
    for (service, status) in [("rest", 200), ("auth", 204), ("storage", 204), ("functions", 204)] {
        let response = server
            .request(Method::OPTIONS, &format!("/{service}/v1/anything"))
            .header("origin", "https://a.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "apikey,x-client-info")
            .send()
            .await
            .expect(status);
        assert_eq!(response.header("access-control-allow-origin"), "*", "{service}");
        assert!(
            response.header("access-control-allow-headers").contains("apikey,x-client-info"),
            "{service}"
        );
        assert!(response.header("access-control-allow-methods").contains("POST"), "{service}");
        assert_eq!(response.header("access-control-max-age"), "86400", "{service}");
        assert_eq!(response.text(), "", "{service}");
    }
}

#[tokio::test]
async fn only_listed_origins_get_cors_headers() {
    let server = Basalt::builder().config("server.cors_origins", "https://a.example").start().await;
    let from = |origin: &'static str| {
        server.get("/auth/v1/settings").apikey(server.anon_key()).header("origin", origin)
    };
    let listed = from("https://a.example").send().await.expect(200);
    assert_eq!(listed.header("access-control-allow-origin"), "https://a.example");
    assert_eq!(listed.header("access-control-allow-credentials"), "true");
    let other = from("https://b.example").send().await.expect(200);
    assert_eq!(other.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn too_large_body_gets_the_services_error() {
    let server = Basalt::start().await;
    let big = server
        .post("/auth/v1/signup")
        .apikey(server.anon_key())
        .header("x-supabase-api-version", "2024-01-01")
        .body(vec![b' '; MIB + 1])
        .send()
        .await
        .expect(413);
    assert_eq!(
        big.json(),
        json!({ "code": "request_entity_too_large", "message": "Request body too large (max 1048576 bytes)" })
    );
    let big = server
        .post("/rest/v1/plans")
        .apikey(server.service_key())
        .header("content-type", "application/json")
        .body(vec![b' '; 50 * MIB + 1])
        .send()
        .await
        .expect(413);
    assert!(big.json()["message"].is_string(), "{}", big.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_request_lines_are_served_long_headers_rejected() {
    let server = Basalt::builder().app().start().await;
    let ids = "00000000-0000-4000-8000-000000000000,".repeat(1600);
    let path = format!("/rest/v1/plans?select=id&id=in.({}00000000-0000-4000-8000-000000000000)", ids);
    assert!(path.len() > 59_000);
    server.get(&path).apikey(server.service_key()).send().await.expect(200);

    let head = format!("GET /health HTTP/1.1\r\nhost: a\r\nx-long: {}\r\n\r\n", "a".repeat(400 * 1024));
    let response = tokio::task::block_in_place(|| raw(server.port(), &head));
    assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
    let response = tokio::task::block_in_place(|| raw(server.port(), "NONSENSE\r\n\r\n"));
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unescaped_characters_in_targets_are_accepted() {
    let server = Basalt::builder().app().start().await;
    let key = server.service_key();
    let head = format!(
        "GET /rest/v1/plans?select=first:title->>\"0\"&id=is.null HTTP/1.1\r\nhost: a\r\napikey: {key}\r\nconnection: close\r\n\r\n"
    );
    let response = tokio::task::block_in_place(|| raw(server.port(), &head));
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\n[]"), "{response}");
}

/// Sends these bytes and returns what the server sends until it closes the connection.
fn raw(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may close before all bytes are sent.
    let _refused = stream.write_all(request.as_bytes());
    let mut response = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        response.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn api_paths_never_fall_back_to_the_app() {
    let app = tempfile::tempdir().unwrap();
    std::fs::write(app.path().join("index.html"), "<!doctype html>").unwrap();
    let server = Basalt::builder().config("server.app_dir", &app.path().display().to_string()).start().await;
    let page = server.get("/dashboard").header("accept", "text/html").send().await.expect(200);
    assert!(page.header("content-security-policy").contains("default-src 'self'"));
    assert_eq!(page.header("cache-control"), "no-cache");
    for path in ["/graphql/v1", "/storage/v1/nothing", "/functions/v1/nothing"] {
        let response = server.get(path).header("accept", "text/html").send().await.expect(404);
        assert!(response.header("content-type").starts_with("application/json"), "{path}");
    }
    server.get("/assets/missing.js").send().await.expect(404);
}

#[tokio::test]
async fn metrics_require_the_secret_key() {
    let server = Basalt::start().await;
    server.get("/auth/v1/settings").apikey(server.anon_key()).send().await.expect(200);
    server.get("/metrics").send().await.expect(401);
    server.get("/metrics").bearer(server.publishable_key()).send().await.expect(401);
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    assert!(metrics.contains("basalt_http_requests_total{service=\"auth\",status=\"2xx\"}"), "{metrics}");
}

#[tokio::test]
async fn large_responses_are_compressed_on_request() {
    let server = Basalt::start().await;
    let settings = || server.get("/auth/v1/settings").apikey(server.anon_key());
    assert_eq!(settings().send().await.header("content-encoding"), "");
    let compressed = settings().header("accept-encoding", "gzip").send().await.expect(200);
    assert_eq!(compressed.header("content-encoding"), "gzip");
}

#[tokio::test]
async fn every_response_has_a_unique_request_id() {
    let server = Basalt::start().await;
    let id = |response: Response| response.header("x-request-id").to_owned();
    let first = id(server.get("/auth/v1/health").send().await);
    let second = id(server.get("/rest/v1/unknown/path").apikey(server.anon_key()).send().await.expect(404));
    assert!(!first.is_empty() && !second.is_empty() && first != second);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_requests_in_flight() {
    let mut server = Basalt::start().await;
    server
        .sql(
            "create function slow(seconds float) returns text language sql as $$ select 'done' from pg_sleep(seconds) $$;
             grant execute on function slow(float) to anon",
        )
        .await;
    let call = |seconds| {
        server.post("/rest/v1/rpc/slow").apikey(server.anon_key()).json(&json!({ "seconds": seconds }))
    };
    server.until(Duration::from_secs(60), &call(0), |response| response.status == 200).await;
    let in_flight = tokio::spawn(call(2).send());
    server.database().until_asleep("%slow%").await;
    server.stop().await;
    assert_eq!(in_flight.await.unwrap().expect(200).text(), "\"done\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_stops_immediately() {
    let mut server = Basalt::start().await;
    server
        .sql(
            "create function slow(seconds float) returns text language sql as $$ select 'done' from pg_sleep(seconds) $$;
             grant execute on function slow(float) to service_role",
        )
        .await;
    let call = |seconds| {
        server.post("/rest/v1/rpc/slow").apikey(server.service_key()).json(&json!({ "seconds": seconds }))
    };
    server.until(Duration::from_secs(60), &call(0), |response| response.status == 200).await;
    let in_flight = tokio::spawn(call(30).try_send());
    server.database().until_asleep("%slow%").await;
    let signal = || rustix::process::kill_process(server.pid(), rustix::process::Signal::TERM).unwrap();
    signal();
    // The server has handled the signal once it accepts no more connections.
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", server.port())).is_ok() {
        assert!(Instant::now() < deadline, "the server still accepts connections");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!in_flight.is_finished(), "the first signal waits for requests");
    signal();
    assert!(in_flight.await.unwrap().is_err());
    server.stop().await;
}

/// The metrics table of docs/METRICS.md: name, type, labels, and whether it is present from the start.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>, bool)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/METRICS.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = text.split("\n## ").find(|part| part.starts_with("All metrics")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches(['*', '`']).to_owned();
        let labels = cells[3].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (name, (cells[2].to_owned(), labels, !cells[1].starts_with('*')))
    };
    table.lines().filter(|line| line.contains("`basalt_") || line.contains("`process_")).map(row).collect()
}

/// The metrics of a scrape: name, type and labels.
fn shown(scrape: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut shown: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let kinds = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    for (name, kind) in kinds {
        let mut labels = BTreeSet::new();
        let of_it = |line: &&str| {
            let rest = line.strip_prefix(name).map(|rest| {
                rest.strip_prefix("_bucket")
                    .or(rest.strip_prefix("_sum"))
                    .or(rest.strip_prefix("_count"))
                    .unwrap_or(rest)
            });
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        for line in scrape.lines().filter(of_it) {
            let inside = line
                .split_once('{')
                .and_then(|(_, rest)| rest.split_once('}'))
                .map_or("", |(inside, _)| inside);
            labels.extend(inside.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned())));
        }
        if kind == "histogram" {
            labels.remove("le");
        }
        shown.insert(name.to_owned(), (kind.to_owned(), labels));
    }
    shown
}

#[tokio::test]
async fn exported_metrics_match_the_documentation() {
    let server = Basalt::builder().app().start().await;
    let account = json!({ "email": "ada@example.org", "password": "correct horse" });
    server.post("/auth/v1/signup").apikey(server.anon_key()).json(&account).send().await.expect(200);
    let sign_in = || server.post("/auth/v1/token?grant_type=password").apikey(server.anon_key());
    sign_in().json(&account).send().await.expect(200);
    sign_in().json(&json!({ "email": "ada@example.org", "password": "wrong" })).send().await.expect(400);
    server.get("/rest/v1/plans").apikey(server.service_key()).send().await.expect(200);
    let scrape = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    let (documented, shown) = (documented(), shown(&scrape));
    assert!(documented.len() > 50, "{documented:?}");
    for (name, (kind, labels)) in &shown {
        let (documented_kind, documented_labels, _) =
            documented.get(name).unwrap_or_else(|| panic!("{name} is not in docs/METRICS.md"));
        assert_eq!((kind, labels), (documented_kind, documented_labels), "{name}");
        assert!(scrape.contains(&format!("# HELP {name} ")), "{name}");
    }
    for (name, (_, _, from_the_start)) in &documented {
        assert!(!from_the_start || shown.contains_key(name), "{name} is missing");
    }
    for happened in [
        "basalt_http_request_duration_seconds",
        "basalt_auth_grants_total",
        "basalt_rest_schema_cache_relations",
    ] {
        assert!(shown.contains_key(happened), "{happened}");
    }
}

#[tokio::test]
async fn root_without_an_app_is_a_placeholder_page() {
    let empty = tempfile::tempdir().unwrap();
    for app_dir in ["", empty.path().to_str().unwrap()] {
        let server = Basalt::builder().config("server.app_dir", app_dir).start().await;
        let page = server.get("/").header("accept", "text/html").send().await.expect(200);
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        let policy = page.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        let text = page.text();
        for expected in
            ["<title>Basalt</title>", "prefers-color-scheme", "href=\"/health\"", "href=\"/mailbox\""]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("<script") && !text.contains(server.secret_key()), "{text}");
        server.request(Method::POST, "/").send().await.expect(405);
        server.get("/plans").header("accept", "text/html").send().await.expect(404);
        server.get("/rest/v1x").send().await.expect(404);
    }
    let production = Basalt::builder().config("server.mode", "production");
    let production = production.expect_log("links in mails will not work").start().await;
    let page = production.get("/").send().await.expect(200);
    assert!(!page.text().contains("/mailbox"), "production has no mailbox");
}
