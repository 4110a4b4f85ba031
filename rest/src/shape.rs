//! Cache of request shapes: plan and statements shared by requests that differ only in their values.
//!
//! A shape consists of method, path, preferences, content negotiation, and the query string without the values that
//! become parameters (`request`). For a known shape nothing is planned or rendered: the values are filled into a
//! `template`. That saves two fifths of the CPU time that a read costs this server outside the kernel
//! (docs/decisions/0008). [`crate::parse`] still parses every value, so that errors are found as without the cache.
//!
//! A cache belongs to one snapshot of schema and settings. It is bounded in shapes and bytes. A shape is admitted
//! when it is seen a second time, so requests crafted to fill the cache only overwrite each other's marks.

mod request;
mod template;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use basalt_core::convert::saturating;
use lru::LruCache;
use metrics::{Counter, Gauge};
use parking_lot::Mutex;

pub use request::ShapedRequest;
pub use template::{Prepared, Template, render};

use crate::metrics::{SHAPE_BYTES, SHAPE_BYTES_LIMIT, SHAPE_EVICTIONS, SHAPE_LOOKUPS, SHAPES, SHAPES_LIMIT};

/// Maximum number of cached shapes.
const MAX_SHAPES: usize = 1024;
/// Slots for shapes seen once, chosen by hash.
const SEEN_SLOTS: usize = 4096;

/// The cached templates of one snapshot.
pub(crate) struct Shapes {
    /// Locked for a lookup or insert only.
    known: Mutex<Known>,
    /// Approximate limit of the memory used by templates.
    max_bytes: usize,
    seen: Box<[AtomicU64]>,
    hasher: RandomState,
    // Resolved once: resolving a metric by name and label costs as much as a lookup in this cache.
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
    /// Creates a cache limited to `max_bytes` (`rest.shape_cache`); 0 disables it.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let lookups = |result: &'static str| metrics::counter!(SHAPE_LOOKUPS, "result" => result);
        let shapes = Self {
            known: Mutex::new(Known { templates: LruCache::unbounded(), bytes: 0 }),
            max_bytes,
            seen: (0..SEEN_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            hits: lookups("hit"),
            misses: lookups("miss"),
            evictions: metrics::counter!(SHAPE_EVICTIONS),
            count: metrics::gauge!(SHAPES),
            bytes: metrics::gauge!(SHAPE_BYTES),
        };
        metrics::gauge!(SHAPES_LIMIT).set(number(MAX_SHAPES));
        metrics::gauge!(SHAPE_BYTES_LIMIT).set(number(max_bytes));
        shapes.report(0, 0);
        shapes
    }

    /// Looks up the template of a shape.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<Template>> {
        let found = self.known.lock().templates.get(key).cloned();
        match &found {
            Some(_) => self.hits.increment(1),
            None => self.misses.increment(1),
        }
        found
    }

    /// Whether an uncached shape was seen before; marks it as seen.
    pub(crate) fn admits(&self, key: &[u8]) -> bool {
        // 0 marks an empty slot.
        let hash = self.hasher.hash_one(key) | 1;
        let slot = usize::try_from(hash >> 32).unwrap_or(0) % SEEN_SLOTS;
        self.seen.get(slot).is_some_and(|seen| seen.swap(hash, Ordering::Relaxed) == hash)
    }

    /// Caches a template, and evicts the least recently used ones if a limit is exceeded.
    pub(crate) fn insert(&self, key: Vec<u8>, template: Template) {
        let size = |key: &[u8], template: &Template| 2 * key.len() + template.bytes();
        let added = size(&key, &template);
        if added > self.max_bytes / 16 {
            return;
        }
        let mut known = self.known.lock();
        known.bytes += added;
        // Two requests may have built it concurrently.
        if let Some((key, before)) = known.templates.push(key.into(), Arc::new(template)) {
            known.bytes -= size(&key, &before);
        }
        while known.templates.len() > MAX_SHAPES || known.bytes > self.max_bytes {
            let Some((key, template)) = known.templates.pop_lru() else { break };
            known.bytes -= size(&key, &template);
            self.evictions.increment(1);
        }
        self.report(known.templates.len(), known.bytes);
    }

    /// Removes all templates.
    pub(crate) fn clear(&self) {
        let mut known = self.known.lock();
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
    f64::from(saturating::<u32>(count))
}
