//! A JSON body, read once: which keys its objects have and, where all their values are scalars, the values by column.
//!
//! Values are skipped or cut out, never built: they may be large, nested without end, or numbers that no type of ours
//! holds.
//!
//! PostgreSQL reads a value of `json_to_record` as it reads a literal: a string without its escapes, a number or boolean
//! as it is written, and null as NULL. So such values can be parameters as well, and PostgreSQL then parses no JSON. An
//! object or array in a value, a key that comes twice, or a character that PostgreSQL refuses leave all of the body to
//! PostgreSQL, and so does anything else that is odd.

mod value;

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{JsonShape, MOST_KEYS, Values};
use value::{Cell, List};

/// A longer body goes to PostgreSQL as it came: what is made of it here would be held besides.
const LONGEST_BYTES: usize = 256 * 1024;

/// What of a JSON body decides how it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Keys of the object, or of the first in the array; in order, without doubles.
    pub(super) keys: Vec<String>,
    /// What it is.
    pub(super) shape: JsonShape,
    /// The values of the keys, if they were wanted and are scalars.
    pub(super) values: Option<Values>,
}

/// Reads a JSON body, or finds that it is none.
pub(super) fn read(body: &Bytes, with_values: bool) -> Option<Read> {
    let text = std::str::from_utf8(body).ok().filter(|text| value::has_whole_surrogates(text))?;
    let mut input = serde_json::Deserializer::from_str(text);
    let with_values = with_values && body.len() <= LONGEST_BYTES;
    let read =
        input.deserialize_any(Outside { body, with_values }).and_then(|read| input.end().map(|()| read));
    read.ok().or_else(|| beyond_numbers(text))
}

/// JSON that the parser refuses for a number in the place of an object, too large for a type of ours: a scalar, or an array
/// that holds one. PostgreSQL has no such limit.
fn beyond_numbers(text: &str) -> Option<Read> {
    let shape = match serde_json::from_str::<&RawValue>(text).ok()?.get().as_bytes() {
        [b'[', ..] => JsonShape::Mixed,
        _ => JsonShape::Empty,
    };
    Some(Read { keys: Vec::new(), shape, values: None })
}

/// The values of these columns, which are in order and without doubles; other keys are left out, as `columns=` has it,
/// and those that are missing are NULL.
pub(super) fn values(body: &Bytes, columns: &[String], shape: JsonShape) -> Option<Values> {
    if body.len() > LONGEST_BYTES {
        return None;
    }
    let mut input = serde_json::Deserializer::from_str(std::str::from_utf8(body).ok()?);
    let mut columns = Columns::new(columns.to_vec());
    let mut row = Row::of(&columns);
    let values = match shape {
        JsonShape::Object => {
            Object { columns: &mut columns, row: &mut row, with_values: true }
                .deserialize(&mut input)
                .ok()?;
            row.is_flat.then(|| row.cells.into_iter().map(|cell| value::bytes(cell, body)).collect())?
        }
        JsonShape::Array => input.deserialize_seq(Rows { columns, row, most: body.len() }).ok()?,
        JsonShape::Mixed | JsonShape::Empty => return None,
    };
    input.end().ok()?;
    Some(values)
}

/// Columns by name, in order, and after each the one that came after it last: objects of one client are alike.
struct Columns {
    names: Vec<String>,
    /// The first of an object, then for each column the next.
    next: Vec<usize>,
}

impl Columns {
    fn new(names: Vec<String>) -> Self {
        Self { next: (0..=names.len()).collect(), names }
    }

    /// The column of this name; `slot` is 0 for the first of an object, and then one more than the last that was found.
    fn find(&mut self, slot: usize, name: &str) -> Option<usize> {
        let next = self.next.get_mut(slot)?;
        if self.names.get(*next).is_none_or(|expected| expected != name) {
            *next = self.names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        }
        Some(*next)
    }

    /// Nothing yet of each column, with room for so many bytes if the values are of one length.
    fn lists(&self, bytes: usize) -> Vec<List> {
        let each = bytes / self.names.len().max(1) + 2;
        self.names.iter().map(|_| List::new(each)).collect()
    }
}

/// One object's values, by column.
struct Row<'de> {
    cells: Vec<Cell<'de>>,
    /// A null looks as if nothing had come.
    seen: Vec<bool>,
    /// Its keys are the columns.
    is_same: bool,
    /// Its values are scalars and can be told apart.
    is_flat: bool,
}

impl Row<'_> {
    fn of(columns: &Columns) -> Self {
        let count = columns.names.len();
        Self { cells: vec![None; count], seen: vec![false; count], is_same: false, is_flat: false }
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

/// The whole body.
struct Outside<'a> {
    body: &'a Bytes,
    with_values: bool,
}

impl<'de> Visitor<'de> for Outside<'_> {
    type Value = Read;

    scalars!(Read { keys: Vec::new(), shape: JsonShape::Empty, values: None });

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Read, A::Error> {
        let First { keys, cells, .. } = First::read(map, self.with_values)?;
        let bytes =
            |cells: Vec<Cell<'_>>| cells.into_iter().map(|cell| value::bytes(cell, self.body)).collect();
        Ok(Read { keys, shape: JsonShape::Object, values: cells.map(bytes) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Read, A::Error> {
        let Some(first) = elements.next_element_seed(FirstElement { with_values: self.with_values })? else {
            return Ok(Read { keys: Vec::new(), shape: JsonShape::Empty, values: None });
        };
        let mut is_uniform = first.is_some();
        let First { keys, cells, is_short } = first.unwrap_or_default();
        let mut columns = Columns::new(keys);
        let mut row = Row::of(&columns);
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
            is_uniform &= row.is_same || is_short;
            lists = lists.filter(|_| row.is_same && row.is_flat);
            if let Some(lists) = &mut lists {
                row.push_to(lists);
            }
        }
        let values = lists.map(|lists| lists.into_iter().map(|list| Some(list.end())).collect());
        let shape = if is_uniform { JsonShape::Array } else { JsonShape::Mixed };
        Ok(Read { keys: columns.names, shape, values })
    }
}

/// An object whose keys are not known yet.
#[derive(Default)]
struct First<'de> {
    /// In order, without doubles.
    keys: Vec<String>,
    /// Their values, if all are wanted and scalars.
    cells: Option<Vec<Cell<'de>>>,
    /// Not all keys are here.
    is_short: bool,
}

impl<'de> First<'de> {
    fn read<A: MapAccess<'de>>(mut map: A, with_values: bool) -> Result<Self, A::Error> {
        let mut members: Vec<(String, Cell<'de>)> = Vec::new();
        let (mut is_flat, mut is_short) = (with_values, false);
        while let Some(key) = map.next_key::<String>()? {
            let raw = map.next_value::<&RawValue>()?.get();
            let cell = if is_flat { value::scalar(raw).filter(|_| !key.contains('\0')) } else { None };
            is_flat = cell.is_some();
            // Of too many the first in order stay, one more than are told apart; doubles go first, so that none of those
            // that count is lost.
            if members.len() >= 2 * MOST_KEYS {
                sort(&mut members);
                is_short |= members.len() > MOST_KEYS;
                members.truncate(MOST_KEYS + 1);
                is_flat = false;
            }
            members.push((key, cell.flatten()));
        }
        let count = members.len();
        sort(&mut members);
        is_flat &= members.len() == count && count > 0;
        let (keys, cells): (_, Vec<_>) = members.into_iter().unzip();
        Ok(Self { keys, cells: is_flat.then_some(cells), is_short })
    }
}

fn sort(members: &mut Vec<(String, Cell<'_>)>) {
    members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    members.dedup_by(|(one, _), (other, _)| one == other);
}

/// The first element of an array; `None` if it is no object.
struct FirstElement {
    with_values: bool,
}

impl<'de> DeserializeSeed<'de> for FirstElement {
    type Value = Option<First<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FirstElement {
    type Value = Option<First<'de>>;

    scalars!(None);

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        First::read(map, self.with_values).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Self::Value, A::Error> {
        skip(elements).map(|()| None)
    }
}

/// An object, or what stands in its place, read into `row`.
struct Object<'a, 'de> {
    columns: &'a mut Columns,
    row: &'a mut Row<'de>,
    with_values: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        (self.row.is_same, self.row.is_flat) = (false, false);
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
            is_flat = cell.is_some() && key != Found::Refused;
            let Found::Column(index) = key else {
                has_others = true;
                continue;
            };
            if let (Some(place), Some(seen)) = (row.cells.get_mut(index), row.seen.get_mut(index)) {
                let is_double = std::mem::replace(seen, true);
                is_flat &= !is_double;
                found += usize::from(!is_double);
                *place = cell.flatten();
            }
            slot = index + 1;
        }
        row.is_flat = is_flat;
        row.is_same = !has_others && found == columns.names.len();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<(), A::Error> {
        skip(elements)
    }
}

/// Which column a key is.
struct Key<'a> {
    columns: &'a mut Columns,
    slot: usize,
}

#[derive(PartialEq, Eq)]
enum Found {
    Column(usize),
    Other,
    /// PostgreSQL takes no such key.
    Refused,
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
            None if key.contains('\0') => Found::Refused,
            None => Found::Other,
        })
    }
}

/// An array of objects of known columns; an error if PostgreSQL has to read it.
struct Rows<'de> {
    columns: Columns,
    row: Row<'de>,
    /// Bytes of the body, and so the most values there may be: beyond, they are NULLs for keys that are missing.
    most: usize,
}

impl<'de> Visitor<'de> for Rows<'de> {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of flat objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Values, A::Error> {
        let Self { mut columns, mut row, mut most } = self;
        let mut lists = columns.lists(most);
        loop {
            let object = Object { columns: &mut columns, row: &mut row, with_values: true };
            if elements.next_element_seed(object)?.is_none() {
                return Ok(lists.into_iter().map(|list| Some(list.end())).collect());
            }
            let left = most.checked_sub(row.cells.len()).filter(|_| row.is_flat);
            most = left.ok_or_else(|| A::Error::custom("odd, or mostly missing"))?;
            row.push_to(&mut lists);
        }
    }
}

#[cfg(test)]
mod tests;
