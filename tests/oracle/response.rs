//! Responses, and the parts that are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::case::Case;

/// A raw response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// 0 if there was no response.
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// There was no response.
    pub(crate) fn broken(problem: String) -> Self {
        Self { status: 0, reason: problem, headers: Vec::new(), body: Vec::new() }
    }
}

/// A request and both responses.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) configuration: &'static str,
    pub(crate) case: Case,
    pub(crate) postgrest: Response,
    pub(crate) basalt: Response,
}

/// The compared parts of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) status: u16,
    /// Only if it is not the standard phrase of the status.
    pub(crate) reason: Option<String>,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    /// JSON normalised, anything else unchanged.
    pub(crate) body: String,
}

/// Ignored headers: connection headers, server name and date.
const NOT_COMPARED: &[&str] =
    &["connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"];

impl View {
    pub(crate) fn from_response(response: &Response) -> Self {
        let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in &response.headers {
            if !NOT_COMPARED.contains(&name.as_str()) {
                headers.entry(name.clone()).or_default().push(value.clone());
            }
        }
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let is_json = headers
            .get("content-type")
            .and_then(|values| values.first())
            .is_some_and(|kind| kind.contains("json"));
        let body = if is_json { one_spelling(&text).unwrap_or(text) } else { text };
        Self { status: response.status, reason: unusual(response.status, &response.reason), headers, body }
    }

    /// The first value of a header; empty if absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|values| values.first()).map_or("", String::as_str)
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        let _before = self.headers.insert(name.to_owned(), vec![value.to_owned()]);
    }

    pub(crate) fn remove_header(&mut self, name: &str) {
        let _before = self.headers.remove(name);
    }

    /// The body as JSON, null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// A text member of an error body; empty if there is none.
    pub(crate) fn error(&self, key: &str) -> String {
        let body = self.json();
        let is_error =
            ["code", "details", "hint", "message"].into_iter().all(|member| body.get(member).is_some());
        if !is_error {
            return String::new();
        }
        body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Whether the body is an error with this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.status >= 300 && self.error("code") == code
    }

    /// Replaces members of an error body.
    pub(crate) fn set_error(&mut self, members: &[(&str, Value)]) {
        let mut body = self.json();
        if let Value::Object(object) = &mut body {
            for (key, value) in members {
                let _before = object.insert((*key).to_owned(), value.clone());
            }
        }
        self.body = one_spelling(&body.to_string()).unwrap_or_default();
    }

    /// Turns the response into an error.
    pub(crate) fn become_error(
        &mut self,
        status: u16,
        code: &str,
        message: &str,
        details: &Value,
        hint: &Value,
    ) {
        self.status = status;
        self.reason = None;
        self.headers.retain(|name, values| {
            name.starts_with("access-control")
                || name.starts_with("x-")
                || name == "server-timing"
                || name == "vary" && *values == ["Origin"]
        });
        self.set_header("content-type", "application/json; charset=utf-8");
        self.set_header("proxy-status", &format!("PostgREST; error={code}"));
        let body = serde_json::json!({ "code": code, "details": details, "hint": hint, "message": message });
        self.body = one_spelling(&body.to_string()).unwrap_or_default();
    }

    /// For reports.
    pub(crate) fn shown(&self) -> String {
        let mut text = self.status.to_string();
        if let Some(reason) = &self.reason {
            let _ok = write!(text, " {reason}");
        }
        for (name, values) in &self.headers {
            for value in values {
                let _ok = write!(text, "\n  {name}: {value}");
            }
        }
        let body: String = self.body.chars().take(1500).collect();
        let _ok = write!(text, "\n  {body}");
        text
    }
}

/// The phrase, unless it is one of the two usual ones of the status.
fn unusual(status: u16, reason: &str) -> Option<String> {
    let usual = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    // Names of RFC 2616, which PostgREST's HTTP library still uses.
    let former = match status {
        203 => Some("Non-Authoritative Information"),
        413 => Some("Request Entity Too Large"),
        416 => Some("Requested Range Not Satisfiable"),
        418 => Some("I'm a teapot"),
        _ => None,
    };
    let is_usual =
        usual == Some(reason) || former.is_some_and(|former| reason == former || former.starts_with(reason));
    (!is_usual && !reason.is_empty()).then(|| reason.to_owned())
}

/// JSON without blanks and with each string escaped one way; the order of keys, repeated keys and the spelling of
/// numbers stay, because they are part of what clients see. `None` when it is no JSON.
pub(crate) fn one_spelling(text: &str) -> Option<String> {
    let _checked: serde::de::IgnoredAny = serde_json::from_str(text).ok()?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let end = string_end(rest)?;
            let string: String = serde_json::from_str(rest.get(..end)?).ok()?;
            out.push_str(&Value::String(string).to_string());
            rest = rest.get(end..)?;
        } else {
            if !first.is_ascii_whitespace() {
                out.push(first);
            }
            rest = rest.get(first.len_utf8()..)?;
        }
    }
    Some(out)
}

/// Where the string that `text` begins with ends.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn json_is_normalised_for_comparison() {
    assert_eq!(
        one_spelling("[{\"a\": 1.10}, \n {\"b\": \"\\u00e9 \\/\"}]").unwrap(),
        "[{\"a\":1.10},{\"b\":\"é /\"}]"
    );
    assert_ne!(one_spelling("{\"a\": 1, \"b\": 2}"), one_spelling("{\"b\": 2, \"a\": 1}"));
    assert_eq!(one_spelling("not json"), None);
}
