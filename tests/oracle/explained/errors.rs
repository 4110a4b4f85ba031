//! Errors: different codes, statuses and texts.

use serde_json::{Value, json};

use super::super::case::{Case, as_role};
use super::super::response::View;
use super::Rule;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "singular",
        reason: "13 (#3795) words PGRST116 anew; 12.0.3 (#3373) takes the singular type out of the error's Content-Type",
        apply: singular,
    },
    Rule {
        name: "not-acceptable",
        reason: "12.0.3 (#3224): a media type that cannot be produced is 406, no longer 415",
        apply: not_acceptable,
    },
    Rule {
        name: "unknown-schema",
        reason: "14 (#4089): PGRST106 names the wrong schema in its message and the exposed ones in its hint",
        apply: unknown_schema,
    },
    Rule {
        name: "unknown-table",
        reason: "13 (#3697): a table that is not in the cache is PGRST205, and is looked for before anything else about it",
        apply: unknown_table,
    },
    Rule {
        name: "invalid-path",
        reason: "13 (#3906): a path that leads nowhere is PGRST125, no longer an empty object",
        apply: invalid_path,
    },
    Rule {
        name: "parse-error-details",
        reason: "rest.md §3.18: PGRST100 keeps the form of its message; the place and the details are worded by us",
        apply: parse_error,
    },
    Rule { name: "unknown-column", reason: "12.0.3 (#3361) words PGRST204 anew", apply: unknown_column },
    Rule {
        name: "raise-pgrst",
        reason: "12.2 (#3404): PGRST121 tells what was wrong with the RAISE and how it should look",
        apply: raise_pgrst,
    },
    Rule {
        name: "sqlstate-status",
        reason: "12.0.3 and 12.2 (#3205, #3256, #3255, #3267): 21000, 42P17, 54xxx and 53400 are 500",
        apply: sqlstate_status,
    },
    Rule {
        name: "unknown-role",
        reason: "14 (#3601): a role that does not exist is 401 and asks for a token",
        apply: unknown_role,
    },
    Rule {
        name: "value-alias",
        reason: "rest.md §3.17: the statement's shape is free; a scalar result has another alias in PostgreSQL's error",
        apply: value_alias,
    },
    Rule {
        name: "origin-hint",
        reason: "rest.md §3.22 (6): where the origin of an embed was found, only the target is corrected",
        apply: origin_hint,
    },
    Rule {
        name: "grant-hint",
        reason: "rest.md §7.1, ours: a hint tells service_role which grant is missing",
        apply: grant_hint,
    },
    Rule {
        name: "token",
        reason: "13 (#3600, #3926): token errors have messages of their own, and PGRST303 for claims",
        apply: token,
    },
];

fn singular(_case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    // A response to HEAD is known by its two types.
    let has_two_types = expected.headers.get("content-type").is_some_and(|kinds| kinds.len() == 2);
    let applies = expected.is("PGRST116") || (expected.status == 406 && has_two_types);
    if !applies {
        return false;
    }
    expected.set_header("content-type", "application/json; charset=utf-8");
    if !expected.body.is_empty() {
        expected.set_error(&[("message", json!("Cannot coerce the result to a single JSON object"))]);
    }
    true
}

fn not_acceptable(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_bodiless = expected.body.is_empty() && actual.status == 406;
    let applies = expected.status == 415 && (expected.is("PGRST107") || is_bodiless);
    if applies {
        expected.status = 406;
    }
    applies
}

fn unknown_schema(case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let message = expected.error("message");
    let Some(schemas) = message.strip_prefix("The schema must be one of the following: ") else {
        return false;
    };
    let reads = matches!(case.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    let wanted = case.header(if reads { "Accept-Profile" } else { "Content-Profile" }).unwrap_or_default();
    expected.set_error(&[
        ("message", json!(format!("Invalid schema: {wanted}"))),
        ("hint", json!(format!("Only the following schemas are exposed: {schemas}"))),
    ]);
    true
}

/// The hint is ours when it has the form of one.
fn hint_of(actual: &View, start: &str) -> Value {
    let hint = actual.error("hint");
    if hint.starts_with(start) { json!(hint) } else { Value::Null }
}

fn unknown_table(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let is_missing = expected.is("42P01") && expected.error("message").starts_with("relation \"");
    let has_no_options = matches!(case.method.as_str(), "OPTIONS" | "POST" | "PATCH" | "PUT")
        && expected.status == 404
        && expected.body == "{}";
    if !is_missing && !has_no_options && !actual.is("PGRST205") {
        return false;
    }
    // 12 looked at the query first, and found a missing table only in PostgreSQL.
    let was_later = matches!(
        expected.error("code").as_str(),
        "PGRST200" | "PGRST108" | "PGRST204" | "PGRST105" | "PGRST107" | "PGRST122" | "42501"
    );
    if !is_missing && !has_no_options && !was_later {
        return false;
    }
    let path = percent_encoding::percent_decode_str(case.path()).decode_utf8_lossy().into_owned();
    let table = path.trim_start_matches('/');
    if case.path().trim_start_matches('/').contains('/') || table.is_empty() {
        return false;
    }
    let profile = case.header("Accept-Profile").or(case.header("Content-Profile")).unwrap_or(case.schema);
    let message = format!("Could not find the table '{profile}.{table}' in the schema cache");
    expected.become_error(
        404,
        "PGRST205",
        &message,
        &Value::Null,
        &hint_of(actual, &format!("Perhaps you meant the table '{profile}.")),
    );
    true
}

fn invalid_path(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let segments = case.path().trim_start_matches('/').split('/').count();
    let is_nothing = expected.status == 404 && (expected.body == "{}" || case.path() == "/rpc/");
    let applies = is_nothing && (segments > 1 || case.path().starts_with("//")) && actual.is("PGRST125");
    if applies {
        expected.become_error(
            404,
            "PGRST125",
            "Invalid path specified in request URL",
            &Value::Null,
            &Value::Null,
        );
    }
    applies
}

fn parse_error(_case: &Case, expected: &mut View, actual: &mut View) -> bool {
    if !expected.is("PGRST100") || !actual.is("PGRST100") {
        return false;
    }
    let form = |view: &View| view.error("message").rsplit_once(" (line ").map(|(form, _)| form.to_owned());
    if form(expected) != form(actual) {
        return false;
    }
    let (message, details) = (actual.error("message"), actual.error("details"));
    if details.is_empty() {
        return false;
    }
    expected.set_error(&[("message", json!(message)), ("details", json!(details))]);
    true
}

fn unknown_column(case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let message = expected.error("message");
    let Some(rest) = message.strip_prefix("Column '") else { return false };
    let Some((column, rest)) = rest.split_once("' of relation '") else { return false };
    let Some(table) = rest.strip_suffix("' does not exist") else { return false };
    if !expected.is("PGRST204") || case.path().is_empty() {
        return false;
    }
    let message = format!("Could not find the '{column}' column of '{table}' in the schema cache");
    expected.set_error(&[("message", json!(message))]);
    true
}

fn raise_pgrst(case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    if !expected.is("PGRST121") {
        return false;
    }
    let body: Value =
        case.body.as_deref().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    let parameters: Vec<(String, String)> = if case.method == "GET" {
        case.parameters()
    } else {
        url::form_urlencoded::parse(case.body.as_deref().unwrap_or_default().as_bytes())
            .into_owned()
            .collect()
    };
    // Of an array the first element counts.
    let body = body.get(0).cloned().unwrap_or(body);
    let said = |key: &str| {
        let parameter = parameters.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        body.get(key).and_then(Value::as_str).map(str::to_owned).or(parameter)
    };
    let message_is_right =
        said("message").and_then(|text| serde_json::from_str::<Value>(&text).ok()).is_some_and(|message| {
            message.get("code").is_some_and(Value::is_string)
                && message.get("message").is_some_and(Value::is_string)
        });
    let (details, hint) = if !message_is_right {
        (
            format!("Invalid JSON value for MESSAGE: '{}'", said("message").unwrap_or_default()),
            "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.",
        )
    } else {
        (
            said("detail").map_or("DETAIL is missing in the RAISE statement".to_owned(), |detail| {
                format!("Invalid JSON value for DETAIL: '{detail}'")
            }),
            "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.",
        )
    };
    expected.set_error(&[
        ("message", json!("Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error")),
        ("details", json!(details)),
        ("hint", json!(hint)),
    ]);
    true
}

fn origin_hint(_case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let message = expected.error("message").to_owned();
    let origin = message
        .strip_prefix("Could not find a relationship between '")
        .and_then(|rest| rest.split('\'').next())
        // Rows of no relation: there the origin is what is wrong.
        .filter(|origin| *origin != "record");
    let applies = expected.is("PGRST200")
        && origin
            .is_some_and(|origin| expected.error("hint").ends_with(&format!("' instead of '{origin}'.")));
    if applies {
        expected.set_error(&[("hint", Value::Null)]);
    }
    applies
}

fn grant_hint(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let hint = actual.error("hint");
    let is_explained = case.header("Authorization") == Some(as_role("service_role").as_str());
    let applies = is_explained
        && expected.is("42501")
        && expected.error("hint").is_empty()
        && hint.starts_with("Grant the required privileges to the current role with: GRANT ")
        && hint.ends_with(" TO service_role;");
    if applies {
        expected.set_error(&[("hint", json!(hint))]);
    }
    applies
}

fn sqlstate_status(_case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let code = expected.error("code");
    let applies = expected.status < 500 && (code == "42P17" || code.starts_with("54") || code == "21000")
        || expected.status == 503 && code == "53400";
    if applies {
        expected.status = 500;
        expected.remove_header("retry-after");
    }
    applies
}

fn unknown_role(_case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let message = expected.error("message");
    let applies =
        expected.is("22023") && message.starts_with("role \"") && message.ends_with("\" does not exist");
    if applies {
        expected.status = 401;
        expected.set_header("www-authenticate", "Bearer");
    }
    applies
}

/// Messages of 12 about a token, and those since.
const TOKEN_WORDS: &[(&str, &str, &str, Option<&str>)] = &[
    ("JWT expired", "PGRST303", "JWT expired", None),
    ("JWTNotYetValid", "PGRST303", "JWT not yet valid", None),
    ("JWTIssuedAtFuture", "PGRST303", "JWT issued at future", None),
    ("JWTNotInAudience", "PGRST303", "JWT not in audience", None),
    ("JWTClaimsSetDecodeError \"Error in $.exp:", "PGRST303", "The JWT 'exp' claim must be a number", None),
    ("JWTClaimsSetDecodeError \"Error in $.nbf:", "PGRST303", "The JWT 'nbf' claim must be a number", None),
    ("JWTClaimsSetDecodeError \"Error in $.iat:", "PGRST303", "The JWT 'iat' claim must be a number", None),
    (
        "JWTClaimsSetDecodeError \"Error in $.aud:",
        "PGRST303",
        "The JWT 'aud' claim must be a string or an array of strings",
        None,
    ),
    ("JWTClaimsSetDecodeError \"Error in $: ", "PGRST303", "Parsing claims failed", None),
    (
        "JWSError (JSONDecodeError \"Not valid base64url\")",
        "PGRST301",
        "JWT cryptographic operation failed",
        None,
    ),
    (
        "JWSError (JSONDecodeError \"missing required header",
        "PGRST301",
        "JWT cryptographic operation failed",
        None,
    ),
    (
        "JWSError JWSNoSignatures",
        "PGRST301",
        "Wrong or unsupported encoding algorithm",
        Some("JWT is unsecured but expected 'alg' was not 'none'"),
    ),
    (
        "JWSError JWSInvalidSignature",
        "PGRST301",
        "No suitable key or wrong key type",
        Some("None of the keys was able to decode the JWT"),
    ),
    (
        "JWSError (JSONDecodeError \"unrecognised value;",
        "PGRST301",
        "Wrong or unsupported encoding algorithm",
        Some("The algorithm 'XX1' is not supported"),
    ),
];

fn token(_case: &Case, expected: &mut View, _answered: &mut View) -> bool {
    let said = expected.error("message");
    if !expected.is("PGRST301") {
        return false;
    }
    let parts = said
        .strip_prefix("JWSError (CompactDecodeError Invalid number of parts: Expected 3 parts; got ")
        .and_then(|rest| rest.strip_suffix(')'));
    let (code, message, details) = if let Some(parts) = parts {
        ("PGRST301", format!("Expected 3 parts in JWT; got {parts}"), None)
    } else if let Some((_, code, message, details)) =
        TOKEN_WORDS.iter().find(|(start, ..)| said.starts_with(start))
    {
        (*code, (*message).to_owned(), *details)
    } else {
        return false;
    };
    expected.become_error(401, code, &message, &json!(details), &Value::Null);
    expected.set_header("x-content-type-options", "nosniff");
    expected.set_header(
        "www-authenticate",
        &format!("Bearer error=\"invalid_token\", error_description=\"{message}\""),
    );
    true
}

fn value_alias(case: &Case, expected: &mut View, actual: &mut View) -> bool {
    let column = |view: &View| {
        let message = view.error("message");
        let (_, column) =
            message.strip_prefix("column ")?.strip_suffix(" does not exist")?.split_once('.')?;
        Some(column.to_owned())
    };
    let applies = case.path().starts_with("/rpc/")
        && expected.is("42703")
        && actual.is("42703")
        && ["column pgrst_source.", "column pgrst_call."]
            .into_iter()
            .any(|start| actual.error("message").starts_with(start))
        && column(expected) == column(actual);
    if applies {
        let body = actual.json();
        expected.set_error(&[("message", body["message"].clone()), ("hint", body["hint"].clone())]);
    }
    applies
}
