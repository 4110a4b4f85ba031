//! Names of the catalog, held once however many things bear them.
//!
//! A schema of thousands of tables says `public`, `id` and `bigint` tens of thousands of times. Shared, they cost a count
//! each instead of an allocation: most of what a cache weighs, and of the time to build one and to take it apart.

use std::collections::HashSet;
use std::sync::Arc;

/// A text of the catalog: a name, a type, an expression. A clone shares it.
pub type Name = Arc<str>;

/// The names of one load so far.
#[derive(Default)]
pub(super) struct Names(HashSet<Name>);

impl Names {
    /// The name with this text: the one that is there, or a new one.
    pub(super) fn get(&mut self, text: &str) -> Name {
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
    fn the_same_text_is_held_once() {
        let mut names = Names::default();
        let (first, other, again) = (names.get("id"), names.get("name"), names.get("id"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_ne!(first, other);
    }
}
