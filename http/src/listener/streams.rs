//! HTTP/2 clients that do not take their answers, and connections without requests. On HTTP/1.1 a client that stops
//! reading shows at the socket ([`super::client_stream`]); on HTTP/2 flow control keeps a stream waiting while the
//! connection lives on and answers pings.
//!
//! - A stream whose answer is not taken at the pace ([`crate::pace`]) is reset: the HTTP library hands its task to
//!   [`StreamExecutor`], which drops it. So that this frees the answer's memory, answers are handed over in pieces
//!   ([`Pieces`]): whatever the library has been given stays with it until the client takes it.
//! - A connection that has no stream for `server.idle_timeout` is told to go, and dropped soon after. With it go last
//!   pieces that were never taken. The same ends a connection on which no first request comes, where the library waits
//!   without end for the bytes that tell HTTP/1.1 from HTTP/2. From the first request of HTTP/1.1 on the library's own
//!   limit holds (`header_read_timeout`).

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::pace::{Pace, Pacer};

/// Bytes of an answer that the library is given at once: a DATA frame of the usual size.
const PIECE_BYTES: usize = 16 * 1024;

tokio::task_local! {
    /// Of the stream whose task this is; nothing on HTTP/1.1.
    static STREAM: Arc<Progress>;
}

/// How far an answer is. Read and written by one task.
#[derive(Debug, Default)]
struct Progress {
    /// The answer is made; from here on it is the client's turn, unless `is_produced`.
    is_answered: AtomicBool,
    /// Its next bytes do not exist yet.
    is_produced: AtomicBool,
    /// Bytes handed over since the last look.
    taken: AtomicUsize,
}

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    /// A request of HTTP/1.1 has come.
    is_http1: AtomicBool,
    /// How often the connection's task has run.
    turn: AtomicUsize,
    streams: AtomicUsize,
    /// When the last stream ended, or the connection began. Held to read or write.
    idle_since: Mutex<Instant>,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_http1: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
        })
    }

    /// A request has come.
    pub(super) fn note(&self, version: Version) {
        if version < Version::HTTP_2 {
            self.is_http1.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `connection`, so that what it reads from can tell one turn of the task from the next.
    pub(super) async fn in_turns<C: Future>(&self, mut connection: Pin<&mut C>) -> C::Output {
        poll_fn(|cx| {
            self.turn.fetch_add(1, Ordering::Relaxed);
            connection.as_mut().poll(cx)
        })
        .await
    }

    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// Returns when no stream has been open for `timeout`; never on HTTP/1.1.
    pub(super) async fn idle(&self, timeout: Duration) {
        while !self.is_http1.load(Ordering::Relaxed) {
            let since = *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A stream that counts until this is dropped.
struct Open(Arc<Activity>);

impl Open {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *self.0.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the tasks of one connection's streams.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub(super) pace: Pace,
    pub(super) activity: Arc<Activity>,
    /// Of the listener.
    pub(super) tracker: TaskTracker,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (progress, open) = (Arc::new(Progress::default()), Open::new(&self.activity));
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
        if self.is_produced.load(Ordering::Relaxed) {
            pacer.moved(0);
            return Poll::Pending;
        }
        let too_slow = pacer.poll_too_slow(cx);
        if too_slow.is_ready() {
            super::count_untaken_answer();
        }
        too_slow
    }
}

/// Makes `response` one whose progress is watched, if it is a stream's.
pub(super) fn watched(response: Response) -> Response {
    let Ok(progress) = STREAM.try_with(Arc::clone) else { return response };
    progress.is_answered.store(true, Ordering::Relaxed);
    if response.body().size_hint().upper().is_some_and(|length| length <= PIECE_BYTES as u64) {
        return response;
    }
    response.map(|inner| Body::new(Pieces { inner, rest: Bytes::new(), progress }))
}

/// A body cut up.
struct Pieces {
    inner: Body,
    rest: Bytes,
    progress: Arc<Progress>,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = Pin::new(&mut this.inner).poll_frame(cx);
            this.progress.is_produced.store(frame.is_pending(), Ordering::Relaxed);
            match frame {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end @ (Poll::Pending | Poll::Ready(None | Some(Err(_)))) => return end,
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        this.progress.taken.fetch_add(piece.len(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(inner.lower().saturating_add(rest));
        hint
    }
}
