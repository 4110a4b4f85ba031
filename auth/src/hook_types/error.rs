//! Why a hook did not allow a request (auth.md §3.20). The messages are part of the contract.

use http::StatusCode;

use super::ANSWER_BYTES;

/// A rejection by a hook, or a hook that does not work.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The hook rejected the request, with its own status and message.
    #[error("{message}")]
    Rejected {
        /// An error status.
        status: StatusCode,
        /// For the client.
        message: String,
    },
    /// The hook took too long, in seconds.
    #[error("Failed to reach hook within maximum time of {0}.000000 seconds")]
    Timeout(u64),
    /// No attempt reached the hook; the reason of the last one, for the log.
    #[error("Failed to reach hook after maximum retries")]
    Unreachable(String),
    /// The answer is too large.
    #[error("Payload size exceeded size limit of {ANSWER_BYTES} bytes")]
    TooLarge,
    /// The answer is not JSON according to its content type, which may be empty.
    #[error("Invalid JSON response. Received content-type: {0}")]
    ContentType(String),
    /// The hook reported an error, or its answer makes no sense.
    #[error("{message}")]
    Failed {
        /// For the client.
        message: String,
        /// For the log.
        reason: String,
    },
}

impl HookError {
    pub(crate) fn failed(message: &str, reason: impl Into<String>) -> Self {
        Self::Failed { message: message.to_owned(), reason: reason.into() }
    }

    /// What the log gets besides the message.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Unreachable(reason) | Self::Failed { reason, .. } => reason,
            Self::Rejected { .. } | Self::Timeout(_) | Self::TooLarge | Self::ContentType(_) => "",
        }
    }
}
