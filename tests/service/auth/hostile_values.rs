//! Invalid values from clients cause 4xx, whichever error PostgreSQL raises (auth.md §3.1).

use futures_util::future::join_all;

use super::admin::admin;
use super::*;

/// Nested `levels` deep.
fn deep(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

async fn server() -> Basalt {
    let unlimited = ["rate_limit_verify", "rate_limit_email_sent", "rate_limit_sign_in_failures"];
    let quick = quick().config("mail.max_frequency", "0");
    unlimited.iter().fold(quick, |builder, limit| builder.config(&format!("auth.{limit}"), "0")).start().await
}

#[tokio::test]
async fn stored_metadata_can_be_read() {
    let server = server().await;
    // 100 levels including the body's object, `data` and the number.
    let sign_up = |email: &str, levels: usize| {
        let body = format!(r#"{{"email":"{email}","password":"secret1","data":{}}}"#, deep(levels));
        client(&server, Method::POST, "/signup").body(body)
    };
    for levels in [99, 120, 125] {
        let message = "Could not parse request body as JSON: values must not nest deeper than 100 levels";
        assert_error(&sign_up("ada@example.org", levels).send().await, 400, "bad_json", message);
    }
    let user = sign_up("ada@example.org", 98).send().await.expect(200).json();
    let token = text(&user, "/access_token").to_owned();
    let _user = get_user(&server, &token).await.expect(200);
    let _list = admin(&server, Method::GET, "/admin/users").send().await.expect(200);
    let body = format!(r#"{{"data":{}}}"#, deep(99));
    let change = client(&server, Method::PUT, "/user").bearer(&token).body(body).send().await;
    assert_eq!((change.status.as_u16(), change.header("x-sb-error-code")), (400, "bad_json"));
}

#[tokio::test]
async fn too_long_value_is_a_client_error() {
    let server = server().await;
    let user = server.sign_up("ada@example.org").await;
    let long = "x".repeat(256);
    let person = json!({ "email": "new@example.org", "password": "secret1" });
    let with = |name: &str| {
        let mut body = person.clone();
        body[name] = json!(long);
        body
    };
    for request in [
        admin(&server, Method::POST, "/admin/users").json(&with("role")),
        admin(&server, Method::POST, "/admin/users").json(&with("aud")),
        admin(&server, Method::PUT, &format!("/admin/users/{}", user.id)).json(&json!({ "role": long })),
        client(&server, Method::POST, "/signup").header("x-jwt-aud", &long).json(&person),
    ] {
        let response = request.header("x-supabase-api-version", "2024-01-01").send().await;
        assert_error(&response, 400, "validation_failed", "A value is longer than the database takes");
    }
}

/// Values for any field, as JSON text.
fn hostile() -> Vec<String> {
    let texts = [
        "\\u0000",
        "\\ud800",
        "\\uffff",
        "a\\\\",
        "%",
        "1e400",
        "infinity",
        "99999999999h",
        "00000000-0000-0000-0000-000000000000",
    ];
    let long = [
        "x".repeat(300),
        "9".repeat(400),
        "x".repeat(100_000),
        format!("{}@example.org", "\u{e9}".repeat(120)),
    ];
    let quoted = texts.iter().map(|text| (*text).to_owned()).chain(long).map(|text| format!("\"{text}\""));
    let others = [
        "1e308",
        "1e400",
        "123456789012345678901234567890",
        "-1",
        "true",
        "[]",
        "[\"a\"]",
        "{\"x\":-1e-300}",
    ];
    let metadata = ["{\"sub\":\"x\",\"email\":1}", "{\"provider\":1,\"providers\":\"x\"}", "{\"\":null}"];
    let others = others.into_iter().chain(metadata).map(str::to_owned);
    quoted.chain(others).chain([deep(90), deep(125), deep(5_000)]).collect()
}

#[tokio::test]
async fn hostile_field_values_never_cause_a_500() {
    let server = server().await;
    server.expect_log("redirect_to is neither below");
    let user = server.sign_up("ada@example.org").await;
    let change = format!("/admin/users/{}", user.id);
    let someone = r#""email":"NEW""#;
    let known = r#""email":"ada@example.org""#;
    let challenge = r#""code_challenge_method":"s256""#;
    let mut failures = Vec::new();
    for (method, path, given, fields) in [
        (
            Method::POST,
            "/signup",
            r#""email":"NEW","password":"secret1""#,
            "email phone password data channel code_challenge",
        ),
        (Method::POST, "/signup", "", "data"),
        (Method::POST, "/token?grant_type=password", known, "email phone password"),
        (Method::POST, "/token?grant_type=refresh_token", "", "refresh_token"),
        (
            Method::POST,
            "/token?grant_type=pkce",
            r#""auth_code":"x","code_verifier":"x""#,
            "auth_code code_verifier",
        ),
        (Method::POST, "/recover", challenge, "email code_challenge"),
        (Method::POST, "/otp", someone, "email phone create_user data channel code_challenge"),
        (Method::POST, "/resend", r#""type":"signup""#, "type email phone"),
        (Method::POST, "/verify", r#""type":"signup""#, "type token token_hash email phone redirect_to"),
        (Method::PUT, "/user", "", "email phone password current_password nonce data"),
        (
            Method::POST,
            "/admin/users",
            someone,
            "email phone password user_metadata app_metadata ban_duration role aud id",
        ),
        (Method::PUT, &change, "", "email phone password user_metadata app_metadata ban_duration role"),
        (
            Method::POST,
            "/admin/generate_link",
            r#""type":"magiclink","email":"NEW""#,
            "type email new_email data redirect_to",
        ),
        (Method::POST, "/invite", someone, "email data"),
    ] {
        for field in fields.split(' ') {
            let requests = hostile().into_iter().enumerate().map(|(number, value)| {
                let given: String = given
                    .split(',')
                    .filter(|pair| !pair.is_empty() && !pair.starts_with(&format!("\"{field}\"")))
                    .fold(String::new(), |given, pair| format!("{given}{pair},"));
                let given = given.replace("NEW", &fresh(&format!("new{number}")));
                let request = if path.starts_with("/admin") || path == "/invite" {
                    admin(&server, method.clone(), path)
                } else {
                    client(&server, method.clone(), path)
                };
                let request = if path == "/user" { request.bearer(&user.access_token) } else { request };
                let request = request.body(format!("{{{given}\"{field}\":{value}}}"));
                async move { (value, request.send().await) }
            });
            for (value, response) in join_all(requests).await {
                if response.status.is_server_error() {
                    let value: String = value.chars().take(40).collect();
                    failures.push(format!("{method} {path} {field} {value}: {}", response.text()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
