//! Requests and answers as tables of text, for behaviour of which there are many cases: all that differ are shown at
//! once. See [`check`] for how they are written.

use std::fmt::Write;

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{anon, server};

/// What cannot stand in a request line as it is; `%` may, so that a table can escape what it wants escaped.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A server for the schema `dock`, where nothing lasts.
pub(crate) async fn dock() -> Basalt {
    server()
        .config("rest.schemas", "dock,public")
        .config("rest.extra_search_path", "tools,public")
        .config("rest.tx_end", "rollback")
        .start()
        .await
}

/// A request of a visitor, written as `METHOD target | Header: value | body`. A body without a content type is JSON;
/// the header `Content-Type: -` stands for none.
pub(crate) fn request(server: &Basalt, text: &str) -> Request {
    let (line, mut rest) = text.split_once(" | ").unwrap_or((text, ""));
    let (method, target) = line.split_once(' ').unwrap();
    let target = utf8_percent_encode(target, ESCAPED).to_string();
    let mut request = anon(server, method.parse::<Method>().unwrap(), &target);
    let mut media = Some("application/json");
    loop {
        let (part, after) = rest.split_once(" | ").unwrap_or((rest, ""));
        match part.split_once(": ").filter(|(name, _)| name.chars().all(|c| c.is_alphabetic() || c == '-')) {
            Some(("Content-Type", value)) => media = Some(value).filter(|value| *value != "-"),
            Some((name, value)) => request = request.header(name, value),
            None => break,
        }
        rest = after;
    }
    match media {
        Some(media) if text.contains(" | ") => request.header("content-type", media).body(rest.to_owned()),
        _ => request.body(rest.to_owned()),
    }
}

/// `STATUS RANGE BODY` of a success, with `Location` in between; `STATUS CODE MESSAGE (DETAILS) [HINT]` of an error.
pub(crate) fn brief(response: &Response) -> String {
    let mut text = response.status.as_u16().to_string();
    if response.status.is_success() {
        for name in ["content-range", "location"] {
            if let Some(value) = response.headers.get(name) {
                write!(text, " {}", String::from_utf8_lossy(value.as_bytes())).unwrap();
            }
        }
        if !response.body.is_empty() {
            write!(text, " {}", response.text().replace("}, \n {", "},{")).unwrap();
        }
        return text;
    }
    if response.body.is_empty() {
        return text;
    }
    let error = response.json();
    write!(text, " {} {}", error["code"].as_str().unwrap(), error["message"].as_str().unwrap()).unwrap();
    if !error["details"].is_null() {
        write!(
            text,
            " ({})",
            error["details"].as_str().map_or_else(|| error["details"].to_string(), str::to_owned)
        )
        .unwrap();
    }
    if let Some(hint) = error["hint"].as_str() {
        write!(text, " [{hint}]").unwrap();
    }
    text
}

/// Sends every request of a table and compares its answer, as [`brief`] has it.
///
/// A table has two lines for each: the request, as [`request`] reads it, and `= ` with the answer. Other lines are for
/// people. `␊` and `␍` stand for line ends, `‹BOM›` for a byte order mark, `…` at the end for whatever PostgreSQL goes
/// on to say, which is not the same in every version.
///
/// # Panics
/// Some differ; they are listed as they would have to stand in the table.
pub(crate) async fn check(server: &Basalt, table: &str) {
    let mut wrong = String::new();
    let mut before = "";
    for line in table.lines() {
        if let Some(expected) = line.strip_prefix("= ") {
            let text = before.replace('␊', "\n").replace('␍', "\r").replace("‹BOM›", "\u{feff}");
            let answered = brief(&request(server, &text).send().await);
            let answered = answered.replace('\n', "␊").replace('\r', "␍");
            let fits = match expected.strip_suffix('…') {
                Some(beginning) => answered.starts_with(beginning),
                None => answered == expected,
            };
            if !fits {
                writeln!(wrong, "{before}\n= {answered}\nexpected {expected}\n").unwrap();
            }
        }
        before = line;
    }
    assert!(wrong.is_empty(), "these answers differ:\n{wrong}");
}
