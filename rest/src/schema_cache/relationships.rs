//! Relationships between relations, and resolution of the one that an embed names (rest.md §3.7).
//!
//! Each relationship is stored once per direction, from the view of its origin. `derivation` derives them.

mod derivation;

use super::QualifiedName;
use super::name::Name;
pub use derivation::{
    ComputedRelationship, ForeignKey, ShownColumn, ShownColumns, add_view_primary_keys, derive,
};

/// A directed relationship between two relations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relationship {
    /// Relation that contains the embed.
    pub origin: QualifiedName,
    /// Embedded relation.
    pub target: QualifiedName,
    /// Whether the origin is a view.
    pub origin_is_view: bool,
    /// Whether the target is a view.
    pub target_is_view: bool,
    /// How the rows are joined.
    pub link: Link,
}

/// How the rows of two relations are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// The origin has the foreign key; one object.
    ManyToOne(KeyPairs),
    /// The target has the foreign key; an array.
    OneToMany(KeyPairs),
    /// The foreign key is unique; one object in both directions.
    OneToOne {
        /// Columns of the key.
        keys: KeyPairs,
        /// Whether the origin is the referenced relation.
        is_parent: bool,
    },
    /// Through a junction table whose primary key contains both foreign keys; an array.
    ManyToMany(Box<Junction>),
    /// A function that takes a row of the origin and returns rows of the target.
    Computed {
        /// Function name.
        function: QualifiedName,
        /// Whether it returns at most one row.
        to_one: bool,
    },
}

/// A foreign key, from the view of the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPairs {
    /// Constraint name.
    pub constraint: Name,
    /// Pairs of origin and target column, in the constraint's order.
    pub columns: Vec<(Name, Name)>,
}

/// The junction table of a many-to-many relationship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Junction {
    /// Name of the junction table.
    pub relation: QualifiedName,
    /// Constraint that references the origin.
    pub origin_constraint: Name,
    /// Constraint that references the target.
    pub target_constraint: Name,
    /// Pairs of origin column and junction column.
    pub origin_columns: Vec<(Name, Name)>,
    /// Pairs of junction column and target column.
    pub target_columns: Vec<(Name, Name)>,
}

impl Link {
    /// Whether the embed is one object rather than an array.
    #[must_use]
    pub const fn is_to_one(&self) -> bool {
        match self {
            Self::ManyToOne(_) | Self::OneToOne { .. } => true,
            Self::Computed { to_one, .. } => *to_one,
            Self::OneToMany(_) | Self::ManyToMany(_) => false,
        }
    }

    /// The foreign key, if there is exactly one.
    const fn keys(&self) -> Option<&KeyPairs> {
        match self {
            Self::ManyToOne(keys) | Self::OneToMany(keys) | Self::OneToOne { keys, .. } => Some(keys),
            Self::ManyToMany(_) | Self::Computed { .. } => None,
        }
    }

    /// Columns of the origin used by the join.
    #[must_use]
    pub fn origin_columns(&self) -> Vec<&str> {
        match self {
            Self::ManyToOne(keys) | Self::OneToMany(keys) | Self::OneToOne { keys, .. } => {
                keys.columns.iter().map(|(origin, _)| &**origin).collect()
            }
            Self::ManyToMany(junction) => {
                junction.origin_columns.iter().map(|(origin, _)| &**origin).collect()
            }
            Self::Computed { .. } => Vec::new(),
        }
    }
}

impl KeyPairs {
    fn single(&self) -> Option<(&str, &str)> {
        match self.columns.as_slice() {
            [(origin, target)] => Some((origin, target)),
            _ => None,
        }
    }
}

impl Relationship {
    fn is_self(&self) -> bool {
        self.origin == self.target
    }

    /// Whether the target and hint of an embed can denote this relationship.
    fn matches_embed(&self, target: &str, hint: Option<&str>) -> bool {
        if let Link::Computed { function, .. } = &self.link {
            return *function.name == *target;
        }
        if self.is_self() {
            return self.self_reference_matches_embed(target, hint);
        }
        let keys = self.link.keys();
        let names_target = *self.target.name == *target;
        match hint {
            None => {
                let names_key = keys.is_some_and(|keys| {
                    *keys.constraint == *target || keys.single().is_some_and(|(origin, _)| origin == target)
                });
                names_target || (names_key && !self.target_is_view)
            }
            Some(hint) => {
                let names_key = keys.is_some_and(|keys| {
                    *keys.constraint == *hint
                        || keys.single().is_some_and(|(origin, target)| origin == hint || target == hint)
                });
                names_target && (names_key || self.junction_is(hint))
            }
        }
    }

    /// Both directions of a self-reference have the same target, so the column decides. A many-to-many relationship
    /// of a relation with itself cannot be disambiguated; a computed relationship can.
    fn self_reference_matches_embed(&self, target: &str, hint: Option<&str>) -> bool {
        let key_column = |towards_parent: bool| {
            let pair = self.link.keys().and_then(KeyPairs::single);
            pair.map(|(origin, target)| if towards_parent { origin } else { target })
        };
        let (to_children, to_parent) = match &self.link {
            Link::OneToMany(_) | Link::OneToOne { is_parent: true, .. } => (true, false),
            Link::ManyToOne(_) | Link::OneToOne { is_parent: false, .. } => (false, true),
            Link::ManyToMany(_) | Link::Computed { .. } => (false, false),
        };
        match hint {
            None => {
                (to_children && *self.target.name == *target)
                    || (to_parent && key_column(true) == Some(target))
            }
            Some(hint) => *self.target.name == *target && to_children && key_column(false) == Some(hint),
        }
    }

    fn junction_is(&self, name: &str) -> bool {
        matches!(&self.link, Link::ManyToMany(junction) if *junction.relation.name == *name)
    }

    /// Position in the details of PGRST201: by cardinality, constraint and relation.
    #[must_use]
    pub fn sort_key(&self) -> (u8, &str, &str) {
        let (cardinality, constraint) = match &self.link {
            Link::OneToMany(keys) => (0, &keys.constraint),
            Link::ManyToOne(keys) => (1, &keys.constraint),
            Link::OneToOne { keys, .. } => (2, &keys.constraint),
            Link::ManyToMany(junction) => (3, &junction.origin_constraint),
            Link::Computed { function, .. } => (4, &function.name),
        };
        (cardinality, constraint, &self.target.name)
    }
}

/// Relationships that an embed can denote: none, one, or several.
///
/// Only targets in `schema`, the request's schema, can be embedded. If several junctions match, such as a table and a
/// view of it in another exposed schema, those in `schema` take precedence.
#[must_use]
pub fn resolve<'a>(
    candidates: &'a [Relationship],
    schema: &str,
    target: &str,
    hint: Option<&str>,
) -> Vec<&'a Relationship> {
    let mut found: Vec<&Relationship> = candidates.iter().filter(|r| r.matches_embed(target, hint)).collect();
    found.retain(|r| *r.target.schema == *schema);
    let junction_is_in_schema = |r: &Relationship| match &r.link {
        Link::ManyToMany(junction) => Some(*junction.relation.schema == *schema),
        Link::ManyToOne(_) | Link::OneToMany(_) | Link::OneToOne { .. } | Link::Computed { .. } => None,
    };
    if found.iter().any(|r| junction_is_in_schema(r) == Some(true)) {
        found.retain(|r| junction_is_in_schema(r) != Some(false));
    }
    found
}
