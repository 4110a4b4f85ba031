//! Rows in text format, written as the JSON that `json_agg` would have made of them, to the byte.
//!
//! For each value of each row `json_agg` looks up anew what its type is; a row in text format costs PostgreSQL a third
//! less. What the text of a value becomes in JSON depends on its type alone ([`types`]): numbers and JSON stay as they
//! are, booleans become words, timestamps get their `T`, nearly everything else is a string (`value`).
//!
//! Settings that shape the text of a value (`IntervalStyle`, `TimeZone`, `extra_float_digits`) do not
//! matter, because `to_json` takes the same text. Only `DateStyle` does: JSON always has dates as in ISO 8601. A date in
//! another style gives `None`, as does a type that is not known here, and the caller has PostgreSQL build the body.

pub mod types;
mod value;

use basalt_pg::session::{Column, Row};
use bytes::Bytes;

use types::{Form, TextTypes};

/// What stands around the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// An array of all.
    Array,
    /// Nothing: there is one.
    Object,
}

/// The rows of one statement as JSON; `None` when that cannot be told from their text.
#[must_use]
pub fn to_json(rows: Vec<Row>, types: &TextTypes, frame: Frame) -> Option<Bytes> {
    let is_array = frame == Frame::Array;
    let Some(first) = rows.first() else {
        return Some(Bytes::from_static(if is_array { b"[]" } else { b"" }));
    };
    let share = first.share().cloned();
    let fields: Vec<Field> = first
        .columns()
        .iter()
        .enumerate()
        .map(|(index, column)| Field::of(column, index == 0, types))
        .collect::<Option<_>>()?;
    let keys: usize = fields.iter().map(|field| field.key.len() + 2).sum();
    let values: usize = rows.iter().map(Row::byte_len).sum();
    let mut json = Vec::with_capacity(values + rows.len() * (keys + 5) + 2);
    // Each row goes as soon as it is written: a large answer is not held twice.
    for (index, row) in rows.into_iter().enumerate() {
        json.extend_from_slice(match (index, frame) {
            (0, Frame::Array) => b"[",
            (0, Frame::Object) => b"",
            (_, Frame::Array) => b", \n ",
            (_, Frame::Object) => b",",
        });
        if fields.is_empty() {
            json.push(b'{');
        }
        for (field, cell) in fields.iter().zip(row.cells()) {
            json.extend_from_slice(&field.key);
            match cell {
                Some(text) => value::push(&mut json, field.form, text)?,
                None => json.extend_from_slice(b"null"),
            }
        }
        json.push(b'}');
    }
    if is_array {
        json.push(b']');
    }
    let json = Bytes::from(json);
    Some(match share {
        Some(share) => share.keep(json),
        None => json,
    })
}

/// A key with what stands before and behind it, and how its values are written.
struct Field {
    key: Vec<u8>,
    form: Form,
}

impl Field {
    fn of(column: &Column, is_first: bool, types: &TextTypes) -> Option<Self> {
        let mut key = Vec::with_capacity(column.name.len() + 4);
        key.push(if is_first { b'{' } else { b',' });
        value::push_string(&mut key, column.name.as_bytes());
        key.push(b':');
        Some(Self { key, form: types.form(column.type_oid)? })
    }
}
