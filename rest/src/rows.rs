//! Serialises rows in text format as the same JSON, byte for byte, that `json_agg` would produce.
//!
//! `json_agg` looks up the type of each value of each row; returning rows in text format costs PostgreSQL a third
//! less. [`basalt_pg::json`] encodes the values. A date in another style than ISO 8601, or a type that [`types`] does not
//! list, yields `None`, and the caller has PostgreSQL build the body.

pub mod types;

use basalt_pg::json::{self, JsonEncoding};
use basalt_pg::session::{Column, Row};
use bytes::Bytes;

use types::TextTypes;

/// JSON around the row objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// An array of all rows.
    Array,
    /// Nothing: there is a single row.
    Object,
}

/// The rows of one statement as JSON; `None` if that cannot be derived from their text.
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
        .map(|(index, column)| Field::new(column, index == 0, types))
        .collect::<Option<_>>()?;
    let keys: usize = fields.iter().map(|field| field.key.len() + 2).sum();
    let values: usize = rows.iter().map(Row::byte_len).sum();
    let mut json = Vec::with_capacity(values + rows.len() * (keys + 5) + 2);
    // Rows are freed as they are written, so that a large result is not held twice.
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
                Some(text) => field.encoding.push(&mut json, text)?,
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
        Some(share) => share.keep_counted(json),
        None => json,
    })
}

/// A quoted key with its surrounding punctuation, and the encoding of its values.
struct Field {
    key: Vec<u8>,
    encoding: JsonEncoding,
}

impl Field {
    fn new(column: &Column, is_first: bool, types: &TextTypes) -> Option<Self> {
        let mut key = Vec::with_capacity(column.name.len() + 4);
        key.push(if is_first { b'{' } else { b',' });
        json::push_string(&mut key, column.name.as_bytes());
        key.push(b':');
        Some(Self { key, encoding: types.encoding(column.type_oid)? })
    }
}
