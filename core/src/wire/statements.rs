//! The prepared statements of one connection: each costs memory in its backend, so they are few and the least recently
//! used goes first.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::frontend::Outgoing;

/// A statement is kept per text and per scope (role and search path): PostgreSQL plans anew when either changed under a
/// plan with row-level security.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct StatementKey {
    pub(crate) scope: u64,
    pub(crate) text: Arc<str>,
}

/// A statement on the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    number: u32,
    columns: u16,
    /// Which of the first 64 columns are `bytea`.
    bytea: u64,
}

impl Prepared {
    #[cfg(test)]
    pub(super) const fn of(number: u32, columns: u16, bytea: u64) -> Self {
        Self { number, columns, bytea }
    }

    /// `s` and eight hexadecimal digits.
    pub(super) fn name(self) -> [u8; 9] {
        let mut name = [b's'; 9];
        for (index, byte) in name.iter_mut().skip(1).enumerate() {
            let digit = (self.number >> (28 - 4 * index)) & 15;
            *byte = b"0123456789abcdef".get(digit as usize).copied().unwrap_or(b'0');
        }
        name
    }

    /// The columns are known from now on.
    pub(super) fn describe(&mut self, columns: u16, bytea: u64) {
        (self.columns, self.bytea) = (columns, bytea);
    }

    /// For each column whether it is wanted in binary; nothing means text for all.
    pub(super) fn result_formats(self) -> impl ExactSizeIterator<Item = bool> {
        let count = if self.bytea == 0 { 0 } else { self.columns };
        (0..count).map(move |column| column < 64 && self.bytea >> column & 1 == 1)
    }
}

/// What is prepared, and what is to be closed.
pub(super) struct Statements {
    known: LruCache<StatementKey, Prepared>,
    dropped: Vec<Prepared>,
    next: u32,
}

impl Statements {
    pub(super) fn new(limit: NonZeroUsize) -> Self {
        // Not allocated for the limit at once: a connection seldom sees that many.
        let mut known = LruCache::unbounded();
        known.resize(limit);
        Self { known, dropped: Vec::new(), next: 0 }
    }

    pub(super) fn get(&mut self, key: &StatementKey) -> Option<&Prepared> {
        self.known.get(key)
    }

    /// A new name.
    pub(super) fn name(&mut self) -> Prepared {
        self.next = self.next.wrapping_add(1);
        Prepared { number: self.next, columns: 0, bytea: 0 }
    }

    /// The server has parsed it.
    pub(super) fn keep(&mut self, key: StatementKey, prepared: Prepared) {
        if let Some((_, before)) = self.known.push(key, prepared) {
            self.dropped.push(before);
        }
    }

    pub(super) fn clear(&mut self) {
        while let Some((_, prepared)) = self.known.pop_lru() {
            self.dropped.push(prepared);
        }
    }

    /// Tells the server which it may forget; how many answers that brings.
    pub(super) fn close_dropped(&mut self, outgoing: &mut Outgoing) -> usize {
        let count = self.dropped.len();
        for prepared in self.dropped.drain(..) {
            outgoing.close(prepared);
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
        let mut statements = Statements::new(NonZeroUsize::new(2).unwrap());
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
    fn names_differ_and_formats_follow_the_columns() {
        assert_eq!(&Prepared::of(0x1f, 0, 0).name(), b"s0000001f");
        assert_eq!(Prepared::of(1, 3, 0).result_formats().len(), 0);
        let formats: Vec<bool> = Prepared::of(1, 3, 0b100).result_formats().collect();
        assert_eq!(formats, [false, false, true]);
    }
}
