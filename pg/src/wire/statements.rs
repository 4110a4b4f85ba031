//! Prepared statements of a connection. Each one uses memory in its backend, so their number is limited and the least
//! recently used is evicted first.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use metrics::{Counter, Gauge};

use super::row::{Column, Columns};

/// Statements are cached by text and scope (role and search path), because PostgreSQL plans again when either has
/// changed under a plan with row-level security.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct StatementKey {
    pub(crate) scope: u64,
    pub(crate) text: Arc<str>,
}

/// A statement on the server.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// `None` for the unnamed statement, which the next Parse replaces.
    name: Option<[u8; 9]>,
    pub(super) columns: Columns,
    has_bytea: bool,
}

impl Prepared {
    fn unnamed() -> Self {
        Self { name: None, columns: Columns::default(), has_bytea: false }
    }

    /// Creates a statement named `s` followed by eight hexadecimal digits.
    pub(super) fn new(number: u32) -> Self {
        let mut name = [b's'; 9];
        for (index, byte) in name.iter_mut().skip(1).enumerate() {
            let digit = (number >> (28 - 4 * index)) & 15;
            *byte = b"0123456789abcdef".get(digit as usize).copied().unwrap_or(b'0');
        }
        Self { name: Some(name), ..Self::unnamed() }
    }

    pub(super) fn name(&self) -> &[u8] {
        self.name.as_ref().map_or(&[], <[u8; 9]>::as_slice)
    }

    /// Sets the result columns.
    pub(super) fn describe(&mut self, columns: Columns) {
        self.has_bytea = columns.iter().any(Column::is_bytea);
        self.columns = columns;
    }

    /// For each column whether it is requested in binary; empty means text for all.
    pub(super) fn result_formats(&self) -> impl ExactSizeIterator<Item = bool> {
        let described = if self.has_bytea { &*self.columns } else { &[] };
        described.iter().map(Column::is_bytea)
    }
}

/// Cached statements, and those to be closed.
pub(super) struct Statements {
    known: LruCache<StatementKey, Prepared>,
    dropped: Vec<Prepared>,
    /// False if the limit is 0; every statement is then unnamed.
    has_names: bool,
    next: u32,
    metrics: StatementMetrics,
}

/// Metrics of the statement caches of a pool's connections.
#[derive(Clone, Debug)]
pub(crate) struct StatementMetrics {
    /// Number of cached statements.
    pub(crate) count: Gauge,
    /// Statements that were cached when needed.
    pub(crate) hits: Counter,
    /// Statements that had to be prepared.
    pub(crate) misses: Counter,
    /// Statements closed to make room, or because they were prepared twice.
    pub(crate) evictions: Counter,
}

impl StatementMetrics {
    /// Metrics of the pool named `pool`.
    pub(crate) fn new(pool: &'static str) -> Self {
        let lookups = |result: &'static str| metrics::counter!("basalt_pool_statement_lookups_total", "pool" => pool, "result" => result);
        Self {
            count: metrics::gauge!("basalt_pool_statements", "pool" => pool),
            hits: lookups("hit"),
            misses: lookups("miss"),
            evictions: metrics::counter!("basalt_pool_statement_evictions_total", "pool" => pool),
        }
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Statements {
    /// Creates a cache for `limit` statements. With 0 no statement is named, as poolers in transaction mode require.
    pub(super) fn new(limit: usize, metrics: StatementMetrics) -> Self {
        // Not allocated for the full limit at once, because a connection rarely uses that many.
        let mut known = LruCache::unbounded();
        let limit = NonZeroUsize::new(limit);
        known.resize(limit.unwrap_or(NonZeroUsize::MIN));
        Self { known, dropped: Vec::new(), has_names: limit.is_some(), next: 0, metrics }
    }

    pub(super) fn get(&mut self, key: &StatementKey) -> Option<&Prepared> {
        let known = self.known.get(key);
        if known.is_some() { &self.metrics.hits } else { &self.metrics.misses }.increment(1);
        known
    }

    /// Returns a statement with a new name, unless names are disabled.
    pub(super) fn name(&mut self) -> Prepared {
        if !self.has_names {
            return Prepared::unnamed();
        }
        self.next = self.next.wrapping_add(1);
        Prepared::new(self.next)
    }

    /// Caches a statement that the server has parsed.
    pub(super) fn keep(&mut self, key: StatementKey, prepared: Prepared) {
        if !self.has_names {
            return;
        }
        match self.known.push(key, prepared) {
            Some((_, before)) => {
                self.metrics.evictions.increment(1);
                self.dropped.push(before);
            }
            None => self.metrics.count.increment(1.0),
        }
    }

    /// Closes a statement that the server has parsed but that is not to be used.
    pub(super) fn discard(&mut self, prepared: Prepared) {
        if self.has_names {
            self.dropped.push(prepared);
        }
    }

    /// Removes a statement, so that it is parsed again when next used.
    pub(super) fn forget(&mut self, key: &StatementKey) {
        if let Some(prepared) = self.known.pop(key) {
            self.metrics.count.decrement(1.0);
            self.dropped.push(prepared);
        }
    }

    pub(super) fn clear(&mut self) {
        while let Some((_, prepared)) = self.known.pop_lru() {
            self.metrics.count.decrement(1.0);
            self.dropped.push(prepared);
        }
    }

    /// The evicted statements, to be closed on the server.
    pub(super) fn take_dropped(&mut self) -> impl ExactSizeIterator<Item = Prepared> {
        self.dropped.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> StatementKey {
        StatementKey { scope: 0, text: Arc::from(text) }
    }

    #[test]
    fn evicted_and_duplicate_statements_are_closed() {
        let mut statements = Statements::new(2, StatementMetrics::new("test"));
        for text in ["a", "b"] {
            let prepared = statements.name();
            statements.keep(key(text), prepared);
        }
        assert!(statements.get(&key("a")).is_some());
        for text in ["c", "c"] {
            let prepared = statements.name();
            statements.keep(key(text), prepared);
        }
        assert!(statements.get(&key("b")).is_none());
        assert_eq!(statements.take_dropped().len(), 2);
        assert_eq!(statements.take_dropped().len(), 0);
        statements.clear();
        assert_eq!(statements.take_dropped().len(), 2);
    }

    #[test]
    fn without_cache_statements_are_unnamed() {
        let mut statements = Statements::new(0, StatementMetrics::new("test"));
        for _ in 0..2 {
            let prepared = statements.name();
            assert_eq!(prepared.name(), b"");
            statements.keep(key("a"), prepared.clone());
            statements.discard(prepared);
        }
        assert!(statements.get(&key("a")).is_none());
        assert_eq!(statements.take_dropped().len(), 0);
    }

    #[test]
    fn result_formats_follow_columns() {
        let mut prepared = Prepared::new(0x1f);
        assert_eq!(prepared.name(), b"s0000001f");
        let columns = |types: &[u32]| -> Columns {
            types.iter().map(|&type_oid| Column { name: "c".into(), type_oid }).collect()
        };
        prepared.describe(columns(&[23, 25]));
        assert_eq!(prepared.result_formats().len(), 0);
        prepared.describe(columns(&[23, 25, 17]));
        assert_eq!(prepared.result_formats().collect::<Vec<bool>>(), [false, false, true]);
    }
}
