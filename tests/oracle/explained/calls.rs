//! Differences of calls.

use serde_json::Value;

use super::super::case::Case;
use super::super::response::View;
use super::faults::{missing_column, take};
use super::{Rule, complaint};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "unselected-columns",
        reason: "13 (#3965): what a function returns is filtered and sorted by columns that are not selected",
        apply: unselected_columns,
    },
    Rule {
        name: "named-raw-parameter",
        reason: "rest.md §3.10: only an unnamed parameter takes a raw body; 12 chose a named one and called it without",
        apply: named_raw_parameter,
    },
    Rule {
        name: "argument-names",
        reason: "rest.md §3.10: the keys of GET are names of parameters, with whatever letters; 12 reads them as paths to columns",
        apply: argument_names,
    },
    Rule {
        name: "empty-raw-body",
        reason: "rest.md §3.10: an empty body is `{}`, for a function that takes the raw body as well",
        apply: empty_raw_body,
    },
    Rule {
        name: "json-literal",
        reason: "rest.md §3.10: the text of an argument is cast to the parameter's type; 12 makes a JSON string of it",
        apply: json_literal,
    },
    Rule {
        name: "unnamed-default",
        reason: "rest.md §3.10: a default parameter is omitted; 12 calls it with an object of no arguments",
        apply: unnamed_default,
    },
    Rule {
        name: "computed-of-call",
        reason: "rest.md §3.10: computed columns of what a function returns; 12 hands on only some columns of the row",
        apply: computed_of_call,
    },
    Rule {
        name: "empty-select-of-call",
        reason: "rest.md §3.3: an empty `select` is all columns; 12 shows those of its own statement too",
        apply: empty_select_of_call,
    },
    Rule {
        name: "csv-of-no-rows",
        reason: "rest.md §3.12: CSV of no rows is a line break; 12 names the columns of a row that a filter has taken out again",
        apply: csv_of_no_rows,
    },
    Rule {
        name: "handler-of-values",
        reason: "rest.md §3.12: an aggregate over anything makes its type of a function's values; 12 takes the function's name for a type",
        apply: handler_of_values,
    },
    Rule {
        name: "literal-first",
        reason: "rest.md §3.10: arguments are cast to the parameter's type; 12 does not get that far when no row or value needs them",
        apply: literal_first,
    },
];

/// A select list without what stands in parentheses.
fn own_items(select: &str) -> String {
    let mut depth = 0;
    let mut out = String::new();
    for letter in select.chars() {
        depth += i32::from(letter == '(');
        if depth == 0 {
            out.push(letter);
        }
        depth -= i32::from(letter == ')');
    }
    // The name of an embed is no column.
    out.split(',')
        .filter(|item| !item.contains(['!']) && !item.trim_start().starts_with("..."))
        .collect::<Vec<_>>()
        .join(",")
}

fn empty_raw_body(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.path().starts_with("/rpc/")
        && case.body.as_deref().is_none_or(str::is_empty)
        && expected.is("22P02")
        && expected.error("details") == "The input string ended unexpectedly."
        && actual.status < 300;
    take(expected, actual, applies)
}

fn unselected_columns(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let column = missing_column(expected);
    let is_named = |item: &str| {
        let source = item.rsplit(':').find(|part| !part.is_empty()).unwrap_or_default();
        let source = item.split("::").next().and_then(|item| item.rsplit(':').next()).unwrap_or(source);
        source.trim().trim_matches('"') == column || item.trim() == "*"
    };
    let is_selected = case
        .parameters()
        .iter()
        .any(|(key, value)| key == "select" && own_items(value).split(',').any(is_named));
    let applies = case.path().starts_with("/rpc/")
        && !column.is_empty()
        && case.query().contains(&column)
        && !is_selected
        && missing_column(actual) != column;
    // The column is there; what is wrong otherwise is another fault of the request, or of the rows.
    let is_possible = actual.status < 300
        || ["PGRST116", "PGRST103", "PGRST124", "25006"].into_iter().any(|code| actual.is(code))
        || actual.error("code").starts_with("23")
        || complaint::is_in(&complaint::words(case), actual);
    let applies = applies && is_possible;
    take(expected, actual, applies)
}

/// 12 falls back to a function whose single parameter has a fitting type, whatever its name.
fn named_raw_parameter(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let message = expected.error("message");
    let called_without = message.starts_with("function ") && message.ends_with("() does not exist");
    let applies = case.method == "POST"
        && case.path().starts_with("/rpc/")
        && (expected.is("42883") && called_without || expected.is("PGRST107") || expected.status < 300)
        && actual.is("PGRST202")
        && actual.error("details").contains("with a single unnamed ");
    take(expected, actual, applies)
}

fn argument_names(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_odd = |key: &str| {
        key.trim() != key
            || key.contains(|letter: char| !letter.is_alphanumeric() && !" _-$".contains(letter))
    };
    let is_found = expected.status < 300 || expected.error("code").starts_with("22");
    let is_bodiless = case.method == "HEAD" && actual.status == 404;
    let applies = case.path().starts_with("/rpc/")
        && !case.is_write()
        && case.parameters().iter().any(|(key, _)| is_odd(key))
        && (expected.is("PGRST202") && (actual.is("PGRST202") || actual.status < 300)
            || ["PGRST100", "PGRST107", "PGRST122", "PGRST203"].into_iter().any(|later| expected.is(later))
                && actual.is("PGRST202")
            || is_found && (actual.is("PGRST202") || is_bodiless));
    take(expected, actual, applies)
}

/// Whether the arguments come as text.
fn has_literals(case: &Case) -> bool {
    case.path().starts_with("/rpc/")
        && (!case.is_write() || case.header("Content-Type") == Some("application/x-www-form-urlencoded"))
}

fn json_literal(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let text = expected.json().as_str().map(str::to_owned);
    let value = text.as_ref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let ours: Option<Value> = serde_json::from_str(&actual.body).ok();
    let is_read = |theirs: &Value, ours: &Value| {
        theirs == ours
            || theirs.as_str().is_some_and(|text| serde_json::from_str(text).ok().as_ref() == Some(ours))
    };
    // Each of a set's.
    let are_same = match (expected.json(), &ours) {
        (Value::Array(theirs), Some(Value::Array(ours))) => {
            theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(theirs, ours)| is_read(theirs, ours))
        }
        _ => false,
    };
    let is_same = value.is_some() && value == ours || are_same;
    // What a function makes of it: its text without the quotes, or another type's name.
    let unquoted = |text: &str| text.replace(['\\', '"'], "");
    const TYPES: &[&str] = &["null", "boolean", "number", "array", "object"];
    let is_type = text.as_deref() == Some("string")
        && ours.as_ref().and_then(Value::as_str).is_some_and(|ours| TYPES.contains(&ours));
    let applies = has_literals(case)
        && expected.status < 300
        && expected.status == actual.status
        && (is_same || is_type || text.is_some() && unquoted(&expected.body) == unquoted(&actual.body));
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn unnamed_default(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_bare = case.query().is_empty() && case.body.as_deref().is_none_or(str::is_empty);
    let applies = has_literals(case)
        && is_bare
        && expected.status == 200
        && actual.status == 200
        && expected.body == "{}";
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn computed_of_call(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.path().starts_with("/rpc/")
        && expected.is("42846")
        && expected.error("message").starts_with("cannot cast type record to ")
        && !actual.is("42846");
    take(expected, actual, applies)
}

fn empty_select_of_call(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_empty = case.parameters().iter().any(|(key, value)| key == "select" && value.is_empty());
    let rows = |view: &View| view.json().as_array().map(Vec::len);
    let applies = case.path().starts_with("/rpc/")
        && is_empty
        && expected.body.contains("\"json_data\":")
        && expected.status == actual.status
        && rows(expected) == rows(actual);
    take(expected, actual, applies)
}

fn csv_of_no_rows(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_header = expected.body.strip_suffix('\n').is_some_and(|header| !header.contains('\n'));
    let applies = case.path().starts_with("/rpc/")
        && expected.status == actual.status
        && expected.header("content-type").starts_with("text/csv")
        && expected.header("content-range").starts_with("*/")
        && is_header
        && actual.body == "\n";
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn literal_first(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let message = actual.error("message");
    let is_value = |value: &str| message.ends_with(&format!(": \"{value}\""));
    let is_argument = case.parameters().iter().any(|(_, value)| is_value(value))
        || case.body.as_deref().is_some_and(|body| {
            url::form_urlencoded::parse(body.as_bytes()).any(|(_, value)| is_value(&value))
                || serde_json::from_str::<Value>(body).is_ok_and(|body| {
                    body.as_object()
                        .is_some_and(|body| body.values().any(|value| value.as_str().is_some_and(is_value)))
                })
        });
    let is_other = expected.status < 300 || expected.error("code").starts_with("42");
    let applies =
        case.path().starts_with("/rpc/") && is_argument && actual.error("code").starts_with("22") && is_other;
    take(expected, actual, applies)
}

fn handler_of_values(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let path = percent_encoding::percent_decode_str(case.path()).decode_utf8_lossy().into_owned();
    let function = path.strip_prefix("/rpc/").unwrap_or_default();
    let message = expected.error("message").replace('"', "");
    let accept = case.header("Accept").unwrap_or_default();
    let applies = expected.is("42704")
        && message.starts_with("type ")
        && message.ends_with(&format!(".{function} does not exist"))
        && actual.status < 300
        && !accept.is_empty()
        && actual.header("content-type").starts_with(accept);
    take(expected, actual, applies)
}
