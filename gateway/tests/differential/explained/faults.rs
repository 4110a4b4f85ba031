//! Faults of 12.0.2 that show in many requests, and what PostgreSQL says to statements of another shape.

use serde_json::{Value, json};

use super::super::answer::View;
use super::super::case::Case;
use super::Rule;

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
        name: "unselected-columns",
        reason: "13 (#3965): what a function returns is filtered and sorted by columns that are not selected",
        apply: unselected_columns,
    },
    Rule {
        name: "logic-on-writes",
        reason: "rest.md §3.9: root filters choose the rows to write, those of embeds stay in their embeds; 12 applies logic trees to the columns \
                 returned as well",
        apply: logic_on_writes,
    },
    Rule {
        name: "representation-quantifier",
        reason: "rest.md §3.12: filter values go through the domain's cast, those in an array too; 12 casts the array",
        apply: representation_quantifier,
    },
    Rule {
        name: "csv-header-only",
        reason: "rest.md §3.9: a header line alone is no rows; 12 cannot read it",
        apply: csv_header_only,
    },
    Rule {
        name: "custom-handler-select",
        reason: "12.0.3 (#3160), rest.md §3.12: custom handlers only with the default select",
        apply: custom_handler_select,
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
        name: "profile-first",
        reason: "rest.md §1.2: the profile is judged before the query",
        apply: profile_first,
    },
    Rule {
        name: "named-raw-parameter",
        reason: "rest.md §3.10: only an unnamed parameter takes a raw body; 12 chose a named one and called it without",
        apply: named_raw_parameter,
    },
    Rule {
        name: "default-of-scalar",
        reason: "rest.md §3.9: with `columns` the body goes to the database unread; PostgreSQL words the error of another function",
        apply: default_of_scalar,
    },
    Rule {
        name: "ambiguous-twice",
        reason: "two columns are ambiguous, and PostgreSQL names the first it meets",
        apply: ambiguous_twice,
    },
    Rule {
        name: "argument-names",
        reason: "rest.md §3.10: the keys of GET are names of parameters, with whatever letters; 12 reads them as paths to columns",
        apply: argument_names,
    },
    Rule {
        name: "late-strict",
        reason: "rest.md §3.11: with handling=strict any unknown preference is refused; 12 passes the first one",
        apply: late_strict,
    },
    Rule {
        name: "count-privileges",
        reason: "rest.md §3.17: only the columns asked for are read; 12 counts whole rows",
        apply: count_privileges,
    },
    Rule {
        name: "lost-relationships",
        reason: "rest.md §1.2: several embeds lead nowhere or to several places; which is told first is not said",
        apply: lost_relationships,
    },
    Rule {
        name: "two-errors",
        reason: "a request broken at random has several faults, and statements of another shape show PostgreSQL another one first",
        apply: two_errors,
    },
    Rule {
        name: "key-identifier",
        reason: "rest.md §3.15: a `kid` has to fit; 12 tries every key",
        apply: key_identifier,
    },
    Rule {
        name: "empty-raw-body",
        reason: "rest.md §3.10: an empty body is `{}`, for a function that takes the raw body as well",
        apply: empty_raw_body,
    },
    Rule {
        name: "empty-embed",
        reason: "rest.md §3.7: an empty embed joins and filters; where it does neither we leave it out, and its conditions are not judged",
        apply: empty_embed,
    },
    Rule {
        name: "lost-embeds",
        reason: "rest.md §1.2: several paths lead nowhere; which is named first is not told",
        apply: lost_embeds,
    },
    Rule {
        name: "impossible-total",
        reason: "rest.md §3.6: the total holds at least the rows sent; 12 counts null filters on embeds without their offset",
        apply: impossible_total,
    },
    Rule {
        name: "nul",
        reason: "PostgreSQL takes no NUL: 12 cuts the value there, or sends it as JSON, which has another error",
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

fn alias(_case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let same = |key: &str| unnumbered(&expected.error(key)) == unnumbered(&answered.error(key));
    let applies = expected.is("42703") && answered.is("42703") && same("message") && same("hint");
    if applies {
        let body = answered.json();
        expected.set_error(&[("message", body["message"].clone()), ("hint", body["hint"].clone())]);
    }
    applies
}

fn take(expected: &mut View, answered: &View, applies: bool) -> bool {
    if applies {
        *expected = answered.clone();
    }
    applies
}

fn odd_limit(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let root = |wanted: &str| {
        let parameter = case.parameters().into_iter().find(|(key, _)| key == wanted);
        parameter.map(|(_, value)| value.trim().to_owned())
    };
    let (limit, offset) = (root("limit"), root("offset"));
    let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<i64>().ok());
    let is_refused = |view: &View| {
        view.is("PGRST103") && view.error("details") == "Limit should be greater than or equal to zero."
            || case.method == "HEAD" && view.status == 416
    };
    let is_negative = number(&limit).is_some_and(|limit| limit < 0);
    let is_odd = limit.is_some() && number(&limit).is_none_or(|limit| limit == 0);
    let has_odd_offset = offset.is_some() && number(&offset).is_none_or(|offset| offset < 0);
    let applies = if is_negative {
        is_refused(answered)
    } else {
        (is_odd || has_odd_offset) && !is_refused(answered) && (is_refused(expected) || expected.status < 300)
    };
    take(expected, answered, applies)
}

/// The column that PostgreSQL did not find.
fn missing_column(view: &View) -> String {
    let message = view.error("message");
    let name = message.strip_prefix("column ").and_then(|rest| rest.strip_suffix(" does not exist"));
    let column = name.and_then(|name| name.split_once('.')).map_or("", |(_, column)| column).to_owned();
    if view.is("42703") { column } else { String::new() }
}

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

fn unselected_columns(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let column = missing_column(expected);
    let is_selected = case.parameters().iter().any(|(key, value)| {
        key == "select" && own_items(value).split(',').any(|item| item.contains(&column))
    });
    let applies = case.path().starts_with("/rpc/")
        && !column.is_empty()
        && case.query().contains(&column)
        && !is_selected
        && !answered.is("42703")
        && !answered.error("code").starts_with("PGRST1");
    take(expected, answered, applies)
}

fn logic_on_writes(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let column = missing_column(expected);
    let is_in_tree = |(key, value): &(String, String)| {
        ["and", "or"].contains(&key.rsplit('.').next().unwrap_or_default()) && value.contains(&column)
    };
    let applies = case.is_write()
        && !column.is_empty()
        && case.parameters().iter().any(is_in_tree)
        && !answered.error("code").starts_with("PGRST1");
    take(expected, answered, applies)
}

fn representation_quantifier(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let query = case.query();
    let applies = expected.is("42809")
        && expected.error("message") == "op ANY/ALL (array) requires array on right side"
        && (query.contains("(any)") || query.contains("(all)"))
        && (answered.status < 300 || answered.is("PGRST103") || answered.is("PGRST116"));
    take(expected, answered, applies)
}

fn csv_header_only(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let applies = expected.is("PGRST102")
        && expected.error("message").starts_with("parse error (not enough input)")
        && case.header("Content-Type") == Some("text/csv")
        && case.body.as_deref().is_some_and(|body| !body.contains('\n'))
        && !answered.is("PGRST102");
    take(expected, answered, applies)
}

fn custom_handler_select(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let accept = case.header("Accept").unwrap_or_default();
    let has_select = case.parameters().iter().any(|(key, value)| key == "select" && value != "*");
    let message = format!("None of these media types are available: {accept}");
    let applies = ["application/x-lines", "text/plain", "text/x-list"].contains(&accept)
        && has_select
        && answered.is("PGRST107")
        && answered.error("message") == message;
    if applies {
        expected.become_error(406, "PGRST107", &message, &Value::Null, &Value::Null);
    }
    applies
}

fn put_quoted_key(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let is_quoted = |(key, value): &(String, String)| key.starts_with('"') && value.starts_with("eq.");
    let applies = case.method == "PUT"
        && expected.is("PGRST105")
        && case.parameters().iter().any(is_quoted)
        && !answered.is("PGRST105");
    take(expected, answered, applies)
}

fn put_without_key(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let applies = case.method == "PUT"
        && expected.error("message").starts_with("column pgrst_body.")
        && expected.is("42703")
        && answered.is("PGRST115");
    if applies {
        let message = "Payload values do not match URL in primary key column(s)";
        expected.become_error(400, "PGRST115", message, &Value::Null, &Value::Null);
    }
    applies
}

fn profile_first(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let reads = matches!(case.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    let wanted = case.header(if reads { "Accept-Profile" } else { "Content-Profile" });
    let Some(wanted) = wanted.filter(|_| expected.is("PGRST100") && answered.is("PGRST106")) else {
        return false;
    };
    let hint = answered.json()["hint"].clone();
    expected.become_error(406, "PGRST106", &format!("Invalid schema: {wanted}"), &Value::Null, &hint);
    true
}

fn named_raw_parameter(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let is_raw =
        matches!(case.header("Content-Type"), Some("text/plain" | "text/xml" | "application/octet-stream"));
    let message = expected.error("message");
    let called_without = message.starts_with("function ") && message.ends_with("() does not exist");
    let applies = is_raw
        && (expected.is("42883") && called_without || expected.is("PGRST107"))
        && answered.is("PGRST202")
        && answered.error("details").contains("with a single unnamed ");
    take(expected, answered, applies)
}

fn default_of_scalar(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let theirs = expected.error("message");
    let is_no_array = theirs.starts_with("argument of json")
        && theirs.ends_with("_to_recordset must be an array of objects");
    let ours = answered.error("message");
    let is_scalar = ours == "cannot extract elements from a scalar"
        || ours == "cannot call json_to_recordset on a scalar";
    let applies = case.body.as_deref().is_some_and(|body| !body.contains('{'))
        && expected.is("22023")
        && is_no_array
        && answered.is("22023")
        && is_scalar;
    take(expected, answered, applies)
}

fn ambiguous_twice(_case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let is_ambiguous =
        |view: &View| view.is("42702") && view.error("message").starts_with("column reference \"");
    let applies = is_ambiguous(expected) && is_ambiguous(answered);
    take(expected, answered, applies)
}

fn argument_names(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let is_odd =
        |key: &str| key.contains(|letter: char| !letter.is_alphanumeric() && !" _-$".contains(letter));
    let applies = case.path().starts_with("/rpc/")
        && !case.is_write()
        && case.parameters().iter().any(|(key, _)| is_odd(key))
        && expected.is("PGRST202")
        && (answered.is("PGRST202") || answered.status < 300);
    take(expected, answered, applies)
}

fn late_strict(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let prefer = case.header("Prefer").unwrap_or_default();
    let applies = prefer.contains("handling=strict")
        && !prefer.starts_with("handling=strict")
        && !expected.is("PGRST122")
        && answered.is("PGRST122");
    take(expected, answered, applies)
}

fn count_privileges(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let applies = case.query().contains("count()") && expected.is("42501") && answered.status < 300;
    take(expected, answered, applies)
}

fn lost_relationships(case: &Case, expected: &mut View, answered: &mut View) -> bool {
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
    let applies = is_lost(expected) && is_lost(answered) && embeds > 1 && pair(expected) != pair(answered);
    take(expected, answered, applies)
}

fn two_errors(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let is_planned = |view: &View| view.error("code").starts_with("42");
    let applies = case.place.ends_with('!')
        && is_planned(expected)
        && is_planned(answered)
        && expected.error("code") != answered.error("code");
    take(expected, answered, applies)
}

fn key_identifier(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    use base64::Engine as _;
    let token =
        case.header("Authorization").and_then(|value| value.split_once(' ')).map_or("", |(_, token)| token);
    let header = token.split('.').next().unwrap_or_default();
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let has_identifier = String::from_utf8_lossy(&header).contains("\"kid\"");
    let message = "No suitable key or wrong key type";
    let applies = has_identifier
        && !expected.is("PGRST301")
        && answered.is("PGRST301")
        && answered.error("message") == message;
    take(expected, answered, applies)
}

fn empty_raw_body(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let applies = case.path().starts_with("/rpc/")
        && case.body.as_deref().is_none_or(str::is_empty)
        && expected.is("22P02")
        && expected.error("details") == "The input string ended unexpectedly."
        && answered.status < 300;
    take(expected, answered, applies)
}

fn empty_embed(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let code = expected.error("code");
    let is_judged = ["22P02", "22007", "42703", "42883"].contains(&code.as_str());
    let has_empty = case.parameters().iter().any(|(key, value)| key == "select" && value.contains("()"));
    let has_condition =
        case.parameters().iter().any(|(key, _)| key.contains('.') && !key.ends_with(".order"));
    let applies = is_judged && has_empty && has_condition && answered.status < 300;
    take(expected, answered, applies)
}

fn lost_embeds(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let lost = |view: &View| {
        let message = view.error("message");
        let name =
            message.strip_prefix('\'').and_then(|rest| rest.split_once("' is not an embedded resource"));
        name.map(|(name, _)| name.to_owned()).filter(|_| view.is("PGRST108"))
    };
    let (Some(theirs), Some(ours)) = (lost(expected), lost(answered)) else { return false };
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

fn impossible_total(_case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let numbers = |view: &View| -> Option<(i64, i64)> {
        let (range, total) = view.header("content-range").split_once('/')?;
        Some((range.split_once('-')?.1.parse().ok()?, total.parse().ok()?))
    };
    let (Some((last, theirs)), Some((ours_last, ours))) = (numbers(expected), numbers(answered)) else {
        return false;
    };
    let applies = last >= theirs && last == ours_last && ours > last;
    if applies {
        let range = answered.header("content-range").to_owned();
        expected.set_header("content-range", &range);
    }
    applies
}

fn nul(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let applies = case.target.contains("%00")
        && (expected.is("22P05") || expected.status < 300)
        && answered.is("22021");
    take(expected, answered, applies)
}

fn head_error(case: &Case, expected: &mut View, answered: &mut View) -> bool {
    let applies = case.method == "HEAD"
        && case.place.contains(':')
        && expected.status >= 400
        && expected.status < 500
        && answered.status != expected.status;
    take(expected, answered, applies)
}
