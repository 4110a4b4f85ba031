//! Handles HTTP/2 clients that do not read their responses, and connections without requests. On HTTP/1.1 a client
//! that stops reading blocks the socket ([`super::client_stream`]); on HTTP/2 flow control blocks a single stream
//! while the connection stays alive and answers pings.
//!
//! - A stream whose response is read below the minimum rate ([`crate::pace`]) is reset: the HTTP library passes its
//!   task to [`StreamExecutor`], which drops it. Responses are passed to the library in chunks ([`ChunkedBody`]),
//!   because it keeps everything it has received until the client reads it; dropping the task then frees most of the
//!   response's memory.
//! - A connection without streams for `server.idle_timeout` is asked to close, and dropped soon after. That frees
//!   last chunks that were never read. It also ends connections on which no first request arrives, where the library
//!   waits forever for the bytes that distinguish HTTP/1.1 from HTTP/2. From the first request of HTTP/1.1 on, the
//!   library's own limit applies (`header_read_timeout`).

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use basalt_core::convert::saturating;
use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::pace::{Pace, Pacer};

/// Bytes of a response passed to the library at a time: a DATA frame of the usual size.
const CHUNK_BYTES: usize = 16 * 1024;

tokio::task_local! {
    /// Progress of the stream that the current task serves; unset on HTTP/1.1.
    static STREAM: Arc<Progress>;
}

/// Progress of a response. Accessed by a single task.
#[derive(Debug, Default)]
struct Progress {
    /// The response has started; from now on the client is expected to read, unless `is_waiting_for_service`.
    is_answered: AtomicBool,
    /// The library is waiting for the service to produce the next bytes.
    is_waiting_for_service: AtomicBool,
    /// Bytes passed to the library since the last check.
    taken: AtomicUsize,
}

/// Activity of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    /// Whether a request of HTTP/1.1 has arrived.
    is_http1: AtomicBool,
    /// Number of times the connection's task was polled.
    polls: AtomicUsize,
    streams: AtomicUsize,
    /// Time when the last stream ended, or when the connection was opened. Locked to read or write.
    idle_since: Mutex<Instant>,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_http1: AtomicBool::new(false),
            polls: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
        })
    }

    /// Records a request.
    pub(super) fn record_request(&self, version: Version) {
        if version < Version::HTTP_2 {
            self.is_http1.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `connection` and counts its polls, so that its input can limit the bytes read per poll.
    pub(super) async fn count_polls<C: Future>(&self, mut connection: Pin<&mut C>) -> C::Output {
        poll_fn(|cx| {
            self.polls.fetch_add(1, Ordering::Relaxed);
            connection.as_mut().poll(cx)
        })
        .await
    }

    pub(super) fn poll_count(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }

    /// Returns when no stream has been open for `timeout`; never on HTTP/1.1.
    pub(super) async fn idle(&self, timeout: Duration) {
        while !self.is_http1.load(Ordering::Relaxed) {
            let since = *self.idle_since.lock();
            let is_idle = self.streams.load(Ordering::Relaxed) == 0;
            let end = if is_idle { since + timeout } else { Instant::now() + timeout };
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
        std::future::pending().await
    }
}

/// Counts an open stream until dropped.
struct OpenStream(Arc<Activity>);

impl OpenStream {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the tasks of a connection's streams.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub(super) pace: Pace,
    pub(super) activity: Arc<Activity>,
    /// Task tracker of the listener.
    pub(super) tracker: TaskTracker,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (progress, open) = (Arc::new(Progress::default()), OpenStream::new(&self.activity));
        let mut pacer = Pacer::new(self.pace);
        self.tracker.spawn(STREAM.scope(Arc::clone(&progress), async move {
            let mut stream = pin!(stream);
            poll_fn(|cx| {
                if stream.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                progress.poll_too_slow(&mut pacer, cx)
            })
            .await;
            drop(open);
        }));
    }
}

impl Progress {
    fn poll_too_slow(&self, pacer: &mut Pacer, cx: &mut Context<'_>) -> Poll<()> {
        let taken = self.taken.swap(0, Ordering::Relaxed);
        if taken > 0 {
            pacer.moved(taken);
        }
        if !self.is_answered.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        if self.is_waiting_for_service.load(Ordering::Relaxed) {
            pacer.moved(0);
            return Poll::Pending;
        }
        let too_slow = pacer.poll_too_slow(cx);
        if too_slow.is_ready() {
            super::count_slow_reader();
        }
        too_slow
    }
}

/// Tracks the progress of a response, if it belongs to an HTTP/2 stream.
pub(super) fn track_progress(response: Response) -> Response {
    let Ok(progress) = STREAM.try_with(Arc::clone) else { return response };
    progress.is_answered.store(true, Ordering::Relaxed);
    if response.body().size_hint().upper().is_some_and(|length| length <= CHUNK_BYTES as u64) {
        return response;
    }
    response.map(|inner| Body::new(ChunkedBody { inner, rest: Bytes::new(), progress }))
}

/// A body passed on in chunks.
struct ChunkedBody {
    inner: Body,
    rest: Bytes,
    progress: Arc<Progress>,
}

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = Pin::new(&mut this.inner).poll_frame(cx);
            this.progress.is_waiting_for_service.store(frame.is_pending(), Ordering::Relaxed);
            match frame {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end @ (Poll::Pending | Poll::Ready(None | Some(Err(_)))) => return end,
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(CHUNK_BYTES));
        this.progress.taken.fetch_add(piece.len(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = saturating::<u64>(self.rest.len());
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(inner.lower().saturating_add(rest));
        hint
    }
}
