//! Sends one request and records its response in `net._http_response`.

use std::collections::HashSet;
use std::time::Duration;

use basalt_core::http_client::{Answer, HttpClient, HttpError, Outgoing, Reach};
use basalt_pg::jobs::{Done, Failure, Handler, Job};
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_postgres::Row;
use url::Url;

use super::target::{OwnServer, Target};
use crate::ExtensionsConfig;

const STATEMENT_LIMIT: Duration = Duration::from_secs(10);
/// Paths whose refusal is remembered, so that it is logged once.
const REFUSED_PATHS: usize = 100;
/// Headers that belong to the connection, not to the request.
const CONNECTION_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "keep-alive",
];

/// The real pg_net, or a database without it, records nothing for a webhook of ours.
const RECORD: &str = "
insert into net._http_response (id, status_code, content_type, headers, content, timed_out, error_msg)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (id) do nothing";

const CLEAN: &str = "
delete from net._http_response where ctid = any(array(
  select ctid from net._http_response where created < now() - make_interval(secs => $1) limit 10000))";

/// What webhooks have sent.
const CLEAN_HOOKS: &str = "
delete from supabase_functions.hooks where ctid = any(array(
  select ctid from supabase_functions.hooks where created_at < now() - make_interval(secs => $1) limit 10000))";

/// How often old responses are deleted.
const CLEAN_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Sender {
    pool: ServicePool,
    own_server: OwnServer,
    outside: HttpClient,
    own: HttpClient,
    max_response: usize,
    retention: Duration,
    cleaned: Mutex<Option<Instant>>,
    refused: Mutex<HashSet<String>>,
}

/// A queued request.
struct Request {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
}

/// Why there is no response.
struct NoResponse {
    is_timeout: bool,
    message: String,
}

impl NoResponse {
    fn new(message: impl Into<String>) -> Self {
        Self { is_timeout: false, message: message.into() }
    }
}

impl Handler for Sender {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let id = job.key.parse().map_err(|_| Failure::permanent("the key is not a number"))?;
        let response = if job.attempt > 1 {
            Err(NoResponse::new(
                "the server stopped while the request was being sent; its response is unknown",
            ))
        } else {
            match Request::read(&job.row) {
                Ok(request) => self.send(request).await,
                Err(error) => Err(error),
            }
        };
        self.record(id, response).await.map_err(|error| Failure::transient(error.to_string()))?;
        self.clean().await;
        Ok(Done::default())
    }
}

impl Sender {
    pub(super) fn new(pool: ServicePool, own_server: OwnServer, config: &ExtensionsConfig) -> Self {
        let reach = if config.net_private_addresses { Reach::Anywhere } else { Reach::Public };
        Self {
            pool,
            own_server,
            outside: HttpClient::new(reach),
            own: HttpClient::new(Reach::Anywhere),
            max_response: config.net_max_response,
            retention: config.net_retention,
            cleaned: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    async fn send(&self, request: Request) -> Result<Answer, NoResponse> {
        let Request { method, url, headers, body, timeout } = request;
        let limit = self.max_response;
        let deadline = Instant::now() + timeout;
        let answered = match self.own_server.target(&url) {
            Target::Outside => {
                self.outside.send(Outgoing { method, url: &url, headers, body, limit }, deadline).await
            }
            Target::Own(own) => {
                let answered =
                    self.own.send(Outgoing { method, url: &own, headers, body, limit }, deadline).await;
                if let Ok(answer) = &answered {
                    self.warn_of_refusal(&own, answer.status);
                }
                answered
            }
            Target::Refused => {
                return Err(NoResponse::new(
                    "only the API of this server can be called: /rest/v1/, /functions/v1/ and so on",
                ));
            }
        };
        answered.map_err(|error| match error {
            HttpError::Deadline => NoResponse {
                is_timeout: true,
                message: format!("Timeout of {} ms reached. Total time: {} ms", timeout.as_millis(), timeout.as_millis()),
            },
            HttpError::NotPublic => NoResponse::new(
                "the host has no public address; set extensions.net_private_addresses to reach this machine and private networks",
            ),
            HttpError::TooLarge(_) | HttpError::Url | HttpError::Connection(_) => NoResponse::new(error.to_string()),
        })
    }

    /// Projects keep API keys in SQL, and those of a hosted project are not valid here.
    fn warn_of_refusal(&self, url: &Url, status: StatusCode) {
        if status != StatusCode::UNAUTHORIZED {
            return;
        }
        let mut refused = self.refused.lock();
        if refused.len() < REFUSED_PATHS && refused.insert(url.path().to_owned()) {
            tracing::warn!(
                path = url.path(),
                "this server refused a request from its database (401): the key in the SQL belongs to another project; \
                 use the keys of `basalt keys`"
            );
        }
    }

    async fn record(&self, id: i64, response: Result<Answer, NoResponse>) -> Result<(), SessionError> {
        let (status, content_type, headers, content, error) = match response {
            Ok(answer) => {
                let content_type = answer.headers.get(CONTENT_TYPE).map(text_of);
                let status = i32::from(answer.status.as_u16());
                // PostgreSQL's text cannot contain NUL.
                let content = String::from_utf8_lossy(&answer.body).replace('\0', "");
                (Some(status), content_type, Some(headers_of(&answer.headers)), Some(content), None)
            }
            Err(error) => (None, None, None, None, Some(error)),
        };
        let is_timeout = error.as_ref().is_some_and(|error| error.is_timeout);
        let message = error.map(|error| error.message);
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let recorded = tx
            .execute(RECORD, &[&id, &status, &content_type, &headers, &content, &is_timeout, &message])
            .await;
        match tx.finish(recorded).await {
            Ok(_) => Ok(()),
            Err(SessionError::Postgres(error)) if has_no_responses(&error.code) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes old responses and records of webhooks now and then. A failure is repaired by the next time.
    async fn clean(&self) {
        {
            let mut cleaned = self.cleaned.lock();
            if cleaned.is_some_and(|at| at.elapsed() < CLEAN_INTERVAL) {
                return;
            }
            *cleaned = Some(Instant::now());
        }
        for statement in [CLEAN, CLEAN_HOOKS] {
            let Ok(tx) = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await else { return };
            let deleted = tx.execute(statement, &[&self.retention.as_secs_f64()]).await;
            if let Err(error) = tx.finish(deleted).await {
                tracing::debug!(%error, "cannot delete old responses");
            }
        }
    }
}

/// Whether the error says that the table of our emulation does not exist.
fn has_no_responses(code: &str) -> bool {
    // Undefined table, schema, column; no unique constraint on `id`.
    matches!(code, "42P01" | "3F000" | "42703" | "42P10")
}

impl Request {
    fn read(row: &Row) -> Result<Self, NoResponse> {
        let unreadable = |error: tokio_postgres::Error| NoResponse::new(error.to_string());
        let method: String = row.try_get("method").map_err(unreadable)?;
        let url: String = row.try_get("url").map_err(unreadable)?;
        let headers: Value = row.try_get("headers").map_err(unreadable)?;
        let body: Option<Vec<u8>> = row.try_get("body").map_err(unreadable)?;
        let timeout: i32 = row.try_get("timeout_milliseconds").map_err(unreadable)?;
        Ok(Self {
            method: method.parse().map_err(|_| NoResponse::new("the method is not valid"))?,
            url: url
                .trim()
                .parse()
                .map_err(|error| NoResponse::new(format!("the URL is not valid: {error}")))?,
            headers: parse_headers(&headers)?,
            body: body.unwrap_or_default().into(),
            timeout: Duration::from_millis(timeout.unsigned_abs().into()),
        })
    }
}

fn parse_headers(headers: &Value) -> Result<HeaderMap, NoResponse> {
    let mut parsed = HeaderMap::new();
    let Value::Object(headers) = headers else { return Ok(parsed) };
    for (name, value) in headers {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => continue,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        let invalid = || NoResponse::new(format!("the header {name} is not valid"));
        let name: HeaderName = name.parse().map_err(|_| invalid())?;
        if CONNECTION_HEADERS.contains(&name.as_str()) {
            continue;
        }
        let value = HeaderValue::from_str(text.trim()).map_err(|_| invalid())?;
        let _before = parsed.insert(name, value);
    }
    Ok(parsed)
}

fn headers_of(headers: &HeaderMap) -> Value {
    let pairs = headers.iter().map(|(name, value)| (name.as_str().to_owned(), Value::String(text_of(value))));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn text_of(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_of_the_connection_are_dropped() {
        let headers = json!({"Authorization": "Bearer x", "Host": "evil", "Content-Length": 3, "X-Number": 1, "X-Null": null});
        let parsed = parse_headers(&headers).ok().unwrap();
        assert_eq!(headers_of(&parsed), json!({"authorization": "Bearer x", "x-number": "1"}));
        assert!(parse_headers(&json!({"a b": "x"})).is_err());
        assert!(parse_headers(&json!({"x": "a\r\nb: c"})).is_err());
    }
}
