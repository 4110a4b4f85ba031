//! Relations, columns and keys put together from what the catalog keeps apart: rows that name each other by number.

use std::collections::HashMap;
use std::fmt;

use basalt_pg::session::Row;
use serde::Deserialize;

use super::{LoadError, json};
use crate::rows::types::TextTypes;
use crate::schema_cache::name::{Name, Names};
use crate::schema_cache::relationships::ForeignKey;
use crate::schema_cache::view_columns::Numbered;
use crate::schema_cache::{Column, QualifiedName, Relation};

/// `pg_relation_is_updatable` says what works by the numbers of these commands, as bits.
const UPDATE: u32 = 1 << 2;
const INSERT: u32 = 1 << 3;
const DELETE: u32 = 1 << 4;

/// A type as `types.sql` gives it.
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
    names: Names,
}

struct Table {
    relation: Relation,
    is_partition: bool,
    /// Attribute numbers of `relation.columns`, in their order.
    numbers: Vec<i32>,
    /// Of those that are always generated.
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

/// A foreign key by numbers.
struct NumberedKey<'a> {
    name: &'a str,
    table: u32,
    columns: Vec<i32>,
    foreign: u32,
    foreign_columns: Vec<i32>,
}

/// How many rows, and the sum of the transactions that wrote them: what `fingerprint.sql` counts.
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

/// What a load has read of the versions of things.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) relations: Tally,
    pub(super) constraints: Tally,
    pub(super) columns: Tally,
}

impl Tables {
    /// Reads the relations.
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
                schema: names.get(schema),
                name: names.get(name),
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

    /// Gives each relation its columns.
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
                name: self.names.get(name),
                type_name: kind.type_name.clone(),
                base_type: kind.base_type.clone(),
                nullable: !(is_not_null || kind.not_null),
                default: kind.default.clone().filter(|_| !is_generated),
                max_length: kind.max_length,
                enum_labels: kind.enum_labels.clone(),
                comment: None,
                type_oid: kind.base_oid(),
            };
            // They come in order or nearly so.
            let at = table.numbers.partition_point(|before| *before < number);
            table.numbers.insert(at, number);
            table.relation.columns.insert(at, column);
            if is_generated {
                table.generated.push(number);
            }
        }
    }

    /// Gives columns their own defaults.
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
                column.default = Some(self.names.get(expression));
            }
        }
    }

    /// Gives relations and columns their comments.
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

    /// Gives each relation its primary key; the foreign keys, in the order of their tables and names.
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

impl Numbered for Tables {
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

/// `{1,2}`
fn numbers(cell: Option<&str>) -> Vec<i32> {
    let inner = cell.unwrap_or_default().trim_matches(['{', '}']);
    inner.split(',').filter_map(|number| number.parse().ok()).collect()
}

fn sorted(mut numbers: Vec<i32>) -> Vec<i32> {
    numbers.sort_unstable();
    numbers
}
