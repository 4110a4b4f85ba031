//! Multipart bodies: a file, and fields before and after it (storage.md §3.5). Parts are streamed; only
//! fields are kept.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use basalt_core::memory::BodyLease;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use multer::{Field, Multipart};

use crate::error::StorageError;

const MAX_FIELDS: usize = 10;
const MAX_FIELD_BYTES: usize = 1024 * 1024;
/// Most parts, including ignored ones; more than any client sends.
const MAX_PARTS: usize = 100;
/// Most bytes between two pieces of a part: its headers, or data before the first part.
const MAX_UNREAD: usize = 1024 * 1024;
/// The parser reads as much as it can get; after this many bytes it has to process them first.
const PORTION: usize = 64 * 1024;
/// Type of a part that is a file even without a file name.
const OCTET_STREAM: &str = "application/octet-stream";

/// A form being parsed.
pub(crate) struct Form {
    parts: Multipart<'static>,
    /// Bytes the parser has read but not returned yet.
    unread: Arc<AtomicUsize>,
    lease: Option<BodyLease>,
    fields: Vec<(String, String)>,
    max_fields: usize,
    parts_seen: usize,
}

/// The first file of a form.
pub(crate) struct File {
    part: Field<'static>,
    unread: Arc<AtomicUsize>,
}

impl Form {
    /// Parses a form from `body`. `lease` accounts for the request's memory.
    ///
    /// # Errors
    /// The content type has no boundary.
    pub(crate) fn new(
        content_type: &str,
        body: Body,
        lease: Option<&BodyLease>,
    ) -> Result<Self, StorageError> {
        let boundary = multer::parse_boundary(content_type)
            .map_err(|_| StorageError::bad_request("Multipart: Boundary not found"))?;
        let unread = Arc::new(AtomicUsize::new(0));
        let bounded = Bounded { body: body.into_data_stream(), unread: Arc::clone(&unread), since_pause: 0 };
        Ok(Self {
            parts: Multipart::new(bounded, boundary),
            unread,
            lease: lease.map(BodyLease::fresh),
            fields: Vec::new(),
            max_fields: MAX_FIELDS,
            parts_seen: 0,
        })
    }

    /// Changes the maximum number of fields.
    pub(crate) fn with_max_fields(self, max_fields: usize) -> Self {
        Self { max_fields, ..self }
    }

    /// Reads up to the first file.
    ///
    /// # Errors
    /// There is no file; or the form is malformed, truncated, or has too many or too long fields.
    pub(crate) async fn file(&mut self) -> Result<File, StorageError> {
        let part = self.next_file().await?.ok_or_else(|| StorageError::bad_request("No content provided"))?;
        Ok(File { part, unread: Arc::clone(&self.unread) })
    }

    /// Reads the parts after the file. Further files are ignored.
    ///
    /// # Errors
    /// As for [`Form::file`].
    pub(crate) async fn rest(&mut self) -> Result<(), StorageError> {
        while let Some(mut ignored) = self.next_file().await? {
            while ignored.chunk().await.map_err(|error| refusal(&error))?.is_some() {
                self.unread.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A field received so far; the first one if the name is repeated.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str())
    }

    /// The fields received so far.
    pub(crate) fn fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// The next part that is a file; reads the fields before it.
    async fn next_file(&mut self) -> Result<Option<Field<'static>>, StorageError> {
        loop {
            let Some(part) = self.parts.next_field().await.map_err(|error| refusal(&error))? else {
                return Ok(None);
            };
            self.unread.store(0, Ordering::Relaxed);
            self.parts_seen += 1;
            if self.parts_seen > MAX_PARTS {
                return Err(StorageError::bad_request("The multipart body has too many parts"));
            }
            let is_octets = part.content_type().is_some_and(|media| media.essence_str() == OCTET_STREAM);
            if part.file_name().is_some() || is_octets {
                return Ok(Some(part));
            }
            self.read_field(part).await?;
        }
    }

    async fn read_field(&mut self, mut part: Field<'static>) -> Result<(), StorageError> {
        if self.fields.len() >= self.max_fields {
            return Err(StorageError::entity_too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = part.chunk().await.map_err(|error| refusal(&error))? {
            self.unread.store(0, Ordering::Relaxed);
            if bytes.len() + chunk.len() > MAX_FIELD_BYTES {
                return Err(StorageError::entity_too_large());
            }
            if self.lease.as_ref().is_some_and(|lease| !lease.grow(chunk.len())) {
                return Err(StorageError::store_busy());
            }
            bytes.extend_from_slice(&chunk);
        }
        let name = part.name().unwrap_or_default().to_owned();
        self.fields.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        Ok(())
    }
}

impl File {
    pub(super) fn content_type(&self) -> Option<String> {
        let header = self.part.headers().get(http::header::CONTENT_TYPE)?;
        Some(String::from_utf8_lossy(header.as_bytes()).into_owned())
    }

    /// File name given by the client.
    pub(crate) fn name(&self) -> Option<&str> {
        self.part.file_name()
    }

    pub(crate) fn bytes(self) -> impl Stream<Item = Result<Bytes, StorageError>> + Send {
        stream::unfold(self, |mut file| async move {
            let chunk = file.part.chunk().await;
            file.unread.store(0, Ordering::Relaxed);
            chunk.map_err(|error| refusal(&error)).transpose().map(|chunk| (chunk, file))
        })
    }
}

fn refusal(error: &multer::Error) -> StorageError {
    use multer::Error as Cause;

    if let Cause::StreamReadFailed(cause) = error {
        return if cause.is::<NoProgress>() {
            StorageError::bad_request("The headers of a part of the multipart body are too long")
        } else {
            StorageError::aborted()
        };
    }
    let ends = matches!(
        error,
        Cause::IncompleteFieldData { .. } | Cause::IncompleteHeaders | Cause::IncompleteStream
    );
    StorageError::bad_request(if ends {
        "The multipart body ends before its last boundary"
    } else {
        "The multipart body cannot be read"
    })
}

/// The parser has read too much without making progress.
#[derive(Debug, thiserror::Error)]
#[error("a part's headers do not end")]
struct NoProgress;

/// Limits how far the parser reads ahead; by itself it would buffer whatever the client sends.
struct Bounded {
    body: BodyDataStream,
    unread: Arc<AtomicUsize>,
    since_pause: usize,
}

impl Stream for Bounded {
    type Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.since_pause >= PORTION {
            self.since_pause = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let item = std::task::ready!(self.body.poll_next_unpin(cx));
        let Some(Ok(bytes)) = item else { return Poll::Ready(item.map(|item| item.map_err(Into::into))) };
        self.since_pause += bytes.len();
        let unread = self.unread.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if unread > MAX_UNREAD + bytes.len() {
            return Poll::Ready(Some(Err(NoProgress.into())));
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=xx";

    /// A form received in pieces of `size` bytes.
    fn form(body: impl Into<Vec<u8>>, size: usize) -> Form {
        let pieces: Vec<_> = body
            .into()
            .chunks(size)
            .map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece)))
            .collect();
        Form::new(TYPE, Body::from_stream(stream::iter(pieces)), None).unwrap()
    }

    fn part(name: &str, more: &str, content: &str) -> String {
        format!("--xx\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n")
    }

    async fn read(mut form: Form) -> Result<(Vec<u8>, Form), StorageError> {
        let file = form.file().await?;
        let mut content = Vec::new();
        let mut bytes = Box::pin(file.bytes());
        while let Some(chunk) = bytes.next().await {
            content.extend_from_slice(&chunk?);
        }
        drop(bytes);
        form.rest().await?;
        Ok((content, form))
    }

    #[tokio::test]
    async fn reads_fields_before_and_after_the_file() {
        let file = part("", "; filename=\"blob\"\r\nContent-Type: text/plain;charset=utf-8", "hello\r\n--x");
        let body = part("cacheControl", "", "60")
            + &file
            + &part("metadata", "", "{\"ä\":1}")
            + &part("x", "; filename=\"2\"", "ignored")
            + &part("cacheControl", "", "70")
            + "--xx--\r\n";
        for size in [1, 7, 4096] {
            let mut given = form(body.as_str(), size);
            let file = given.file().await.unwrap();
            assert_eq!(file.content_type().as_deref(), Some("text/plain;charset=utf-8"));
            let (content, given) = read(form(body.as_str(), size)).await.unwrap();
            assert_eq!(String::from_utf8(content).unwrap(), "hello\r\n--x");
            assert_eq!(given.field("cacheControl"), Some("60"));
            assert_eq!(given.field("metadata"), Some("{\"ä\":1}"));
            assert_eq!(given.field("x"), None);
        }
    }

    #[tokio::test]
    async fn rejects_malformed_forms() {
        let file = part("", "; filename=\"f\"", "x");
        let refused =
            async |body: String| read(form(body, 1000)).await.err().map(|error| error.message().to_owned());
        let words = |text: &str| Some(text.to_owned());
        assert_eq!(refused(part("a", "", "1") + "--xx--\r\n").await, words("No content provided"));
        assert_eq!(refused("--xx--\r\n".to_owned()).await, words("No content provided"));
        for body in [String::new(), "garbage".to_owned(), file.clone(), "--xx\r\nContent-Dis".to_owned()] {
            let text = "The multipart body ends before its last boundary";
            assert_eq!(refused(body.clone()).await, words(text), "{body}");
        }
        let too_large = words("The object exceeded the maximum allowed size");
        let eleven: String = (0..11).map(|number| part(&number.to_string(), "", "1")).collect();
        assert_eq!(refused(eleven + &file + "--xx--\r\n").await, too_large);
        let long = "a".repeat(MAX_FIELD_BYTES + 1);
        assert_eq!(refused(file.clone() + &part("metadata", "", &long) + "--xx--\r\n").await, too_large);
        let longest = "a".repeat(MAX_FIELD_BYTES);
        assert_eq!(refused(file.clone() + &part("metadata", "", &longest) + "--xx--\r\n").await, None);
        let headers = format!("--xx\r\nX-Long: {}", "a".repeat(2 * MAX_UNREAD));
        let text = "The headers of a part of the multipart body are too long";
        assert_eq!(refused(headers).await, words(text));
        let many = part("x", "; filename=\"f\"", "").repeat(MAX_PARTS + 1);
        assert_eq!(refused(many + "--xx--\r\n").await, words("The multipart body has too many parts"));
        assert!(Form::new("multipart/form-data", Body::empty(), None).is_err());
    }

    /// The parser must not be ahead of its reader by more than a portion.
    #[tokio::test]
    async fn does_not_read_ahead_of_the_consumer() {
        let given = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&given);
        let head = Bytes::from("--xx\r\nContent-Disposition: form-data; name=\"\"; filename=\"f\"\r\n\r\n");
        let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
        let body = stream::iter(std::iter::once(head).chain(std::iter::repeat_n(chunk, 1024)))
            .inspect(move |bytes| {
                let _before = counted.fetch_add(bytes.len(), Ordering::Relaxed);
            })
            .map(Ok::<_, Infallible>);
        let mut form = Form::new(TYPE, Body::from_stream(body), None).unwrap();
        let mut bytes = Box::pin(form.file().await.unwrap().bytes());
        let mut read = 0;
        for _ in 0..100 {
            read += bytes.next().await.unwrap().unwrap().len();
            let ahead = given.load(Ordering::Relaxed) - read;
            assert!(ahead <= 3 * PORTION, "{ahead}");
        }
    }
}
