//! Joins relations, columns and keys, which the catalog queries return as separate rows that refer to each other by
//! oid.

use std::collections::HashMap;
use std::fmt;

use basalt_pg::session::Row;
use serde::Deserialize;

use super::{LoadError, json};
use crate::rows::types::TextTypes;
use crate::schema_cache::name::{Name, Names};
use crate::schema_cache::relationships::ForeignKey;
use crate::schema_cache::view_columns::CatalogLookup;
use crate::schema_cache::{Column, QualifiedName, Relation};

/// Bits of `pg_relation_is_updatable`, numbered by command type.
const UPDATE: u32 = 1 << 2;
const INSERT: u32 = 1 << 3;
const DELETE: u32 = 1 << 4;

/// A type as returned by `types.sql`.
#[derive(Debug, Deserialize)]
pub(super) struct LoadedType {
    oid: i64,
    modifier: i64,
    type_name: Name,
    base_type: Name,
    not_null: bool,
    default: Option<Name>,
    max_length: Option<i32>,
    enum_labels: Vec<String>,
    base_oid: i64,
    /// Whether `to_json` represents its values by their text.
    is_text: bool,
}

/// Oids of the types that `to_json` represents by their text.
pub(super) fn text_types(types: &[LoadedType]) -> TextTypes {
    types.iter().filter(|kind| kind.is_text).map(LoadedType::base_oid).collect()
}

impl LoadedType {
    fn base_oid(&self) -> u32 {
        u32::try_from(self.base_oid).unwrap_or_default()
    }
}

/// Relations by oid.
pub(super) struct Tables {
    by_oid: HashMap<u32, Table>,
    names: Names,
}

struct Table {
    relation: Relation,
    is_partition: bool,
    /// Attribute numbers of `relation.columns`, in the same order.
    numbers: Vec<i32>,
    /// Attribute numbers of columns that are always generated.
    generated: Vec<i32>,
}

impl Table {
    fn column(&self, number: i32) -> Option<&Name> {
        let at = self.numbers.binary_search(&number).ok()?;
        self.relation.columns.get(at).map(|column| &column.name)
    }

    fn column_mut(&mut self, number: i32) -> Option<&mut Column> {
        let at = self.numbers.binary_search(&number).ok()?;
        self.relation.columns.get_mut(at)
    }
}

/// A foreign key with attribute numbers instead of names.
struct NumberedKey<'a> {
    name: &'a str,
    table: u32,
    columns: Vec<i32>,
    foreign: u32,
    foreign_columns: Vec<i32>,
}

/// Row count and sum of the transaction ids that wrote the rows, as in `fingerprint.sql`.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: u64,
    transactions: u64,
}

impl Tally {
    fn count(&mut self, transaction: Option<&str>) {
        self.rows += 1;
        self.transactions += parsed::<u64>(transaction).unwrap_or_default();
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rows, self.transactions)
    }
}

/// Tallies of the catalog rows read by a load, for the fingerprint.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) relations: Tally,
    pub(super) constraints: Tally,
    pub(super) columns: Tally,
}

impl Tables {
    /// Builds the relations.
    pub(super) fn new(rows: &[Row], tally: &mut Tally) -> Result<Self, LoadError> {
        let mut by_oid = HashMap::with_capacity(rows.len());
        let mut names = Names::default();
        for row in rows {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (oid, transaction) = (parsed::<u32>(next()), next());
            tally.count(transaction);
            let (Some(oid), Some(schema), Some(name)) = (oid, next(), next()) else { continue };
            let kind = next().unwrap_or_default();
            let is_partition = next() == Some("t");
            let commands = match kind {
                "r" | "p" => INSERT | UPDATE | DELETE,
                _ => parsed(next()).unwrap_or_default(),
            };
            let relation = Relation {
                schema: names.intern(schema),
                name: names.intern(name),
                is_view: matches!(kind, "v" | "m"),
                insertable: commands & INSERT != 0,
                updatable: commands & UPDATE != 0,
                deletable: commands & DELETE != 0,
                may_drop_rows: row.text(7) == Some("t"),
                partial_keys: row.text(8).map_or_else(|| Ok(Vec::new()), |text| json("relations", text))?,
                ..Relation::default()
            };
            by_oid.insert(oid, Table { relation, is_partition, numbers: Vec::new(), generated: Vec::new() });
        }
        Ok(Self { by_oid, names })
    }

    /// Adds the columns to their relations.
    pub(super) fn columns(&mut self, rows: &[Row], types: Vec<LoadedType>, tally: &mut Tally) {
        let types: HashMap<(i64, i64), LoadedType> =
            types.into_iter().map(|kind| ((kind.oid, kind.modifier), kind)).collect();
        for row in rows {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (oid, transaction) = (parsed::<u32>(next()), next());
            tally.count(transaction);
            let (Some(oid), Some(number), Some(name)) = (oid, parsed::<i32>(next()), next()) else {
                continue;
            };
            let kind = types.get(&(parsed(next()).unwrap_or_default(), parsed(next()).unwrap_or_default()));
            let (Some(table), Some(kind)) = (self.by_oid.get_mut(&oid), kind) else { continue };
            let (is_not_null, is_generated) = (next() == Some("t"), next() == Some("t"));
            let column = Column {
                name: self.names.intern(name),
                type_name: kind.type_name.clone(),
                base_type: kind.base_type.clone(),
                nullable: !(is_not_null || kind.not_null),
                default: kind.default.clone().filter(|_| !is_generated),
                max_length: kind.max_length,
                enum_labels: kind.enum_labels.clone(),
                comment: None,
                type_oid: kind.base_oid(),
            };
            // The rows arrive nearly in order.
            let at = table.numbers.partition_point(|before| *before < number);
            table.numbers.insert(at, number);
            table.relation.columns.insert(at, column);
            if is_generated {
                table.generated.push(number);
            }
        }
    }

    /// Sets the defaults of columns.
    pub(super) fn defaults(&mut self, rows: &[Row]) {
        for row in rows {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (oid, number) = (parsed(next()), parsed(next()));
            if let (Some(oid), Some(number), Some(expression)) = (oid, number, next())
                && let Some(table) = self.by_oid.get_mut(&oid)
                && !table.generated.contains(&number)
                && let Some(column) = table.column_mut(number)
            {
                column.default = Some(self.names.intern(expression));
            }
        }
    }

    /// Sets the comments of relations and columns.
    pub(super) fn comments(&mut self, rows: &[Row]) {
        for row in rows {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (Some(oid), Some(number)) = (parsed(next()), parsed::<i32>(next())) else { continue };
            let Some(table) = self.by_oid.get_mut(&oid) else { continue };
            let comment = next().map(str::to_owned);
            if number == 0 {
                table.relation.comment = comment;
            } else if let Some(column) = table.column_mut(number) {
                column.comment = comment;
            }
        }
    }

    /// Sets the primary keys of relations; returns the foreign keys in order of table and name.
    pub(super) fn keys(&mut self, constraints: &[Row], tally: &mut Tally) -> Vec<ForeignKey> {
        let mut unique: HashMap<u32, Vec<Vec<i32>>> = HashMap::new();
        let mut foreign = Vec::new();
        for row in constraints {
            let mut cells = texts(row);
            let mut next = || cells.next().flatten();
            let (table, transaction) = (parsed::<u32>(next()), next());
            tally.count(transaction);
            let (Some(table), Some(kind), Some(name)) = (table, next(), next()) else { continue };
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
                    columns.iter().filter_map(|number| table.column(*number)).map(Name::to_string).collect();
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
        let names = pairs
            .map(|(own, referred)| Some((table.column(*own)?.clone(), foreign.column(*referred)?.clone())));
        let own = sorted(key.columns.clone());
        Some(ForeignKey {
            constraint: Name::from(key.name),
            table: table.relation.qualified_name(),
            foreign: foreign.relation.qualified_name(),
            columns: names.collect::<Option<_>>()?,
            is_unique: unique.get(&key.table).is_some_and(|keys| keys.contains(&own)),
        })
    }

    /// The relations that requests may name.
    pub(super) fn into_relations(self) -> Vec<Relation> {
        self.by_oid.into_values().filter(|table| !table.is_partition).map(|table| table.relation).collect()
    }
}

impl CatalogLookup for Tables {
    fn relation(&self, oid: u32) -> Option<QualifiedName> {
        self.by_oid.get(&oid).map(|table| table.relation.qualified_name())
    }

    fn column(&self, oid: u32, number: i32) -> Option<Name> {
        self.by_oid.get(&oid)?.column(number).cloned()
    }
}

fn texts(row: &Row) -> impl Iterator<Item = Option<&str>> {
    row.cells().map(|cell| std::str::from_utf8(cell?).ok())
}

fn parsed<T: std::str::FromStr>(cell: Option<&str>) -> Option<T> {
    cell?.parse().ok()
}

/// Parses an array of attribute numbers: `{1,2}`.
fn numbers(cell: Option<&str>) -> Vec<i32> {
    let inner = cell.unwrap_or_default().trim_matches(['{', '}']);
    inner.split(',').filter_map(|number| number.parse().ok()).collect()
}

fn sorted(mut numbers: Vec<i32>) -> Vec<i32> {
    numbers.sort_unstable();
    numbers
}
