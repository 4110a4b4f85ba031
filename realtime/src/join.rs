//! The payload of `phx_join` (realtime.md 3.3, 3.6). Fields that cannot be parsed count as absent.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::changes::{Binding, EventKind};
use crate::frames::json_text;

/// Most entries of `postgres_changes` per channel.
const MAX_BINDINGS: usize = 1000;
/// Most stored messages replayed to a channel, and the default.
const MAX_REPLAYED: i64 = 25;

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Parsed payload of `phx_join`.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// The user's token or an API key; `None` to use the connection's.
    pub(crate) token: Option<String>,
    pub(crate) is_private: bool,
    /// Whether each broadcast is acknowledged.
    pub(crate) acks: bool,
    /// Whether the channel receives its own broadcasts.
    pub(crate) receives_own: bool,
    /// Whether to report when messages from the database can be received.
    pub(crate) wants_replication_ready: bool,
    pub(crate) presence_key: Option<String>,
    pub(crate) presence_enabled: bool,
    /// `None` if no replay was requested.
    pub(crate) replay: Option<Result<Replay, BadReplay>>,
    pub(crate) changes: Changes,
    /// Whether a rejected subscription fails the join.
    pub(crate) awaits_changes: bool,
}

/// Range of stored messages to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Milliseconds since 1970.
    pub(crate) since_ms: i64,
    pub(crate) limit: i64,
}

/// `since` or `limit` is not an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadReplay;

/// The requested row changes.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    /// `postgres_changes` of the reply: each object unchanged, plus its id.
    pub(crate) answer: String,
    /// Bindings to subscribe, or the error text for a system message.
    pub(crate) bindings: Result<Vec<Binding>, String>,
}

impl Changes {
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.bindings.as_ref().is_ok_and(Vec::is_empty)
    }
}

impl Join {
    /// Parses the payload, a JSON text.
    pub(crate) fn read(payload: &str) -> Self {
        let payload = fields(payload);
        let config = object(&payload, "config");
        let broadcast = object(&config, "broadcast");
        let presence = object(&config, "presence");
        let options = object(&config, "postgres_changes_options");
        Self {
            token: text(&payload, "user_token").or_else(|| text(&payload, "access_token")),
            is_private: flag(&config, "private"),
            acks: flag(&broadcast, "ack"),
            receives_own: flag(&broadcast, "self"),
            wants_replication_ready: flag(&broadcast, "replication_ready"),
            presence_key: presence_key(&presence),
            presence_enabled: flag(&presence, "enabled"),
            replay: replay(&broadcast),
            changes: changes(&config),
            awaits_changes: flag(&options, "wait"),
        }
    }
}

/// Members of an object; empty if the text is not an object.
fn fields(text: &str) -> Fields<'_> {
    serde_json::from_str(text).unwrap_or_default()
}

fn object<'a>(parent: &Fields<'a>, name: &str) -> Fields<'a> {
    parent.get(name).map(|raw| fields(raw.get())).unwrap_or_default()
}

fn value(parent: &Fields<'_>, name: &str) -> Value {
    parent.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn text(parent: &Fields<'_>, name: &str) -> Option<String> {
    match value(parent, name) {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn flag(parent: &Fields<'_>, name: &str) -> bool {
    match value(parent, name) {
        Value::Bool(flag) => flag,
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// `None` for "" and null: the server then generates a key.
fn presence_key(presence: &Fields<'_>) -> Option<String> {
    match value(presence, "key") {
        Value::Null => None,
        Value::String(key) => Some(key).filter(|key| !key.is_empty()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(other.to_string())
        }
    }
}

fn replay(broadcast: &Fields<'_>) -> Option<Result<Replay, BadReplay>> {
    let raw = broadcast.get("replay").filter(|raw| raw.get() != "null")?;
    let given = fields(raw.get());
    let integer = |name: &str| {
        let given = value(&given, name);
        if given.is_null() { Ok(None) } else { given.as_i64().map(Some).ok_or(BadReplay) }
    };
    let read = || {
        let since_ms = integer("since")?.ok_or(BadReplay)?;
        let limit = integer("limit")?.unwrap_or(MAX_REPLAYED).clamp(1, MAX_REPLAYED);
        Ok(Replay { since_ms, limit })
    };
    Some(read())
}

fn changes(config: &Fields<'_>) -> Changes {
    let list: Vec<&RawValue> = config
        .get("postgres_changes")
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    let elements: Vec<&str> = list.into_iter().map(RawValue::get).filter(|text| *text != "null").collect();
    let mut answer = String::from("[");
    let mut bindings = Ok(Vec::new());
    if elements.iter().any(|element| !element.starts_with('{')) {
        return Changes { answer: "[]".to_owned(), bindings };
    }
    if elements.len() > MAX_BINDINGS {
        bindings = Err(format!("a channel has {MAX_BINDINGS} postgres_changes at most"));
    }
    for (element, id) in elements.into_iter().zip(1_u64..) {
        if answer.len() > 1 {
            answer.push(',');
        }
        answer.push_str(&with_id(element, id));
        bindings = bindings.and_then(|mut bindings: Vec<Binding>| {
            bindings.push(binding(element, id)?);
            Ok(bindings)
        });
    }
    answer.push(']');
    Changes { answer, bindings }
}

/// Appends the id to the object text: of duplicate names JSON parsers use the last.
fn with_id(object: &str, id: u64) -> String {
    let inside = object.strip_suffix('}').unwrap_or(object);
    let comma = if inside.trim_end().len() > 1 { "," } else { "" };
    format!("{inside}{comma}\"id\":{id}}}")
}

fn binding(element: &str, id: u64) -> Result<Binding, String> {
    let given = fields(element);
    let nothing = || {
        Err(format!(
            "No subscription params provided. Please provide at least a `schema` or `table` to subscribe to: {element}"
        ))
    };
    let mut texts = [None, None, None];
    for (text, name) in texts.iter_mut().zip(["schema", "table", "filter"]) {
        if given.contains_key(name) {
            let Value::String(given) = value(&given, name) else { return nothing() };
            *text = Some(given);
        }
    }
    let [schema, table, filter] = texts;
    let schema = match (schema, &table) {
        (Some(schema), _) => schema,
        (None, Some(_)) => "public".to_owned(),
        (None, None) => return nothing(),
    };
    let event = match text(&given, "event").map(|event| event.to_ascii_uppercase()).as_deref() {
        Some("INSERT") => EventKind::Insert,
        Some("UPDATE") => EventKind::Update,
        Some("DELETE") => EventKind::Delete,
        _ => EventKind::All,
    };
    let select = match value(&given, "select") {
        Value::Null => None,
        Value::Array(columns) => {
            let names = columns.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
            Some(names).filter(|names| !names.is_empty())
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err("Error parsing `select` params: expected a list of column name strings, \
                        e.g. select: [\"col1\", \"col2\"]"
                .to_owned());
        }
    };
    let is_wildcard = schema == "*" || table.as_deref().is_none_or(|table| table == "*");
    if select.is_some() && is_wildcard {
        return Err("Column selection is not supported for wildcard subscriptions. \
                    Provide an explicit schema and table name."
            .to_owned());
    }
    Ok(Binding { id, event, schema, table, filter, select })
}

/// Payload of a system message (realtime.md 3.5).
pub(crate) fn system_message(extension: &str, status: &str, message: &str, channel: &str) -> String {
    format!(
        "{{\"extension\":\"{extension}\",\"status\":\"{status}\",\"message\":{},\"channel\":{}}}",
        json_text(message),
        json_text(channel)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_field() {
        let join = Join::read(
            r#"{"config":{"broadcast":{"ack":true,"self":"TRUE","replay":{"since":17,"limit":10},"replication_ready":false},
            "presence":{"key":7,"enabled":true},"postgres_changes":[{"event":"*","schema":"public","table":"tasks",
            "filter":"plan_id=eq.7","select":["id","title",1]}],"postgres_changes_options":{"wait":true,"timeout":15000},
            "private":true},"access_token":"a.b.c","version":"realtime-js/2.119.0"}"#,
        );
        assert_eq!(join.token.as_deref(), Some("a.b.c"));
        assert!(
            join.is_private && join.acks && join.receives_own && join.presence_enabled && join.awaits_changes
        );
        assert_eq!(join.presence_key.as_deref(), Some("7"));
        assert_eq!(join.replay, Some(Ok(Replay { since_ms: 17, limit: 10 })));
        let bindings = join.changes.bindings.unwrap();
        let [Binding { id: 1, event: EventKind::All, schema, table, filter, select }] = &bindings[..] else {
            panic!("{bindings:?}")
        };
        assert_eq!(
            (schema.as_str(), table.as_deref(), filter.as_deref()),
            ("public", Some("tasks"), Some("plan_id=eq.7"))
        );
        assert_eq!(select.as_deref(), Some(&["id".to_owned(), "title".to_owned()][..]));
    }

    #[test]
    fn invalid_fields_count_as_absent() {
        for payload in [
            "{}",
            "null",
            "[]",
            "5",
            r#"{"config":5}"#,
            r#"{"config":{"broadcast":[],"presence":"x","private":1,"postgres_changes":{}}}"#,
        ] {
            let join = Join::read(payload);
            assert!(
                !join.is_private && !join.acks && !join.presence_enabled && join.token.is_none(),
                "{payload}"
            );
            assert!(
                join.changes.is_empty() && join.changes.answer == "[]" && join.replay.is_none(),
                "{payload}"
            );
        }
        for replay in [r#"{"since":"x"}"#, "{}", "5", r#"{"since":1,"limit":"9"}"#, r#"{"since":1.5}"#] {
            let join = Join::read(&format!(r#"{{"config":{{"broadcast":{{"replay":{replay}}}}}}}"#));
            assert_eq!(join.replay, Some(Err(BadReplay)), "{replay}");
        }
    }

    #[test]
    fn reply_repeats_bindings_byte_for_byte() {
        let join = Join::read(
            r#"{"config":{"postgres_changes":[{ "event" : "insert", "table":"t" },null,{},{"schema":"s","x":1.0e2}]}}"#,
        );
        let expected =
            r#"[{ "event" : "insert", "table":"t" ,"id":1},{"id":2},{"schema":"s","x":1.0e2,"id":3}]"#;
        assert_eq!(join.changes.answer, expected);
        let reason = join.changes.bindings.unwrap_err();
        assert!(reason.starts_with("No subscription params provided."), "{reason}");
    }

    #[test]
    fn parses_bindings_or_reports_why_not() {
        let schema_and_table = |element: &str| {
            binding(element, 1)
                .map(|it| (it.schema, it.table))
                .map_err(|reason| reason.chars().take(20).collect())
        };
        let some = |schema: &str, table: Option<&str>| Ok((schema.to_owned(), table.map(str::to_owned)));
        assert_eq!(schema_and_table(r#"{"table":"T"}"#), some("public", Some("T")));
        assert_eq!(schema_and_table(r#"{"schema":"s"}"#), some("s", None));
        assert_eq!(schema_and_table(r#"{"schema":"*","table":"*"}"#), some("*", Some("*")));
        for (element, reason) in [
            (r#"{"schema":null}"#, "No subscription para"),
            (r#"{"schema":"s","table":"t","filter":null}"#, "No subscription para"),
            (r#"{"filter":"a=eq.1"}"#, "No subscription para"),
            (r#"{"table":"t","select":"a"}"#, "Error parsing `selec"),
            (r#"{"schema":"s","select":["a"]}"#, "Column selection is "),
        ] {
            assert_eq!(schema_and_table(element), Err(reason.to_owned()), "{element}");
        }
    }
}
