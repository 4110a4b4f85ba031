//! Redirect targets (auth.md §3.11). The rules have unit tests in `auth/src/redirects`; here:
//! that requests apply them, the precedence of a request's parts, and the log line about a rejected target.

use super::codes::*;
use super::*;

/// Redirect target of an invalid link, without the fragment.
async fn target(server: &Basalt, query: &str, headers: &[(&str, &str)]) -> String {
    let path = format!("/auth/v1/verify?type=signup&token=x{query}");
    let request = server.get(&path).without("apikey").without("authorization");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let there = location(&request.send().await);
    there.split('#').next().unwrap().to_owned()
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test]
async fn precedence_is_header_query_referer_site() {
    let server = server().await;
    let (query, header, referer) = (
        "&redirect_to=https://a.example.org/query",
        ("redirect_to", "https://a.example.org/header"),
        ("referer", "https://a.example.org/referer?x=1"),
    );
    assert_eq!(target(&server, query, &[header, referer]).await, header.1);
    assert_eq!(target(&server, query, &[referer]).await, "https://a.example.org/query");
    assert_eq!(target(&server, "", &[referer]).await, referer.1);
    assert_eq!(target(&server, "", &[]).await, SITE);
    assert_eq!(target(&server, "&redirect_to=", &[("referer", "https://mail.test/inbox")]).await, SITE);
}

#[tokio::test]
async fn allowed_targets_are_used_verbatim() {
    let server = server().await;
    for url in [
        "http://localhost:3000/any/page?x=1",
        "http://localhost:5173/another/port",
        "https://a.example.org/x/y?q=%2F&z=a+b",
        "myapp://callback",
        "https://exact.test/cb",
        "https://exact.test/cb?sb_flow_id=0a1b",
        "http://127.0.0.1:8080/x",
        "http://[::1]:8080/x",
    ] {
        assert_eq!(target(&server, &format!("&redirect_to={}", encoded(url)), &[]).await, url);
    }
}

#[tokio::test]
async fn rejected_targets_fall_back_and_are_logged() {
    let server = redeeming().expect_log("redirect_to is neither").start().await;
    for url in [
        "https://evil.test/",
        "https://evil.test/?https://a.example.org/",
        "https://evil.test/.example.org/",
        "https://a.b.example.org/x",
        "https://exact.test/cb?x=1",
        "//evil.test",
        "/\\evil.test",
        "https:\\\\evil.test",
        "https:evil.test",
        "https:///evil.test",
        "https://localhost:3000@evil.test/",
        "https://evil.test\\@a.example.org/",
        "https://evil.test\\.a.example.org/",
        "https://evil.test%2f.a.example.org/",
        "https://a.example.org%00.evil.test/",
        "https://evil%2etest/",
        "https://evil\u{3002}test/",
        "https://a.\u{435}xample.org/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://192.0.2.7/",
        "http://[2001:db8::1]/",
        "http://[::ffff:192.0.2.7]/",
        "javascript:alert(1)",
        "javascript://a.example.org/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "http://localhost.evil.test/",
        "http://localhost:3000\r\nset-cookie: a=b",
        " https://evil.test",
        "\thttps://evil.test",
        "myapp://elsewhere",
    ] {
        assert_eq!(target(&server, &format!("&redirect_to={}", encoded(url)), &[]).await, SITE, "{url:?}");
        if let Ok(value) = http::HeaderValue::from_str(url)
            && let Ok(value) = value.to_str()
        {
            assert_eq!(target(&server, "", &[("redirect_to", value)]).await, SITE, "{url:?}");
            assert_eq!(target(&server, "", &[("referer", value)]).await, SITE, "{url:?}");
        }
    }
    let warned = server.log().iter().any(|line| line.raw.contains("https://evil.test/"));
    assert!(warned, "the refused address is named");
}

#[tokio::test]
async fn invalid_glob_fails_at_start() {
    let faults = basalt_auth::AuthConfig {
        uri_allow_list: vec!["https://{a,b.test/**".to_owned()],
        ..basalt_auth::AuthConfig::default()
    }
    .faults();
    assert_eq!(faults.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["auth.uri_allow_list"]);
}
