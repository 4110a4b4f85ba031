//! Reads blobs in chunks. Opening a file and reading its first chunk is one task on a blocking thread; each
//! further chunk is read ahead while the previous one is sent.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore};
use tokio::task::{JoinHandle, spawn_blocking};

use super::error::with_causes;
use super::{BlobError, BlobId};

/// Bytes of a blob. After an error the stream ends.
pub type BlobStream = BoxStream<'static, Result<Bytes, BlobError>>;

const CHUNK_BYTES: u64 = 256 * 1024;

/// An open file with `left` bytes to read.
struct OpenFile {
    file: File,
    id: BlobId,
    left: u64,
}

impl OpenFile {
    fn read(mut self) -> Result<(Bytes, Self), BlobError> {
        let wanted = self.left.min(CHUNK_BYTES);
        let mut chunk = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
        let read = (&mut self.file).take(wanted).read_to_end(&mut chunk);
        let read = read.map_err(|error| BlobError::from_io(&error, error.to_string()))?;
        if (read as u64) < wanted {
            return Err(BlobError::TooShort(self.id));
        }
        self.left -= wanted;
        Ok((chunk.into(), self))
    }
}

/// The read-ahead of the next chunk.
enum Next {
    Reading(JoinHandle<Result<(Bytes, OpenFile), BlobError>>),
    End,
}

/// Reads `range` of the file at `path`.
pub(super) async fn read_file(path: PathBuf, id: BlobId, range: Range<u64>) -> Result<BlobStream, BlobError> {
    file(path, id, Some(range)).await
}

/// Reads the complete file at `path`.
pub(super) async fn read_complete_file(path: PathBuf, id: BlobId) -> Result<BlobStream, BlobError> {
    file(path, id, None).await
}

async fn file(path: PathBuf, id: BlobId, range: Option<Range<u64>>) -> Result<BlobStream, BlobError> {
    let opened = spawn_blocking(move || {
        let open = || -> io::Result<OpenFile> {
            let mut file = File::open(&path)?;
            let range = match range {
                Some(range) => range,
                None => 0..file.metadata()?.len(),
            };
            if range.start > 0 {
                let _position = file.seek(SeekFrom::Start(range.start))?;
            }
            Ok(OpenFile { file, id, left: range.end.saturating_sub(range.start) })
        };
        let open = open().map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            if is_missing { BlobError::NotFound(id) } else { BlobError::from_io(&error, error.to_string()) }
        })?;
        open.read()
    });
    let (first, open) = opened.await.map_err(|error| BlobError::lost(&error))??;
    if first.is_empty() {
        return Ok(stream::empty().boxed());
    }
    let rest = stream::try_unfold(read_ahead(open), |next| async move {
        match next {
            Next::End => Ok(None),
            Next::Reading(task) => {
                let (chunk, open) = task.await.map_err(|error| BlobError::lost(&error))??;
                Ok(Some((chunk, read_ahead(open))))
            }
        }
    });
    Ok(stream::once(async { Ok(first) }).chain(rest).boxed())
}

/// Starts reading the next chunk.
fn read_ahead(open: OpenFile) -> Next {
    if open.left == 0 { Next::End } else { Next::Reading(spawn_blocking(move || open.read())) }
}

/// Reads `range` of the object of `id`.
pub(super) async fn read_object(
    objects: &Arc<dyn ObjectStore>,
    id: BlobId,
    range: Range<u64>,
) -> Result<BlobStream, BlobError> {
    if range.is_empty() {
        return Ok(stream::empty().boxed());
    }
    object(objects, id, Some(range)).await
}

/// Reads the complete object of `id`.
pub(super) async fn read_complete_object(
    objects: &Arc<dyn ObjectStore>,
    id: BlobId,
) -> Result<BlobStream, BlobError> {
    object(objects, id, None).await
}

async fn object(
    objects: &Arc<dyn ObjectStore>,
    id: BlobId,
    range: Option<Range<u64>>,
) -> Result<BlobStream, BlobError> {
    let wanted = range.as_ref().map(|range| range.end - range.start);
    let options = GetOptions::new().with_range(range.map(GetRange::Bounded));
    let found =
        objects.get_opts(&id.path(), options).await.map_err(|error| BlobError::for_blob(id, &error))?;
    let has = found.range.end - found.range.start;
    if wanted.is_some_and(|wanted| has < wanted) {
        return Err(BlobError::TooShort(id));
    }
    match found.payload {
        GetResultPayload::Stream(bytes) => {
            Ok(bytes.map_err(move |error| BlobError::for_blob(id, &error)).boxed())
        }
        GetResultPayload::File(..) => {
            Err(BlobError::Failed(with_causes(&io::Error::other("a file in a bucket"))))
        }
    }
}
