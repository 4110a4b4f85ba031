//! Bugs of 12.0.2 that affect many requests, and PostgreSQL errors for statements of another shape.

use serde_json::{Value, json};

use super::super::case::Case;
use super::super::response::View;
use super::{Rule, complaint};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "alias",
        reason: "rest.md §3.17: the statement's shape is free; PostgreSQL's errors number the aliases of embeds otherwise",
        apply: alias,
    },
    Rule {
        name: "odd-limit",
        reason: "rest.md §3.6: a limit that is no number and a negative offset are ignored, `limit=0` is an empty page, a negative limit is 416; \
                 12 gets them wrong beside an offset",
        apply: odd_limit,
    },
    Rule {
        name: "representation-quantifier",
        reason: "rest.md §3.12: filter values go through the domain's cast, those in an array too; 12 casts the array",
        apply: representation_quantifier,
    },
    Rule {
        name: "custom-handler-select",
        reason: "12.0.3 (#3160), rest.md §3.12, §3.22 (3): a handler of one relation only with the default select; one over anyelement takes any row",
        apply: custom_handler_select,
    },
    Rule {
        name: "profile-first",
        reason: "rest.md §1.2: the profile is judged before the query",
        apply: profile_first,
    },
    Rule {
        name: "ambiguous-twice",
        reason: "two columns are ambiguous, and PostgreSQL names the first it meets",
        apply: ambiguous_twice,
    },
    Rule {
        name: "late-strict",
        reason: "rest.md §3.11: with handling=strict any unknown preference is refused; 12 passes the first one",
        apply: late_strict,
    },
    Rule {
        name: "count-privileges",
        reason: "rest.md §3.17: only the columns asked for are read; 12 counts and joins whole rows",
        apply: count_privileges,
    },
    Rule {
        name: "lost-relationships",
        reason: "rest.md §1.2: several embeds are unknown or ambiguous; the specification does not say which is reported first",
        apply: lost_relationships,
    },
    Rule {
        name: "two-errors",
        reason: "rest.md §3.17: the statement's shape is free; of a request's several faults PostgreSQL meets another one first",
        apply: two_errors,
    },
    Rule {
        name: "key-identifier",
        reason: "rest.md §3.15: a `kid` has to fit; 12 tries every key",
        apply: key_identifier,
    },
    Rule {
        name: "lost-embeds",
        reason: "rest.md §1.2: several paths are unknown; the specification does not say which is reported first",
        apply: lost_embeds,
    },
    Rule {
        name: "impossible-total",
        reason: "rest.md §3.6: the total holds at least the rows sent; 12 counts embeds and null filters on them without their offset",
        apply: impossible_total,
    },
    Rule {
        name: "embeds-first",
        reason: "rest.md §1.2: filters, orders and ranges of embeds are judged before relationships, and before anything is written",
        apply: embeds_first,
    },
    Rule { name: "crash", reason: "12 crashes: it returns 500 in plain text, or no response", apply: crash },
    Rule { name: "tabs", reason: "rest.md §3.3: tabs around items are ignored like blanks", apply: tabs },
    Rule {
        name: "blank-name",
        reason: "rest.md §3.2: a bare name has a letter that is no blank; 12 trims it to nothing, which PostgreSQL refuses",
        apply: blank_name,
    },
    Rule {
        name: "list-of-representations",
        reason: "rest.md §3.12: filter values go through the domain's cast; where another condition leaves no row ours never meets the value",
        apply: list_of_representations,
    },
    Rule {
        name: "nul",
        reason: "PostgreSQL takes no NUL: 12 cuts the value or the name there, or sends it as JSON, which has another error",
        apply: nul,
    },
    Rule {
        name: "head-error",
        reason: "an error without its body; the same request as GET is judged by its code",
        apply: head_error,
    },
];

/// What PostgreSQL says, without the numbers of aliases.
fn unnumbered(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '_' && letters.peek().is_some_and(char::is_ascii_digit) {
            while letters.peek().is_some_and(char::is_ascii_digit) {
                let _digit = letters.next();
            }
        } else {
            out.push(letter);
        }
    }
    out
}

fn alias(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let same = |key: &str| unnumbered(&expected.error(key)) == unnumbered(&actual.error(key));
    let applies = expected.is("42703") && actual.is("42703") && same("message") && same("hint");
    if applies {
        let body = actual.json();
        expected.set_error(&[("message", body["message"].clone()), ("hint", body["hint"].clone())]);
    }
    applies
}

pub(super) fn take(expected: &mut View, actual: &View, applies: bool) -> bool {
    if applies {
        *expected = actual.clone();
    }
    applies
}

/// The column that PostgreSQL did not find.
pub(super) fn missing_column(view: &View) -> String {
    let message = view.error("message");
    let name = message.strip_prefix("column ").and_then(|rest| rest.strip_suffix(" does not exist"));
    let column = name.and_then(|name| name.split_once('.')).map_or("", |(_, column)| column).to_owned();
    if view.is("42703") { column } else { String::new() }
}

fn odd_limit(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let root = |wanted: &str| {
        let parameter = case.parameters().into_iter().find(|(key, _)| key == wanted);
        parameter.map(|(_, value)| value.trim().to_owned())
    };
    let (limit, offset) = (root("limit"), root("offset"));
    // Without a plus.
    let number = |text: &Option<String>| {
        text.as_ref().filter(|text| !text.starts_with('+')).and_then(|text| text.parse::<i64>().ok())
    };
    let is_refused = |view: &View| {
        view.is("PGRST103") && view.error("details") == "Limit should be greater than or equal to zero."
            || case.method == "HEAD" && view.status == 416
    };
    let is_negative = number(&limit).is_some_and(|limit| limit < 0);
    let is_odd = limit.is_some() && number(&limit).is_none_or(|limit| limit == 0);
    let has_odd_offset = offset.is_some() && number(&offset).is_none_or(|offset| offset < 0);
    let applies = if is_negative {
        is_refused(actual)
    } else {
        (is_odd || has_odd_offset)
            && !is_refused(actual)
            && (is_refused(expected) || expected.status < 300 || expected.is("PGRST116"))
    };
    take(expected, actual, applies)
}

fn representation_quantifier(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let query = case.query();
    let applies = expected.is("42809")
        && expected.error("message") == "op ANY/ALL (array) requires array on right side"
        && (query.contains("(any)") || query.contains("(all)"))
        && (actual.status < 300
            || actual.is("PGRST103")
            || actual.is("PGRST116")
            // A row's value that is cast.
            || actual.is("22P02") && query.contains("::"));
    take(expected, actual, applies)
}

fn custom_handler_select(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let accept = case.header("Accept").unwrap_or_default();
    let has_select = case.parameters().iter().any(|(key, value)| key == "select" && value != "*");
    let message = format!("None of these media types are available: {accept}");
    if accept == "application/x-lines" && has_select {
        // 12 casts the row to the relation's type first.
        let is_cast = expected.is("42846") || expected.is("22P02");
        return take(expected, actual, is_cast && (actual.status < 300 || actual.is("PGRST103")));
    }
    let applies = ["text/plain", "text/x-list"].contains(&accept)
        && has_select
        && (actual.is("PGRST107") && actual.error("message") == message
            || case.method == "HEAD" && actual.status == 406);
    if applies && case.method == "HEAD" {
        *expected = actual.clone();
    } else if applies {
        expected.become_error(406, "PGRST107", &message, &Value::Null, &Value::Null);
    }
    applies
}

fn profile_first(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let reads = matches!(case.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    let wanted = case.header(if reads { "Accept-Profile" } else { "Content-Profile" });
    let Some(wanted) = wanted.filter(|_| expected.is("PGRST100") && actual.is("PGRST106")) else {
        return false;
    };
    let hint = actual.json()["hint"].clone();
    expected.become_error(406, "PGRST106", &format!("Invalid schema: {wanted}"), &Value::Null, &hint);
    true
}

fn ambiguous_twice(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_ambiguous =
        |view: &View| view.is("42702") && view.error("message").starts_with("column reference \"");
    let applies = is_ambiguous(expected) && is_ambiguous(actual);
    take(expected, actual, applies)
}

fn late_strict(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    const KNOWN: &[&str] = &[
        "return=minimal",
        "return=headers-only",
        "return=representation",
        "resolution=merge-duplicates",
        "resolution=ignore-duplicates",
        "missing=default",
        "missing=null",
        "count=exact",
        "count=planned",
        "count=estimated",
        "tx=commit",
        "tx=rollback",
        "handling=strict",
        "handling=lenient",
    ];
    let is_unknown = |preference: &str| {
        !KNOWN.contains(&preference) && !preference.starts_with("timezone=") && case.prefers(preference)
    };
    let details = actual.error("details");
    let applies = case.prefers("handling=strict")
        && !expected.is("PGRST122")
        && actual.is("PGRST122")
        && details.strip_prefix("Invalid preferences: ").is_some_and(|list| list.split(", ").all(is_unknown));
    take(expected, actual, applies)
}

fn count_privileges(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let message = expected.error("message");
    let table = message.strip_prefix("permission denied for table ").unwrap_or_default();
    let path = percent_encoding::percent_decode_str(case.path()).decode_utf8_lossy().into_owned();
    let select = case.parameters().into_iter().find(|(key, _)| key == "select").map(|(_, value)| value);
    let select = select.unwrap_or_default().replace('"', "");
    // `count()`, or an empty embed: by the table's name, or by one that leads there.
    let is_counted = path.trim_start_matches('/') == table || select.contains(table);
    let counts = select.contains("count()") && is_counted;
    let is_empty = select.match_indices("()").any(|(at, _)| {
        let name =
            select.get(..at).unwrap_or_default().rsplit([',', '(', ':', '.']).next().unwrap_or_default();
        !name.is_empty() && name != "count"
    });
    let applies = expected.is("42501") && !table.is_empty() && (counts || is_empty) && actual.status < 300;
    take(expected, actual, applies)
}

fn lost_relationships(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_lost = |view: &View| view.is("PGRST200") || view.is("PGRST201");
    // The two relations are named in the message, which may be of the other kind.
    let pair = |view: &View| {
        let message = view.error("message");
        message
            .find(" between ")
            .or_else(|| message.find(" for '"))
            .and_then(|start| message.get(start..).map(str::to_owned))
    };
    let embeds = case.query().matches('(').count();
    let applies = is_lost(expected) && is_lost(actual) && embeds > 1 && pair(expected) != pair(actual);
    take(expected, actual, applies)
}

fn two_errors(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_of_statement =
        |view: &View| ["42", "22", "0A"].into_iter().any(|class| view.error("code").starts_with(class));
    let said = |view: &View| (view.error("code"), view.error("message"), view.error("details"));
    let words = complaint::words(case);
    let applies = is_of_statement(expected)
        && is_of_statement(actual)
        && said(expected) != said(actual)
        && complaint::is_in(&words, expected)
        && complaint::is_in(&words, actual);
    take(expected, actual, applies)
}

fn key_identifier(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    use base64::Engine as _;
    let token =
        case.header("Authorization").and_then(|value| value.split_once(' ')).map_or("", |(_, token)| token);
    let header = token.split('.').next().unwrap_or_default();
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let has_identifier = String::from_utf8_lossy(&header).contains("\"kid\"");
    let message = "No suitable key or wrong key type";
    let applies = has_identifier
        && !expected.is("PGRST301")
        && actual.is("PGRST301")
        && actual.error("message") == message;
    take(expected, actual, applies)
}

fn lost_embeds(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let lost = |view: &View| {
        let message = view.error("message");
        let name =
            message.strip_prefix('\'').and_then(|rest| rest.split_once("' is not an embedded resource"));
        name.map(|(name, _)| name.to_owned()).filter(|_| view.is("PGRST108"))
    };
    let (Some(theirs), Some(ours)) = (lost(expected), lost(actual)) else { return false };
    let is_path = |name: &str| {
        case.parameters()
            .iter()
            .any(|(key, value)| key.contains(name) || key == "order" && value.contains(name))
    };
    if !is_path(&theirs) || !is_path(&ours) {
        return false;
    }
    expected.set_error(&[
        ("message", json!(format!("'{ours}' is not an embedded resource in this request"))),
        ("hint", json!(format!("Verify that '{ours}' is included in the 'select' query parameter."))),
    ]);
    true
}

fn impossible_total(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let numbers = |view: &View| -> Option<(i64, i64)> {
        let (range, total) = view.header("content-range").split_once('/')?;
        Some((range.split_once('-')?.1.parse().ok()?, total.parse().ok()?))
    };
    // Beyond the end: how many there are.
    let beyond = |view: &View| {
        view.header("content-range").strip_prefix("*/").and_then(|total| total.parse::<i64>().ok())
    };
    let has_offset = case.parameters().iter().any(|(key, _)| key.ends_with(".offset"));
    if let (416, 416, Some(theirs), Some(ours)) =
        (expected.status, actual.status, beyond(expected), beyond(actual))
    {
        let is_tested = case.query().contains("is.null");
        let applies = has_offset && (case.query().contains("!inner") && ours < theirs || is_tested);
        return take(expected, actual, applies);
    }
    let (Some((last, theirs)), Some((ours_last, ours))) = (numbers(expected), numbers(actual)) else {
        return false;
    };
    let applies = last >= theirs && last == ours_last && ours > last;
    if applies {
        let range = actual.header("content-range").to_owned();
        expected.set_header("content-range", &range);
    }
    applies
}

fn blank_name(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = expected.is("42601")
        && expected.error("message").starts_with("zero-length delimited identifier")
        && actual.is("PGRST100")
        && actual.error("message").starts_with("\"failed to parse tree path (")
        && case.parameters().iter().any(|(key, _)| key.split('.').any(|name| name.trim().is_empty()));
    take(expected, actual, applies)
}

fn list_of_representations(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let message = expected.error("message");
    let value =
        message.rsplit_once(": \"").and_then(|(_, value)| value.strip_suffix('"')).unwrap_or_default();
    let filters = case.parameters();
    let is_list = |test: &str| test.contains("in.(") && !value.is_empty() && test.contains(value);
    let other =
        |(key, test): &(String, String)| !["select", "order"].contains(&key.as_str()) && !is_list(test);
    let applies = case.path().starts_with("/masks")
        && expected.is("22P02")
        && filters.iter().any(|(_, test)| is_list(test))
        && filters.iter().any(other)
        && actual.status == 200
        && actual.body == "[]";
    take(expected, actual, applies)
}

fn nul(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let in_body = case.body.as_deref().is_some_and(|body| body.contains('\0')) && expected.is("22P02");
    let in_target = case.target.contains("%00") && (expected.is("22P05") || expected.status < 300);
    let in_name = case.target.contains("%00")
        && expected.is("42703")
        && actual.is("PGRST100")
        && actual.error("details").ends_with(" expecting name without NUL");
    take(expected, actual, (in_body || in_target) && actual.is("22021") || in_name)
}

fn head_error(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let ours = actual.header("proxy-status").trim_start_matches("PostgREST; error=");
    let query = case.query();
    let may_succeed = case.path().starts_with("/rpc/")
        || ["...", "(any)", "(all)"].into_iter().any(|mark| query.contains(mark));
    let is_known = match (expected.status, actual.status) {
        // Values that no response contains are not cast.
        (400, 200 | 206) if query.contains("::") => true,
        // `unselected-columns`, `to-many-spread`, `representation-quantifier`.
        (400, 200 | 206) => may_succeed,
        // `argument-names`, `unknown-table`, and another fault beside `unselected-columns`.
        (400, 404) => ["PGRST202", "PGRST205", "42883"].contains(&ours),
        (404, 200 | 406) => case.path().starts_with("/rpc/"),
        // `count-privileges`.
        (401 | 403, 200 | 206) => true,
        // `sqlstate-status`.
        (400, 500) => ours == "42P17",
        // `profile-first`.
        (400, 406) => ours == "PGRST106",
        // `late-strict`.
        (200 | 206, 400) if ours == "PGRST122" => case.prefers("handling=strict"),
        // `trailing-text`.
        (200 | 404 | 415, 400) => case.place.ends_with('!') && ours == "PGRST100",
        _ => false,
    };
    take(expected, actual, case.method == "HEAD" && case.place.contains(':') && is_known)
}

fn embeds_first(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_later = ["PGRST200", "PGRST201", "PGRST107", "PGRST122"].into_iter().any(|code| expected.is(code));
    let is_written = expected.status == 201 && expected.error("code") == "PGRST108";
    let message = actual.error("message");
    let name = message.strip_prefix('\'').and_then(|rest| rest.split_once("' is not an embedded resource"));
    let is_path = name.is_some_and(|(name, _)| case.query().contains(name));
    take(expected, actual, (is_later || is_written) && actual.is("PGRST108") && is_path)
}

fn crash(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let falls = expected.status == 500 && expected.body == "Something went wrong";
    let is_wrong_status = expected.status == 0 && actual.is("PGRST112");
    let is_well = actual.status < 500 && actual.status > 0;
    take(expected, actual, falls && is_well || is_wrong_status)
}

fn tabs(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let applies = case.parameters().iter().any(|(key, value)| {
        ["select", "columns", "on_conflict"].contains(&key.as_str()) && value.contains('\t')
    }) && expected.is("PGRST100")
        && !actual.is("PGRST100");
    take(expected, actual, applies)
}
