//! Errors of the blob store.

use std::error::Error;
use std::io;

use super::BlobId;
use crate::error::StorageError;

/// Why a blob could not be read or written. The texts are for the log; clients receive the contract's error
/// texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// There is no such blob: a row refers to one that is gone.
    #[error("there is no blob {0}")]
    NotFound(BlobId),
    /// The blob has fewer bytes than its row says.
    #[error("blob {0} ends too early")]
    TooShort(BlobId),
    /// The disk, the quota or the bucket is full.
    #[error("there is no room for blobs: {0}")]
    Full(String),
    /// Uploads hold all the memory that they may (`storage.upload_memory`), and none of it became free in time.
    #[error("uploads hold all of storage.upload_memory")]
    Busy,
    /// The store does not answer, or answers that it cannot now: it may later.
    #[error("the store of blobs is away: {0}")]
    Unavailable(String),
    /// Anything else: rights, a broken disk, credentials.
    #[error("the store of blobs fails: {0}")]
    Failed(String),
}

impl BlobError {
    /// What `error` means for `id`.
    pub(super) fn of(id: BlobId, error: &object_store::Error) -> Self {
        if matches!(error, object_store::Error::NotFound { .. }) {
            Self::NotFound(id)
        } else {
            Self::general(error)
        }
    }

    /// What `error` means where no blob is looked for.
    pub(super) fn general(error: &object_store::Error) -> Self {
        let text = with_causes(error);
        if let Some(error) = io_error(error) {
            return Self::of_io(error, text);
        }
        // Other `Generic` errors are network errors or 5xx of the S3 server, after all retries.
        if matches!(error, object_store::Error::Generic { .. }) {
            Self::Unavailable(text)
        } else {
            Self::Failed(text)
        }
    }

    /// What `error` of a file means; `text` tells about it.
    pub(super) fn of_io(error: &io::Error, text: String) -> Self {
        use io::ErrorKind as Kind;

        let kind = error.kind();
        if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge) {
            return Self::Full(text);
        }
        // The errors of sockets: object_store hands them on.
        let is_away = matches!(
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
        if is_away { Self::Unavailable(text) } else { Self::Failed(text) }
    }

    /// The task that worked on the blob panicked or was cancelled.
    pub(super) fn lost(error: &tokio::task::JoinError) -> Self {
        Self::Failed(format!("the work on a blob did not end: {error}"))
    }
}

impl From<BlobError> for StorageError {
    /// Logs the error here, because the client does not get the cause.
    fn from(error: BlobError) -> Self {
        match &error {
            // For the client the object simply does not exist.
            BlobError::NotFound(_) => {
                tracing::error!(%error, "a row has no blob: `basalt storage check` tells how many there are");
                Self::no_such_key()
            }
            BlobError::Full(_) => {
                tracing::error!(%error, "an object was not stored");
                Self::storage_full()
            }
            BlobError::Busy => {
                tracing::warn!(%error, "an upload was refused");
                Self::store_busy()
            }
            BlobError::Unavailable(_) => {
                tracing::error!(%error, "objects cannot be read or written");
                Self::store_busy()
            }
            BlobError::TooShort(_) | BlobError::Failed(_) => {
                tracing::error!(%error, "an object cannot be read or written");
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
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}
