//! Transcripts: text files with a sentence of the contract, the requests that test it and the answers they get.
//!
//! ```text
//! ## 3.4 Patterns                                      a section of rest.md
//! # Every `*` is a `%`.                                what is tested
//! GET /people?select=name&name=like.A*                 a request; GET may be left out, the target is encoded for it
//! > Prefer: count=exact                                its headers
//! = {"a":1}                                            its body
//! < 200 0-0/1 [{"name":"Ann"}]                         status, Content-Range, and the body without blanks; of an error
//! < 400 - 42703 column people.x does not exist         its code and message
//! < warning: -                                         a header; `-` where there is none
//! ```
//!
//! A file's requests leave nothing behind, so that their order does not matter.

use std::fmt::Write;

use basalt_testkit::{Basalt, Response};
use http::Method;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// One request and what is told about its answer.
#[derive(Default)]
struct Entry<'a> {
    line: usize,
    request: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: Option<&'a str>,
    answer: Vec<&'a str>,
}

/// What may not stand in a request line as it is; `%` may, a transcript writes escapes where they matter.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b'[')
    .add(b']')
    .add(b'#');

/// Sends every request of a transcript as a visitor and compares the answers.
///
/// # Panics
/// Some answers are others; all of them are shown.
pub(crate) async fn replay(server: &Basalt, name: &str, transcript: &str) {
    let entries = entries(transcript);
    assert!(!entries.is_empty(), "{name} has no requests");
    let mut differences = String::new();
    for entry in &entries {
        let answer = ask(server, entry).await;
        if answer != entry.answer {
            let (expected, answered) = (entry.answer.join("\n    < "), answer.join("\n    < "));
            writeln!(
                differences,
                "{name}:{}: {}\n  expected\n    < {expected}\n  answered\n    < {answered}",
                entry.line, entry.request
            )
            .unwrap();
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

fn entries(transcript: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (index, line) in transcript.lines().enumerate() {
        match (line.split_at_checked(2), entries.last_mut()) {
            (Some(("< ", answer)), Some(entry)) => entry.answer.push(answer),
            (Some(("= ", body)), Some(entry)) => entry.body = Some(body),
            (Some(("> ", header)), Some(entry)) => entry.headers.push(header.split_once(": ").unwrap()),
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => entries.push(Entry { line: index + 1, request: line, ..Entry::default() }),
        }
    }
    entries
}

async fn ask(server: &Basalt, entry: &Entry<'_>) -> Vec<String> {
    let (method, target) = if entry.request.starts_with('/') {
        ("GET", entry.request)
    } else {
        entry.request.split_once(' ').unwrap()
    };
    let target = utf8_percent_encode(target, ENCODED).to_string();
    let mut request = super::anon(server, method.parse::<Method>().unwrap(), &target);
    for (name, value) in &entry.headers {
        request = request.header(name, value);
    }
    if let Some(body) = entry.body {
        request = request.header("content-type", "application/json").body(body.to_owned());
    }
    let response = request.send().await;
    let named = entry.answer.iter().skip(1).filter_map(|line| Some(line.split_once(": ")?.0));
    let headers = named.map(|name| format!("{name}: {}", header(&response, name)));
    std::iter::once(told(&response)).chain(headers).collect()
}

fn header(response: &Response, name: &str) -> String {
    let values = response.headers.get_all(name).iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    if values.is_empty() { "-".to_owned() } else { values.join(" | ") }
}

/// Status, `Content-Range`, and the body: an error's code and message, or the text as it is.
fn told(response: &Response) -> String {
    let body = response.text();
    let error = serde_json::from_str::<serde_json::Value>(&body).ok();
    let error =
        error.as_ref().and_then(|json| Some((json.get("code")?.as_str()?, json.get("message")?.as_str()?)));
    let body = match error {
        Some((code, message)) => format!("{code} {message}"),
        None => compact(&body),
    };
    format!("{} {} {body}", response.status.as_u16(), header(response, "content-range")).trim_end().to_owned()
}

/// JSON text without the blanks between its parts: order and doubles of keys stay to be seen.
fn compact(json: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    json.chars()
        .filter(|c| {
            let keep = quoted || !c.is_ascii_whitespace();
            quoted ^= *c == '"' && !escaped;
            escaped = quoted && *c == '\\' && !escaped;
            keep
        })
        .collect()
}
