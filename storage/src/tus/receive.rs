//! Receives the bytes of a PATCH, and completes the object with the last ones.

use axum::body::Body;
use futures_util::StreamExt as _;
use http::StatusCode;
use tracing::Instrument as _;

use super::answer::UploadState;
use super::lock::UploadLock;
use super::refusal::Refusal;
use super::upload::{Part, Upload};
use crate::blobs::intents::{self, Intent};
use crate::blobs::{BlobWriter, Written};
use crate::error::StorageError;
use crate::objects::write::{self as objects, Content, Context, NewObject, RequiredStatement};

/// How receiving ended.
enum End {
    /// The client sent everything.
    Complete,
    /// The client disconnected or was too slow.
    Disconnected,
    /// Another request takes over.
    Stopped,
    /// The upload would exceed its length.
    TooLarge,
}

/// Stores the body in the blob of `intent` and, if it completes the upload, creates the object. Continues
/// when the client disconnects, so that received bytes are kept.
pub(super) async fn append(
    cx: Context,
    upload: Upload,
    object: NewObject,
    max_bytes: u64,
    body: Body,
    lock: UploadLock,
    intent: Intent,
) -> Result<UploadState, Refusal> {
    let tracker = cx.storage.tracker.clone();
    let work = async move { store(&cx, upload, &object, max_bytes, body, &lock, intent).await };
    tracker.spawn(work.in_current_span()).await.unwrap_or_else(|error| {
        tracing::error!(%error, "upload task failed");
        Err(StorageError::internal().into())
    })
}

async fn store(
    cx: &Context,
    mut upload: Upload,
    object: &NewObject,
    max_bytes: u64,
    body: Body,
    lock: &UploadLock,
    intent: Intent,
) -> Result<UploadState, Refusal> {
    let writer = cx.storage.blobs.writer(cx.identity(), intent.blob());
    let (writer, end) = receive(writer, body, max_bytes, lock).await?;
    if matches!(end, End::TooLarge) {
        writer.abort().await;
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "upload's size exceeded"));
    }
    if writer.size() > 0 {
        let written = writer.finish().await.map_err(StorageError::from)?;
        add_part(cx, &mut upload, intent, &written).await?;
    } else {
        writer.abort().await;
        drop(intent);
    }
    let is_complete = upload.length == Some(upload.offset);
    let upload = if is_complete { complete(cx, upload, object).await? } else { upload };
    match end {
        End::Stopped if !is_complete => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, "Request aborted due to lock acquired"))
        }
        End::Disconnected if !is_complete => Err(Refusal::new(StatusCode::BAD_REQUEST, "Upload was aborted")),
        End::Complete | End::Disconnected | End::Stopped | End::TooLarge => {
            Ok(UploadState { is_complete, offset: Some(upload.offset), expires: Some(upload.expires) })
        }
    }
}

async fn receive(
    mut writer: BlobWriter,
    body: Body,
    max_bytes: u64,
    lock: &UploadLock,
) -> Result<(BlobWriter, End), Refusal> {
    let mut body = body.into_data_stream();
    loop {
        let next = tokio::select! {
            biased;
            () = lock.stop_requested() => return Ok((writer, End::Stopped)),
            next = body.next() => next,
        };
        let bytes = match next {
            None => return Ok((writer, End::Complete)),
            Some(Err(_)) => return Ok((writer, End::Disconnected)),
            Some(Ok(bytes)) => bytes,
        };
        if writer.size() + bytes.len() as u64 > max_bytes {
            return Ok((writer, End::TooLarge));
        }
        if let Err(error) = writer.write(bytes).await {
            writer.abort().await;
            return Err(StorageError::from(error).into());
        }
    }
}

async fn add_part(
    cx: &Context,
    upload: &mut Upload,
    intent: Intent,
    written: &Written,
) -> Result<(), Refusal> {
    let mut batch = cx.as_service();
    let added = batch.push(upload.add_part(intent.blob(), written));
    let kept = batch.push(intents::commit_step(intent.blob()));
    let has_succeeded =
        move |rows: &crate::database::Rows| rows.first(added).is_some() && rows.first(kept).is_some();
    let rows = batch.commit_if(cx.deadline.renewed(), has_succeeded).await?;
    if !has_succeeded(&rows) {
        // Another server was faster, or the upload was deleted.
        return Err(Refusal::new(StatusCode::CONFLICT, "Upload-Offset conflict"));
    }
    intent.done();
    upload.offset += written.size;
    Ok(())
}

/// Creates the object of an upload that has all its bytes.
///
/// # Errors
/// As for any upload; the parts are kept, and the next request retries.
pub(super) async fn complete(cx: &Context, upload: Upload, object: &NewObject) -> Result<Upload, Refusal> {
    let parts = upload.parts(cx).await?;
    let required = vec![RequiredStatement {
        statement: upload.mark_completed(),
        otherwise: StorageError::key_already_exists(),
    }];
    match parts.as_slice() {
        // The part's blob becomes the object's.
        [Part { blob, md5 }] => {
            let content = Content { blob: *blob, size: upload.offset, e_tag: hex::encode(md5) };
            let _stored = objects::finish(cx, object, &content, None, required).await?;
        }
        parts => {
            let intent = objects::commit_intent(cx, cx.as_service()).await?;
            let blobs: Vec<_> = parts.iter().map(|part| part.blob).collect();
            let e_tag = if blobs.is_empty() {
                let written = cx.storage.blobs.writer(cx.identity(), intent.blob()).finish().await;
                hex::encode(written.map_err(StorageError::from)?.md5)
            } else {
                cx.storage.blobs.concat(&blobs, intent.blob()).await.map_err(StorageError::from)?;
                objects::e_tag_of_parts(parts.iter().map(|part| part.md5))
            };
            let content = Content { blob: intent.blob(), size: upload.offset, e_tag };
            let _stored = objects::finish(cx, object, &content, Some(intent), required).await?;
        }
    }
    Ok(upload.completed())
}
