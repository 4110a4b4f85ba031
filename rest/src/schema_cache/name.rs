//! Interned names of catalog objects.
//!
//! A schema with thousands of tables contains `public`, `id` and `bigint` tens of thousands of times. Sharing them
//! replaces an allocation by a reference count, which removes most of the memory of a cache and most of the time to
//! build and drop one.

use std::collections::HashSet;
use std::sync::Arc;

/// A name, type or expression from the catalog. Clones share the text.
pub type Name = Arc<str>;

/// The names interned during one load.
#[derive(Default)]
pub(super) struct Names(HashSet<Name>);

impl Names {
    /// Returns the shared name with this text, and interns it if it is new.
    pub(super) fn intern(&mut self, text: &str) -> Name {
        if let Some(name) = self.0.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        self.0.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_shared() {
        let mut names = Names::default();
        let (first, other, again) = (names.intern("id"), names.intern("name"), names.intern("id"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_ne!(first, other);
    }
}
