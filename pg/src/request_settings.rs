//! Settings that expose the request to SQL (rest.md §3.16, storage.md §4.7).

use http::HeaderMap;
use http::header::COOKIE;
use serde_json::Value;

/// The value of `request.headers`: all headers except cookies as a JSON object. The values of a repeated header are
/// joined with ", ".
#[must_use]
pub fn headers_json(headers: &HeaderMap) -> String {
    let mut json = String::with_capacity(1024);
    json.push('{');
    let mut before = None;
    // `HeaderMap` yields all values of a name in a row.
    for (name, value) in headers {
        if *name == COOKIE {
            continue;
        }
        if before == Some(name) {
            json.pop();
            json.push_str(", ");
        } else {
            json.push_str(if before.is_some() { ",\"" } else { "\"" });
            // Header names contain no character that JSON escapes.
            json.push_str(name.as_str());
            json.push_str("\":\"");
        }
        push_json_text(&mut json, value.as_bytes());
        json.push('"');
        before = Some(name);
    }
    json.push('}');
    json
}

/// Appends `bytes` as the inside of a JSON string. Most header values need no escaping and are copied in one step.
fn push_json_text(json: &mut String, bytes: &[u8]) {
    let is_special = |found, byte: &u8| found | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.iter().fold(false, is_special) => json.push_str(text),
        _ => {
            let quoted = Value::from(String::from_utf8_lossy(bytes)).to_string();
            let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            json.push_str(inside.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn headers_with_any_bytes_become_one_json_object() {
        let pairs: [(&str, &[u8]); 8] = [
            ("accept", b"*/*"),
            ("x-a", b""),
            ("x-a", b"say \"hi\"\\"),
            ("cookie", b"a=b"),
            ("x-b", "\u{fc}\t".as_bytes()),
            ("x-c", b"\xff"),
            ("x-c", b"b"),
            ("x-c", b"\""),
        ];
        let headers: HeaderMap = pairs
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()))
            .collect();
        let read: Value = serde_json::from_str(&headers_json(&headers)).unwrap();
        let expected = serde_json::json!({
            "accept": "*/*", "x-a": ", say \"hi\"\\", "x-b": "\u{fc}\t", "x-c": "\u{fffd}, b, \"",
        });
        assert_eq!(read, expected);
        assert_eq!(headers_json(&HeaderMap::new()), "{}");
    }
}
