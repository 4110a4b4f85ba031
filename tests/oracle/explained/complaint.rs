//! Whether the subject of a PostgreSQL error is in the request.
//!
//! A statement of another shape may meet another one of a request's faults first. That is no difference only where both
//! faults are really there: each complaint has to be found in the request again, by the name, value, operator or
//! function that it names. A complaint of a kind that is not listed here is never there.

use super::super::case::Case;
use super::super::response::View;

/// What SQL's operators are called on the wire.
const OPERATORS: &[(&str, &str)] = &[
    ("=", "eq"),
    ("=", "in"),
    ("=", "isdistinct"),
    ("<>", "neq"),
    (">", "gt"),
    (">=", "gte"),
    ("<", "lt"),
    ("<=", "lte"),
    ("~~", "like"),
    ("~~*", "ilike"),
    ("~", "match"),
    ("~*", "imatch"),
    ("@@", "fts"),
    ("@>", "cs"),
    ("<@", "cd"),
    ("&&", "ov"),
    ("<<", "sl"),
    (">>", "sr"),
    ("&<", "nxr"),
    ("&>", "nxl"),
    ("-|-", "adj"),
];

/// What PostgreSQL calls types that requests call otherwise.
const SHORT_TYPES: &[(&str, &str)] = &[("integer", "int"), ("character varying", "varchar")];

/// Everything a request says, in one text without the marks of quoting.
pub(super) fn words(case: &Case) -> String {
    let path = percent_encoding::percent_decode_str(case.path()).decode_utf8_lossy().into_owned();
    let parameters: Vec<String> =
        case.parameters().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    plain(&format!("{path} {} {}", parameters.join("&"), case.body.as_deref().unwrap_or_default()))
}

fn plain(text: &str) -> String {
    text.replace(['\\', '"'], "")
}

/// Whether what an error complains about is in `words`.
pub(super) fn is_in(words: &str, view: &View) -> bool {
    let (code, message) = (view.error("code"), view.error("message"));
    let message = plain(&message);
    let has = |text: &str| !text.is_empty() && words.contains(text);
    match code.as_str() {
        "42703" => columns(&message).any(has),
        "42702" => between(&message, "column reference ", " is ambiguous").is_some_and(has),
        "42501" => message
            .strip_prefix("permission denied for ")
            .is_some_and(|rest| rest.split_once(' ').is_some_and(|(_, name)| has(name) || is_named(words))),
        "42883" | "42P18" => is_operator(words, &message) || is_function(words, &message),
        "42809" if message == "op ANY/ALL (array) requires array on right side" => {
            words.contains("(any)") || words.contains("(all)")
        }
        "42803" | "42809" => ["count", "()"].into_iter().any(has),
        "42601" if message.starts_with("syntax error in hstore") => has("{"),
        // A value, behind a colon or as a part.
        "22P02" | "22007" | "22008" | "22003" | "42601" | "22P05" | "22030" | "2201B" => {
            let value = message.split_once(": ").map(|(_, value)| value).or_else(|| {
                between(&message, "value ", " is out of range")
                    .or_else(|| between(&message, "near ", " at position"))
            });
            value.is_none_or(|value| value.is_empty() || has(value.trim()) || code == "2201B" && has("match"))
        }
        // Of integers they shift.
        "42804" if message.starts_with("argument of ") => has("sl.") || has("sr."),
        "22025" => has("like"),
        // Of a composite that PostgreSQL takes for any row.
        "0A000" if message == "input of anonymous composite types is not implemented" => {
            OPERATORS.iter().any(|(_, word)| has(&format!("{word}.")))
        }
        // A cast: of what to what, and to a type that is none.
        "42846" => message.rsplit_once(" to ").is_some_and(|(_, kind)| {
            let short = SHORT_TYPES.iter().find(|(name, _)| *name == kind).map_or(kind, |(_, short)| *short);
            [kind, short].into_iter().any(|kind| has(&format!("::{kind}")))
        }),
        "42704" if message.starts_with("type ") => {
            between(&message, "type ", " does not exist").is_some_and(|kind| has(&format!("::{kind}")))
        }
        "42704" if message.starts_with("could not find array type for data type ") => has("in."),
        // A body that is no row, and was not read.
        "22023" if message.starts_with("cannot ") && message.ends_with(" a scalar") => has("columns="),
        _ => false,
    }
}

/// Some embed is called by a constraint or a column: what it leads to has a name that the request does not say.
fn is_named(words: &str) -> bool {
    words.contains('(')
}

/// The column's name, which may hold dots itself, behind that of its row.
fn columns(message: &str) -> impl Iterator<Item = &str> {
    let name = between(message, "column ", " does not exist").unwrap_or_default();
    name.match_indices('.').filter_map(move |(at, _)| name.get(at + 1..))
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.strip_prefix(start)
        .or_else(|| text.split_once(start).map(|(_, rest)| rest))?
        .split_once(end)
        .map(|(name, _)| name)
}

/// `operator does not exist: jsonb ~ unknown`
fn is_operator(words: &str, message: &str) -> bool {
    if message.starts_with("could not identify an ") {
        return words.contains("order=") || words.contains("()");
    }
    let Some(types) = message.strip_prefix("operator does not exist: ") else { return false };
    types.split(' ').any(|symbol| {
        OPERATORS.iter().any(|(sql, word)| {
            *sql == symbol && ["=", "."].into_iter().any(|before| words.contains(&format!("{before}{word}")))
        })
    })
}

/// `function to_tsvector(text[]) does not exist`
fn is_function(words: &str, message: &str) -> bool {
    let Some(name) =
        message.strip_prefix("function ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name)
    else {
        return false;
    };
    let name = name.rsplit('.').next().unwrap_or(name);
    name == "to_tsvector" && words.contains("fts")
        || words.contains(&format!("{name}()"))
        || words.contains(name)
}
