//! Relationships that clients can embed: foreign keys, and those derived from them for views that contain all columns
//! of a key.

use std::collections::{BTreeMap, HashMap};

use basalt_pg::view_origins::ViewOrigins;

use super::order::by_name;
use super::relation::{ForeignKey, Relation, Relationship};

/// A relation, and its names of a key's columns.
struct Side {
    relation: u32,
    columns: Vec<String>,
}

/// The relationships of each relation to relations of the same schema, sorted by key and relation.
pub(super) fn relationships(
    relations: &HashMap<u32, Relation>,
    keys: &[ForeignKey],
    views: &[u32],
    origins: &ViewOrigins,
) -> BTreeMap<u32, Vec<Relationship>> {
    let mut found: BTreeMap<u32, Vec<Relationship>> = BTreeMap::new();
    for key in keys {
        let sides = |table: u32, columns: &[i32]| {
            let table_itself =
                names(relations, table, columns).map(|columns| Side { relation: table, columns });
            let shown = views.iter().flat_map(|view| shown(relations, origins, *view, table, columns));
            table_itself.into_iter().chain(shown).collect::<Vec<Side>>()
        };
        let referenced = sides(key.referenced, &key.referenced_columns);
        for from in sides(key.relation, &key.columns) {
            for to in &referenced {
                let (Some(source), Some(target)) =
                    (relations.get(&from.relation), relations.get(&to.relation))
                else {
                    continue;
                };
                if source.schema == target.schema {
                    found.entry(from.relation).or_default().push(Relationship {
                        key: key.name.clone(),
                        columns: from.columns.clone(),
                        is_one_to_one: key.is_one_to_one,
                        referenced: target.name.clone(),
                        referenced_columns: to.columns.clone(),
                    });
                }
            }
        }
    }
    for list in found.values_mut() {
        list.sort_by(|a, b| {
            by_name(&a.key, &b.key)
                .then_with(|| by_name(&a.referenced, &b.referenced))
                .then_with(|| a.referenced_columns.cmp(&b.referenced_columns))
                .then_with(|| a.columns.cmp(&b.columns))
        });
    }
    found
}

fn names(relations: &HashMap<u32, Relation>, relation: u32, columns: &[i32]) -> Option<Vec<String>> {
    let relation = relations.get(&relation)?;
    let name = |number: &i32| relation.columns.iter().find(|column| column.number == *number);
    columns.iter().map(|number| Some(name(number)?.name.clone())).collect()
}

/// The ways in which a view exposes all of these columns; several if it exposes one of them twice.
fn shown(
    relations: &HashMap<u32, Relation>,
    origins: &ViewOrigins,
    view: u32,
    table: u32,
    columns: &[i32],
) -> Vec<Side> {
    let ways = columns.iter().fold(vec![Vec::new()], |ways: Vec<Vec<i32>>, column| {
        let positions: Vec<i32> = origins
            .of_view(view)
            .filter(|origin| origin.relation == table && origin.column == *column)
            .map(|origin| origin.position)
            .collect();
        ways.iter()
            .flat_map(|way| positions.iter().map(|position| way.iter().copied().chain([*position]).collect()))
            .collect()
    });
    let named = ways.iter().filter_map(|way| names(relations, view, way));
    named.map(|columns| Side { relation: view, columns }).collect()
}
