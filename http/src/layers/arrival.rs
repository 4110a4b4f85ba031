//! Receives a request body, with limits on its size, memory and rate ([`crate::pace`]).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use basalt_core::convert::saturating;
use bytes::Bytes;
use http_body_util::Limited;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::bounds::BodyShare;
use crate::pace::{Pace, Pacer};

/// State of a body's arrival, for the layer that waits for the service's response.
#[derive(Debug)]
pub(super) struct Arrival {
    is_awaited: AtomicBool,
    is_too_slow: AtomicBool,
    /// Time when the service last received data. Locked to read or write.
    last_taken: Mutex<Instant>,
}

impl Default for Arrival {
    fn default() -> Self {
        let (is_awaited, is_too_slow) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_awaited, is_too_slow, last_taken: Mutex::new(Instant::now()) }
    }
}

impl Arrival {
    /// Returns when the service has neither received data nor waited for any for `limit`, so that the service rather
    /// than the client is late.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let since = *self.last_taken.lock();
            let end = if self.is_awaited() { Instant::now() } else { since } + limit;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    /// Limits the body to `limit` bytes, and charges `share` as data arrives, because a body of unknown length has
    /// nothing reserved.
    pub(super) fn watch(
        self: &Arc<Self>,
        body: Body,
        limit: usize,
        pace: Pace,
        share: Option<BodyShare>,
    ) -> Body {
        let inner = Limited::new(body, limit);
        Body::new(LimitedBody { inner, pacer: Pacer::new(pace), arrival: Arc::clone(self), share, seen: 0 })
    }

    /// Whether the client was too slow. The service then received a body error and responded to that.
    pub(super) fn is_too_slow(&self) -> bool {
        self.is_too_slow.load(Ordering::Relaxed)
    }

    /// Whether the service is waiting for data; the client rather than the service is late then.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }
}

struct LimitedBody {
    inner: Limited<Body>,
    pacer: Pacer,
    arrival: Arc<Arrival>,
    share: Option<BodyShare>,
    seen: u64,
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        this.arrival.is_awaited.store(frame.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(frame) = frame {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            let length = data.map_or(0, Bytes::len);
            this.pacer.moved(length);
            *this.arrival.last_taken.lock() = Instant::now();
            this.seen = this.seen.saturating_add(saturating::<u64>(length));
            if this.share.as_ref().is_some_and(|share| share.grow_to(this.seen).is_err()) {
                let error = std::io::Error::other("not enough memory for the request body");
                return Poll::Ready(Some(Err(error.into())));
            }
            return Poll::Ready(frame);
        }
        this.pacer.poll_too_slow(cx).map(|()| {
            this.arrival.is_too_slow.store(true, Ordering::Relaxed);
            let error =
                std::io::Error::new(std::io::ErrorKind::TimedOut, "the request body arrived too slowly");
            Some(Err(error.into()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
