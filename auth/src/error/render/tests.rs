use std::time::Duration;

use basalt_core::keys::TokenError;
use basalt_pg::session::SessionError;
use http_body_util::BodyExt;

use super::*;
use crate::passwords::policy::{WeakReason, Weakness};

async fn rendered(
    error: AuthError,
    version: ApiVersion,
    development: bool,
) -> (StatusCode, HeaderMap, Value) {
    let context = RenderContext { version, request_id: Some("r1".to_owned()), development };
    let response = render(error.into_response(), &context);
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
}

fn trigger_error(code: &str) -> Box<PgError> {
    Box::new(PgError {
        code: code.to_owned(),
        message: "no more seats".to_owned(),
        detail: None,
        hint: Some("buy one".to_owned()),
        constraint: None,
        table: None,
        schema: None,
        position: None,
        routine: None,
        is_nested: false,
        is_fatal: false,
        has_run: true,
    })
}

#[tokio::test]
async fn initial_version_has_a_numeric_code() {
    let (status, headers, body) = rendered(AuthError::InvalidCredentials, ApiVersion::Initial, false).await;
    assert_eq!(status, 400);
    assert_eq!(
        body,
        json!({"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"})
    );
    assert_eq!(headers["x-sb-error-code"], "invalid_credentials");
    assert!(!headers.contains_key("x-supabase-api-version"));
}

#[tokio::test]
async fn dated_version_has_a_text_code_and_is_echoed() {
    let (status, headers, body) = rendered(AuthError::NoSuchSession, ApiVersion::V20240101, false).await;
    assert_eq!(status, 403);
    assert_eq!(
        body,
        json!({
            "code": "session_not_found",
            "message": "Session from session_id claim in JWT does not exist"
        })
    );
    assert_eq!(headers["x-sb-error-code"], "session_not_found");
    assert_eq!(headers["x-supabase-api-version"], "2024-01-01");
}

#[tokio::test]
async fn weak_password_has_reasons_in_both_versions() {
    let weak = || {
        AuthError::WeakPassword(Weakness {
            message: "Password should be at least 6 characters.".to_owned(),
            reasons: vec![WeakReason::Length],
        })
    };
    let (status, _, body) = rendered(weak(), ApiVersion::V20240101, false).await;
    assert_eq!(status, 422);
    assert_eq!(
        body,
        json!({
            "code": "weak_password",
            "message": "Password should be at least 6 characters.",
            "weak_password": {"reasons": ["length"]}
        })
    );
    let (_, _, body) = rendered(weak(), ApiVersion::Initial, false).await;
    assert_eq!(
        body,
        json!({
            "code": 422,
            "error_code": "weak_password",
            "msg": "Password should be at least 6 characters.",
            "weak_password": {"reasons": ["length"]}
        })
    );
}

#[tokio::test]
async fn server_error_in_initial_version_has_an_id() {
    let (_, _, body) = rendered(AuthError::Internal("why".to_owned()), ApiVersion::Initial, false).await;
    assert_eq!(
        body,
        json!({
            "code": 500,
            "error_code": "unexpected_failure",
            "msg": "Unexpected failure, please check server logs for more information",
            "error_id": "r1"
        })
    );
}

#[tokio::test]
async fn trigger_errors_pass_only_in_initial_version() {
    let (status, _, body) =
        rendered(AuthError::SavingUser(trigger_error("P0001")), ApiVersion::Initial, false).await;
    assert_eq!(status, 500);
    assert_eq!(body, json!({"code": "P0001", "message": "no more seats", "hint": "buy one"}));
    let (status, _, _) =
        rendered(AuthError::SavingUser(trigger_error("PT402")), ApiVersion::Initial, false).await;
    assert_eq!(status, 402);
    let (status, _, body) =
        rendered(AuthError::SavingUser(trigger_error("PT402")), ApiVersion::V20240101, false).await;
    assert_eq!(status, 500);
    assert_eq!(body, json!({"code": "unexpected_failure", "message": "Database error saving new user"}));
}

#[tokio::test]
async fn development_adds_the_database_error() {
    let (_, _, body) =
        rendered(AuthError::SavingUser(trigger_error("42P01")), ApiVersion::V20240101, true).await;
    assert_eq!(body["message"], "Database error saving new user");
    assert_eq!(body["database_error"]["code"], "42P01");
    assert_eq!(body["database_error"]["message"], "no more seats");
}

#[tokio::test]
async fn transient_errors_have_retry_after() {
    let limited = AuthError::RateLimited { retry_after: Duration::from_millis(9_500) };
    let (status, headers, _) = rendered(limited, ApiVersion::V20240101, false).await;
    assert_eq!((status.as_u16(), &headers["retry-after"]), (429, &HeaderValue::from(10)));
    let down = AuthError::from(SessionError::Unavailable("gone".to_owned()));
    let (status, headers, body) = rendered(down, ApiVersion::V20240101, true).await;
    assert_eq!((status.as_u16(), &headers["retry-after"]), (503, &HeaderValue::from(1)));
    assert!(!body.to_string().contains("gone"));
}

#[test]
fn selects_newest_version_up_to_the_requested() {
    for (asked, version) in [
        (None, ApiVersion::Initial),
        (Some("2024-01-01"), ApiVersion::V20240101),
        (Some("2031-12-31"), ApiVersion::V20240101),
        (Some("2023-12-31"), ApiVersion::Initial),
        (Some("2024-13-01"), ApiVersion::Initial),
        (Some("2024-1-1"), ApiVersion::Initial),
        (Some("now"), ApiVersion::Initial),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(asked) = asked {
            headers.insert(VERSION_HEADER, HeaderValue::from_static(asked));
        }
        assert_eq!(ApiVersion::from_headers(&headers), version, "{asked:?}");
    }
}

#[test]
fn token_errors_match_upstream_library() {
    let text = |error: TokenError| AuthError::from(error).to_string();
    assert_eq!(
        text(TokenError::BadSignature),
        "invalid JWT: unable to parse or verify signature, token signature is invalid: signature is invalid"
    );
    assert_eq!(
        text(TokenError::NoKey { alg: "ES256".to_owned(), kid: Some("k".to_owned()), is_configured: true }),
        "invalid JWT: unable to parse or verify signature, token is unverifiable: error while executing keyfunc: \
         unrecognized JWT kid k for algorithm ES256"
    );
}
