//! One request to a worker and its response: bodies are streamed in both directions, and a WebSocket is passed on byte for byte.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use basalt_core::convert::saturating;
use basalt_core::service::{Draining, Original};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use http::{Request, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio_util::sync::CancellationToken;

use super::pool::Pool;
use super::runtime::Runtime;
use super::worker::Worker;
use crate::config::FunctionsConfig;

/// A request's place in a worker.
pub(crate) struct Lease {
    worker: Arc<Worker>,
    pool: Arc<Pool>,
}

impl Lease {
    /// For a request that the worker has counted.
    pub(crate) const fn new(worker: Arc<Worker>, pool: Arc<Pool>) -> Self {
        Self { worker, pool }
    }

    pub(crate) const fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.worker.leave();
        self.pool.notify();
    }
}

/// What is kept of a request while its worker has it.
pub(crate) struct Upload {
    limit: usize,
    is_exceeded: Arc<AtomicBool>,
    /// The client's side of a WebSocket.
    upgrade: Option<OnUpgrade>,
    draining: CancellationToken,
}

impl Upload {
    /// The limit that the body exceeded.
    pub(crate) fn exceeded(&self) -> Option<usize> {
        self.is_exceeded.load(Ordering::Relaxed).then_some(self.limit)
    }
}

/// Makes an HTTP/1.1 request of it, with a limited body.
pub(crate) fn prepare(request: &mut Request<Body>, config: &FunctionsConfig) -> Upload {
    let limit = saturating::<usize>(config.max_body_bytes);
    let is_exceeded = Arc::new(AtomicBool::new(false));
    *request.version_mut() = Version::HTTP_11;
    let extensions = request.extensions_mut();
    let upgrade = extensions.remove::<OnUpgrade>();
    let authority = extensions.get::<Original>().and_then(|original| original.authority.clone());
    let draining =
        extensions.get::<Draining>().map_or_else(CancellationToken::new, |draining| draining.0.clone());
    extensions.clear();
    let headers = request.headers_mut();
    // HTTP/2 has no such header.
    headers.entry(HOST).or_insert(authority.unwrap_or(HeaderValue::from_static("localhost")));
    let upgrade = upgrade.filter(|_| headers.contains_key(UPGRADE));
    let body = std::mem::take(request.body_mut());
    if !body.is_end_stream() {
        let is_exceeded = Arc::clone(&is_exceeded);
        *request.body_mut() = Body::new(LimitedBody { body, left: limit, is_exceeded });
    }
    Upload { limit, is_exceeded, upgrade, draining }
}

/// The worker's response for the caller. The lease and the connection last until its body has ended.
pub(crate) fn respond(
    response: http::Response<Incoming>,
    connection: SendRequest<Body>,
    lease: Lease,
    upload: Upload,
    runtime: &Runtime,
) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch_protocols(response, lease, upload, runtime);
    }
    let (parts, incoming) = response.into_parts();
    let body = WorkerBody { incoming, has_ended: false, connection: Some(connection), lease };
    Response::from_parts(parts, Body::new(body))
}

fn switch_protocols(
    mut response: http::Response<Incoming>,
    lease: Lease,
    upload: Upload,
    runtime: &Runtime,
) -> Response {
    let worker_side = hyper::upgrade::on(&mut response);
    if let Some(client_side) = upload.upgrade {
        let draining = upload.draining;
        runtime.spawn(async move {
            let lease = lease;
            let (Ok(client), Ok(worker)) = tokio::join!(client_side, worker_side) else { return };
            let (mut client, mut worker) = (TokioIo::new(client), TokioIo::new(worker));
            let copied = copy_bidirectional(&mut client, &mut worker);
            if let Some(Err(error)) = draining.run_until_cancelled(copied).await {
                tracing::debug!(%error, "a WebSocket of a function ended");
            }
            drop(lease);
        });
    }
    let mut response = response.map(|_| Body::empty());
    response.headers_mut().entry(CONNECTION).or_insert(HeaderValue::from_static("upgrade"));
    response
}

/// The body of a request, with a limit on its size.
struct LimitedBody {
    body: Body,
    left: usize,
    is_exceeded: Arc<AtomicBool>,
}

impl http_body::Body for LimitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match self.left.checked_sub(length) {
                Some(left) => self.left = left,
                None => {
                    self.is_exceeded.store(true, Ordering::Relaxed);
                    return Poll::Ready(Some(Err(axum::Error::new(BodyTooLarge))));
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[derive(Debug)]
struct BodyTooLarge;

impl fmt::Display for BodyTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request body is too large")
    }
}

impl std::error::Error for BodyTooLarge {}

/// The body of a worker's response. Dropped before its end, it closes the connection, which aborts the request in the function.
struct WorkerBody {
    incoming: Incoming,
    has_ended: bool,
    connection: Option<SendRequest<Body>>,
    lease: Lease,
}

impl http_body::Body for WorkerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        self.has_ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for WorkerBody {
    fn drop(&mut self) {
        let has_ended = self.has_ended || self.incoming.is_end_stream();
        if let Some(connection) = self.connection.take().filter(|_| has_ended) {
            self.lease.worker.connections.put_back(connection);
        }
    }
}
