//! What the heads of requests hold of the server's memory: those that are coming in, counted by the listener as their
//! bytes arrive, and large ones of requests in flight. A stranger needs no key to send one, and may take
//! `server.idle_timeout` for it on each of `server.max_connections`.
//!
//! Nobody waits for room: a head that finds none is refused, since whoever holds it may be in no hurry at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use http::Request;
use metrics::Counter;

/// Heads up to so many bytes are free: what the HTTP library sets aside for each connection anyway.
const FREE_BYTES: u64 = 8 * 1024;
/// What the HTTP library keeps of a header besides its bytes; HTTP/2 can name one in a single byte.
pub(crate) const HEADER_COST: usize = 100;

/// `server.max_header_bytes` and `server.max_headers`.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of request line and headers together.
    pub bytes: u32,
    /// Headers on HTTP/1.1; HTTP/2 takes four times as many.
    pub headers: usize,
}

/// What all heads together may take: `server.head_memory`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HeadMemory(Arc<Memory>);

struct Memory {
    limit: u64,
    in_use: AtomicU64,
    refused: Counter,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.in_use.load(Ordering::Relaxed), self.limit)
    }
}

impl HeadMemory {
    /// Room for `limit` bytes. `refused` counts heads that found none.
    #[must_use]
    pub fn new(limit: u64, refused: Counter) -> Self {
        Self(Arc::new(Memory { limit, in_use: AtomicU64::new(0), refused }))
    }

    /// The bound, in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes taken now.
    pub(super) fn in_use(&self) -> u64 {
        self.0.in_use.load(Ordering::Relaxed)
    }

    /// Of one head or connection, which holds nothing yet.
    pub(crate) fn share(&self) -> HeadShare {
        HeadShare { memory: self.clone(), held: 0 }
    }

    /// A share of what `request`'s head holds; `None` if there is no room.
    pub(super) fn hold_head_of(&self, request: &Request<Body>) -> Option<HeadShare> {
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        let headers = request.headers();
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let mut share = self.share();
        share.hold(target + fields + headers.len() * HEADER_COST).then_some(share)
    }
}

/// What one head or connection holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HeadShare {
    memory: HeadMemory,
    held: u64,
}

impl HeadShare {
    /// Counts `bytes` from now on, more or fewer than before, if there is room for them.
    #[must_use]
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_sub(FREE_BYTES);
        let memory = &*self.memory.0;
        if wanted <= self.held {
            if wanted < self.held {
                memory.in_use.fetch_sub(self.held - wanted, Ordering::Relaxed);
                self.held = wanted;
            }
            return true;
        }
        let more = wanted - self.held;
        let take = |in_use: u64| in_use.checked_add(more).filter(|sum| *sum <= memory.limit);
        let has_room = memory.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if has_room {
            self.held = wanted;
        } else {
            memory.refused.increment(1);
        }
        has_room
    }
}

impl Drop for HeadShare {
    fn drop(&mut self) {
        if self.held > 0 {
            self.memory.0.in_use.fetch_sub(self.held, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn heads_beyond_a_few_kilobytes_are_counted_until_they_are_gone() {
        let memory = HeadMemory::new(100 * 1024, Counter::noop());
        let (mut first, mut second) = (memory.share(), memory.share());
        assert!(first.hold(8 * KIB) && memory.in_use() == 0, "small ones are free");
        assert!(first.hold(68 * KIB) && memory.in_use() == 60 * 1024);
        assert!(!second.hold(49 * KIB), "there is no room");
        assert!(second.hold(48 * KIB) && memory.in_use() == 100 * 1024);
        assert!(first.hold(0) && second.hold(78 * KIB), "what is given back can be taken");
        drop((first, second));
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn a_request_holds_its_target_and_its_headers() {
        let memory = HeadMemory::new(30 * 1024, Counter::noop());
        let request = |path: usize, header: usize| {
            let request = Request::get(format!("/{}", "p".repeat(path))).header("x", "y".repeat(header));
            request.body(Body::empty()).unwrap()
        };
        let share = memory.hold_head_of(&request(20 * KIB, 10 * KIB)).unwrap();
        assert_eq!(memory.in_use(), 22 * 1024 + 102);
        assert!(memory.hold_head_of(&request(20 * KIB, 0)).is_none());
        assert!(memory.hold_head_of(&request(KIB, KIB)).is_some());
        drop(share);
        assert!(memory.hold_head_of(&request(20 * KIB, 0)).is_some());
    }
}
