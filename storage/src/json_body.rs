//! JSON bodies and query strings, parsed like upstream's schema validator (AJV with type coercion) and with
//! its error texts (storage.md §3.1, §3.2).
//!
//! Routes read members in the order of upstream's schema, required ones first, because the first error is
//! reported. Unknown members are ignored.
//!
//! ```text
//! let body = JsonBody::receive(&parts.headers, body, lease, EmptyBody::Refused).await?;
//! let fields = body.fields()?;
//! fields.require(&["prefix"])?;
//! let prefix = fields.string("prefix")?.unwrap_or_default();
//! let limit = fields.integer("limit", 1..)?.unwrap_or(100);
//! ```

use std::borrow::Cow;
use std::ops::{Bound, RangeBounds, RangeInclusive};

use axum::body::Body;
use basalt_core::memory::BodyLease;
use basalt_core::service::{BodyError, read_body};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::error::StorageError;

/// Maximum size of a JSON body in bytes (storage.md §3.1).
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// How an empty body with a JSON content type is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyBody {
    /// As an error.
    Refused,
    /// As a missing body.
    Allowed,
}

/// A parsed body, or `None` if there was no JSON body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonBody(Option<Value>);

impl JsonBody {
    /// Reads a request's body. A body that is not JSON counts as missing.
    ///
    /// # Errors
    /// As for [`JsonBody::parse`], or the body is too large or incomplete.
    pub(crate) async fn receive(
        headers: &HeaderMap,
        body: Body,
        lease: Option<&BodyLease>,
        empty: EmptyBody,
    ) -> Result<Self, StorageError> {
        let bytes = read_body(body, lease).await.map_err(|error| match error {
            BodyError::TooLarge => StorageError::json_body_too_large(),
            BodyError::Disconnected(_) => StorageError::aborted(),
        })?;
        Self::parse(headers, &bytes, empty)
    }

    /// Parses a body.
    ///
    /// # Errors
    /// The content type is invalid, the body is too large, or invalid JSON. `serde_json` limits the depth to
    /// 128.
    pub(crate) fn parse(headers: &HeaderMap, bytes: &[u8], empty: EmptyBody) -> Result<Self, StorageError> {
        if bytes.len() > MAX_BYTES {
            return Err(StorageError::json_body_too_large());
        }
        let Some(content_type) = headers.get(CONTENT_TYPE) else { return Ok(Self(None)) };
        let essence = content_type.to_str().ok().and_then(|text| text.split(';').next()).map(str::trim);
        match essence.and_then(|essence| Some((essence, essence.split_once('/')?))) {
            Some((_, ("" | " ", _) | (_, "" | " "))) | None => {
                return Err(StorageError::invalid_content_type());
            }
            Some((essence, _)) if !essence.eq_ignore_ascii_case("application/json") => {
                return Ok(Self(None));
            }
            Some(_) => {}
        }
        if bytes.is_empty() {
            return match empty {
                EmptyBody::Allowed => Ok(Self(None)),
                EmptyBody::Refused => Err(StorageError::bad_json_body(
                    "Body cannot be empty when content-type is set to 'application/json'",
                )),
            };
        }
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let value = serde_json::from_str(text).map_err(|_| {
            StorageError::bad_json_body(
                "Body is not valid JSON but content-type is set to 'application/json'",
            )
        })?;
        Ok(Self(Some(value)))
    }

    /// Members of a body that must be an object.
    ///
    /// # Errors
    /// The body is not an object.
    pub(crate) fn fields(&self) -> Result<Fields<'_>, StorageError> {
        match &self.0 {
            Some(Value::Object(members)) => Ok(Fields { path: Cow::Borrowed("body"), members }),
            _ => Err(StorageError::invalid_request("body must be object")),
        }
    }
}

/// A parsed query. Repeated parameters become an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query(Map<String, Value>);

impl Query {
    /// Parses the part after the `?`.
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let mut members = Map::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let value = Value::String(value.into_owned());
            match members.get_mut(name.as_ref()) {
                Some(Value::Array(values)) => values.push(value),
                Some(first) => *first = Value::Array(vec![first.take(), value]),
                None => {
                    members.insert(name.into_owned(), value);
                }
            }
        }
        Self(members)
    }

    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields { path: Cow::Borrowed("querystring"), members: &self.0 }
    }
}

/// Members of one object. The readers return `None` for missing members.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    path: Cow<'static, str>,
    members: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Requires all of `names`; reports the first missing one.
    ///
    /// # Errors
    /// A member is missing.
    pub(crate) fn require(&self, names: &[&str]) -> Result<(), StorageError> {
        match names.iter().find(|name| !self.has(name)) {
            Some(name) => Err(StorageError::invalid_request(self.missing(name))),
            None => Ok(()),
        }
    }

    /// Requires at least one of `names`.
    ///
    /// # Errors
    /// All of them are missing.
    pub(crate) fn require_any(&self, names: &[&str]) -> Result<(), StorageError> {
        if names.iter().any(|name| self.has(name)) {
            return Ok(());
        }
        let missing: Vec<String> = names.iter().map(|name| self.missing(name)).collect();
        let text = format!("{}, {} must match a schema in anyOf", missing.join(", "), self.path);
        Err(StorageError::invalid_request(text))
    }

    fn missing(&self, name: &str) -> String {
        format!("{} must have required property '{name}'", self.path)
    }

    /// Whether the member exists, including null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The unparsed member.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name)
    }

    /// An error about a member, such as `body/limit must be >= 1`.
    pub(crate) fn fault(&self, name: &str, text: &str) -> StorageError {
        StorageError::invalid_request(format!("{}/{name} {text}", self.path))
    }

    /// Reads a string. Numbers and booleans are converted; null is `""`.
    ///
    /// # Errors
    /// The value is an object or array.
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>, StorageError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        as_string(value).map(Some).ok_or_else(|| self.fault(name, "must be string"))
    }

    /// Reads a string that must be one of `allowed`.
    ///
    /// # Errors
    /// Another value.
    pub(crate) fn one_of(
        &self,
        name: &str,
        allowed: &[&'static str],
    ) -> Result<Option<&'static str>, StorageError> {
        let Some(text) = self.string(name)? else { return Ok(None) };
        match allowed.iter().find(|word| **word == text) {
            Some(word) => Ok(Some(word)),
            None => Err(self.fault(name, "must be equal to one of the allowed values")),
        }
    }

    /// Reads an integer in `range`. Values outside `i64` saturate.
    ///
    /// # Errors
    /// Not an integer, or outside `range`.
    pub(crate) fn integer(
        &self,
        name: &str,
        range: impl RangeBounds<i64>,
    ) -> Result<Option<i64>, StorageError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = as_integer(value).ok_or_else(|| self.fault(name, "must be integer"))?;
        self.within(name, number, &range).map(Some)
    }

    /// Reads a number in `range`.
    ///
    /// # Errors
    /// Not a number, or outside `range`.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, StorageError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = as_number(value).ok_or_else(|| self.fault(name, "must be number"))?;
        self.within(name, number, &range).map(Some)
    }

    fn within<T: PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        number: T,
        range: &impl RangeBounds<T>,
    ) -> Result<T, StorageError> {
        // AJV checks the maximum first.
        match range.end_bound() {
            Bound::Included(max) if number > *max => {
                return Err(self.fault(name, &format!("must be <= {max}")));
            }
            Bound::Excluded(max) if number >= *max => {
                return Err(self.fault(name, &format!("must be < {max}")));
            }
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => {}
        }
        match range.start_bound() {
            Bound::Included(min) if number < *min => Err(self.fault(name, &format!("must be >= {min}"))),
            Bound::Excluded(min) if number <= *min => Err(self.fault(name, &format!("must be > {min}"))),
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Ok(number),
        }
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// Neither a boolean nor convertible: 1, 0, null, "true", "false".
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, StorageError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        as_boolean(value).map(Some).ok_or_else(|| self.fault(name, "must be boolean"))
    }

    /// Reads an object. An array of one object is accepted as that object.
    ///
    /// # Errors
    /// Not an object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, StorageError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let Value::Object(members) = sole(value) else { return Err(self.fault(name, "must be object")) };
        Ok(Some(Fields { path: Cow::Owned(format!("{}/{name}", self.path)), members }))
    }

    /// Reads an array of strings with a length in `counts`. A single value counts as an array of one.
    ///
    /// # Errors
    /// An object, an array with too many or too few items, or with an item that is not a string.
    pub(crate) fn strings(
        &self,
        name: &str,
        counts: impl RangeBounds<usize>,
    ) -> Result<Option<Vec<String>>, StorageError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let items = match value {
            Value::Array(items) => items.as_slice(),
            Value::Object(_) => return Err(self.fault(name, "must be array")),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => std::slice::from_ref(value),
        };
        match counts.end_bound() {
            Bound::Included(max) if items.len() > *max => {
                return Err(self.fault(name, &format!("must NOT have more than {max} items")));
            }
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => {}
        }
        match counts.start_bound() {
            Bound::Included(min) if items.len() < *min => {
                return Err(self.fault(name, &format!("must NOT have fewer than {min} items")));
            }
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => {}
        }
        let texts = items.iter().enumerate().map(|(at, item)| {
            as_string(item).ok_or_else(|| self.fault(&format!("{name}/{at}"), "must be string"))
        });
        texts.collect::<Result<Vec<_>, _>>().map(Some)
    }
}

/// Coerces an array of one item to the item.
fn sole(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([item]) => item,
        _ => value,
    }
}

/// Coerces to a string. In an array of one, only a string is accepted.
pub(crate) fn as_string(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => number.as_f64().map(format_js_number),
        Value::Null => Some(String::new()),
        Value::Array(_) => sole(value).as_str().map(str::to_owned),
        Value::Object(_) => None,
    }
}

/// Coerces to a number.
pub(crate) fn as_number(value: &Value) -> Option<f64> {
    match sole(value) {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Null => Some(0.0),
        Value::String(text) => parse_js_number(text),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Coerces to an integer.
pub(crate) fn as_integer(value: &Value) -> Option<i64> {
    let number = as_number(value)?;
    // Infinity can only come from a string and counts as an integer.
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    (number.is_infinite() || number.fract() == 0.0).then_some(number as i64)
}

/// Coerces to a boolean.
pub(crate) fn as_boolean(value: &Value) -> Option<bool> {
    match sole(value) {
        Value::Bool(flag) => Some(*flag),
        Value::Null => Some(false),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Value::String(text) if text == "true" => Some(true),
        Value::String(text) if text == "false" => Some(false),
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// JavaScript's `Number(text)` for non-empty text.
fn parse_js_number(text: &str) -> Option<f64> {
    if text.is_empty() {
        return None;
    }
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match digits {
        "" => text.is_empty().then_some(0.0),
        "Infinity" => Some(sign * f64::INFINITY),
        _ if digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
            && !digits.starts_with(['+', '-']) =>
        {
            digits.parse::<f64>().ok().map(|number| sign * number)
        }
        _ => {
            let (radix, digits) = match text.get(..2)? {
                "0x" | "0X" => (16, text.get(2..)?),
                "0o" | "0O" => (8, text.get(2..)?),
                "0b" | "0B" => (2, text.get(2..)?),
                _ => return None,
            };
            let digits_only = digits.chars().all(|digit| digit.is_digit(radix));
            #[expect(clippy::cast_precision_loss, reason = "rounds as JavaScript does")]
            let number = u64::from_str_radix(digits, radix).ok().map(|number| number as f64);
            number.filter(|_| digits_only)
        }
    }
}

/// Formats a number as JavaScript does.
fn format_js_number(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(-6..=20) => format!("{}", number + 0.0),
        Ok(power) if power > 0 => format!("{digits}e+{power}"),
        _ => format!("{digits}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(content_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
    }

    fn body(value: Value) -> JsonBody {
        JsonBody(Some(value))
    }

    fn text(error: &StorageError) -> &str {
        error.message()
    }

    #[test]
    fn invalid_bodies_report_framework_texts() {
        let refused = |content_type, bytes: &[u8]| {
            JsonBody::parse(&headers(content_type), bytes, EmptyBody::Refused).unwrap_err()
        };
        let not_json = StorageError::bad_json_body(
            "Body is not valid JSON but content-type is set to 'application/json'",
        );
        assert_eq!(refused("application/json", b"{"), not_json);
        assert_eq!(refused("Application/JSON; charset=utf-8", b"{\"a\":1} x"), not_json);
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(refused("application/json", deep.as_bytes()), not_json);
        assert_eq!(
            text(&refused("application/json", b"")),
            "Body cannot be empty when content-type is set to 'application/json'"
        );
        assert_eq!(refused("json", b"{}"), StorageError::invalid_content_type());
        assert_eq!(refused("application/", b"{}"), StorageError::invalid_content_type());
        let large = vec![b' '; MAX_BYTES + 1];
        assert_eq!(refused("application/json", &large), StorageError::json_body_too_large());
    }

    #[test]
    fn missing_body_is_not_an_object() {
        let none = JsonBody(None);
        for (headers, bytes) in
            [(HeaderMap::new(), "{}"), (headers("text/plain"), "{}"), (headers("text/plain"), "")]
        {
            assert_eq!(JsonBody::parse(&headers, bytes.as_bytes(), EmptyBody::Refused), Ok(none.clone()));
        }
        assert_eq!(JsonBody::parse(&headers("application/json"), b"", EmptyBody::Allowed), Ok(none.clone()));
        for body in [none, body(json!([])), body(json!(null)), body(json!("x"))] {
            assert_eq!(text(&body.fields().unwrap_err()), "body must be object");
        }
        let marked = b"\xef\xbb\xbf{\"a\":1}";
        let read = JsonBody::parse(&headers("application/json"), marked, EmptyBody::Refused).unwrap();
        assert_eq!(read.fields().unwrap().integer("a", ..), Ok(Some(1)));
    }

    #[test]
    fn reports_the_first_missing_member() {
        let body = body(json!({"a": null}));
        let fields = body.fields().unwrap();
        assert_eq!(fields.require(&["a"]), Ok(()));
        assert_eq!(
            text(&fields.require(&["a", "name", "b"]).unwrap_err()),
            "body must have required property 'name'"
        );
        assert_eq!(fields.require_any(&["x", "a"]), Ok(()));
        assert_eq!(
            text(&fields.require_any(&["x", "y"]).unwrap_err()),
            "body must have required property 'x', body must have required property 'y', \
             body must match a schema in anyOf"
        );
    }

    #[test]
    fn coerces_values() {
        let body = body(json!({
            "n": "5", "hex": "0x10", "one": [7], "yes": "true", "no": 0, "nothing": null, "text": 1.0, "big": 1e300,
            "flag": false, "list": "a", "empty": "", "spaces": "  ", "float": "1.5", "inf": "Infinity", "obj": {},
            "objs": [{"a": 1}], "texts": ["x", 1, null, true], "frac": 0.5, "sign": " -3 ", "plus": "+-3", "e": "1e3",
        }));
        let fields = body.fields().unwrap();
        for (name, number) in [
            ("n", 5),
            ("hex", 16),
            ("one", 7),
            ("no", 0),
            ("nothing", 0),
            ("text", 1),
            ("big", i64::MAX),
            ("flag", 0),
            ("spaces", 0),
            ("inf", i64::MAX),
            ("sign", -3),
            ("e", 1000),
        ] {
            assert_eq!(fields.integer(name, ..), Ok(Some(number)), "{name}");
        }
        for name in ["empty", "float", "frac", "obj", "texts", "yes", "plus"] {
            let expected = format!("body/{name} must be integer");
            assert_eq!(text(&fields.integer(name, ..).unwrap_err()), expected);
        }
        assert_eq!(fields.integer("absent", 1..), Ok(None));
        assert_eq!(fields.number("float", 0.0..=2.0), Ok(Some(1.5)));
        assert_eq!(text(&fields.number("obj", 0.0..=1.0).unwrap_err()), "body/obj must be number");
        for (name, flag) in
            [("yes", true), ("no", false), ("nothing", false), ("text", true), ("flag", false)]
        {
            assert_eq!(fields.boolean(name), Ok(Some(flag)), "{name}");
        }
        assert_eq!(text(&fields.boolean("n").unwrap_err()), "body/n must be boolean");
        for (name, string) in [
            ("n", "5"),
            ("nothing", ""),
            ("text", "1"),
            ("flag", "false"),
            ("big", "1e+300"),
            ("frac", "0.5"),
        ] {
            assert_eq!(fields.string(name), Ok(Some(string.to_owned())), "{name}");
        }
        assert_eq!(text(&fields.string("one").unwrap_err()), "body/one must be string");
        assert_eq!(fields.strings("list", ..), Ok(Some(vec!["a".to_owned()])));
        let texts = ["x", "1", "", "true"].map(str::to_owned).to_vec();
        assert_eq!(fields.strings("texts", ..), Ok(Some(texts)));
        assert_eq!(text(&fields.strings("obj", ..).unwrap_err()), "body/obj must be array");
        assert_eq!(text(&fields.strings("objs", ..).unwrap_err()), "body/objs/0 must be string");
        let inner = fields.object("objs").unwrap().unwrap();
        assert_eq!(
            text(&inner.require(&["column"]).unwrap_err()),
            "body/objs must have required property 'column'"
        );
        assert_eq!(text(&inner.integer("a", 2..).unwrap_err()), "body/objs/a must be >= 2");
        assert_eq!(text(&fields.object("n").unwrap_err()), "body/n must be object");
    }

    #[test]
    fn errors_name_the_bound() {
        let body = body(json!({"n": 0, "many": ["a", "b", "c"], "none": [], "word": "up"}));
        let fields = body.fields().unwrap();
        let refused = |error: Result<Option<i64>, StorageError>| text(&error.unwrap_err()).to_owned();
        assert_eq!(refused(fields.integer("n", 1..)), "body/n must be >= 1");
        assert_eq!(refused(fields.integer("n", -5..=-1)), "body/n must be <= -1");
        assert_eq!(fields.integer("n", 0..=100), Ok(Some(0)));
        assert_eq!(text(&fields.number("n", 0.5..=1.0).unwrap_err()), "body/n must be >= 0.5");
        assert_eq!(
            text(&fields.strings("many", 1..=2).unwrap_err()),
            "body/many must NOT have more than 2 items"
        );
        assert_eq!(
            text(&fields.strings("none", 1..).unwrap_err()),
            "body/none must NOT have fewer than 1 items"
        );
        assert_eq!(
            text(&fields.one_of("word", &["asc", "desc"]).unwrap_err()),
            "body/word must be equal to one of the allowed values"
        );
        assert_eq!(fields.one_of("word", &["up"]), Ok(Some("up")));
    }

    #[test]
    fn queries_are_parsed_like_bodies() {
        let query = Query::parse(Some("limit=5&search=a+b%20c&offset=1&offset=2&token&u=%E4"));
        let fields = query.fields();
        assert_eq!(fields.integer("limit", 1..), Ok(Some(5)));
        assert_eq!(fields.string("search"), Ok(Some("a b c".to_owned())));
        assert_eq!(text(&fields.integer("offset", 0..).unwrap_err()), "querystring/offset must be integer");
        assert_eq!(fields.string("token"), Ok(Some(String::new())));
        assert_eq!(fields.string("u"), Ok(Some("\u{fffd}".to_owned())));
        assert_eq!(
            text(&Query::parse(None).fields().require(&["token"]).unwrap_err()),
            "querystring must have required property 'token'"
        );
    }

    #[test]
    fn formats_numbers_like_javascript() {
        for (number, expected) in [
            (5.0, "5"),
            (-0.0, "0"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (1e-6, "0.000001"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(format_js_number(number), expected);
        }
    }
}
