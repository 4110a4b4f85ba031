//! The cache of request shapes: plan and statements of requests that differ in their values only.
//!
//! A shape is method, path, preferences, negotiation, and the query string without the values that become parameters
//! (`request`). For one that is known, a request is not planned and no statement is rendered: its values go into the
//! places of a `template`. That is two fifths of what a read costs this server outside the kernel
//! (docs/decisions/0008). [`crate::parse`] still reads every value, so that what is wrong is found where it always was.
//!
//! One cache belongs to one snapshot of schema and settings and goes with it. It is bounded in shapes and in bytes, and
//! a shape gets in when it is seen for the second time: requests made up to fill it only push out each other's marks.

mod request;
mod template;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use metrics::{Counter, Gauge};

pub use request::ShapedRequest;
pub use template::{Prepared, Template, render};

use crate::metrics::{SHAPE_BYTES, SHAPE_BYTES_LIMIT, SHAPE_EVICTIONS, SHAPE_LOOKUPS, SHAPES, SHAPES_LIMIT};

/// Shapes kept at most.
const MOST_SHAPES: usize = 1024;
/// Shapes remembered as seen once: a place each, chosen by hash.
const SEEN: usize = 4096;

/// What is known of request shapes.
pub(crate) struct Shapes {
    /// Held for a look-up or an insert only.
    known: Mutex<Known>,
    /// Bytes they may take together, about.
    most_bytes: usize,
    seen: Box<[AtomicU64]>,
    hasher: RandomState,
    // Looked up once: by name and label that costs as much as a look-up here.
    hits: Counter,
    misses: Counter,
    evictions: Counter,
    count: Gauge,
    bytes: Gauge,
}

struct Known {
    templates: LruCache<Box<[u8]>, Arc<Template>>,
    bytes: usize,
}

impl fmt::Debug for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shapes")
    }
}

impl Shapes {
    /// An empty cache of `most_bytes` (`rest.shape_cache`); of 0 bytes it stays empty.
    pub(crate) fn new(most_bytes: usize) -> Self {
        let lookups = |result: &'static str| metrics::counter!(SHAPE_LOOKUPS, "result" => result);
        let shapes = Self {
            known: Mutex::new(Known { templates: LruCache::unbounded(), bytes: 0 }),
            most_bytes,
            seen: (0..SEEN).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            hits: lookups("hit"),
            misses: lookups("miss"),
            evictions: metrics::counter!(SHAPE_EVICTIONS),
            count: metrics::gauge!(SHAPES),
            bytes: metrics::gauge!(SHAPE_BYTES),
        };
        metrics::gauge!(SHAPES_LIMIT).set(number(MOST_SHAPES));
        metrics::gauge!(SHAPE_BYTES_LIMIT).set(number(most_bytes));
        shapes.report(0, 0);
        shapes
    }

    /// The template of a shape that is known.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<Template>> {
        let found = self.known.lock().unwrap_or_else(PoisonError::into_inner).templates.get(key).cloned();
        match &found {
            Some(_) => self.hits.increment(1),
            None => self.misses.increment(1),
        }
        found
    }

    /// Whether a shape that is not known was seen before; from now on it was.
    pub(crate) fn admits(&self, key: &[u8]) -> bool {
        // 0 is an empty place.
        let hash = self.hasher.hash_one(key) | 1;
        let place = usize::try_from(hash >> 32).unwrap_or(0) % SEEN;
        self.seen.get(place).is_some_and(|seen| seen.swap(hash, Ordering::Relaxed) == hash)
    }

    /// Takes a shape in, and lets the least recently used ones go for it.
    pub(crate) fn keep(&self, key: Vec<u8>, template: Template) {
        let size = |key: &[u8], template: &Template| 2 * key.len() + template.bytes();
        let added = size(&key, &template);
        if added > self.most_bytes / 16 {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.bytes += added;
        // Two requests may have made it at once.
        if let Some((key, before)) = known.templates.push(key.into(), Arc::new(template)) {
            known.bytes -= size(&key, &before);
        }
        while known.templates.len() > MOST_SHAPES || known.bytes > self.most_bytes {
            let Some((key, template)) = known.templates.pop_lru() else { break };
            known.bytes -= size(&key, &template);
            self.evictions.increment(1);
        }
        self.report(known.templates.len(), known.bytes);
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.templates.clear();
        known.bytes = 0;
        self.report(0, 0);
    }

    fn report(&self, count: usize, bytes: usize) {
        self.count.set(number(count));
        self.bytes.set(number(bytes));
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
