//! What can be embedded: relationships found from foreign keys, and which one an embed means (rest.md §3.7).
//!
//! Each relationship is stored once per direction, seen from its origin. Views take part through the columns they
//! show (see [`super::view_columns`]).

use std::collections::{HashMap, HashSet};

use super::name::Name;
use super::{QualifiedName, Relation};

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
                keys.columns.iter().map(|(origin, _)| origin.as_str()).collect()
            }
            Self::ManyToMany(junction) => {
                junction.origin_columns.iter().map(|(origin, _)| origin.as_str()).collect()
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
            return function.name == *target;
        }
        if self.is_self() {
            return self.self_answers_to(target, hint);
        }
        let keys = self.link.keys();
        let names_target = self.target.name == *target;
        match hint {
            None => {
                let names_key = keys.is_some_and(|keys| {
                    keys.constraint == *target || keys.single().is_some_and(|(origin, _)| origin == target)
                });
                names_target || (names_key && !self.target_is_view)
            }
            Some(hint) => {
                let names_key = keys.is_some_and(|keys| {
                    keys.constraint == *hint
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
                (to_children && self.target.name == *target)
                    || (to_parent && key_column(true) == Some(target))
            }
            Some(hint) => self.target.name == *target && to_children && key_column(false) == Some(hint),
        }
    }

    fn junction_is(&self, name: &str) -> bool {
        matches!(&self.link, Link::ManyToMany(junction) if junction.relation.name == *name)
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
/// Only targets in `schema`, the request's, can be embedded.
#[must_use]
pub fn resolve<'a>(
    candidates: &'a [Relationship],
    schema: &str,
    target: &str,
    hint: Option<&str>,
) -> Vec<&'a Relationship> {
    let mut found: Vec<&Relationship> = candidates.iter().filter(|r| r.answers_to(target, hint)).collect();
    found.retain(|r| r.target.schema == schema);
    found
}

/// A foreign key as the catalog has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Constraint.
    pub constraint: Name,
    /// Relation that holds the key.
    pub table: QualifiedName,
    /// Relation it refers to.
    pub foreign: QualifiedName,
    /// Holding and referred column, in the constraint's order.
    pub columns: Vec<(Name, Name)>,
    /// The holding columns are a primary key or unique constraint.
    pub is_unique: bool,
}

/// A view's columns that show a table's columns: (view, table, view column, table column).
pub type ShownColumns = HashMap<QualifiedName, Vec<ShownColumn>>;

/// One view column that shows a table's column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownColumn {
    /// Column of the view.
    pub view_column: Name,
    /// The table.
    pub table: QualifiedName,
    /// Its column.
    pub table_column: Name,
}

/// A computed relationship as the catalog has it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct ComputedRelationship {
    /// The function.
    pub function: QualifiedName,
    /// Relation whose row it takes.
    pub origin: QualifiedName,
    /// Relation whose rows it returns.
    pub target: QualifiedName,
    /// It returns one row at most.
    pub to_one: bool,
}

/// Primary keys of views: what they show of their tables' keys.
pub fn add_view_primary_keys(relations: &mut [Relation], shown: &ShownColumns) {
    let tables: HashSet<&QualifiedName> = shown.values().flatten().map(|column| &column.table).collect();
    let mut keys = HashMap::new();
    for relation in relations.iter() {
        let name = relation.qualified_name();
        if tables.contains(&name) {
            keys.insert(name, relation.primary_key.clone());
        }
    }
    for view in relations.iter_mut().filter(|r| r.is_view) {
        let Some(columns) = shown.get(&view.qualified_name()) else { continue };
        let tables: HashSet<&QualifiedName> = columns.iter().map(|c| &c.table).collect();
        let shown_key = |table: &QualifiedName| -> Option<Vec<String>> {
            let key = keys.get(table)?;
            key.iter().map(|column| shown_as(columns, table, column).next().map(Name::to_string)).collect()
        };
        // Of a join that shows several keys, all of them.
        let mut key: Vec<String> = tables.into_iter().filter_map(shown_key).flatten().collect();
        key.sort();
        key.dedup();
        view.primary_key = key;
    }
}

fn shown_as<'a>(
    columns: &'a [ShownColumn],
    table: &'a QualifiedName,
    column: &'a str,
) -> impl Iterator<Item = &'a Name> {
    columns
        .iter()
        .filter(move |shown| shown.table_column == *column && shown.table == *table)
        .map(|shown| &shown.view_column)
}

/// All relationships between exposed relations, in every direction.
#[must_use]
pub fn derive(
    foreign_keys: Vec<ForeignKey>,
    computed: &[ComputedRelationship],
    relations: &[Relation],
    shown: &ShownColumns,
    exposed: &[String],
) -> Vec<Relationship> {
    let views: HashSet<QualifiedName> =
        relations.iter().filter(|r| r.is_view).map(Relation::qualified_name).collect();
    let keys = with_views(foreign_keys, shown);
    let is_exposed = |name: &QualifiedName| exposed.iter().any(|schema| *schema == name.schema);
    // A computed relationship named like a detected target replaces the detected ones from that origin.
    let replaced: HashSet<(&QualifiedName, &QualifiedName)> =
        computed.iter().map(|c| (&c.origin, &c.function)).collect();
    let mut found = Vec::with_capacity(keys.len() * 2);
    let mut add = |origin: &QualifiedName, target: &QualifiedName, link| {
        let is_replaced = !replaced.is_empty() && replaced.contains(&(origin, target));
        if !is_replaced && is_exposed(origin) && is_exposed(target) {
            found.push(relationship(origin, target, &views, link));
        }
    };
    for key in &keys {
        let there = KeyPairs { constraint: key.constraint.clone(), columns: key.columns.clone() };
        let back = KeyPairs {
            constraint: key.constraint.clone(),
            columns: key.columns.iter().map(|(a, b)| (b.clone(), a.clone())).collect(),
        };
        let (there, back) = if key.is_unique {
            (Link::OneToOne { keys: there, is_parent: false }, Link::OneToOne { keys: back, is_parent: true })
        } else {
            (Link::ManyToOne(there), Link::OneToMany(back))
        };
        add(&key.table, &key.foreign, there);
        add(&key.foreign, &key.table, back);
    }
    for (origin, target, junction) in junctions(&keys, relations) {
        if is_exposed(&junction.relation) {
            add(&origin, &target, Link::ManyToMany(Box::new(junction)));
        }
    }
    for c in computed.iter().filter(|c| is_exposed(&c.origin) && is_exposed(&c.target)) {
        let link = Link::Computed { function: c.function.clone(), to_one: c.to_one };
        found.push(relationship(&c.origin, &c.target, &views, link));
    }
    found
}

fn relationship(
    origin: &QualifiedName,
    target: &QualifiedName,
    views: &HashSet<QualifiedName>,
    link: Link,
) -> Relationship {
    Relationship {
        origin: origin.clone(),
        target: target.clone(),
        origin_is_view: views.contains(origin),
        target_is_view: views.contains(target),
        link,
    }
}

/// The foreign keys, and for each view that shows all columns of a key's side, the same key with the view in place.
fn with_views(keys: Vec<ForeignKey>, shown: &ShownColumns) -> Vec<ForeignKey> {
    // By the table whose columns they show: most tables have no view at all.
    let mut views: HashMap<&QualifiedName, Vec<(&QualifiedName, &[ShownColumn])>> = HashMap::new();
    let mut sorted: Vec<_> = shown.iter().collect();
    sorted.sort_by_key(|(view, _)| *view);
    for (view, columns) in sorted {
        let tables: HashSet<&QualifiedName> = columns.iter().map(|column| &column.table).collect();
        for table in tables {
            views.entry(table).or_default().push((view, columns));
        }
    }
    let views_of = |table: &QualifiedName| views.get(table).map_or(&[][..], Vec::as_slice);
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        let (holding, referred) = (views_of(&key.table), views_of(&key.foreign));
        if holding.is_empty() && referred.is_empty() {
            all.push(key);
            continue;
        }
        let (own, foreign): (Vec<Name>, Vec<Name>) = key.columns.iter().cloned().unzip();
        let holders = stand_ins(&key.table, own, holding);
        let foreigns = stand_ins(&key.foreign, foreign, referred);
        for (table, columns) in &holders {
            for (foreign, foreign_columns) in &foreigns {
                all.push(ForeignKey {
                    constraint: key.constraint.clone(),
                    table: table.clone(),
                    foreign: foreign.clone(),
                    columns: columns.iter().cloned().zip(foreign_columns.iter().cloned()).collect(),
                    is_unique: key.is_unique,
                });
            }
        }
    }
    all
}

/// The table itself, and every view with the names it shows these columns under (one entry per combination).
fn stand_ins(
    table: &QualifiedName,
    columns: Vec<Name>,
    views: &[(&QualifiedName, &[ShownColumn])],
) -> Vec<(QualifiedName, Vec<Name>)> {
    let mut stand_ins = Vec::new();
    for (view, shown_columns) in views {
        let mut combinations: Vec<Vec<Name>> = vec![Vec::new()];
        for column in &columns {
            let names: Vec<&Name> = shown_as(shown_columns, table, column).collect();
            combinations = combinations
                .into_iter()
                .flat_map(|chosen| {
                    names.iter().map(move |&name| [chosen.as_slice(), std::slice::from_ref(name)].concat())
                })
                .collect();
        }
        stand_ins.extend(combinations.into_iter().map(|names| ((*view).clone(), names)));
    }
    stand_ins.insert(0, (table.clone(), columns));
    stand_ins
}

/// Relations whose primary key covers two of their foreign keys, once per ordered pair of keys.
fn junctions<'a>(
    keys: &'a [ForeignKey],
    relations: &'a [Relation],
) -> impl Iterator<Item = (QualifiedName, QualifiedName, Junction)> + 'a {
    let primary_keys: HashMap<(&str, &str), &[String]> =
        relations.iter().map(|r| ((r.schema.as_str(), r.name.as_str()), r.primary_key.as_slice())).collect();
    let mut by_table: HashMap<&QualifiedName, Vec<&ForeignKey>> = HashMap::new();
    for key in keys.iter().filter(|key| {
        let primary = primary_keys.get(&(key.table.schema.as_str(), key.table.name.as_str()));
        let is_in = |column: &Name, primary: &[String]| primary.iter().any(|name| name == column);
        primary.is_some_and(|primary| key.columns.iter().all(|(column, _)| is_in(column, primary)))
    }) {
        by_table.entry(&key.table).or_default().push(key);
    }
    let mut tables: Vec<_> = by_table.into_iter().collect();
    tables.sort_by_key(|(table, _)| *table);
    tables.into_iter().flat_map(|(table, keys)| {
        let pairs: Vec<(&ForeignKey, &ForeignKey)> = keys
            .iter()
            .flat_map(|first| keys.iter().map(move |second| (*first, *second)))
            .filter(|(first, second)| first.constraint != second.constraint)
            .collect();
        pairs.into_iter().map(move |(first, second)| {
            let junction = Junction {
                relation: table.clone(),
                origin_constraint: first.constraint.clone(),
                target_constraint: second.constraint.clone(),
                origin_columns: first.columns.iter().map(|(a, b)| (b.clone(), a.clone())).collect(),
                target_columns: second.columns.clone(),
            };
            (first.foreign.clone(), second.foreign.clone(), junction)
        })
    })
}
