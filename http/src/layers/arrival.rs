//! The arrival of a request's body: at a pace ([`crate::pace`]), or not at all.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::Limited;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::pace::{Pace, Pacer};

/// How a body comes along, for those who wait for what its service makes of it.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    is_awaited: AtomicBool,
    is_too_slow: AtomicBool,
}

impl Arrival {
    /// The body that is told of, of at most `limit` bytes.
    pub(super) fn watch(self: &Arc<Self>, body: Body, limit: usize, pace: Pace) -> Body {
        let inner = Limited::new(body, limit);
        Body::new(Paced { inner, pacer: Pacer::new(pace), arrival: Arc::clone(self) })
    }

    /// Whether the client was given up. The service has seen a broken body, and answered accordingly.
    pub(super) fn is_too_slow(&self) -> bool {
        self.is_too_slow.load(Ordering::Relaxed)
    }

    /// Whether the service waits for more of it: then it is the client that is late, and not the service.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }
}

struct Paced {
    inner: Limited<Body>,
    pacer: Pacer,
    arrival: Arc<Arrival>,
}

impl HttpBody for Paced {
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
            this.pacer.moved(data.map_or(0, Bytes::len));
            return Poll::Ready(frame);
        }
        this.pacer.poll_too_slow(cx).map(|()| {
            this.arrival.is_too_slow.store(true, Ordering::Relaxed);
            let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "the body came too slowly");
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
