//! Derives relationships from foreign keys and functions.
//!
//! Views participate through the columns they show ([`crate::schema_cache::view_columns`]): a foreign key also
//! applies to a view in place of its table, if the view shows all columns of the key.

use std::collections::{HashMap, HashSet};

use super::{Junction, KeyPairs, Link, Relationship};
use crate::schema_cache::name::Name;
use crate::schema_cache::{QualifiedName, Relation};

/// A foreign key from the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Constraint name.
    pub constraint: Name,
    /// Relation with the foreign key.
    pub table: QualifiedName,
    /// Referenced relation.
    pub foreign: QualifiedName,
    /// Pairs of referencing and referenced column, in the constraint's order.
    pub columns: Vec<(Name, Name)>,
    /// Whether the referencing columns are a primary key or unique constraint.
    pub is_unique: bool,
}

/// Columns shown by each view.
pub type ShownColumns = HashMap<QualifiedName, Vec<ShownColumn>>;

/// A view column that shows a table column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownColumn {
    /// Column of the view.
    pub view_column: Name,
    /// Table that has the column.
    pub table: QualifiedName,
    /// Column of the table.
    pub table_column: Name,
}

/// A computed relationship from the catalog.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct ComputedRelationship {
    /// Function name.
    pub function: QualifiedName,
    /// Relation whose row the function takes.
    pub origin: QualifiedName,
    /// Relation whose rows the function returns.
    pub target: QualifiedName,
    /// Whether it returns at most one row.
    pub to_one: bool,
}

/// Sets the primary keys of views: the columns that show keys of their tables.
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
        // A join that shows several keys has all of them.
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
        .filter(move |shown| *shown.table_column == *column && shown.table == *table)
        .map(|shown| &shown.view_column)
}

/// Derives all relationships between exposed relations, in both directions.
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
    let is_exposed = |name: &QualifiedName| exposed.iter().any(|schema| **schema == *name.schema);
    // A computed relationship named after the target of a derived one replaces it for that origin.
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
        let forward = KeyPairs { constraint: key.constraint.clone(), columns: key.columns.clone() };
        let backward = KeyPairs {
            constraint: key.constraint.clone(),
            columns: key.columns.iter().map(|(a, b)| (b.clone(), a.clone())).collect(),
        };
        let (forward, backward) = if key.is_unique {
            (
                Link::OneToOne { keys: forward, is_parent: false },
                Link::OneToOne { keys: backward, is_parent: true },
            )
        } else {
            (Link::ManyToOne(forward), Link::OneToMany(backward))
        };
        add(&key.table, &key.foreign, forward);
        add(&key.foreign, &key.table, backward);
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

/// Returns the foreign keys, and for each view that shows all columns of one side a copy with the view in place of
/// the table.
fn with_views(keys: Vec<ForeignKey>, shown: &ShownColumns) -> Vec<ForeignKey> {
    // Indexed by table, because most tables have no view.
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
        let holders = substitutes(&key.table, own, holding);
        let foreigns = substitutes(&key.foreign, foreign, referred);
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

/// The table itself, and every view with the names under which it shows the columns (one entry per combination).
fn substitutes(
    table: &QualifiedName,
    columns: Vec<Name>,
    views: &[(&QualifiedName, &[ShownColumn])],
) -> Vec<(QualifiedName, Vec<Name>)> {
    let mut substitutes = Vec::new();
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
        substitutes.extend(combinations.into_iter().map(|names| ((*view).clone(), names)));
    }
    substitutes.insert(0, (table.clone(), columns));
    substitutes
}

/// Relations whose primary key contains two of their foreign keys, once per ordered pair.
fn junctions<'a>(
    keys: &'a [ForeignKey],
    relations: &'a [Relation],
) -> impl Iterator<Item = (QualifiedName, QualifiedName, Junction)> + 'a {
    let primary_keys: HashMap<(&str, &str), &[String]> =
        relations.iter().map(|r| ((&*r.schema, &*r.name), r.primary_key.as_slice())).collect();
    let mut by_table: HashMap<&QualifiedName, Vec<&ForeignKey>> = HashMap::new();
    for key in keys.iter().filter(|key| {
        let primary = primary_keys.get(&(&*key.table.schema, &*key.table.name));
        let is_in = |column: &Name, primary: &[String]| primary.iter().any(|name| **name == **column);
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
