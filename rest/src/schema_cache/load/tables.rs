//! Relations, columns and keys put together from what the catalog keeps apart: rows that name each other by number.

use std::collections::HashMap;

use basalt_core::session::Row;
use serde::Deserialize;

use crate::rows::types::TextTypes;
use crate::schema_cache::relationships::ForeignKey;
use crate::schema_cache::view_columns::NumberedRelation;
use crate::schema_cache::{Column, QualifiedName, Relation};

/// A relation as `relations.sql` gives it.
#[derive(Debug, Deserialize)]
pub(super) struct LoadedRelation {
    oid: u32,
    is_partition: bool,
    relation: Relation,
}

/// A type as `types.sql` gives it.
#[derive(Debug, Deserialize)]
pub(super) struct LoadedType {
    oid: i64,
    modifier: i64,
    type_name: String,
    base_type: String,
    not_null: bool,
    default: Option<String>,
    max_length: Option<i32>,
    enum_labels: Vec<String>,
    base_oid: i64,
    /// `to_json` shows its values as their text.
    is_text: bool,
}

/// The numbers of the types that `to_json` shows as their text.
pub(super) fn text_types(types: &[LoadedType]) -> TextTypes {
    types.iter().filter(|kind| kind.is_text).map(LoadedType::base_oid).collect()
}

impl LoadedType {
    fn base_oid(&self) -> u32 {
        u32::try_from(self.base_oid).unwrap_or_default()
    }
}

/// Everything that has rows, by its number.
pub(super) struct Tables {
    by_oid: HashMap<u32, Table>,
}

struct Table {
    relation: Relation,
    is_partition: bool,
    /// Attribute numbers of `relation.columns`, in their order.
    numbers: Vec<i32>,
}

impl Table {
    fn column(&self, number: i32) -> Option<&str> {
        let at = self.numbers.binary_search(&number).ok()?;
        self.relation.columns.get(at).map(|column| column.name.as_str())
    }
}

/// A foreign key by numbers.
struct NumberedKey<'a> {
    name: &'a str,
    table: u32,
    columns: Vec<i32>,
    foreign: u32,
    foreign_columns: Vec<i32>,
}

impl Tables {
    /// Gives each relation its columns.
    pub(super) fn new(relations: Vec<LoadedRelation>, types: Vec<LoadedType>, columns: &[Row]) -> Self {
        let types: HashMap<(i64, i64), LoadedType> =
            types.into_iter().map(|kind| ((kind.oid, kind.modifier), kind)).collect();
        let mut by_oid: HashMap<u32, Table> = relations
            .into_iter()
            .map(|LoadedRelation { oid, is_partition, relation }| {
                (oid, Table { relation, is_partition, numbers: Vec::new() })
            })
            .collect();
        for row in columns {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (Some(oid), Some(number), Some(name)) =
                (parsed::<u32>(next()), parsed::<i32>(next()), next())
            else {
                continue;
            };
            let kind = types.get(&(parsed(next()).unwrap_or_default(), parsed(next()).unwrap_or_default()));
            let (Some(table), Some(kind)) = (by_oid.get_mut(&oid), kind) else { continue };
            let (is_not_null, is_generated) = (next() == Some("t"), next() == Some("t"));
            let (default, comment) = (next().map(str::to_owned), next().map(str::to_owned));
            table.numbers.push(number);
            table.relation.columns.push(Column {
                name: name.to_owned(),
                type_name: kind.type_name.clone(),
                base_type: kind.base_type.clone(),
                nullable: !(is_not_null || kind.not_null),
                default: default.or_else(|| kind.default.clone().filter(|_| !is_generated)),
                max_length: kind.max_length,
                enum_labels: kind.enum_labels.clone(),
                comment,
                type_oid: kind.base_oid(),
            });
        }
        Self { by_oid }
    }

    /// Gives each relation its primary key; the foreign keys, in the order of their tables and names.
    pub(super) fn keys(&mut self, constraints: &[Row]) -> Vec<ForeignKey> {
        let mut unique: HashMap<u32, Vec<Vec<i32>>> = HashMap::new();
        let mut foreign = Vec::new();
        for row in constraints {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (Some(kind), Some(name), Some(table)) = (next(), next(), parsed::<u32>(next())) else {
                continue;
            };
            let columns = numbers(next());
            if kind == "f" {
                let (Some(to), foreign_columns) = (parsed(next()), numbers(next())) else { continue };
                foreign.push(NumberedKey { name, table, columns, foreign: to, foreign_columns });
                continue;
            }
            if kind == "p"
                && let Some(table) = self.by_oid.get_mut(&table)
            {
                let mut key: Vec<String> =
                    columns.iter().filter_map(|number| table.column(*number)).map(str::to_owned).collect();
                key.sort();
                table.relation.primary_key = key;
            }
            unique.entry(table).or_default().push(sorted(columns));
        }
        let mut keys: Vec<ForeignKey> =
            foreign.iter().filter_map(|key| self.foreign_key(key, &unique)).collect();
        keys.sort_by(|a, b| (&a.table, &a.constraint).cmp(&(&b.table, &b.constraint)));
        keys
    }

    fn foreign_key(&self, key: &NumberedKey<'_>, unique: &HashMap<u32, Vec<Vec<i32>>>) -> Option<ForeignKey> {
        let (table, foreign) = (self.by_oid.get(&key.table)?, self.by_oid.get(&key.foreign)?);
        let pairs = key.columns.iter().zip(&key.foreign_columns);
        let names = pairs.map(|(own, referred)| {
            Some((table.column(*own)?.to_owned(), foreign.column(*referred)?.to_owned()))
        });
        let own = sorted(key.columns.clone());
        Some(ForeignKey {
            constraint: key.name.to_owned(),
            table: table.relation.qualified_name(),
            foreign: foreign.relation.qualified_name(),
            columns: names.collect::<Option<_>>()?,
            is_unique: unique.get(&key.table).is_some_and(|keys| keys.contains(&own)),
        })
    }

    /// Names by number, for reading the stored queries of views.
    pub(super) fn numbered(&self) -> Vec<NumberedRelation> {
        let numbered = self.by_oid.iter().map(|(oid, table)| NumberedRelation {
            oid: *oid,
            relation: QualifiedName::new(&*table.relation.schema, &*table.relation.name),
            columns: table
                .numbers
                .iter()
                .zip(&table.relation.columns)
                .map(|(number, column)| (*number, column.name.clone()))
                .collect(),
        });
        numbered.collect()
    }

    /// The relations that requests may name.
    pub(super) fn into_relations(self) -> Vec<Relation> {
        self.by_oid.into_values().filter(|table| !table.is_partition).map(|table| table.relation).collect()
    }
}

fn texts(row: &Row) -> impl Iterator<Item = Option<&str>> {
    row.cells().map(|cell| std::str::from_utf8(cell?).ok())
}

fn parsed<T: std::str::FromStr>(cell: Option<&str>) -> Option<T> {
    cell?.parse().ok()
}

/// `{1,2}`
fn numbers(cell: Option<&str>) -> Vec<i32> {
    let inner = cell.unwrap_or_default().trim_matches(['{', '}']);
    inner.split(',').filter_map(|number| number.parse().ok()).collect()
}

fn sorted(mut numbers: Vec<i32>) -> Vec<i32> {
    numbers.sort_unstable();
    numbers
}
