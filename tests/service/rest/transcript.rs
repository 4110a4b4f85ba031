//! Transcripts: requests and responses as text, for behaviour with many cases.
//!
//! ```text
//! ## 3.4 Patterns                                      a heading: a section of rest.md, or a topic
//! # Every `*` is a `%`.                                a comment
//! /people?select=name&name=like.A*                     a request: method and target; GET if omitted
//! > Prefer: count=exact                                its headers
//! = {"a":1}                                            its body
//! < 200 0-0/1 [{"name":"Ann"}]                         the response: status, Content-Range, Location if any, and body
//! < 400 - 42703 column people.x does not exist         an error's code, message, (details) and [hint]
//! < warning: -                                         a header of the response; `-` if absent
//! ```
//!
//! Targets are percent-encoded where necessary; `%` is sent as written. A body without a content type is sent as JSON;
//! `> Content-Type: -` omits the header; `=` alone is an empty body. `␊` and `␍` stand for line ends, `‹BOM›` for a byte
//! order mark, `…` at the end of a response for text that differs between versions of PostgreSQL. Rows of a response are
//! written without the line breaks between them.
//!
//! The requests of a file have no lasting effect, so their order does not matter and all differences are shown at once.

use std::fmt::Write;

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Characters that must be encoded in a request line.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// One request and its expected response.
#[derive(Default)]
struct Entry<'a> {
    line: usize,
    request: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: Option<&'a str>,
    response: Vec<&'a str>,
}

/// Sends every request of a transcript as anon and compares the responses.
///
/// # Panics
/// If responses differ; all differences are shown.
pub(crate) async fn replay(server: &Basalt, transcript: &str) {
    let entries = entries(transcript);
    assert!(!entries.is_empty(), "no requests");
    let mut differences = String::new();
    for entry in &entries {
        let response = summary(&entry.to(server).send().await, &entry.response);
        let fits = |(actual, expected): (&String, &&str)| match expected.strip_suffix('…') {
            Some(beginning) => actual.starts_with(beginning),
            None => actual == expected,
        };
        if response.len() != entry.response.len() || !response.iter().zip(&entry.response).all(fits) {
            let (expected, actual) = (entry.response.join("\n    < "), response.join("\n    < "));
            writeln!(
                differences,
                "line {}: {}\n  expected\n    < {expected}\n  actual\n    < {actual}",
                entry.line, entry.request
            )
            .unwrap();
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

/// The single request of a transcript without a response, as anon.
pub(crate) fn request(server: &Basalt, transcript: &str) -> Request {
    let entries = entries(transcript);
    assert!(entries.len() == 1 && entries[0].response.is_empty(), "expected one request: {transcript}");
    entries[0].to(server)
}

fn entries(transcript: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (index, line) in transcript.lines().enumerate() {
        match (line.split_at_checked(2), entries.last_mut()) {
            (Some(("< ", response)), Some(entry)) => entry.response.push(response),
            (Some(("= ", body)), Some(entry)) => entry.body = Some(body),
            (Some(("> ", header)), Some(entry)) => entry.headers.push(header.split_once(": ").unwrap()),
            (None, Some(entry)) if line == "=" => entry.body = Some(""),
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => entries.push(Entry { line: index + 1, request: line, ..Entry::default() }),
        }
    }
    entries
}

impl Entry<'_> {
    fn to(&self, server: &Basalt) -> Request {
        let (method, target) = if self.request.starts_with('/') {
            ("GET", self.request)
        } else {
            self.request.split_once(' ').unwrap()
        };
        let target = utf8_percent_encode(target, ENCODED).to_string();
        let mut request = super::anon(server, method.parse::<Method>().unwrap(), &target);
        let mut media = self.body.map(|_| "application/json");
        for (name, value) in &self.headers {
            match *name {
                "Content-Type" => media = Some(*value).filter(|value| *value != "-"),
                name => request = request.header(name, value),
            }
        }
        if let Some(media) = media {
            request = request.header("content-type", media);
        }
        let body = self.body.unwrap_or_default();
        request.body(body.replace('␊', "\n").replace('␍', "\r").replace("‹BOM›", "\u{feff}"))
    }
}

/// The first line of a response, and the headers named in `expected`.
fn summary(response: &Response, expected: &[&str]) -> Vec<String> {
    let named = expected.iter().skip(1).filter_map(|line| Some(line.split_once(": ")?.0));
    let headers = named.map(|name| format!("{name}: {}", header(response, name)));
    std::iter::once(first_line(response)).chain(headers).collect()
}

fn first_line(response: &Response) -> String {
    let mut line = format!("{} {}", response.status.as_u16(), header(response, "content-range"));
    if let Some(location) = response.headers.get("location") {
        write!(line, " {}", String::from_utf8_lossy(location.as_bytes())).unwrap();
    }
    if response.body.is_empty() {
        return line;
    }
    let error = if response.status.is_success() { None } else { error(&response.text()) };
    let body = error.unwrap_or_else(|| response.text().replace("}, \n {", "},{"));
    write!(line, " {}", body.replace('\n', "␊").replace('\r', "␍")).unwrap();
    line
}

/// `CODE MESSAGE (DETAILS) [HINT]`, if the text is an error of the service.
fn error(text: &str) -> Option<String> {
    let error: serde_json::Value = serde_json::from_str(text).ok()?;
    let mut line = format!("{} {}", error.get("code")?.as_str()?, error.get("message")?.as_str()?);
    let details = &error["details"];
    if let Some(text) = details.as_str() {
        write!(line, " ({text})").unwrap();
    } else if !details.is_null() {
        write!(line, " ({details})").unwrap();
    }
    if let Some(hint) = error["hint"].as_str() {
        write!(line, " [{hint}]").unwrap();
    }
    Some(line)
}

fn header(response: &Response, name: &str) -> String {
    let values = response.headers.get_all(name).iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    if values.is_empty() { "-".to_owned() } else { values.join(" | ") }
}
