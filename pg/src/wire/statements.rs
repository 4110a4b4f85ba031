//! The prepared statements of one connection: each costs memory in its backend, so they are few and the least recently
//! used goes first.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use metrics::{Counter, Gauge};

use super::frontend::Outgoing;
use super::row::{Column, Columns};

/// A statement is kept per text and per scope (role and search path): PostgreSQL plans anew when either changed under a
/// plan with row-level security.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct StatementKey {
    pub(crate) scope: u64,
    pub(crate) text: Arc<str>,
}

/// A statement on the server.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// `None` is the unnamed statement, which the next Parse replaces.
    name: Option<[u8; 9]>,
    pub(super) columns: Columns,
    has_bytea: bool,
}

impl Prepared {
    fn unnamed() -> Self {
        Self { name: None, columns: Columns::default(), has_bytea: false }
    }

    /// Its name is `s` and eight hexadecimal digits.
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

    /// The columns are known from now on.
    pub(super) fn describe(&mut self, columns: Columns) {
        self.has_bytea = columns.iter().any(Column::is_bytea);
        self.columns = columns;
    }

    /// For each column whether it is wanted in binary; nothing means text for all.
    pub(super) fn result_formats(&self) -> impl ExactSizeIterator<Item = bool> {
        let described = if self.has_bytea { &*self.columns } else { &[] };
        described.iter().map(Column::is_bytea)
    }
}

/// What is prepared, and what is to be closed.
pub(super) struct Statements {
    known: LruCache<StatementKey, Prepared>,
    dropped: Vec<Prepared>,
    /// With a limit of none, every statement is the unnamed one.
    has_names: bool,
    next: u32,
    metrics: StatementMetrics,
}

/// What the caches of a pool's connections do together.
#[derive(Clone, Debug)]
pub(crate) struct StatementMetrics {
    /// How many statements they know.
    pub(crate) count: Gauge,
    /// Statements that were prepared when they were needed.
    pub(crate) hits: Counter,
    /// Those that had to be.
    pub(crate) misses: Counter,
    /// Those closed for another, or because they were prepared twice.
    pub(crate) evictions: Counter,
}

impl StatementMetrics {
    /// Of the pool called `pool`.
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
    /// Keeps `limit` statements. With 0 none is prepared under a name, as a pooler in transaction mode needs it.
    pub(super) fn new(limit: usize, metrics: StatementMetrics) -> Self {
        // Not allocated for the limit at once: a connection seldom sees that many.
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

    /// A statement under a new name, if they have names.
    pub(super) fn name(&mut self) -> Prepared {
        if !self.has_names {
            return Prepared::unnamed();
        }
        self.next = self.next.wrapping_add(1);
        Prepared::new(self.next)
    }

    /// The server has parsed it.
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

    /// The server has parsed it, and it is not to be used.
    pub(super) fn discard(&mut self, prepared: Prepared) {
        if self.has_names {
            self.dropped.push(prepared);
        }
    }

    /// It is to be parsed anew when it is next wanted.
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

    /// Tells the server which it may forget; how many answers that brings.
    pub(super) fn close_dropped(&mut self, outgoing: &mut Outgoing) -> usize {
        let count = self.dropped.len();
        for prepared in self.dropped.drain(..) {
            outgoing.close(&prepared);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> StatementKey {
        StatementKey { scope: 0, text: Arc::from(text) }
    }

    #[test]
    fn the_least_recently_used_is_closed_and_so_is_one_that_was_parsed_twice() {
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
        let mut outgoing = Outgoing::default();
        assert_eq!(statements.close_dropped(&mut outgoing), 2);
        assert_eq!(statements.close_dropped(&mut outgoing), 0);
        statements.clear();
        assert_eq!(statements.close_dropped(&mut outgoing), 2);
    }

    #[test]
    fn without_a_cache_every_statement_is_the_unnamed_one() {
        let mut statements = Statements::new(0, StatementMetrics::new("test"));
        for _ in 0..2 {
            let prepared = statements.name();
            assert_eq!(prepared.name(), b"");
            statements.keep(key("a"), prepared.clone());
            statements.discard(prepared);
        }
        assert!(statements.get(&key("a")).is_none());
        assert_eq!(statements.close_dropped(&mut Outgoing::default()), 0);
    }

    #[test]
    fn names_differ_and_formats_follow_the_columns() {
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
