//! Differences of writes.

use serde_json::Value;

use super::super::case::Case;
use super::super::response::View;
use super::faults::{missing_column, take};
use super::{Rule, complaint};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "logic-on-writes",
        reason: "rest.md §3.9: root filters choose the rows to write, those of embeds stay in their embeds; 12 applies logic trees to the columns \
                 returned as well",
        apply: logic_on_writes,
    },
    Rule {
        name: "csv-header-only",
        reason: "rest.md §3.9: a header line alone is no rows; 12 cannot read it",
        apply: csv_header_only,
    },
    Rule {
        name: "put-quoted-key",
        reason: "rest.md §3.9: PUT needs all key columns; 12 does not know them again when they are quoted",
        apply: put_quoted_key,
    },
    Rule {
        name: "put-without-key",
        reason: "rest.md §3.9: a body without the key does not match the URL; 12 runs into PostgreSQL",
        apply: put_without_key,
    },
    Rule {
        name: "default-of-scalar",
        reason: "rest.md §3.9: with `columns` the body goes to the database unread; PostgreSQL words the error of another function",
        apply: default_of_scalar,
    },
    Rule {
        name: "embed-ranges-on-writes",
        reason: "rest.md §3.7: limits and offsets of embeds apply after writes; 12 ignores them",
        apply: embed_ranges_on_writes,
    },
    Rule {
        name: "unordered-rows",
        reason: "rest.md §3.5: without `order` rows come as they come",
        apply: unordered_rows,
    },
    Rule {
        name: "ignored-select",
        reason: "rest.md §3.9: `select` is ignored unless `return=representation`; 12 judges it",
        apply: ignored_select,
    },
    Rule {
        name: "location-latin1",
        reason: "12 reads the names of a Location's columns as Latin-1, which is no UTF-8",
        apply: location_latin1,
    },
    Rule {
        name: "whichever-row",
        reason: "several rows break a constraint, and PostgreSQL names the first it meets",
        apply: whichever_row,
    },
    Rule {
        name: "defaults-by-row",
        reason: "rest.md §3.17: the statement's shape is free; with missing=default a row is written before the next one is read, and one of several \
                 errors is reported",
        apply: defaults_by_row,
    },
    Rule {
        name: "no-columns",
        reason: "a table without columns has rows to delete as well; 12 has the write return its columns",
        apply: no_columns,
    },
    Rule {
        name: "empty-select-of-write",
        reason: "rest.md §3.3: an empty `select` is all columns; 12 shows those that the write needed",
        apply: empty_select_of_write,
    },
    Rule {
        name: "csv-of-written",
        reason: "rest.md §3.12: the header of CSV is the output's keys; 12 names the columns that the write returned",
        apply: csv_of_written,
    },
    Rule {
        name: "aggregate-of-nothing",
        reason: "an upsert of no rows whose response is an aggregate of them: ours counts that row as written, 12 does not",
        apply: aggregate_of_nothing,
    },
    Rule {
        name: "ragged-lines",
        reason: "rest.md §3.9: all lines of CSV have as many fields as the header; 12 drops what is more, and takes one short line",
        apply: ragged_lines,
    },
    Rule {
        name: "unknown-order-on-writes",
        reason: "13 (#3013): `order` sorts the representation of a write and its embeds, and so its columns are looked for",
        apply: unknown_order_on_writes,
    },
];

fn csv_header_only(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = expected.is("PGRST102")
        && expected.error("message").starts_with("parse error (not enough input)")
        && case.header("Content-Type") == Some("text/csv")
        && case.body.as_deref().is_some_and(|body| !body.contains('\n'))
        && !actual.is("PGRST102");
    take(expected, actual, applies)
}

fn put_quoted_key(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_quoted = |(key, value): &(String, String)| key.starts_with('"') && value.starts_with("eq.");
    let applies = case.method == "PUT"
        && expected.is("PGRST105")
        && case.parameters().iter().any(is_quoted)
        && !actual.is("PGRST105");
    take(expected, actual, applies)
}

fn put_without_key(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.method == "PUT"
        && expected.error("message").starts_with("column pgrst_body.")
        && expected.is("42703")
        && actual.is("PGRST115");
    if applies {
        let message = "Payload values do not match URL in primary key column(s)";
        expected.become_error(400, "PGRST115", message, &Value::Null, &Value::Null);
    }
    applies
}

fn default_of_scalar(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let theirs = expected.error("message");
    let is_no_array = theirs.starts_with("argument of json")
        && theirs.ends_with("_to_recordset must be an array of objects");
    let ours = actual.error("message");
    let is_scalar = ours == "cannot extract elements from a scalar"
        || ours == "cannot call json_to_recordset on a scalar";
    let applies = case.body.as_deref().is_some_and(|body| !body.contains('{'))
        && expected.is("22023")
        && is_no_array
        && actual.is("22023")
        && is_scalar;
    take(expected, actual, applies)
}

/// The rows of a body, each in one spelling.
fn rows(view: &View) -> Option<Vec<String>> {
    let mut rows: Vec<String> = view.json().as_array()?.iter().map(Value::to_string).collect();
    rows.sort();
    Some(rows)
}

/// Both responses are representations.
fn both_represent(expected: &View, actual: &View) -> bool {
    expected.status < 300
        && expected.status == actual.status
        && actual.header("preference-applied").contains("return=representation")
}

fn logic_on_writes(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let trees: Vec<String> = case
        .parameters()
        .into_iter()
        .filter(|(key, _)| ["and", "or"].contains(&key.rsplit('.').next().unwrap_or_default()))
        .map(|(_, value)| value)
        .collect();
    if !case.is_write() || case.path().starts_with("/rpc/") || trees.is_empty() {
        return false;
    }
    let in_trees = complaint::is_in(&trees.join(" ").replace(['\\', '"'], ""), expected);
    let applies = if both_represent(expected, actual) {
        // 12 loses some of the rows it wrote.
        rows(expected).zip(rows(actual)).is_some_and(|(theirs, mut ours)| {
            theirs.len() < ours.len()
                && theirs.iter().all(|row| {
                    let place = ours.iter().position(|other| other == row);
                    place.map(|place| ours.remove(place)).is_some()
                })
        })
    } else {
        in_trees && expected.error("code") != "22021"
            || expected.is("PGRST116") && actual.is("PGRST116") && affected(expected) < affected(actual)
    };
    // Without the tree it succeeds, or has another fault: in its rows, its rights, or elsewhere in the request.
    let code = actual.error("code");
    let is_possible = actual.status < 300
        || ["23", "P0001", "PGRST116", "PGRST124", "42501"].into_iter().any(|start| code.starts_with(start))
        || complaint::is_in(&complaint::words(case), actual);
    take(expected, actual, applies && is_possible)
}

/// How many rows there were instead of one.
fn affected(view: &View) -> Option<u64> {
    view.error("details").strip_prefix("The result contains ")?.strip_suffix(" rows")?.parse().ok()
}

fn embed_ranges_on_writes(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_range =
        |key: &str| key.rsplit_once('.').is_some_and(|(_, last)| ["limit", "offset"].contains(&last));
    // As many rows, and in each as many members, of which only embeds may differ.
    let is_plain = |value: &Value| !value.is_array() && !value.is_object() && !value.is_null();
    let same_but_embeds = |theirs: &Value, ours: &Value| match (theirs.as_object(), ours.as_object()) {
        (Some(theirs), Some(ours)) => {
            theirs.len() == ours.len()
                && theirs.iter().all(|(key, value)| {
                    ours.get(key).is_some_and(|other| value == other || !is_plain(value) && !is_plain(other))
                })
        }
        _ => false,
    };
    let applies = case.is_write()
        && case.parameters().iter().any(|(key, _)| is_range(key))
        && both_represent(expected, actual)
        && match (expected.json(), actual.json()) {
            (Value::Array(theirs), Value::Array(ours)) => {
                // 12 does not sort them either.
                let is_sorted = case.parameters().iter().any(|(key, _)| key == "order");
                let mut left: Vec<&Value> = ours.iter().collect();
                theirs.len() == ours.len()
                    && theirs.iter().all(|row| {
                        let most = if is_sorted { left.len() } else { 1 };
                        let place = left.iter().take(most).position(|other| same_but_embeds(row, other));
                        place.map(|place| left.remove(place)).is_some()
                    })
            }
            (theirs, ours) => same_but_embeds(&theirs, &ours),
        };
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn unordered_rows(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.is_write()
        && !case.parameters().iter().any(|(key, _)| key == "order")
        && both_represent(expected, actual)
        && rows(expected).is_some()
        && rows(expected) == rows(actual);
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn ignored_select(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_judged = ["42703", "PGRST123", "PGRST127", "PGRST118", "PGRST200", "PGRST201", "PGRST119"]
        .into_iter()
        .any(|code| expected.is(code));
    let applies = matches!(case.method.as_str(), "PATCH" | "PUT" | "DELETE")
        && case.parameters().iter().any(|(key, _)| key == "select")
        && !case.prefers("return=representation")
        && is_judged
        && !actual.is("42703")
        && (actual.status == 204
            || actual.is("PGRST105")
            || actual.is("PGRST115")
            || actual.is("PGRST107")
            || actual.is("PGRST116")
            || actual.is("PGRST122")
            || !actual.error("code").starts_with("PGRST"));
    take(expected, actual, applies)
}

fn location_latin1(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_written =
        actual.status == 201 && actual.header("preference-applied").contains("return=headers-only");
    // Or its row breaks a constraint.
    let is_refused = case.prefers("return=headers-only") && actual.error("code").starts_with("23");
    let applies = case.method == "POST"
        && expected.is("22021")
        && !complaint::words(case).is_ascii()
        && (is_written || is_refused);
    take(expected, actual, applies)
}

fn whichever_row(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let same = |key: &str| expected.error(key) == actual.error(key);
    let details = (expected.error("details"), actual.error("details"));
    let both = |start: &str| details.0.starts_with(start) && details.1.starts_with(start);
    // A row may be referred to from several tables.
    let is_referred = both("Key (") && actual.is("23503");
    let applies = case.place.starts_with("committed")
        && expected.error("code").starts_with("23")
        && same("code")
        && (same("message") && (both("Failing row contains (") || both("Key (")) || is_referred);
    take(expected, actual, applies)
}

fn unknown_order_on_writes(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let column = missing_column(actual);
    let is_order = |key: &str| key.rsplit('.').next() == Some("order");
    let applies = case.is_write()
        && case.prefers("return=representation")
        && (expected.status < 300 || expected.error("code").starts_with("23"))
        && case.parameters().iter().any(|(key, value)| {
            // Columns that are not there or cannot be sorted, and embeds that have no one row.
            is_order(key)
                && (!column.is_empty() && value.contains(&column)
                    || actual.error("message") == "could not identify an ordering operator for type json"
                    || actual.is("PGRST118") && value.contains('('))
        });
    take(expected, actual, applies)
}

fn no_columns(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.is_write()
        && expected.is("42601")
        && expected.error("message") == "RETURNING must have at least one column"
        && actual.status < 300;
    take(expected, actual, applies)
}

fn empty_select_of_write(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_empty = case.parameters().iter().any(|(key, value)| key == "select" && value.is_empty());
    let is_part = |theirs: &Value, ours: &Value| match (theirs.as_object(), ours.as_object()) {
        (Some(theirs), Some(ours)) => theirs.iter().all(|(key, value)| ours.get(key) == Some(value)),
        _ => false,
    };
    let applies = is_empty
        && both_represent(expected, actual)
        && match (expected.json().as_array(), actual.json().as_array()) {
            (Some(theirs), Some(ours)) => {
                theirs.len() == ours.len()
                    && theirs.iter().zip(ours).all(|(theirs, ours)| is_part(theirs, ours))
            }
            _ => false,
        };
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn defaults_by_row(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let words = complaint::words(case);
    let is_of_row = expected.error("code").starts_with("22")
        && actual.error("code").starts_with("23")
        && complaint::is_in(&words, expected);
    // 12 does not read the body when there is no row to change.
    let is_unread = case.method == "PATCH"
        && expected.is("PGRST116")
        && affected(expected) == Some(0)
        && actual.error("code").starts_with("22")
        && complaint::is_in(&words, actual);
    take(expected, actual, case.is_write() && case.prefers("missing=default") && (is_of_row || is_unread))
}

fn csv_of_written(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let parts =
        |view: &View| view.body.split_once('\n').map(|(head, rows)| (head.to_owned(), rows.to_owned()));
    let (Some((theirs, their_rows)), Some((ours, our_rows))) = (parts(expected), parts(actual)) else {
        return false;
    };
    let select = case.parameters().into_iter().find(|(key, _)| key == "select").map(|(_, value)| value);
    // Each name of ours that they do not have is asked for: an alias, or in a spread.
    let is_alias = |name: &str| {
        theirs.split(',').any(|other| other == name)
            || select.as_ref().is_some_and(|select| {
                select.contains(&format!("{name}:")) || select.contains("...") && select.contains(name)
            })
    };
    let applies = case.is_write()
        && expected.status == actual.status
        && expected.header("content-type").starts_with("text/csv")
        && theirs != ours
        && their_rows == our_rows
        && ours.split(',').all(is_alias);
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn aggregate_of_nothing(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.method == "POST"
        && case.prefers("resolution=merge-duplicates")
        && case.body.as_deref().is_some_and(|body| body.trim() == "[]")
        && case.query().contains("()")
        && (expected.status, actual.status) == (200, 201)
        && expected.body == actual.body;
    take(expected, actual, applies)
}

fn ragged_lines(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let body = case.body.as_deref().unwrap_or_default();
    let fields = |line: Option<&str>| line.unwrap_or_default().split(',').count();
    let last = body.lines().next_back();
    let is_ragged = fields(body.lines().next()) != fields(last);
    let applies = case.header("Content-Type") == Some("text/csv")
        && is_ragged
        && !expected.is("PGRST102")
        && actual.is("PGRST102")
        && actual.error("message") == "All lines must have same number of fields";
    take(expected, actual, applies)
}
