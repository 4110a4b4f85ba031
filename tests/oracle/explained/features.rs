//! Features that 12.0.2 lacks or handles differently, and our extensions.

use serde_json::{Value, json};

use super::super::case::Case;
use super::super::response::View;
use super::faults::{missing_column, take};
use super::{Rule, complaint, openapi, single};

pub(super) const RULES: &[Rule] = &[
    Rule { name: "plan", reason: "the plan of another statement; only its form is compared", apply: plan },
    Rule {
        name: "openapi",
        reason: "the document of the root has grown since 12; compared by value, see explained/openapi.rs",
        apply: openapi::apply,
    },
    Rule {
        name: "unknown-time-zone",
        reason: "rest.md §1: a time zone that PostgreSQL does not know is its error, no longer ignored",
        apply: unknown_time_zone,
    },
    Rule { name: "not-null", reason: "13 (#3747): the operator `is` takes `not_null`", apply: not_null },
    Rule {
        name: "full-text",
        reason: "13 (#2255): full-text operators wrap columns that are no tsvector",
        apply: full_text,
    },
    Rule {
        name: "to-many-spread",
        reason: "13 (#3041): a to-many embed may be spread into arrays; before, PGRST119",
        apply: to_many_spread,
    },
    Rule {
        name: "media-type-case",
        reason: "12.2 (#3478): media types are compared without regard to case",
        apply: media_type_case,
    },
    Rule {
        name: "embed-order",
        reason: "rest.md §3.3: columns and embeds stand in their order of appearance; 12 moved embeds with filters or orders to the front, and \
                 sorted what a function gives",
        apply: embed_order,
    },
    Rule {
        name: "max-affected",
        reason: "12.2 (#2887): the preference max-affected; before, strict handling did not know it",
        apply: max_affected,
    },
    Rule {
        name: "whole-words",
        reason: "rest.md §7.1: `!left` and `!inner` are join types only as whole words; 12 finds them at the beginning of hints",
        apply: whole_words,
    },
    Rule {
        name: "write-order",
        reason: "13 (#3013): `order` sorts the representation of a write",
        apply: write_order,
    },
    Rule {
        name: "claims-order",
        reason: "request.jwt.claims is JSON whose keys 12 sorted; ours stand as in the token",
        apply: claims_order,
    },
    Rule {
        name: "hint-threshold",
        reason: "rest.md §3.18: functions are suggested from a similarity of about 0.75, 12 did from 0.33; whom a relationship's hint names, and which \
                 overload of one function, is a matter of the measure",
        apply: hint_threshold,
    },
    Rule {
        name: "trailing-text",
        reason: "rest.md §7.1: what follows a complete value, select list or key was ignored and is refused",
        apply: trailing_text,
    },
    Rule {
        name: "page-count",
        reason: "rest.md §1: an exact count without a limit is that of the page; 12 counted apart, and before inner embeds were cut or rows \
                 aggregated",
        apply: page_count,
    },
    Rule {
        name: "range-error-type",
        reason: "rest.md §3.18: errors are JSON, also where CSV or another type was asked for",
        apply: range_error_type,
    },
    Rule {
        name: "computed-name-clash",
        reason: "12 fails to call a computed relationship's function when an embed is named like the table",
        apply: computed_name_clash,
    },
    Rule {
        name: "empty-in-spread",
        reason: "12 looks for the column of an empty embed inside a spread, or beside one that aggregates",
        apply: empty_in_spread,
    },
    Rule {
        name: "aggregates-in-spreads",
        reason: "rest.md §3.8: aggregates are grouped by the level they land in, and refused everywhere when they are off; 12 does not look into \
                 spreads for them, and groups neither by names that are in both nor by `*`",
        apply: aggregates_in_spreads,
    },
    Rule {
        name: "grouped-by-name",
        reason: "rest.md §3.8: beside an aggregate all other items are grouped by; 12 groups by an embed's name, which may be a column's as well",
        apply: grouped_by_name,
    },
    Rule {
        name: "order-by-hidden",
        reason: "rest.md §3.5: parents are sorted by columns of a to-one embed; 12 finds only those that it shows",
        apply: order_by_hidden,
    },
    Rule {
        name: "json-order-of-call",
        reason: "ours: rows of an embed are sorted by parts of a `json` value, in what a function returns as well",
        apply: json_order_of_call,
    },
    Rule {
        name: "star-in-spread",
        reason: "12 repeats what stands beside `*` in a spread; equal keys with equal values",
        apply: star_in_spread,
    },
    Rule { name: "single", reason: "see the list in explained/single.rs", apply: single::apply },
];

/// Only ours can tell what is right; where it has succeeded, that is taken.
fn take_success(expected: &mut View, actual: &View) -> bool {
    let applies = actual.status < 300;
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn plan(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_plan = |view: &View| {
        view.status == 200 && view.header("content-type").starts_with("application/vnd.pgrst.plan")
    };
    if !is_plan(expected)
        || !is_plan(actual)
        || !case.header("Accept").is_some_and(|accept| accept.contains("plan"))
    {
        return false;
    }
    for view in [expected, actual] {
        let is_json = view.header("content-type").contains("+json");
        let has_form = if is_json {
            view.json().pointer("/0/Plan").is_some()
        } else {
            view.body.contains("(cost=") && view.body.ends_with('\n')
        };
        if has_form {
            view.body = "a plan".to_owned();
        }
    }
    true
}

fn unknown_time_zone(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let zone = case.header("Prefer").and_then(|prefer| prefer.split_once("timezone=")).map(|(_, zone)| zone);
    let Some(zone) = zone.filter(|zone| *zone == "Nowhere/Nohow" || zone.is_empty()) else { return false };
    if !actual.is("22023") {
        return false;
    }
    let message = format!("invalid value for parameter \"TimeZone\": \"{zone}\"");
    expected.become_error(400, "22023", &message, &Value::Null, &Value::Null);
    true
}

fn not_null(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    expected.is("PGRST100") && case.query().contains("is.not_null") && take_success(expected, actual)
}

fn full_text(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let asks = case.query().contains("fts");
    let failed = expected.is("42883") && expected.error("message").contains("@@");
    let is_other = complaint::is_in(&complaint::words(case), actual);
    if asks && failed && is_other {
        *expected = actual.clone();
        return true;
    }
    asks && failed && take_success(expected, actual)
}

fn to_many_spread(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    if !expected.is("PGRST119") || !case.query().contains("...") {
        return false;
    }
    if actual.is("PGRST127") {
        let details = json!("Aggregates are not implemented for one-to-many or many-to-many spreads.");
        expected.become_error(400, "PGRST127", "Feature not implemented", &details, &Value::Null);
        return true;
    }
    // PostgreSQL may have something to say about the columns.
    if ["42", "22", "23"].into_iter().any(|class| actual.error("code").starts_with(class))
        || actual.is("PGRST107")
        || actual.is("PGRST116")
        || actual.is("PGRST103")
    {
        *expected = actual.clone();
        return true;
    }
    take_success(expected, actual)
}

fn media_type_case(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_upper = |name: &str| {
        case.header(name).is_some_and(|value| value.chars().any(|letter| letter.is_ascii_uppercase()))
    };
    (is_upper("Accept") || is_upper("Content-Type"))
        && matches!(expected.status, 400 | 406 | 415)
        && take_success(expected, actual)
}

fn embed_order(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_call = case.path().starts_with("/rpc/");
    let is_ordered =
        (is_call || case.query().contains('(')) && expected.status == actual.status && expected.status < 300;
    if !is_ordered || expected.body == actual.body || expected.body.len() != actual.body.len() {
        return false;
    }
    let same = if expected.header("content-type").contains("json") {
        // Equal whatever the order of keys, and made of the same bytes: numbers are spelled alike too.
        let bytes = |view: &View| {
            let mut bytes = view.body.clone().into_bytes();
            bytes.sort_unstable();
            bytes
        };
        // Of a repeated key only the last is a value.
        let repeats = |view: &View| view.json().to_string().len() < view.body.len();
        let is_equal = expected.json() == actual.json() || repeats(expected) && repeats(actual);
        is_equal && bytes(expected) == bytes(actual)
    } else {
        columns(&expected.body) == columns(&actual.body)
    };
    if same {
        expected.body.clone_from(&actual.body);
    }
    same
}

/// The columns of a CSV text, sorted.
fn columns(text: &str) -> Vec<Vec<String>> {
    // The header's names are not quoted, whatever they hold.
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let head: Vec<String> = head.split(',').map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rest.split('\n').map(fields)).collect();
    let width = rows.first().map_or(0, Vec::len);
    let column = |index: usize| rows.iter().map(|row| row.get(index).cloned().unwrap_or_default()).collect();
    let mut columns: Vec<Vec<String>> = (0..width).map(column).collect();
    columns.sort();
    columns
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        quoted ^= letter == '"';
        match fields.last_mut() {
            Some(_) if letter == ',' && !quoted => fields.push(String::new()),
            Some(field) => field.push(letter),
            None => {}
        }
    }
    fields
}

fn max_affected(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let asks = case.prefers("max-affected=");
    let was_unknown = expected.is("PGRST122")
        && expected.error("details").starts_with("Invalid preferences: max-affected=");
    // Beside others that are unknown to both.
    let unknown = |view: &View| -> Vec<String> {
        let details = view.error("details");
        let list = details.strip_prefix("Invalid preferences: ").unwrap_or_default();
        list.split(", ")
            .filter(|preference| !preference.starts_with("max-affected="))
            .map(str::to_owned)
            .collect()
    };
    if asks && expected.is("PGRST122") && actual.is("PGRST122") && unknown(expected) == unknown(actual) {
        expected.body.clone_from(&actual.body);
        return true;
    }
    let is_refused = ["PGRST124", "PGRST128"].into_iter().any(|code| actual.is(code));
    // It is for writes by filter and for calls; elsewhere it is known and does nothing.
    let counts_rows = matches!(case.method.as_str(), "PATCH" | "DELETE") || case.path().starts_with("/rpc/");
    let is_known = !counts_rows && !actual.is("PGRST122")
        || actual.status >= 400 && !actual.error("code").starts_with("PGRST")
        || actual.status < 300 && actual.header("preference-applied").contains("max-affected=")
        || is_refused;
    let is_strict = case.prefers("handling=strict");
    // 12 passes the first of the preferences that it does not know.
    let (theirs, ours) = (expected.header("preference-applied"), actual.header("preference-applied"));
    let is_applied = expected.status < 300 && ours.starts_with(&format!("{theirs}, max-affected="));
    let applies = asks
        && (was_unknown && is_known
            || is_strict && is_refused && expected.status < 300
            || is_strict && is_applied && expected.status == actual.status);
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn whole_words(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let is_longer = |word: &str| {
        query.match_indices(word).any(|(at, _)| {
            let after = query.get(at + word.len()..).and_then(|rest| rest.chars().next());
            after.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    };
    let applies =
        expected.is("PGRST100") && ["!left", "!inner"].into_iter().any(is_longer) && !actual.is("PGRST100");
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn write_order(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    // Whatever the order of their keys, which is another matter.
    let (theirs, mut ours) = (expected.json(), actual.json().as_array().cloned().unwrap_or_default());
    let theirs = theirs.as_array().map_or(&[][..], Vec::as_slice);
    let are_same = theirs.len() == ours.len()
        && theirs.iter().all(|row| {
            let place = ours.iter().position(|other| other == row);
            place.map(|place| ours.remove(place)).is_some()
        });
    let both_list =
        [&*expected, &*actual].into_iter().all(|view| view.status < 300 && view.json().is_array());
    let applies = case.is_write() && case.query().contains("order=") && both_list && are_same;
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn claims_order(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let claims = |view: &View| view.json().as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let applies = case.query().contains("request.jwt.claims")
        && claims(expected).is_some()
        && claims(expected) == claims(actual);
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn hint_threshold(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let (theirs, ours) = (expected.error("hint"), actual.error("hint"));
    let starts = |text: &str| theirs.starts_with(text) && ours.starts_with(text);
    // `schema.name(parameters)`; between about 0.33 and 0.75 only 12 suggests.
    let suggested = theirs.strip_prefix("Perhaps you meant to call the function ").and_then(|function| {
        let (name, _) = function.rsplit_once('(').unwrap_or((function, ""));
        name.split_once('.').map(|(_, name)| name.to_owned())
    });
    let path = percent_encoding::percent_decode_str(case.path()).decode_utf8_lossy();
    let wanted = path.strip_prefix("/rpc/").unwrap_or_default();
    let is_far = suggested.as_ref().is_some_and(|name| strsim::normalized_levenshtein(name, wanted) < 0.8);
    // A function with one unnamed parameter: called as it was.
    // That 12 sees a likeness in some calls only.
    let suggested_by_us = ours.strip_prefix("Perhaps you meant to call the function ").and_then(|function| {
        let (name, _) = function.rsplit_once('(').unwrap_or((function, ""));
        name.split_once('.').map(|(_, name)| name.to_owned())
    });
    let is_near = (theirs.is_empty() || suggested.is_some() && !is_far)
        && suggested_by_us.is_some_and(|name| strsim::normalized_levenshtein(&name, wanted) >= 0.75);
    let is_unnamed = theirs.ends_with(&format!(".{wanted}()"));
    // Of one function's overloads.
    let is_other_overload =
        function_of(&theirs).is_some_and(|function| function_of(&ours) == Some(function)) && theirs != ours;
    let applies = expected.is("PGRST202")
        && ((is_far || is_unnamed) && ours.is_empty() || is_other_overload || is_near)
        || expected.is("PGRST200") && starts("Perhaps you meant '");
    if applies {
        expected.set_error(&[("hint", actual.json().get("hint").cloned().unwrap_or_default())]);
    }
    applies
}

/// The function that PGRST202 suggests, without its parameters.
fn function_of(hint: &str) -> Option<&str> {
    let call = hint.strip_prefix("Perhaps you meant to call the function ")?;
    call.strip_suffix(')')?.rsplit_once('(').map(|(function, _)| function)
}

fn trailing_text(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    // Only where junk was put in: elsewhere it would hide what we cannot parse.
    let (theirs, ours) = (expected.error("message"), actual.error("message"));
    let is_trailing = actual.error("details").ends_with("end of input");
    // With two faults, a key's and a value's, we name the value's first.
    let is_other_parameter = expected.is("PGRST100")
        && theirs.starts_with("\"failed to parse ")
        && ours.starts_with("\"failed to parse ");
    // A select list that begins with nothing it could begin with is an empty one for 12.
    let is_no_list = ours.starts_with("\"failed to parse select parameter (...")
        || ours.starts_with("\"failed to parse select parameter") && ours.ends_with("(line 1, column 1)");
    // Keys of calls are names of arguments, whatever they look like.
    let is_argument = case.path().starts_with("/rpc/")
        && expected.is("PGRST100")
        && ["tree path", "filter"]
            .into_iter()
            .any(|part| theirs.starts_with(&format!("\"failed to parse {part}")))
        && actual.is("PGRST202");
    let applies = case.place.ends_with('!')
        && (actual.is("PGRST100") && (is_trailing || is_other_parameter || is_no_list) || is_argument);
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn page_count(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let counts = case.prefers("count=exact");
    let differs_in_count =
        query.contains("count()") || query.contains("!inner") && query.contains(".limit=0");
    let has_limit = case.parameters().iter().any(|(key, _)| key == "limit");
    let applies = counts
        && differs_in_count
        && !has_limit
        && expected.status == 206
        && matches!(actual.status, 200 | 416);
    if applies {
        *expected = actual.clone();
        return true;
    }
    // The rows are the same ones, and ours counts them.
    let range = actual.header("content-range").to_owned();
    let is_of_page = match range.split_once('/') {
        Some(("*", total)) => total == "0" && actual.body == "[]",
        Some((page, total)) => page
            .split_once('-')
            .and_then(|(_, last)| last.parse::<u64>().ok())
            .is_some_and(|last| total.parse() == Ok(last + 1)),
        None => false,
    };
    let is_same_page = counts
        && !has_limit
        && is_of_page
        && expected.body == actual.body
        && matches!(expected.status, 200 | 206)
        && actual.status == 200;
    if is_same_page {
        expected.status = 200;
        expected.set_header("content-range", &range);
    }
    is_same_page
}

fn range_error_type(_case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let applies = expected.is("PGRST103") && !expected.header("content-type").starts_with("application/json");
    if applies {
        expected.set_header("content-type", "application/json; charset=utf-8");
    }
    applies
}

fn computed_name_clash(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = expected.is("42846")
        && expected.error("message").starts_with("cannot cast type jsonb to ")
        && !actual.is("42846");
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn empty_in_spread(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let message = expected.error("message");
    let alias =
        message.strip_prefix("column ").and_then(|rest| rest.split_once('.')).map_or("", |(alias, _)| alias);
    let is_alias = alias.ends_with(|letter: char| letter.is_ascii_digit());
    let has_both = query.contains("...") && query.contains("()");
    // Grouped by, where a spread aggregates: the column is called as the embed.
    let grouped = message.strip_prefix("column \"").and_then(|rest| rest.strip_suffix("\" does not exist"));
    let is_empty = |name: &str| {
        ["", "!left", "!inner"].into_iter().any(|join| query.contains(&format!("{name}{join}()")))
    };
    let is_alias = is_alias || grouped.is_some_and(is_empty);
    let applies = expected.is("42703") && is_alias && has_both && !actual.is("42703");
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn aggregates_in_spreads(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let applies = query.contains("...")
        && query.contains("()")
        && (actual.is("PGRST123")
            || (expected.is("42702") || expected.is("42803"))
                && (actual.status < 300 || actual.is("PGRST116") || actual.is("PGRST115")));
    if applies {
        *expected = actual.clone();
    }
    applies
}

fn star_in_spread(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let has_both = query.contains("...") && query.contains("(*");
    // Of a repeated key the last value counts, so that both read the same.
    let applies =
        has_both && expected.status < 300 && !expected.json().is_null() && expected.json() == actual.json();
    if applies {
        expected.body.clone_from(&actual.body);
    }
    applies
}

fn grouped_by_name(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let message = expected.error("message");
    let name =
        message.strip_prefix("column reference \"").and_then(|rest| rest.strip_suffix("\" is ambiguous"));
    let is_embed =
        |name: &str| [",", "="].into_iter().any(|before| query.contains(&format!("{before}{name}(")));
    // Of such an embed it lacks the whole row.
    let is_whole = expected.is("42803")
        && message.ends_with(".*\" must appear in the GROUP BY clause or be used in an aggregate function");
    let applies = (expected.is("42702") && name.is_some_and(is_embed) || is_whole)
        && query.contains("()")
        && actual.status < 300;
    take(expected, actual, applies)
}

fn order_by_hidden(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let column = missing_column(expected);
    let is_order = |(key, value): &(String, String)| {
        key.rsplit('.').next() == Some("order")
            && !column.is_empty()
            && ["(", "(\""].into_iter().any(|before| value.contains(&format!("{before}{column}")))
    };
    let applies = case.parameters().iter().any(is_order) && missing_column(actual) != column;
    take(expected, actual, applies)
}

fn json_order_of_call(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_embeds = |(key, value): &(String, String)| key.ends_with(".order") && value.contains("->");
    let applies = case.path().starts_with("/rpc/")
        && expected.is("42883")
        && expected.error("message") == "could not identify an ordering operator for type json"
        && case.parameters().iter().any(is_embeds)
        && actual.status < 300;
    take(expected, actual, applies)
}
