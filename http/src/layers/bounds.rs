//! Limits on what all requests together may use: requests in flight, bytes of request bodies, and bytes of responses
//! (counted in [`basalt_core::memory`]). A request beyond a limit gets 503 with `Retry-After` at once or after a
//! short wait, rather than joining an ever growing queue.
//!
//! A buffered body with an announced length reserves its memory before the first byte is read, and may wait for it. A
//! chunked body reserves memory as data arrives and never waits: two bodies that hold memory and wait for more could
//! wait for each other. Bodies up to `SMALL_BODY` are free: `Bounds::enter` limits their number and thereby their
//! sum. A body counts until its bytes are dropped, because a write continues after its client has disconnected.
//! Decoded data counts too if it may be much larger than the body ([`BodyLease::grow`]). CSV is such a case: its JSON
//! repeats the column names in every row, so CSV bodies are never free. A streamed body reserves nothing here; its
//! service accounts for what it buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use basalt_core::convert::saturating;
use basalt_core::identity::Identity;
use basalt_core::memory::{AnswerMemory, BodyLease, BudgetRules, ByteBudget, FREE_BYTES};
use metrics::{Counter, Gauge};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::pace::Pace;

/// Bodies up to this many bytes reserve no memory.
pub const SMALL_BODY: u64 = FREE_BYTES as u64;

/// The limits and their current usage.
pub struct Bounds {
    limits: Limits,
    requests: AtomicUsize,
    /// `server.body_memory`. All requests wait in one queue, because they are not authenticated yet.
    bodies: ByteBudget,
    refused_bodies: Counter,
    waiting_bodies: AtomicUsize,
    /// Permits for open connections; the listener acquires them.
    pub connections: Arc<Semaphore>,
    refused_requests: Counter,
    /// Requests that ended because the client sent the body too slowly.
    pub(super) slow_bodies: Counter,
}

/// Limits on request heads, from `server.max_header_bytes` and `server.max_headers`.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Size of request line and headers together, in bytes.
    pub bytes: u32,
    /// Number of headers on HTTP/1.1.
    pub headers: usize,
}

/// Settings of these names in `[server]`.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `max_requests`: requests in flight.
    pub max_requests: usize,
    /// `body_memory`, in bytes.
    pub body_memory: u64,
    /// `body_wait`: maximum wait for body memory.
    pub body_wait: Duration,
    /// `max_connections`, or fewer if the system does not allow as many.
    pub max_connections: usize,
    /// `max_header_bytes` and `max_headers`, enforced by the listener.
    pub heads: HeadLimits,
    /// `max_streams`, enforced by the listener.
    pub max_streams: u32,
    /// `stall_timeout` and `min_rate`.
    pub pace: Pace,
    /// `answer_memory`, shared with the pool of request work.
    pub answers: AnswerMemory,
}

/// Memory budget of `limit` bytes for responses (`server.answer_memory`).
#[must_use]
pub fn answer_memory(limit: u64) -> AnswerMemory {
    AnswerMemory::new(limit, refused("answer_memory"))
}

/// Counter of requests rejected by a limit; `reason` is the name of the setting.
pub fn refused(reason: &'static str) -> Counter {
    metrics::counter!("basalt_http_refused_total", "reason" => reason)
}

/// A limit is reached.
#[derive(Debug)]
pub(super) struct Overloaded;

impl Bounds {
    /// Creates limits with no usage.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let rules = BudgetRules {
            waiting_per_identity: usize::MAX,
            keeps_headroom: false,
            serves_larger_alone: true,
        };
        Self {
            requests: AtomicUsize::new(0),
            bodies: ByteBudget::new(limits.body_memory.max(1), rules, Gauge::noop()),
            refused_bodies: refused("body_memory"),
            waiting_bodies: AtomicUsize::new(0),
            connections: Arc::new(Semaphore::new(limits.max_connections)),
            refused_requests: refused("max_requests"),
            slow_bodies: metrics::counter!("basalt_http_slow_clients_total", "what" => "body"),
            limits,
        }
    }

    /// Minimum rate at which bodies must arrive.
    pub(super) const fn pace(&self) -> Pace {
        self.limits.pace
    }

    /// Admits a request for as long as the result lives.
    pub(super) fn enter(&self) -> Result<Counted<'_>, Overloaded> {
        // Incremented before the check, so that two concurrent requests cannot both take the last slot.
        let (entered, before) = Counted::one(&self.requests);
        if before >= self.limits.max_requests {
            self.refused_requests.increment(1);
            return Err(Overloaded);
        }
        Ok(entered)
    }

    /// Reserves memory for a body whose `Content-Length` is `announced`; `None` if it needs none, because it is not
    /// larger than `free` bytes. Waits at most for `server.body_wait`, or until `deadline`.
    pub(super) async fn make_room(
        &self,
        announced: Option<u64>,
        free: u64,
        deadline: Instant,
    ) -> Result<Option<BodyShare>, Overloaded> {
        let Some(length) = announced else { return Ok(Some(self.empty_share())) };
        if length <= free {
            return Ok(None);
        }
        // A body larger than the whole budget takes all of it.
        let share = self.bodies.take(Identity::SERVER, saturating(length));
        let limit = deadline.min(Instant::now() + self.limits.body_wait);
        let _waits = Counted::one(&self.waiting_bodies);
        if let Ok(Ok(share)) = timeout_at(limit, share).await {
            return Ok(Some(self.body_share(share.into())));
        }
        self.refused_bodies.increment(1);
        Err(Overloaded)
    }

    /// Share of a streamed body, which its service charges for what it buffers.
    pub(super) fn empty_share(&self) -> BodyShare {
        self.body_share(self.bodies.empty_share(Identity::SERVER).into())
    }

    fn body_share(&self, lease: BodyLease) -> BodyShare {
        BodyShare { lease, is_refused: Arc::default(), refused: self.refused_bodies.clone() }
    }

    /// Sets the gauges; called before metrics are exported, so that requests do not pay for it.
    pub fn report(&self) {
        let number = |count: usize| f64::from(saturating::<u32>(count));
        let limits = &self.limits;
        let requests = number(self.requests.load(Ordering::Relaxed));
        let connections = number(limits.max_connections) - number(self.connections.available_permits());
        metrics::gauge!("basalt_http_requests_in_flight").set(requests);
        metrics::gauge!("basalt_http_requests_in_flight_limit").set(number(limits.max_requests));
        metrics::gauge!("basalt_http_bodies_waiting")
            .set(number(self.waiting_bodies.load(Ordering::Relaxed)));
        metrics::gauge!("basalt_http_body_wait_seconds_limit").set(limits.body_wait.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "memory is less than 2^52 bytes")]
        let bytes = |count: u64| count as f64;
        metrics::gauge!("basalt_http_body_bytes_in_flight").set(bytes(self.bodies.in_use()));
        metrics::gauge!("basalt_http_body_bytes_in_flight_limit").set(bytes(self.bodies.limit()));
        metrics::gauge!("basalt_http_answer_bytes_in_flight").set(bytes(limits.answers.budget().in_use()));
        metrics::gauge!("basalt_http_answer_bytes_in_flight_limit")
            .set(bytes(limits.answers.budget().limit()));
        metrics::gauge!("basalt_http_header_bytes_limit").set(f64::from(limits.heads.bytes));
        metrics::gauge!("basalt_http_headers_limit").set(number(limits.heads.headers));
        metrics::gauge!("basalt_http_streams_limit").set(f64::from(limits.max_streams));
        metrics::gauge!("basalt_http_connections").set(connections);
        metrics::gauge!("basalt_http_connections_limit").set(number(limits.max_connections));
    }
}

/// Counts one item until dropped: a request in flight, or a waiting body.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// Increments the counter, and returns its previous value.
    fn one(counter: &'a AtomicUsize) -> (Self, usize) {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        (Self(counter), before)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Part of `server.body_memory` held by one body; released with the last clone.
#[derive(Clone)]
pub(super) struct BodyShare {
    lease: BodyLease,
    is_refused: Arc<AtomicBool>,
    refused: Counter,
}

impl BodyShare {
    /// For the request's extensions.
    pub(super) fn lease(&self) -> BodyLease {
        self.lease.clone()
    }

    /// Whether the body was aborted for lack of memory. The service then received a body error and responded to that.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Ensures that enough memory for `bytes` is held.
    pub(super) fn grow_to(&self, bytes: u64) -> Result<(), Overloaded> {
        if bytes <= SMALL_BODY || self.lease.share().try_grow_to(saturating(bytes)) {
            return Ok(());
        }
        self.is_refused.store(true, Ordering::Relaxed);
        self.refused.increment(1);
        Err(Overloaded)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::layers::arrival::Arrival;

    const KIB: u64 = 1024;
    const BODY_WAIT: Duration = Duration::from_millis(300);

    fn bounds(body_memory: u64) -> Bounds {
        let pace = Pace { window: Duration::from_secs(1), bytes_per_second: 1 };
        let answers = answer_memory(0);
        let body_wait = BODY_WAIT;
        let heads = HeadLimits { bytes: 8192, headers: 100 };
        Bounds::new(Limits {
            max_requests: 2,
            body_memory,
            body_wait,
            max_connections: 1,
            heads,
            max_streams: 1,
            pace,
            answers,
        })
    }

    /// Free KiB of `body_memory`.
    fn free(bounds: &Bounds) -> u64 {
        (bounds.bodies.limit() - bounds.bodies.in_use()) / KIB
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A body of `count` chunks of 16 KiB, which reserves memory as it arrives.
    fn counted(bounds: &Bounds, count: usize, share: Option<BodyShare>) -> Body {
        let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
        let chunks = std::iter::repeat_n(chunk, count).map(Ok::<_, std::convert::Infallible>);
        let body = Body::from_stream(stream::iter(chunks));
        Arc::new(Arrival::default()).watch(body, usize::MAX, bounds.pace(), share)
    }

    #[tokio::test]
    async fn requests_in_flight_are_limited() {
        let bounds = bounds(0);
        let first = bounds.enter().unwrap();
        let _second = bounds.enter().unwrap();
        assert!(bounds.enter().is_err());
        assert!(bounds.enter().is_err(), "a rejected request does not count");
        drop(first);
        assert!(bounds.enter().is_ok());
    }

    #[tokio::test]
    async fn small_bodies_are_admitted_without_memory() {
        let bounds = bounds(100 * KIB);
        let taken = bounds.make_room(Some(100 * KIB), SMALL_BODY, later()).await.unwrap();
        assert!(taken.is_some());
        assert_eq!(free(&bounds), 0);
        for announced in [Some(0), Some(SMALL_BODY)] {
            let share = bounds.make_room(announced, SMALL_BODY, later()).await.unwrap();
            assert!(share.is_none());
        }
        let share = bounds.make_room(None, SMALL_BODY, later()).await.unwrap();
        assert_eq!(counted(&bounds, 4, share).collect().await.unwrap().to_bytes().len(), 64 * 1024);
    }

    #[tokio::test]
    async fn large_body_waits_for_at_most_body_wait() {
        let bounds = bounds(200 * KIB);
        let first = bounds.make_room(Some(150 * KIB), SMALL_BODY, later()).await.unwrap();
        let begun = Instant::now();
        assert!(bounds.make_room(Some(100 * KIB), SMALL_BODY, later()).await.is_err());
        assert!(begun.elapsed() >= BODY_WAIT);
        assert_eq!(bounds.waiting_bodies.load(Ordering::Relaxed), 0);
        let given_back = async {
            tokio::time::sleep(BODY_WAIT / 3).await;
            assert_eq!(bounds.waiting_bodies.load(Ordering::Relaxed), 1);
            drop(first);
        };
        let (waited, ()) = tokio::join!(bounds.make_room(Some(100 * KIB), SMALL_BODY, later()), given_back);
        assert!(waited.unwrap().is_some());
        assert_eq!(free(&bounds), 200, "the share was dropped with the result");
    }

    #[tokio::test]
    async fn body_larger_than_budget_takes_all_of_it() {
        let bounds = bounds(100 * KIB);
        let share = bounds.make_room(Some(1 << 50), SMALL_BODY, later()).await.unwrap();
        assert_eq!(free(&bounds), 0);
        drop(share);
        let share = bounds.make_room(None, SMALL_BODY, later()).await.unwrap();
        assert_eq!(counted(&bounds, 40, share.clone()).collect().await.unwrap().to_bytes().len(), 640 * 1024);
        drop(share);
        assert_eq!(free(&bounds), 100);
    }

    #[tokio::test]
    async fn decoded_data_counts_like_its_body() {
        let bounds = bounds(200 * KIB);
        let share = bounds.make_room(Some(10), 0, later()).await.unwrap().unwrap();
        assert_eq!(free(&bounds), 199, "no bytes are free");
        assert!(share.lease().grow(99 * 1024));
        assert_eq!(free(&bounds), 100);
        let other = bounds.make_room(Some(50 * KIB), 0, later()).await.unwrap();
        assert!(!share.lease().grow(51 * 1024));
        assert!(!share.is_refused(), "the body itself is complete; the service decides");
        drop(other);
        assert!(share.lease().grow(1 << 30), "a single share may take the whole budget");
        drop(share);
        assert_eq!(free(&bounds), 200);
    }

    #[tokio::test]
    async fn chunked_body_reserves_as_it_arrives_without_waiting() {
        let bounds = bounds(256 * KIB);
        let first_share = bounds.make_room(None, SMALL_BODY, later()).await.unwrap().unwrap();
        let second_share = bounds.make_room(None, SMALL_BODY, later()).await.unwrap().unwrap();
        let first = counted(&bounds, 10, Some(first_share.clone()));
        let second = counted(&bounds, 10, Some(second_share.clone()));
        assert_eq!(first.collect().await.unwrap().to_bytes().len(), 160 * 1024);
        assert_eq!(free(&bounds), 96);
        assert!(second.collect().await.is_err(), "the first body still holds its share");
        assert_eq!((first_share.is_refused(), second_share.is_refused()), (false, true));
        drop((first_share, second_share));
        assert_eq!(free(&bounds), 256);
    }
}
