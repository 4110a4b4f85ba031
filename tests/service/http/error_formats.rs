//! Error formats, CORS headers, compression, and the original request target.

use basalt_testkit::{ProbeLimits, ProbeServer};
use http::Method;
use serde_json::json;
use tokio::time::Duration;

async fn probe() -> ProbeServer {
    ProbeServer::start(ProbeLimits { deadline: Duration::from_secs(1), ..ProbeLimits::default() }).await
}

#[tokio::test]
async fn errors_use_the_services_format() {
    let probe = probe().await;
    let panic = || probe.request(Method::GET, "/panic?x=y");
    let response = panic().send().await.expect(500);
    assert_eq!(response.json(), json!({ "error": "panic", "request": "GET /panic" }));
    let response = panic().header("x-amz-date", "20260101T000000Z").send().await.expect(500);
    assert_eq!(response.header("content-type"), "application/xml");
    assert_eq!(response.text(), "<Error><Code>panic</Code><Resource>GET /panic</Resource></Error>");
    let response = panic().header("tus-resumable", "1.0.0").send().await.expect(500);
    assert_eq!(
        (response.header("content-type"), response.text().as_str()),
        ("text/plain", "panic: GET /panic")
    );

    // Errors before the service (413) and in its place (504).
    let large = probe.buffered(Method::POST, "/whole").header("tus-resumable", "1.0.0");
    let response = large.body(vec![0; 50 * 1024 * 1024 + 1]).send().await.expect(413);
    assert_eq!(response.text(), "too large: POST /whole");
    let late = probe.request(Method::POST, "/hang").header("tus-resumable", "1.0.0");
    assert_eq!(late.send().await.expect(504).text(), "timeout: POST /hang");
}

#[tokio::test]
async fn service_can_handle_preflights_and_set_cors_headers() {
    let probe = probe().await;
    let options = |path: &str| probe.request(Method::OPTIONS, path).header("origin", "https://a.example");
    let preflight = |path: &str| options(path).header("access-control-request-method", "POST");
    let gateways = preflight("/upload").send().await.expect(204);
    assert_eq!(gateways.header("access-control-allow-origin"), "*");
    assert_eq!(gateways.header("access-control-max-age"), "86400");
    let own = preflight("/own/cors").send().await.expect(200);
    assert_eq!((own.text().as_str(), own.header("access-control-max-age")), ("own", ""));
    assert_eq!(own.header("access-control-allow-origin"), "https://own.example");
    assert_eq!(own.header("access-control-expose-headers"), "x-probe");
    let plain = probe
        .request(Method::GET, "/own/cors")
        .header("origin", "https://a.example")
        .send()
        .await
        .expect(200);
    assert_eq!(plain.header("access-control-allow-origin"), "https://own.example");
    // A TUS capability request names no method, so it is not a preflight.
    let capabilities = options("/original").send().await.expect(200);
    assert_eq!(capabilities.json()["seen"], "/original");
    assert_eq!(capabilities.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn compression_depends_on_the_service() {
    let probe = probe().await;
    let asks = "accept-encoding";
    let streamed = probe.request(Method::GET, "/large").header(asks, "gzip, br").send().await.expect(200);
    assert_eq!(streamed.header("content-encoding"), "");
    let buffered = probe.buffered(Method::GET, "/large").header(asks, "gzip").send().await.expect(200);
    assert_eq!(buffered.header("content-encoding"), "gzip");
}

#[tokio::test]
async fn original_target_is_available_to_the_service() {
    let probe = probe().await;
    let path = "/original?apikey=sb_publishable_probe&b=%2F&a=%7e";
    let seen = probe.request(Method::PUT, path).send().await.expect(200).json();
    assert_eq!(
        seen,
        json!({
            "scheme": "http",
            "authority": format!("127.0.0.1:{}", probe.port()),
            "target": format!("/probe/v1{path}"),
            "prefix": "/probe/v1",
            "seen": "/original?b=%2F&a=%7e",
        })
    );
}
