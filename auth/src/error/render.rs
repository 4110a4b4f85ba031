//! Error bodies in both API versions, and the logging of errors.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use basalt_pg::pg_error::PgError;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use super::AuthError;
use crate::hook_types::error::HookError;

/// An error in a response's extensions, for [`render`].
#[derive(Clone)]
enum PendingError {
    /// The response has no body yet.
    NeedsBody(Arc<AuthError>),
    /// The response is complete (a redirect); the error only has to be logged.
    LogOnly(Arc<AuthError>),
}

impl IntoResponse for AuthError {
    fn into_response(self) -> Response {
        let mut response = self.wire().0.into_response();
        response.extensions_mut().insert(PendingError::NeedsBody(Arc::new(self)));
        response
    }
}

impl AuthError {
    /// Parameters for a redirect that reports this error (auth.md §3.10). `error` is omitted for statuses that OAuth does not
    /// name.
    pub(crate) fn redirect_parameters(&self) -> Vec<(&'static str, String)> {
        let (status, code) = self.wire();
        let error = match status {
            StatusCode::BAD_REQUEST => Some("invalid_request"),
            StatusCode::UNAUTHORIZED => Some("unauthorized_client"),
            StatusCode::FORBIDDEN => Some("access_denied"),
            StatusCode::INTERNAL_SERVER_ERROR => Some("server_error"),
            StatusCode::SERVICE_UNAVAILABLE => Some("temporarily_unavailable"),
            _ => None,
        };
        let mut pairs: Vec<_> = error.map(|error| ("error", error.to_owned())).into_iter().collect();
        pairs.push(("error_code", code.to_owned()));
        pairs.push(("error_description", self.to_string()));
        pairs
    }

    /// Attaches the error to a response that already reports it.
    pub(crate) fn with_response(self, mut response: Response) -> Response {
        response.extensions_mut().insert(PendingError::LogOnly(Arc::new(self)));
        response
    }
}

/// The API version that a client requests; it selects the error format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ApiVersion {
    /// `code` is the status, the message is `msg`.
    Initial,
    /// 2024-01-01: `code` is the code, the message is `message`.
    V20240101,
}

const VERSION_HEADER: HeaderName = HeaderName::from_static("x-supabase-api-version");
const CODE_HEADER: HeaderName = HeaderName::from_static("x-sb-error-code");

impl ApiVersion {
    /// The newest version up to the date in the header. An invalid date is ignored.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let asked = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        let asked = asked.filter(|text| text.len() == "2024-01-01".len());
        match asked.and_then(|text| jiff::civil::Date::strptime("%Y-%m-%d", text).ok()) {
            Some(date) if date >= jiff::civil::date(2024, 1, 1) => Self::V20240101,
            Some(_) | None => Self::Initial,
        }
    }
}

/// What rendering uses of the request.
pub(crate) struct RenderContext {
    pub(crate) version: ApiVersion,
    /// Request id for the log, and for 5xx bodies in the initial version.
    pub(crate) request_id: Option<String>,
    /// Whether bodies may contain SQLSTATEs.
    pub(crate) development: bool,
}

/// Renders the body of an error response; leaves other responses unchanged.
pub(crate) fn render(mut response: Response, context: &RenderContext) -> Response {
    match response.extensions_mut().remove::<PendingError>() {
        None => response,
        Some(PendingError::LogOnly(error)) => {
            log(&error, context);
            response
        }
        Some(PendingError::NeedsBody(error)) => {
            log(&error, context);
            error_response(&error, context)
        }
    }
}

fn log(error: &AuthError, context: &RenderContext) {
    let (status, code) = error.wire();
    let id = context.request_id.as_deref().unwrap_or_default();
    if let Some(postgres) = error.postgres() {
        // Without the detail: it may contain the row, with password hashes and valid tokens.
        let (sqlstate, message) = (&postgres.code, &postgres.message);
        tracing::error!(code, request_id = id, sqlstate, "{error}: {message}");
    } else if let AuthError::Hook(hook) = error
        && !matches!(hook, HookError::Rejected { .. })
    {
        tracing::warn!(code, request_id = id, cause = hook.reason(), "a hook failed: {error}");
    } else if let AuthError::SmsSendFailed { .. } = error {
        tracing::warn!(code, request_id = id, "{error}");
    } else if status.is_server_error() {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other messages are complete")]
        let cause = match error {
            AuthError::Internal(cause) => cause.clone(),
            AuthError::ProviderFailed { reason, .. } | AuthError::CaptchaUnavailable(reason) => {
                reason.clone()
            }
            _ => std::error::Error::source(error).map(ToString::to_string).unwrap_or_default(),
        };
        // Transient errors and those of providers do not need an operator.
        let is_external = matches!(
            error,
            AuthError::ProviderFailed { .. }
                | AuthError::NoExternalEmail
                | AuthError::CaptchaUnavailable(_)
                | AuthError::Hook(_)
        );
        if status == StatusCode::INTERNAL_SERVER_ERROR && !is_external {
            tracing::error!(code, request_id = id, cause, "{error}");
        } else {
            tracing::warn!(code, request_id = id, cause, "{error}");
        }
    }
}

fn error_response(error: &AuthError, context: &RenderContext) -> Response {
    let (status, code) = error.wire();
    let (status, body) = match (error, error.postgres().and_then(user_code_status)) {
        (AuthError::InvalidRequest(reason), _) => {
            (status, json!({ "error": "invalid request", "error_description": reason }))
        }
        (AuthError::UnacceptableAudience(_), _) => {
            (status, json!({ "error": "invalid request", "error_description": error.to_string() }))
        }
        (AuthError::NonceMismatch, _) => {
            (status, json!({ "error": "invalid nonce", "error_description": error.to_string() }))
        }
        (AuthError::OAuthClientSession | AuthError::OAuth { .. }, _) => {
            (status, json!({ "error": code, "error_description": error.to_string() }))
        }
        (_, Some((status, postgres))) if context.version == ApiVersion::Initial => {
            (status, user_code_body(postgres))
        }
        _ => (status, Value::Object(body(error, status, code, context))),
    };
    let mut response = (status, axum::Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(CODE_HEADER, HeaderValue::from_static(code));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if context.version == ApiVersion::V20240101 {
        // Only errors echo the version: clients select their parser by it.
        headers.insert(VERSION_HEADER, HeaderValue::from_static("2024-01-01"));
    }
    if let Some(seconds) = error.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn body(
    error: &AuthError,
    status: StatusCode,
    code: &'static str,
    context: &RenderContext,
) -> Map<String, Value> {
    let mut body = Map::new();
    match context.version {
        ApiVersion::Initial => {
            body.insert("code".to_owned(), status.as_u16().into());
            body.insert("error_code".to_owned(), code.into());
            body.insert("msg".to_owned(), error.to_string().into());
            if let Some(id) = &context.request_id
                && status.is_server_error()
            {
                body.insert("error_id".to_owned(), id.as_str().into());
            }
        }
        ApiVersion::V20240101 => {
            body.insert("code".to_owned(), code.into());
            body.insert("message".to_owned(), error.to_string().into());
        }
    }
    if let AuthError::WeakPassword(weakness) = error {
        body.insert("weak_password".to_owned(), json!({ "reasons": weakness.reasons }));
    }
    if let Some(postgres) = error.postgres()
        && context.development
    {
        body.insert("database_error".to_owned(), user_code_body(postgres));
    }
    body
}

/// The status requested by an error that a project's trigger raises on purpose.
fn user_code_status(error: &PgError) -> Option<(StatusCode, &PgError)> {
    let status = match error.code.as_str() {
        "P0001" | "23000" | "23001" | "23502" | "23503" | "23505" | "23514" | "23P01" => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        code => code.strip_prefix("PT").and_then(|status| StatusCode::from_bytes(status.as_bytes()).ok())?,
    };
    Some((status, error))
}

fn user_code_body(error: &PgError) -> Value {
    let mut body = Map::new();
    body.insert("code".to_owned(), error.code.as_str().into());
    body.insert("message".to_owned(), error.message.as_str().into());
    for (name, value) in [("hint", &error.hint), ("detail", &error.detail)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), value.as_str().into());
        }
    }
    Value::Object(body)
}

/// Renders a failure outside the handlers. The request's version is not available, so the format is the current one.
pub(crate) fn render_fault(fault: Fault) -> Response {
    let (error, request_id) = match fault {
        Fault::NotFound => return not_found(),
        Fault::MethodNotAllowed => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Fault::BodyTooLarge { limit } => (AuthError::BodyTooLarge(limit), None),
        Fault::SlowBody => (AuthError::SlowBody, None),
        Fault::Timeout => (AuthError::Timeout, None),
        Fault::Panic { id } => (AuthError::Internal("a handler panicked".to_owned()), Some(id)),
        Fault::BadRequest(reason) => (AuthError::BadJson(reason), None),
        Fault::Overloaded => (AuthError::Overloaded, None),
    };
    error_response(&error, &RenderContext { version: ApiVersion::V20240101, request_id, development: false })
}

/// The response for unknown routes, as from upstream's router.
pub(crate) fn not_found() -> Response {
    (
        StatusCode::NOT_FOUND,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")],
        "404 page not found",
    )
        .into_response()
}

#[cfg(test)]
mod tests;
