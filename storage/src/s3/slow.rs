//! Responses that may take long: S3 keeps the connection alive by sending white space before the document.
//! If an error follows, it is sent as a document after status 200; S3 clients check for that.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{StatusCode, header};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Call;
use super::error::{S3Error, xml};
use super::xml::DECLARATION;
use crate::error::StorageError;

/// How long to wait for the result before sending the status, and between two spaces.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `work`, which produces a document, to completion even if the client disconnects.
pub(super) async fn answer(
    call: Call,
    work: impl FnOnce(Call) -> BoxFuture<'static, Result<String, S3Error>>,
) -> Result<Response, S3Error> {
    let tracker = call.storage.tracker.clone();
    let resource = call.target.resource();
    answer_within(PATIENCE, &tracker, resource, work(call)).await
}

async fn answer_within(
    patience: Duration,
    tracker: &TaskTracker,
    resource: String,
    work: BoxFuture<'static, Result<String, S3Error>>,
) -> Result<Response, S3Error> {
    let mut task = tracker.spawn(work);
    if let Ok(done) = timeout(patience, &mut task).await {
        return outcome(done).map(|document| xml(StatusCode::OK, document));
    }
    let rest = stream::unfold(Some(task), move |task| {
        let resource = resource.clone();
        async move {
            let (piece, task) = next_piece(patience, task?, &resource).await;
            Some((Ok::<Bytes, Infallible>(piece), task))
        }
    });
    let first = stream::iter([Ok(Bytes::from_static(DECLARATION.as_bytes()))]);
    let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
    Ok(([(header::CONTENT_TYPE, "application/xml")], body).into_response())
}

type Work = JoinHandle<Result<String, S3Error>>;

/// A space, or the final document.
async fn next_piece(patience: Duration, mut task: Work, resource: &str) -> (Bytes, Option<Work>) {
    let Ok(done) = timeout(patience, &mut task).await else {
        return (Bytes::from_static(b" "), Some(task));
    };
    let document = outcome(done).unwrap_or_else(|error| error.document(resource));
    let document = document.strip_prefix(DECLARATION).map(str::to_owned).unwrap_or(document);
    (Bytes::from(document), None)
}

fn outcome(done: Result<Result<String, S3Error>, tokio::task::JoinError>) -> Result<String, S3Error> {
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "the task of an S3 request failed");
        Err(StorageError::internal().into())
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::s3::xml::Writer;

    async fn respond(
        delay: u64,
        result: Result<String, S3Error>,
    ) -> (Result<StatusCode, &'static str>, String) {
        let work = Box::pin(async move {
            sleep(Duration::from_millis(delay)).await;
            result
        });
        match answer_within(Duration::from_millis(100), &TaskTracker::new(), "b/k".to_owned(), work).await {
            Ok(response) => {
                let status = response.status();
                let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
                (Ok(status), String::from_utf8(bytes.to_vec()).unwrap())
            }
            Err(error) => (Err(error.code()), String::new()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn late_document_is_preceded_by_spaces() {
        let document = || Writer::new("Done").finish("Done");
        let root = "<Done xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"></Done>";
        let (status, body) = respond(50, Ok(document())).await;
        assert_eq!((status, body), (Ok(StatusCode::OK), format!("{DECLARATION}{root}")));
        let (status, body) = respond(350, Ok(document())).await;
        assert_eq!((status, body), (Ok(StatusCode::OK), format!("{DECLARATION}  {root}")));
    }

    #[tokio::test(start_paused = true)]
    async fn early_error_has_its_own_status() {
        assert_eq!(respond(50, Err(S3Error::precondition_failed())).await.0, Err("PreconditionFailed"));
        let (status, body) = respond(150, Err(S3Error::precondition_failed())).await;
        assert_eq!(status, Ok(StatusCode::OK));
        assert!(body.contains("<Resource>b/k</Resource><Code>PreconditionFailed</Code>"), "{body}");
    }
}
