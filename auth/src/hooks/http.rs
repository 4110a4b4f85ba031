//! A hook over HTTP: a signed POST, at most three attempts within five seconds, and what its answers mean (auth.md §3.20).

use std::time::Duration;

use basalt_core::http_client::{Answer, HttpClient, HttpError, Outgoing};
use basalt_core::random;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use url::Url;

use super::parse;
use crate::hook_types::error::HookError;
use crate::hook_types::{ANSWER_BYTES, Secret};

/// Time for all attempts together.
const TOTAL_SECONDS: u64 = 5;
const ATTEMPTS: usize = 3;
/// Pause after an attempt that failed in the network.
const PAUSE: Duration = Duration::from_secs(2);
const UNAVAILABLE: &str = "Service currently unavailable due to hook";

/// Posts `body` and returns the hook's answer; `Null` if it has none.
pub(super) async fn call(
    client: &HttpClient,
    url: &Url,
    secrets: &[Secret],
    body: Bytes,
    deadline: Instant,
    now: Timestamp,
) -> Result<Value, HookError> {
    let deadline = deadline.min(Instant::now() + Duration::from_secs(TOTAL_SECONDS));
    let id = random::uuid().to_string();
    let headers = headers(&id, now.as_second(), secrets, &body);
    let mut failure = HookError::failed(UNAVAILABLE, "");
    for attempt in 1..=ATTEMPTS {
        let request = Outgoing {
            method: Method::POST,
            url,
            headers: headers.clone(),
            body: body.clone(),
            limit: ANSWER_BYTES,
        };
        match client.send(request, deadline).await {
            Ok(answer) if may_retry(&answer) => {
                failure = HookError::failed(UNAVAILABLE, format!("status {} three times", answer.status));
            }
            Ok(answer) => return read(&answer),
            Err(HttpError::Deadline) => return Err(HookError::Timeout(TOTAL_SECONDS)),
            Err(HttpError::TooLarge(_)) => return Err(HookError::TooLarge),
            Err(error @ (HttpError::Url | HttpError::NotPublic | HttpError::Connection(_))) => {
                failure = HookError::Unreachable(error.to_string());
                if attempt < ATTEMPTS {
                    if Instant::now() + PAUSE >= deadline {
                        return Err(HookError::Timeout(TOTAL_SECONDS));
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }
    Err(failure)
}

fn headers(id: &str, timestamp: i64, secrets: &[Secret], body: &[u8]) -> HeaderMap {
    let signature = Secret::sign(secrets, id, timestamp, body);
    let pairs = [
        (header::CONTENT_TYPE, "application/json"),
        (header::ACCEPT, "application/json"),
        (HeaderName::from_static("webhook-id"), id),
        (HeaderName::from_static("webhook-timestamp"), &timestamp.to_string()),
        (HeaderName::from_static("webhook-signature"), &signature),
    ];
    let valid =
        pairs.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)));
    valid.collect()
}

/// Whether the hook asks for another attempt. How long it wants to be left alone does not matter: the client waits.
fn may_retry(answer: &Answer) -> bool {
    matches!(answer.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        && answer.headers.get(header::RETRY_AFTER).is_some_and(|value| !value.is_empty())
}

fn read(answer: &Answer) -> Result<Value, HookError> {
    let status = answer.status;
    let message = match status {
        StatusCode::OK | StatusCode::ACCEPTED => {
            let content_type = answer.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let content_type = content_type.unwrap_or_default();
            let media_type = content_type.split(';').next().unwrap_or_default().trim();
            if !media_type.eq_ignore_ascii_case("application/json") {
                return Err(HookError::ContentType(content_type.chars().take(100).collect()));
            }
            return parse(&answer.body);
        }
        StatusCode::NO_CONTENT => return Ok(Value::Null),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        StatusCode::BAD_REQUEST => "Invalid payload sent to hook",
        StatusCode::UNAUTHORIZED => "Hook requires authorization token",
        other => &format!("Unexpected status code returned from hook: {}", other.as_u16()),
    };
    Err(HookError::failed(message, format!("status {status}")))
}
