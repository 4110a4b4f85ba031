//! Errors in Stripe's format.

use http::StatusCode;
use serde_json::{Map, Value, json};

pub(crate) type Result<T> = std::result::Result<T, StripeError>;

/// An error response of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripeError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    decline_code: Option<&'static str>,
    pub(crate) message: String,
    param: Option<String>,
    /// Whether parameters were rejected before anything happened; such a response is not stored for the idempotency key.
    pub(crate) is_validation: bool,
}

impl StripeError {
    fn new(status: StatusCode, kind: &'static str, message: String) -> Self {
        Self { status, kind, code: None, decline_code: None, message, param: None, is_validation: false }
    }

    /// A request that is rejected.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message.into())
    }

    /// A parameter with an invalid value.
    pub(crate) fn param(name: &str, message: impl Into<String>) -> Self {
        Self { param: Some(name.to_owned()), is_validation: true, ..Self::invalid(message) }
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn unknown_param(name: &str) -> Self {
        Self::param(name, format!("Received unknown parameter: {name}")).code("parameter_unknown")
    }

    pub(crate) fn missing_param(name: &str) -> Self {
        Self::param(name, format!("Missing required param: {name}.")).code("parameter_missing")
    }

    /// A parameter with an id that does not exist.
    pub(crate) fn no_such(what: &str, id: &str, param: &str) -> Self {
        let error = Self::invalid(format!("No such {what}: '{id}'")).code("resource_missing");
        Self { param: Some(param.to_owned()), ..error }
    }

    /// A path with an id that does not exist.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self { status: StatusCode::NOT_FOUND, ..Self::no_such(what, id, "id") }
    }

    pub(crate) fn unknown_path(method: &http::Method, path: &str) -> Self {
        let text = format!(
            "Unrecognized request URL ({method}: /v1/{path}). The Stripe double supports only the calls that the app makes."
        );
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", text)
    }

    pub(crate) fn unauthorized(message: &str) -> Self {
        let error = Self::new(StatusCode::UNAUTHORIZED, "invalid_request_error", message.to_owned());
        Self { is_validation: true, ..error }
    }

    pub(crate) fn idempotency(status: StatusCode, message: String) -> Self {
        Self { is_validation: true, ..Self::new(status, "idempotency_error", message) }
    }

    /// An internal error of the double.
    pub(crate) fn api(message: String) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", message)
    }

    /// The bank declined the card.
    pub(crate) fn declined(code: &'static str, decline_code: Option<&'static str>, message: &str) -> Self {
        let error = Self::new(StatusCode::PAYMENT_REQUIRED, "card_error", message.to_owned());
        Self { code: Some(code), decline_code, ..error }
    }

    pub(crate) fn body(&self) -> Value {
        let mut error = Map::new();
        for (name, value) in [("code", self.code), ("decline_code", self.decline_code)] {
            if let Some(value) = value {
                error.insert(name.to_owned(), json!(value));
            }
        }
        error.insert("message".to_owned(), json!(self.message));
        if let Some(param) = &self.param {
            error.insert("param".to_owned(), json!(param));
        }
        error.insert("type".to_owned(), json!(self.kind));
        json!({ "error": error })
    }
}
