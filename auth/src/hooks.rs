//! Auth hooks (auth.md §3.20): the project's code decides about a request, as a PostgreSQL function ([`mod@function`]) or over HTTP
//! ([`mod@http`]). A hook that fails or answers nonsense rejects the request.
//!
//! Hooks run between transactions, so that a slow one holds no connection and no lock (decision 0144).

mod function;
mod http;
mod inputs;

use ::http::StatusCode;
use basalt_core::http_client::{HttpClient, Reach};
use basalt_core::random;
use basalt_pg::pool::ServicePool;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use crate::config::hooks::HookSettings;
use crate::database;
use crate::error::AuthError;
use crate::hook_types::error::HookError;
use crate::hook_types::{HookKind, HookUri, Secret};
use crate::origin::Origin;
use function::HookFunction;
pub(crate) use inputs::{Decision, email_input};

enum Transport {
    Function(HookFunction),
    Http { url: Url, secrets: Vec<Secret> },
}

/// The enabled hooks.
pub(crate) struct Hooks {
    enabled: Vec<(HookKind, Transport)>,
    client: HttpClient,
    pool: ServicePool,
}

impl Hooks {
    pub(crate) fn new(settings: &[(HookKind, HookSettings)], pool: ServicePool) -> Self {
        let enabled = settings.iter().filter(|(_, settings)| settings.enabled);
        let enabled = enabled.filter_map(|(kind, settings)| {
            // Errors were reported when the configuration was read.
            let transport = match HookUri::parse(&settings.uri).ok()? {
                HookUri::Function { schema, name } => Transport::Function(HookFunction::new(&schema, &name)),
                HookUri::Http(url) => {
                    let secrets = Secret::parse_all(settings.secrets.expose()).ok()?;
                    Transport::Http { url, secrets }
                }
            };
            Some((*kind, transport))
        });
        // The operator configured the addresses.
        Self { enabled: enabled.collect(), client: HttpClient::new(Reach::Anywhere), pool }
    }

    pub(crate) fn is_enabled(&self, kind: HookKind) -> bool {
        self.find(kind).is_some()
    }

    fn find(&self, kind: HookKind) -> Option<&Transport> {
        self.enabled.iter().find(|(enabled, _)| *enabled == kind).map(|(_, transport)| transport)
    }

    /// Runs a hook with `input`, an object, and returns its answer; `None` if the hook is disabled.
    ///
    /// # Errors
    /// The hook rejects the request or fails ([`AuthError::Hook`]), or the database is unavailable.
    async fn run(
        &self,
        kind: HookKind,
        origin: &Origin,
        now: Timestamp,
        mut input: Value,
    ) -> Result<Option<Value>, AuthError> {
        let Some(transport) = self.find(kind) else { return Ok(None) };
        if let Value::Object(input) = &mut input {
            let metadata = json!({
                "uuid": random::uuid(),
                "time": database::in_microseconds(now),
                "name": kind.name(),
                "ip_address": origin.client.address.to_string(),
            });
            input.insert("metadata".to_owned(), metadata);
        }
        // Boxed: every flow contains this future, mostly for nothing.
        let answered = Box::pin(self.call(transport, origin, now, &input)).await;
        let answered = answered.and_then(|answer| Ok(checked(answer)?));
        let outcome = match &answered {
            Ok(_answer) => "ok",
            Err(AuthError::Hook(HookError::Rejected { .. })) => "rejected",
            Err(_error) => "failed",
        };
        crate::metrics::hook(kind.name(), outcome);
        answered.map(Some)
    }

    async fn call(
        &self,
        transport: &Transport,
        origin: &Origin,
        now: Timestamp,
        input: &Value,
    ) -> Result<Value, AuthError> {
        match transport {
            Transport::Function(function) => {
                function.call(&self.pool, origin.identity(), input, origin.deadline).await
            }
            Transport::Http { url, secrets } => {
                let body = Bytes::from(input.to_string());
                Ok(http::call(&self.client, url, secrets, body, origin.deadline, now).await?)
            }
        }
    }
}

/// Parses an answer; an empty one is `Null`.
fn parse(body: &[u8]) -> Result<Value, HookError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body)
        .map_err(|error| HookError::failed("Error unmarshaling JSON output.", error.to_string()))
}

/// The answer as an object, unless it is an error of the hook.
fn checked(answer: Value) -> Result<Value, HookError> {
    let answer = match answer {
        Value::Null => json!({}),
        Value::Object(_) => answer,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(HookError::failed("Error unmarshaling JSON output.", "the answer is not an object"));
        }
    };
    let message = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
    if message.is_empty() {
        return Ok(answer);
    }
    let status = answer.pointer("/error/http_code").and_then(Value::as_u64);
    let status = status.and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok());
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    Err(HookError::Rejected {
        status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_hooks_have_status_and_message() {
        let error = |answer: Value| match checked(answer) {
            Err(HookError::Rejected { status, message }) => Some((status.as_u16(), message)),
            _ => None,
        };
        let no = "no".to_owned();
        assert_eq!(error(json!({ "error": { "http_code": 403, "message": "no" } })), Some((403, no.clone())));
        assert_eq!(error(json!({ "error": { "message": "no" } })), Some((500, no.clone())));
        for status in [json!(200), json!(99), json!(70_000), json!("403"), json!(-1)] {
            let answer = json!({ "error": { "http_code": status, "message": "no" } });
            assert_eq!(error(answer), Some((500, no.clone())), "{status}");
        }
        for ignored in
            [json!({ "error": {} }), json!({ "error": { "http_code": 403 } }), json!({}), json!(null)]
        {
            assert!(checked(ignored.clone()).is_ok(), "{ignored}");
        }
        assert!(matches!(checked(json!([1])), Err(HookError::Failed { .. })));
    }
}
