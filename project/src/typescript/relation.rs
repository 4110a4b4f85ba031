//! Relations, their columns, and the keys and relationships between them.

/// A table or view that clients can use.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) is_view: bool,
    pub(super) can_insert: bool,
    pub(super) can_update: bool,
    /// Sorted by name.
    pub(super) columns: Vec<Column>,
    pub(super) relationships: Vec<Relationship>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) number: i32,
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) is_nullable: bool,
    pub(super) has_default: bool,
    pub(super) is_generated: bool,
    pub(super) is_writable: bool,
}

/// A foreign key, with column numbers.
#[derive(Debug)]
pub(super) struct ForeignKey {
    pub(super) name: String,
    pub(super) relation: u32,
    pub(super) referenced: u32,
    pub(super) columns: Vec<i32>,
    pub(super) referenced_columns: Vec<i32>,
    pub(super) is_one_to_one: bool,
}

/// An entry of `Relationships`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relationship {
    pub(super) key: String,
    pub(super) columns: Vec<String>,
    pub(super) is_one_to_one: bool,
    pub(super) referenced: String,
    pub(super) referenced_columns: Vec<String>,
}
