//! Generates docs/ERRORS.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{SECTIONS, rows};

fn markdown() -> String {
    let mut text = String::from(
        "# Errors\n\n\
         Generated from `gateway/src/error_table/`; `cargo xtask gen-docs` regenerates it.\n\n\
         Code and status of an error are stable; its text may change. Before a request reaches a service, the gateway may\n\
         refuse it: 401 without a valid API key, 404 for an unknown path, both with `message` and without a code.\n",
    );
    for section in SECTIONS {
        let _ = write!(text, "\n## {}\n\n{}\n\n", section.title, section.intro);
        let has_status = section.rows.iter().any(|row| !row.status.is_empty());
        text.push_str(if has_status {
            "| code | status | meaning | what to do |\n|---|---|---|---|\n"
        } else {
            "| code | meaning | what to do |\n|---|---|---|\n"
        });
        for row in section.rows {
            let is_code = row.code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let code =
                if is_code && row.code != "others" { format!("`{}`", row.code) } else { row.code.to_owned() };
            let status = if has_status { format!(" {} |", row.status) } else { String::new() };
            let _ = writeln!(text, "| {code} |{status} {} | {} |", row.meaning, row.advice);
        }
    }
    text
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The part of a source file before its tests.
fn source(path: &str) -> String {
    let text = std::fs::read_to_string(repository().join(path)).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().replace("\\\"", "")
}

/// The status that a word before a code stands for: a constant or function of the error maps, or the number itself.
fn status_of(word: &str) -> Option<u16> {
    Some(match word {
        "MULTIPLE_CHOICES" => 300,
        "BAD" | "BAD_REQUEST" | "bad" | "bad_request" => 400,
        "UNAUTHORIZED" | "unauthorized" => 401,
        "DENIED" | "FORBIDDEN" => 403,
        "NOT_FOUND" | "gone" => 404,
        "METHOD_NOT_ALLOWED" => 405,
        "NOT_ACCEPTABLE" => 406,
        "REQUEST_TIMEOUT" => 408,
        "CONFLICT" | "duplicate" => 409,
        "PRECONDITION_FAILED" => 412,
        "PAYLOAD_TOO_LARGE" => 413,
        "RANGE_NOT_SATISFIABLE" => 416,
        "REFUSED" | "UNPROCESSABLE_ENTITY" | "refused" => 422,
        "TOO_MANY_REQUESTS" => 429,
        "BROKEN" | "INTERNAL_SERVER_ERROR" | "internal" => 500,
        "NOT_IMPLEMENTED" => 501,
        "BAD_GATEWAY" => 502,
        "SERVICE_UNAVAILABLE" | "unavailable" => 503,
        "GATEWAY_TIMEOUT" => 504,
        "resource_limit" => 546,
        number => return number.parse().ok().filter(|status| (400..600).contains(status)),
    })
}

/// Codes in a source file with their statuses: string literals that follow a status.
fn codes_in(source: &str, codes: &mut BTreeMap<String, BTreeSet<u16>>) {
    let parts: Vec<&str> = source.split('"').collect();
    // Parts alternate between code and string literals.
    for pair in parts.chunks_exact(2) {
        let [before, literal] = pair else { continue };
        let before = before.trim_end_matches(|c: char| c.is_whitespace() || c == ',' || c == '(');
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let is_code = literal.len() > 4 && literal.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_code && let Some(status) = before.get(start..).and_then(status_of) {
            codes.entry((*literal).to_owned()).or_default().insert(status);
        }
    }
}

#[test]
fn errors_document_is_up_to_date() {
    let path = repository().join("docs/ERRORS.md");
    let text = markdown();
    if std::env::vars_os().any(|(name, _)| name == "BASALT_TEST_BLESS") {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/ERRORS.md is stale: run cargo xtask gen-docs");
}

#[test]
fn error_table_matches_error_maps_in_code() {
    for section in SECTIONS.iter().filter(|section| !section.sources.is_empty()) {
        let mut codes = BTreeMap::new();
        for path in section.sources {
            codes_in(&source(path), &mut codes);
        }
        let statuses = |statuses: &BTreeSet<u16>| {
            statuses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let found: Vec<(&str, String)> =
            codes.iter().map(|(code, found)| (code.as_str(), statuses(found))).collect();
        let mut documented: Vec<(&str, String)> =
            section.rows.iter().map(|row| (row.code, row.status.to_owned())).collect();
        documented.sort();
        assert_eq!(documented, found, "{}", section.title);
    }
}

#[test]
fn error_table_matches_join_errors_in_code() {
    // These words occur in log lines only.
    const LOGGED: [&str; 3] = ["MalformedWebSocketMessage", "RlsPolicyError", "UnableToTrackPresence"];
    let files = [
        "realtime/src/channels.rs",
        "realtime/src/channels/admission.rs",
        "realtime/src/channels/joining.rs",
        "realtime/src/channels/traffic.rs",
        "realtime/src/token.rs",
    ];
    let text: String = files.iter().map(|path| source(path)).collect();
    let in_code: BTreeSet<&str> = text
        .split('"')
        .filter_map(|part| part.split_once(": "))
        .map(|(word, _)| word)
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic()) && !LOGGED.contains(word))
        .collect();
    let documented: BTreeSet<&str> = rows::REALTIME.iter().map(|row| row.code).collect();
    let missing: Vec<_> = in_code.difference(&documented).collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
    for code in documented {
        assert!(text.contains(code), "{code} is documented, but not in the code");
    }
}
