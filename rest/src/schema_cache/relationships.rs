//! What can be embedded, and which relationship an embed means (rest.md §3.7).
//!
//! Each relationship is stored once per direction, seen from its origin. Where they come from is `derivation`'s
//! business.

mod derivation;

use super::QualifiedName;
use super::name::Name;
pub use derivation::{
    ComputedRelationship, ForeignKey, ShownColumn, ShownColumns, add_view_primary_keys, derive,
};

/// A way from one relation to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relationship {
    /// Where it starts.
    pub origin: QualifiedName,
    /// Where it leads.
    pub target: QualifiedName,
    /// The origin is a view.
    pub origin_is_view: bool,
    /// The target is a view.
    pub target_is_view: bool,
    /// How the two are tied.
    pub link: Link,
}

/// How two relations are tied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// The origin holds the key: one object.
    ManyToOne(KeyPairs),
    /// The target holds the key: an array.
    OneToMany(KeyPairs),
    /// The key is unique: one object in both directions.
    OneToOne {
        /// The columns.
        keys: KeyPairs,
        /// The origin is the one referred to.
        is_parent: bool,
    },
    /// Through a junction whose primary key holds both keys: an array.
    ManyToMany(Box<Junction>),
    /// A function from the origin's row to rows of the target.
    Computed {
        /// The function.
        function: QualifiedName,
        /// It returns one row at most.
        to_one: bool,
    },
}

/// A foreign key seen from the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPairs {
    /// Constraint.
    pub constraint: Name,
    /// Origin column and target column, in the constraint's order.
    pub columns: Vec<(Name, Name)>,
}

/// The relation between two others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Junction {
    /// It.
    pub relation: QualifiedName,
    /// Constraint towards the origin.
    pub origin_constraint: Name,
    /// Constraint towards the target.
    pub target_constraint: Name,
    /// Origin column and junction column.
    pub origin_columns: Vec<(Name, Name)>,
    /// Junction column and target column.
    pub target_columns: Vec<(Name, Name)>,
}

impl Link {
    /// One object rather than an array.
    #[must_use]
    pub const fn is_to_one(&self) -> bool {
        match self {
            Self::ManyToOne(_) | Self::OneToOne { .. } => true,
            Self::Computed { to_one, .. } => *to_one,
            Self::OneToMany(_) | Self::ManyToMany(_) => false,
        }
    }

    /// The foreign key, where there is a single one.
    const fn keys(&self) -> Option<&KeyPairs> {
        match self {
            Self::ManyToOne(keys) | Self::OneToMany(keys) | Self::OneToOne { keys, .. } => Some(keys),
            Self::ManyToMany(_) | Self::Computed { .. } => None,
        }
    }

    /// Columns of the origin that the join reads.
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

    /// Whether `target` and `hint` of an embed may mean this relationship.
    fn answers_to(&self, target: &str, hint: Option<&str>) -> bool {
        if let Link::Computed { function, .. } = &self.link {
            return *function.name == *target;
        }
        if self.is_self() {
            return self.self_answers_to(target, hint);
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

    /// Both directions of a self-reference have the same target, so the column decides which one is meant. A
    /// many-to-many relationship to itself has nothing that could tell; a computed relationship can.
    fn self_answers_to(&self, target: &str, hint: Option<&str>) -> bool {
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

    /// Where it stands in the details of PGRST201: by cardinality, constraint, and relation.
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

/// The relationships an embed may mean: none, one, or too many.
///
/// Only targets in `schema`, the request's, can be embedded. Of several junctions, such as a table and a view of it that
/// another schema exposes, those in `schema` are meant.
#[must_use]
pub fn resolve<'a>(
    candidates: &'a [Relationship],
    schema: &str,
    target: &str,
    hint: Option<&str>,
) -> Vec<&'a Relationship> {
    let mut found: Vec<&Relationship> = candidates.iter().filter(|r| r.answers_to(target, hint)).collect();
    found.retain(|r| *r.target.schema == *schema);
    let junction_is_here = |r: &Relationship| match &r.link {
        Link::ManyToMany(junction) => Some(*junction.relation.schema == *schema),
        Link::ManyToOne(_) | Link::OneToMany(_) | Link::OneToOne { .. } | Link::Computed { .. } => None,
    };
    if found.iter().any(|r| junction_is_here(r) == Some(true)) {
        found.retain(|r| junction_is_here(r) != Some(false));
    }
    found
}
