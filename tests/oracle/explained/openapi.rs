//! The document of the root.

use serde_json::{Map, Value};

use super::super::case::Case;
use super::super::response::View;

/// Turns 12's document into the one of today and compares the two by value; the rest is reported line by line.
pub(super) fn apply(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_document = |view: &View| view.status == 200 && view.json().get("swagger").is_some();
    if case.path() != "/" || !is_document(expected) || !is_document(actual) {
        return false;
    }
    let (mut theirs, ours) = (expected.json(), actual.json());
    modernise(&mut theirs, &ours);
    let mut differences = Vec::new();
    compare("", &theirs, &ours, &mut differences);
    expected.body = differences.iter().map(|(path, theirs, _)| format!("{path} {theirs}\n")).collect();
    actual.body = differences.iter().map(|(path, _, ours)| format!("{path} {ours}\n")).collect();
    true
}

fn modernise(theirs: &mut Value, ours: &Value) {
    // The server name and the URL of its manual.
    for pointer in ["/info/version", "/host", "/externalDocs/url"] {
        if let (Some(old), Some(new)) = (theirs.pointer_mut(pointer), ours.pointer(pointer)) {
            old.clone_from(new);
        }
    }
    // rest.md §3.14: functions that may write are documented with POST only.
    for (path, methods) in members(theirs, "paths") {
        let is_posted = ours["paths"][path]["get"].is_null() && !ours["paths"][path]["post"].is_null();
        if let (true, Value::Object(methods)) = (path.starts_with("/rpc/") && is_posted, methods) {
            let _get = methods.remove("get");
        }
    }
    // rest.md §3.22 (1): `params=single-object` is gone, and no value is left.
    if let Some(Value::Object(parameter)) = theirs.pointer_mut("/parameters/preferParams") {
        let _values = parameter.remove("enum");
    }
    // rest.md §3.14: the formats of integers name their width.
    name_integer_widths(theirs);
    // 12.2.3 (#3504): the values of filters begin with an operator, so they have no format.
    for (name, parameter) in members(theirs, "parameters") {
        if let (true, Value::Object(parameter)) = (name.starts_with("rowFilter."), parameter) {
            let _format = parameter.remove("format");
        }
    }
    // 12.0.3 (#3418): columns of one-to-one keys are tagged too.
    for (name, definition) in members(theirs, "definitions") {
        for (column, property) in members(definition, "properties") {
            let new = &ours["definitions"][name.as_str()]["properties"][column.as_str()]["description"];
            let old = property["description"].as_str().unwrap_or("Note:");
            let is_tagged = new.as_str().is_some_and(|new| {
                new.strip_prefix(old).is_some_and(|rest| rest.starts_with("\nThis is a Foreign Key to `"))
            });
            if is_tagged {
                property["description"].clone_from(new);
            }
        }
    }
}

fn name_integer_widths(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let format = match members.get("format").and_then(Value::as_str) {
                Some("smallint" | "integer") => Some("int32"),
                Some("bigint") => Some("int64"),
                _ => None,
            };
            if let Some(format) = format {
                members.insert("format".to_owned(), format.into());
            }
            members.values_mut().for_each(name_integer_widths);
        }
        Value::Array(items) => items.iter_mut().for_each(name_integer_widths),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    value.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
}

fn compare(path: &str, theirs: &Value, ours: &Value, differences: &mut Vec<(String, String, String)>) {
    if let (Value::Object(left), Value::Object(right)) = (theirs, ours) {
        let added = right.keys().filter(|key| !left.contains_key(*key));
        for key in left.keys().chain(added) {
            compare(&format!("{path}/{key}"), &theirs[key.as_str()], &ours[key.as_str()], differences);
        }
    } else if theirs != ours {
        differences.push((path.to_owned(), theirs.to_string(), ours.to_string()));
    }
}
