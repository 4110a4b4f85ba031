//! The JSON object `data` of a change (realtime.md 3.7), encoded once per set of readable columns.

use basalt_pg::json::push_string;
use bytes::Bytes;
use jiff::Timestamp;

use super::Position;
use super::catalog::Table;
use super::decoder::{Old, Relation, RowChange, Tuple, Value};
use super::{EncodedChange, EventKind};

/// Size of a row change above which its long values are omitted.
const MAX_CHANGE_BYTES: usize = 1_048_576;
/// Size up to which values are sent even then, as JSON.
const SHORT_VALUE_BYTES: usize = 64;

/// A row change with the relevant data of its transaction.
pub(super) struct Change {
    pub(super) row: RowChange,
    pub(super) committed_micros: i64,
    pub(super) position: Position,
    /// Size of its message.
    pub(super) bytes: usize,
}

impl Change {
    pub(super) const fn event(&self) -> EventKind {
        match self.row {
            RowChange::Insert { .. } => EventKind::Insert,
            RowChange::Update { .. } => EventKind::Update,
            RowChange::Delete { .. } => EventKind::Delete,
        }
    }

    /// The row that filters and policies apply to.
    pub(super) const fn row(&self) -> &Tuple {
        match &self.row {
            RowChange::Insert { new } | RowChange::Update { new, .. } => new,
            RowChange::Delete { old } => old.tuple(),
        }
    }

    /// The value at a position of the relation, unless unavailable or NULL.
    pub(super) fn value(&self, position: usize) -> Option<&str> {
        match self.row().get(position)? {
            Value::Unchanged => self.before()?.get(position)?.text(),
            value @ (Value::Null | Value::Text(_)) => value.text(),
        }
    }

    /// The complete previous row of an update, if it was sent.
    pub(super) const fn before(&self) -> Option<&Tuple> {
        match &self.row {
            RowChange::Update { old: Some(Old::Full(tuple)), .. } => Some(tuple),
            RowChange::Insert { .. } | RowChange::Update { .. } | RowChange::Delete { .. } => None,
        }
    }
}

/// Maps a table's columns to positions in the streamed rows; `None` for unpublished columns.
pub(super) struct Layout<'a> {
    pub(super) table: &'a Table,
    pub(super) relation: &'a Relation,
    positions: Vec<Option<usize>>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(table: &'a Table, relation: &'a Relation) -> Self {
        let position = |name: &str| relation.columns.iter().position(|column| column.name == name);
        let positions = table.columns.iter().map(|column| position(&column.name)).collect();
        Self { table, relation, positions }
    }

    /// Position of a table column in a streamed row.
    pub(super) fn position(&self, column: usize) -> Option<usize> {
        self.positions.get(column).copied().flatten()
    }

    fn is_identity(&self, column: usize) -> bool {
        let position = self.position(column).and_then(|position| self.relation.columns.get(position));
        position.is_some_and(|column| column.is_key)
    }
}

/// Encodes a change with the columns in `mask`.
pub(super) fn encode(change: &Change, layout: &Layout<'_>, mask: &[bool]) -> EncodedChange {
    let is_large = change.bytes > MAX_CHANGE_BYTES;
    let mut out = head(layout, change.event(), Some(change.committed_micros));
    out.extend_from_slice(if is_large {
        br#""errors":["Error 413: Payload Too Large"],"#
    } else {
        br#""errors":null,"#
    });
    out.extend_from_slice(b"\"columns\":[");
    let mut is_first = true;
    for (column, _) in layout.table.columns.iter().zip(mask).filter(|(_, is_seen)| **is_seen) {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"name\":");
        push_string(&mut out, column.name.as_bytes());
        out.extend_from_slice(b",\"type\":");
        push_string(&mut out, column.type_name.as_bytes());
        out.push(b'}');
    }
    out.push(b']');
    let all = |_: usize| true;
    let identity = |column: usize| layout.is_identity(column);
    let mut object = |name: &str, tuple: &Tuple, before: Option<&Tuple>, wants: &dyn Fn(usize) -> bool| {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        push_row(&mut out, tuple, before, layout, mask, wants, is_large);
    };
    match &change.row {
        RowChange::Insert { new } => object("record", new, None, &all),
        RowChange::Update { old, new } => {
            object("record", new, change.before(), &all);
            match old {
                Some(Old::Full(old)) => object("old_record", old, None, &all),
                Some(Old::Key(old)) => object("old_record", old, None, &identity),
                // PostgreSQL does not send an unchanged replica identity.
                None => object("old_record", new, None, &identity),
            }
        }
        // Policies cannot be evaluated for a deleted row, so only its key is sent.
        RowChange::Delete { old } if layout.table.has_policies => {
            let keys = layout.table.key_positions();
            object("old_record", old.tuple(), None, &|column| keys.contains(&column) && identity(column));
        }
        RowChange::Delete { old: Old::Full(old) } => object("old_record", old, None, &all),
        RowChange::Delete { old: Old::Key(old) } => object("old_record", old, None, &identity),
    }
    out.push(b'}');
    EncodedChange { data: Bytes::from(out) }
}

/// Encodes an error that is sent instead of the change.
pub(super) fn encode_error(change: &Change, layout: &Layout<'_>, error: &str) -> EncodedChange {
    let mut out = head(layout, change.event(), None);
    out.extend_from_slice(b"\"errors\":[");
    push_string(&mut out, error.as_bytes());
    out.extend_from_slice(b"],\"columns\":[]");
    if change.event() != EventKind::Delete {
        out.extend_from_slice(b",\"record\":{}");
    }
    if change.event() != EventKind::Insert {
        out.extend_from_slice(b",\"old_record\":{}");
    }
    out.push(b'}');
    EncodedChange { data: Bytes::from(out) }
}

fn head(layout: &Layout<'_>, event: EventKind, committed_micros: Option<i64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"{\"schema\":");
    push_string(&mut out, layout.relation.schema.as_bytes());
    out.extend_from_slice(b",\"table\":");
    push_string(&mut out, layout.relation.name.as_bytes());
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(event.as_str().as_bytes());
    out.extend_from_slice(b"\",\"commit_timestamp\":");
    match committed_micros.and_then(|micros| Timestamp::from_microsecond(micros).ok()) {
        Some(time) => push_string(&mut out, time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string().as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b',');
    out
}

fn push_row(
    out: &mut Vec<u8>,
    tuple: &Tuple,
    before: Option<&Tuple>,
    layout: &Layout<'_>,
    mask: &[bool],
    wants: &dyn Fn(usize) -> bool,
    is_large: bool,
) {
    out.push(b'{');
    let mut is_first = true;
    for (index, column) in layout.table.columns.iter().enumerate() {
        if !mask.get(index).copied().unwrap_or_default() || !wants(index) {
            continue;
        }
        let Some(position) = layout.position(index) else { continue };
        let value = match tuple.get(position) {
            Some(Value::Unchanged) => before.and_then(|before| before.get(position)),
            value => value,
        };
        let text = match value {
            None | Some(Value::Unchanged) => continue,
            Some(Value::Null) => None,
            Some(value @ Value::Text(_)) => value.text(),
        };
        let start = out.len();
        if !is_first {
            out.push(b',');
        }
        push_string(out, column.name.as_bytes());
        out.push(b':');
        let value_start = out.len();
        match text {
            None => out.extend_from_slice(b"null"),
            Some(text) => column.json.push_or_string(out, text),
        }
        if is_large && out.len() - value_start > SHORT_VALUE_BYTES {
            out.truncate(start);
        } else {
            is_first = false;
        }
    }
    out.push(b'}');
}
