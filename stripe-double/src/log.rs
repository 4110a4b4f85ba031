//! Bounded logs.

use std::collections::VecDeque;

use serde::Serialize;

/// Maximum entries of a log.
const LOG_ENTRIES: usize = 2_000;

/// A log of the newest entries.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Log<T>(VecDeque<T>);

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Log<T> {
    pub(crate) fn push(&mut self, entry: T) {
        if self.0.len() == LOG_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    /// Oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.0.iter_mut()
    }
}
