//! Errors of the blob store.

use std::error::Error;
use std::io;

use super::BlobId;
use crate::error::StorageError;

/// Why a blob could not be read or written. The texts are for the log; clients receive the contract's error
/// texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The blob does not exist: a row refers to a deleted one.
    #[error("blob {0} does not exist")]
    NotFound(BlobId),
    /// The blob has fewer bytes than its row states.
    #[error("blob {0} is shorter than its row states")]
    TooShort(BlobId),
    /// The disk, the quota or the bucket is full.
    #[error("no space left for blobs: {0}")]
    Full(String),
    /// `storage.upload_memory` is exhausted and was not released in time.
    #[error("storage.upload_memory is exhausted")]
    Busy,
    /// The store is temporarily unavailable; a retry may help.
    #[error("blob store unavailable: {0}")]
    Unavailable(String),
    /// Any other failure: permissions, a broken disk, credentials.
    #[error("blob store failed: {0}")]
    Failed(String),
}

impl BlobError {
    /// Classifies an error of a request for blob `id`.
    pub(super) fn for_blob(id: BlobId, error: &object_store::Error) -> Self {
        if matches!(error, object_store::Error::NotFound { .. }) {
            Self::NotFound(id)
        } else {
            Self::from_store(error)
        }
    }

    /// Classifies an error of a request that is not about a particular blob.
    pub(super) fn from_store(error: &object_store::Error) -> Self {
        let text = with_causes(error);
        if let Some(error) = io_error(error) {
            return Self::from_io(error, text);
        }
        // Other `Generic` errors are network errors or 5xx of the S3 server, after all retries.
        if matches!(error, object_store::Error::Generic { .. }) {
            Self::Unavailable(text)
        } else {
            Self::Failed(text)
        }
    }

    /// Classifies a file error; `text` describes it.
    pub(super) fn from_io(error: &io::Error, text: String) -> Self {
        use io::ErrorKind as Kind;

        let kind = error.kind();
        if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge) {
            return Self::Full(text);
        }
        // Network errors, which object_store passes through.
        let is_unavailable = matches!(
            kind,
            Kind::ConnectionRefused
                | Kind::ConnectionReset
                | Kind::ConnectionAborted
                | Kind::HostUnreachable
                | Kind::NetworkUnreachable
                | Kind::NetworkDown
                | Kind::TimedOut
                | Kind::BrokenPipe
                | Kind::UnexpectedEof
        );
        if is_unavailable { Self::Unavailable(text) } else { Self::Failed(text) }
    }

    /// The task that worked on the blob panicked or was cancelled.
    pub(super) fn lost(error: &tokio::task::JoinError) -> Self {
        Self::Failed(format!("blob task failed: {error}"))
    }
}

impl From<BlobError> for StorageError {
    /// Logs the error here, because the client does not get the cause.
    fn from(error: BlobError) -> Self {
        match &error {
            // For the client the object simply does not exist.
            BlobError::NotFound(_) => {
                tracing::error!(%error, "the blob of a row is missing; run `basalt storage check` to find all");
                Self::no_such_key()
            }
            BlobError::Full(_) => {
                tracing::error!(%error, "could not store an object");
                Self::storage_full()
            }
            BlobError::Busy => {
                tracing::warn!(%error, "upload rejected");
                Self::store_busy()
            }
            BlobError::Unavailable(_) => {
                tracing::error!(%error, "cannot read or write objects");
                Self::store_busy()
            }
            BlobError::TooShort(_) | BlobError::Failed(_) => {
                tracing::error!(%error, "cannot read or write an object");
                Self::internal()
            }
        }
    }
}

/// The first I/O error among the causes.
fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

/// The error text with the texts of its causes, unless already contained.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text_of_cause = error.to_string();
        if !text.contains(&text_of_cause) {
            text = format!("{text}: {text_of_cause}");
        }
        cause = error.source();
    }
    text
}
