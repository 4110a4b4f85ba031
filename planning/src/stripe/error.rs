//! Errors of calls to Stripe, and the messages that users get.

use http::StatusCode;
use serde::Deserialize;

use crate::refusal::Refusal;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StripeError {
    /// No key is configured.
    NotConfigured {
        /// Whether the message may include the remedy: only users of a development server can apply it.
        names_remedy: bool,
    },
    /// Stripe did not respond, or failed.
    Unreachable(String),
    /// Too many requests, or the object is locked.
    Busy,
    /// Stripe rejects the key.
    Key(u16),
    /// Stripe rejects the request.
    Refused(Reason),
}

/// Stripe's description of a rejected request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Reason {
    #[serde(skip)]
    pub(crate) status: u16,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) code: String,
    pub(crate) param: String,
    pub(crate) message: String,
}

impl StripeError {
    /// Whether the requested object does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.status == 404 || reason.code == "resource_missing")
    }

    /// Whether the customer in the parameters does not exist.
    pub(crate) fn is_missing_customer(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.code == "resource_missing" && reason.param == "customer")
    }

    /// Whether Stripe rejects the parameters.
    pub(crate) fn is_bad_request(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.status == 400)
    }

    /// Whether the idempotency key was used for a different request.
    pub(crate) fn is_used_key(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.kind == "idempotency_error")
    }

    /// Whether the price in the parameters does not exist.
    fn is_missing_price(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.code == "resource_missing" && reason.param == "line_items[0][price]")
    }

    /// A message for the log and the event's row, without Stripe's own text.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::NotConfigured { .. } => "no Stripe key is configured".to_owned(),
            Self::Unreachable(reason) => format!("Stripe cannot be reached: {reason}"),
            Self::Busy => "Stripe is busy".to_owned(),
            Self::Key(status) => format!("Stripe rejects the key ({status})"),
            Self::Refused(Reason { status, kind, code, param, .. }) => {
                format!("Stripe rejected the request: {status} {kind} {code} {param}").trim_end().to_owned()
            }
        }
    }
}

impl From<StripeError> for Refusal {
    fn from(error: StripeError) -> Self {
        const UNREACHABLE: &str = "The payment provider cannot be reached. Please try again.";
        match error {
            StripeError::NotConfigured { names_remedy } => {
                let message = if names_remedy {
                    "Payments are not configured: set stripe.secret_key, or start basalt-stripe-double for test cards."
                } else {
                    "Payments are not configured."
                };
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
            }
            StripeError::Unreachable(_) => Self::new(StatusCode::BAD_GATEWAY, UNREACHABLE),
            StripeError::Busy => {
                let message = "The payment provider is busy. Please try again.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(5)
            }
            StripeError::Key(_) => {
                tracing::error!("Stripe rejects the key: check stripe.secret_key");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Payments are not configured correctly.")
            }
            // Stripe writes these messages for buyers.
            StripeError::Refused(Reason { status: 402, ref message, .. }) if !message.is_empty() => {
                Self::new(StatusCode::PAYMENT_REQUIRED, message.clone())
            }
            StripeError::Refused(_) if error.is_missing_price() => {
                Self::bad_request("This plan is not available for purchase.")
            }
            StripeError::Refused(_) => Self::bad_request("The payment provider rejected the request."),
        }
    }
}
