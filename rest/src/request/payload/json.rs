//! Parses a JSON body in one pass: the keys of its objects and, if all values are scalars, the values by column.
//!
//! Values are skipped or sliced, never built: they may be large, deeply nested, or numbers that no Rust type can
//! hold.
//!
//! `json_to_record` reads a scalar the same way as a literal: a string without its escapes, a number or boolean as
//! written, and null as NULL. Such values can therefore be passed as parameters, which spares PostgreSQL from parsing
//! JSON. A body with an object or array as a value, a repeated key, a character that PostgreSQL rejects, or anything
//! else unusual is left to PostgreSQL entirely.

mod value;

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{JsonShape, MAX_KEYS, Values};
use value::{Cell, List};

/// Longer bodies are passed to PostgreSQL unparsed, because decoded values would double their memory.
const MAX_DECODED_BYTES: usize = 256 * 1024;

/// Keys, structure and values of a JSON body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedBody {
    /// Distinct keys of the object, or of the first object in an array, in alphabetical order.
    pub(super) keys: Vec<String>,
    /// Structure of the body.
    pub(super) shape: JsonShape,
    /// Values by key, if they were requested and are scalars.
    pub(super) values: Option<Values>,
}

/// Parses a JSON body; `None` if it is not valid JSON.
pub(super) fn read(body: &Bytes, with_values: bool) -> Option<ParsedBody> {
    let text = std::str::from_utf8(body).ok().filter(|text| value::has_paired_surrogates(text))?;
    let mut input = serde_json::Deserializer::from_str(text);
    let with_values = with_values && body.len() <= MAX_DECODED_BYTES;
    let read =
        input.deserialize_any(BodyVisitor { body, with_values }).and_then(|read| input.end().map(|()| read));
    read.ok().or_else(|| parse_oversized_number(text))
}

/// Handles valid JSON that the parser rejects because a number in place of an object is too large: a scalar, or an
/// array that contains one. PostgreSQL has no such limit.
fn parse_oversized_number(text: &str) -> Option<ParsedBody> {
    let shape = match serde_json::from_str::<&RawValue>(text).ok()?.get().as_bytes() {
        [b'[', ..] => JsonShape::Mixed,
        _ => JsonShape::Empty,
    };
    Some(ParsedBody { keys: Vec::new(), shape, values: None })
}

/// Values of the given columns, which are sorted and distinct. Other keys are ignored, as `columns=` specifies, and
/// missing ones are NULL.
pub(super) fn values(body: &Bytes, columns: &[String], shape: JsonShape) -> Option<Values> {
    if body.len() > MAX_DECODED_BYTES {
        return None;
    }
    let mut input = serde_json::Deserializer::from_str(std::str::from_utf8(body).ok()?);
    let mut columns = Columns::new(columns.to_vec());
    let mut row = Row::new(&columns);
    let values = match shape {
        JsonShape::Object => {
            Object { columns: &mut columns, row: &mut row, with_values: true }
                .deserialize(&mut input)
                .ok()?;
            row.is_flat.then(|| row.cells.into_iter().map(|cell| value::bytes(cell, body)).collect())?
        }
        JsonShape::Array => input.deserialize_seq(Rows { columns, row, max_values: body.len() }).ok()?,
        JsonShape::Mixed | JsonShape::Empty => return None,
    };
    input.end().ok()?;
    Some(values)
}

/// Columns by name, each with the column that last followed it: a client's objects usually have their keys in the
/// same order.
struct Columns {
    names: Vec<String>,
    /// Index of an object's first column, then of the successor of each column.
    next: Vec<usize>,
}

impl Columns {
    fn new(names: Vec<String>) -> Self {
        Self { next: (0..=names.len()).collect(), names }
    }

    /// Finds a column by name; `slot` is 0 for the first key of an object, and otherwise the last index found plus
    /// one.
    fn find(&mut self, slot: usize, name: &str) -> Option<usize> {
        let next = self.next.get_mut(slot)?;
        if self.names.get(*next).is_none_or(|expected| expected != name) {
            *next = self.names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        }
        Some(*next)
    }

    /// Empty value lists, sized for `bytes` in total if all values have the same length.
    fn lists(&self, bytes: usize) -> Vec<List> {
        let each = bytes / self.names.len().max(1) + 2;
        self.names.iter().map(|_| List::new(each)).collect()
    }
}

/// Values of one object, by column.
struct Row<'de> {
    cells: Vec<Cell<'de>>,
    /// Distinguishes a null from a missing key.
    seen: Vec<bool>,
    /// Whether the keys are exactly the columns.
    has_same_keys: bool,
    /// Whether all values are scalars and no key repeats.
    is_flat: bool,
}

impl Row<'_> {
    fn new(columns: &Columns) -> Self {
        let count = columns.names.len();
        Self { cells: vec![None; count], seen: vec![false; count], has_same_keys: false, is_flat: false }
    }

    fn push_to(&mut self, lists: &mut [List]) {
        for (list, cell) in lists.iter_mut().zip(&mut self.cells) {
            list.push(cell.take().as_deref());
        }
    }
}

macro_rules! scalars {
    ($result:expr; $($method:ident: $type:ty),+) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> { Ok($result) })+
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($result) }
    };
    ($result:expr) => {
        scalars!($result; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }
    };
}

fn skip<'de, A: SeqAccess<'de>>(mut elements: A) -> Result<(), A::Error> {
    while elements.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Visits the body.
struct BodyVisitor<'a> {
    body: &'a Bytes,
    with_values: bool,
}

impl<'de> Visitor<'de> for BodyVisitor<'_> {
    type Value = ParsedBody;

    scalars!(ParsedBody { keys: Vec::new(), shape: JsonShape::Empty, values: None });

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ParsedBody, A::Error> {
        let FirstObject { keys, cells, .. } = FirstObject::read(map, self.with_values)?;
        let bytes =
            |cells: Vec<Cell<'_>>| cells.into_iter().map(|cell| value::bytes(cell, self.body)).collect();
        Ok(ParsedBody { keys, shape: JsonShape::Object, values: cells.map(bytes) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<ParsedBody, A::Error> {
        let Some(first) = elements.next_element_seed(FirstElement { with_values: self.with_values })? else {
            return Ok(ParsedBody { keys: Vec::new(), shape: JsonShape::Empty, values: None });
        };
        let mut is_uniform = first.is_some();
        let FirstObject { keys, cells, is_truncated } = first.unwrap_or_default();
        let mut columns = Columns::new(keys);
        let mut row = Row::new(&columns);
        let mut lists = cells.map(|cells| {
            let mut lists = columns.lists(self.body.len());
            row.cells = cells;
            row.push_to(&mut lists);
            lists
        });
        loop {
            let with_values = lists.is_some();
            let object = Object { columns: &mut columns, row: &mut row, with_values };
            if elements.next_element_seed(object)?.is_none() {
                break;
            }
            is_uniform &= row.has_same_keys || is_truncated;
            lists = lists.filter(|_| row.has_same_keys && row.is_flat);
            if let Some(lists) = &mut lists {
                row.push_to(lists);
            }
        }
        let values = lists.map(|lists| lists.into_iter().map(|list| Some(list.end())).collect());
        let shape = if is_uniform { JsonShape::Array } else { JsonShape::Mixed };
        Ok(ParsedBody { keys: columns.names, shape, values })
    }
}

/// The first object, which defines the keys.
#[derive(Default)]
struct FirstObject<'de> {
    /// Distinct keys in alphabetical order.
    keys: Vec<String>,
    /// Values by key, if they were requested and are scalars.
    cells: Option<Vec<Cell<'de>>>,
    /// Whether keys were dropped.
    is_truncated: bool,
}

impl<'de> FirstObject<'de> {
    fn read<A: MapAccess<'de>>(mut map: A, with_values: bool) -> Result<Self, A::Error> {
        let mut members: Vec<(String, Cell<'de>)> = Vec::new();
        let (mut is_flat, mut is_truncated) = (with_values, false);
        while let Some(key) = map.next_key::<String>()? {
            let raw = map.next_value::<&RawValue>()?.get();
            let cell = if is_flat { value::scalar(raw).filter(|_| !key.contains('\0')) } else { None };
            is_flat = cell.is_some();
            // If there are too many keys, keep the alphabetically first ones, one more than the limit. Duplicates are
            // removed before, so that no key within the limit is lost.
            if members.len() >= 2 * MAX_KEYS {
                sort(&mut members);
                is_truncated |= members.len() > MAX_KEYS;
                members.truncate(MAX_KEYS + 1);
                is_flat = false;
            }
            members.push((key, cell.flatten()));
        }
        let count = members.len();
        sort(&mut members);
        is_flat &= members.len() == count && count > 0;
        let (keys, cells): (_, Vec<_>) = members.into_iter().unzip();
        Ok(Self { keys, cells: is_flat.then_some(cells), is_truncated })
    }
}

fn sort(members: &mut Vec<(String, Cell<'_>)>) {
    members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    members.dedup_by(|(one, _), (other, _)| one == other);
}

/// The first element of an array; `None` if it is not an object.
struct FirstElement {
    with_values: bool,
}

impl<'de> DeserializeSeed<'de> for FirstElement {
    type Value = Option<FirstObject<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FirstElement {
    type Value = Option<FirstObject<'de>>;

    scalars!(None);

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        FirstObject::read(map, self.with_values).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Self::Value, A::Error> {
        skip(elements).map(|()| None)
    }
}

/// An element of an array, read into `row` if it is an object.
struct Object<'a, 'de> {
    columns: &'a mut Columns,
    row: &'a mut Row<'de>,
    with_values: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        (self.row.has_same_keys, self.row.is_flat) = (false, false);
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, 'de> {
    type Value = ();

    scalars!(());

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { columns, row, with_values } = self;
        row.seen.fill(false);
        let (mut is_flat, mut has_others, mut found, mut slot) = (with_values, false, 0, 0);
        while let Some(key) = map.next_key_seed(Key { columns, slot })? {
            let raw = map.next_value::<&RawValue>()?.get();
            let cell = if is_flat { value::scalar(raw) } else { None };
            is_flat = cell.is_some() && key != Found::Invalid;
            let Found::Column(index) = key else {
                has_others = true;
                continue;
            };
            if let (Some(cell_slot), Some(seen)) = (row.cells.get_mut(index), row.seen.get_mut(index)) {
                let is_double = std::mem::replace(seen, true);
                is_flat &= !is_double;
                found += usize::from(!is_double);
                *cell_slot = cell.flatten();
            }
            slot = index + 1;
        }
        row.is_flat = is_flat;
        row.has_same_keys = !has_others && found == columns.names.len();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<(), A::Error> {
        skip(elements)
    }
}

/// Resolves a key to its column.
struct Key<'a> {
    columns: &'a mut Columns,
    slot: usize,
}

#[derive(PartialEq, Eq)]
enum Found {
    Column(usize),
    Other,
    /// PostgreSQL rejects such a key.
    Invalid,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Found, D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Found, E> {
        Ok(match self.columns.find(self.slot, key) {
            Some(index) => Found::Column(index),
            None if key.contains('\0') => Found::Invalid,
            None => Found::Other,
        })
    }
}

/// An array of objects with known columns; an error if PostgreSQL has to read it.
struct Rows<'de> {
    columns: Columns,
    row: Row<'de>,
    /// Maximum number of values, namely the size of the body in bytes. More values can only be NULLs for missing
    /// keys.
    max_values: usize,
}

impl<'de> Visitor<'de> for Rows<'de> {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of flat objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Values, A::Error> {
        let Self { mut columns, mut row, mut max_values } = self;
        let mut lists = columns.lists(max_values);
        loop {
            let object = Object { columns: &mut columns, row: &mut row, with_values: true };
            if elements.next_element_seed(object)?.is_none() {
                return Ok(lists.into_iter().map(|list| Some(list.end())).collect());
            }
            let remaining = max_values.checked_sub(row.cells.len()).filter(|_| row.is_flat);
            max_values = remaining.ok_or_else(|| A::Error::custom("not flat, or too many missing keys"))?;
            row.push_to(&mut lists);
        }
    }
}

#[cfg(test)]
mod tests;
