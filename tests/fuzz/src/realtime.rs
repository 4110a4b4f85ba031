//! The parsers of realtime: replication messages and subscription filters.

use basalt_pg::json::JsonEncoding;
use basalt_realtime::changes::decoder::{self, Message, RowChange, Value};
use basalt_realtime::changes::filter;
use bytes::Bytes;

/// A decoded message has no more text than bytes, and `relation_of` finds the same table.
pub(crate) fn replication(data: &[u8]) {
    let Ok(message) = decoder::decode(Bytes::copy_from_slice(data)) else { return };
    let Message::Change { relation, change } = message else { return };
    assert_eq!(decoder::changed_relation(data), Some(relation));
    let (old, new) = match &change {
        RowChange::Insert { new } => (None, Some(new)),
        RowChange::Update { old, new } => (old.as_ref().map(decoder::Old::tuple), Some(new)),
        RowChange::Delete { old } => (Some(old.tuple()), None),
    };
    let values = old.into_iter().chain(new).flatten();
    let length: usize = values.clone().filter_map(Value::text).map(str::len).sum();
    assert!(length < data.len());
    for text in values.filter_map(Value::text) {
        let mut json = Vec::new();
        JsonEncoding::array(JsonEncoding::FiniteNumber).push_or_string(&mut json, text);
        assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok(), "{}", json.escape_ascii());
    }
}

/// A parsed filter names a column and its value is no longer than its text.
pub(crate) fn condition(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(conditions) = filter::parse(&text) else { return };
    for condition in conditions {
        assert!(condition.value.len() <= text.len() && text.contains(&condition.column));
    }
}
