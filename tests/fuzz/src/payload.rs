//! Bodies: the parsed keys must match the body that PostgreSQL gets.

use basalt_rest::parse::media::MediaType;
use basalt_rest::request::payload::{DecodeBudget, JsonPayload, JsonShape, Payload};
use basalt_rest::request::{Action, CallVerb, RelationVerb};
use bytes::Bytes;
use serde_json::Value;

const BUDGET: DecodeBudget<'_> = DecodeBudget { max_bytes: 1 << 20, lease: None };

fn insert() -> Action {
    Action::Relation { name: "t".to_owned(), verb: RelationVerb::Insert }
}

fn read(action: &Action, media: &MediaType, data: &[u8]) -> Option<JsonPayload> {
    match Payload::read(action, media, None, Bytes::copy_from_slice(data), BUDGET) {
        Ok(Some(Payload::Json(payload))) => Some(payload),
        Ok(_) | Err(_) => None,
    }
}

/// CSV becomes JSON whose rows all have the header's columns.
pub(crate) fn csv(data: &[u8]) {
    let Some(payload) = read(&insert(), &MediaType::Csv, data) else { return };
    let rows: Result<Vec<Value>, _> = serde_json::from_slice(&payload.bytes);
    assert!(rows.is_ok(), "{rows:?}");
    for row in rows.unwrap_or_default() {
        assert_eq!(sorted_keys(&row).as_ref(), Some(&payload.keys));
    }
}

/// A form becomes one JSON object of strings.
pub(crate) fn form(data: &[u8]) {
    let Some(payload) = read(&insert(), &MediaType::UrlEncoded, data) else { return };
    let row: Value = serde_json::from_slice(&payload.bytes).unwrap_or_default();
    let mut keys = payload.keys;
    keys.sort();
    assert_eq!(sorted_keys(&row), Some(keys));
}

/// The keys found by the streaming parser must equal those of a full JSON parser.
pub(crate) fn json(data: &[u8]) {
    let call = Action::Call { name: "f".to_owned(), verb: CallVerb::Post };
    let _arguments = read(&call, &MediaType::Json, data);
    let payload = read(&insert(), &MediaType::Json, data);
    // The full parser rejects deep nesting and numbers out of range.
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    match (&value, payload) {
        (Value::Array(rows), None) => {
            let keys: Vec<_> = rows.iter().map(sorted_keys).collect();
            assert!(keys.iter().any(|keys| keys.is_none() || Some(keys) != Some(&keys_of_first(rows))));
        }
        (_, None) => panic!("refused: {value}"),
        (Value::Array(rows), Some(payload)) if rows.is_empty() => {
            assert_eq!(payload.shape, JsonShape::Empty);
        }
        (Value::Array(rows), Some(payload)) => {
            for row in rows {
                assert_eq!(sorted_keys(row).as_ref(), Some(&payload.keys));
            }
            assert_eq!(payload.shape, JsonShape::Array);
        }
        (Value::Object(_), Some(payload)) => assert_eq!(sorted_keys(&value), Some(payload.keys)),
        (_, Some(payload)) => assert_eq!(payload.shape, JsonShape::Empty),
    }
}

fn keys_of_first(rows: &[Value]) -> Option<Vec<String>> {
    rows.first().and_then(sorted_keys)
}

fn sorted_keys(row: &Value) -> Option<Vec<String>> {
    let mut keys: Vec<String> = row.as_object()?.keys().cloned().collect();
    keys.sort();
    Some(keys)
}
