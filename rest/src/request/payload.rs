//! Request bodies (rest.md §3.9, §3.10).
//!
//! A JSON body goes to PostgreSQL as the bytes that came: only its keys are read here, and with `columns=` not even
//! those. CSV and forms are written as JSON, so that writes know one kind of body.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{Action, CallVerb, RelationVerb};
use crate::error::RestError;
use crate::parse::media::MediaType;
use crate::parse::query::Parameters;

/// A body as the plan uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON with named values.
    Json(JsonPayload),
    /// `application/x-www-form-urlencoded`, for a function: text literals by name, in order.
    Form(Vec<(String, String)>),
    /// A body that is one value, for a function with a single unnamed parameter.
    Raw {
        /// `text/plain`, `text/xml` or `application/octet-stream`.
        media: MediaType,
        /// The body.
        bytes: Bytes,
    },
}

/// A JSON body and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPayload {
    /// The JSON text.
    pub bytes: Bytes,
    /// Columns or arguments, without doubles.
    pub keys: Vec<String>,
    /// What it is.
    pub shape: JsonShape,
}

/// The outside of a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonShape {
    /// One object.
    Object,
    /// An array of objects.
    Array,
    /// `[]`, or a scalar, which counts as that.
    Empty,
}

const EMPTY_OR_INVALID: &str = "Empty or invalid json";

impl Payload {
    /// Reads the body of a request, if its action has one.
    ///
    /// # Errors
    /// A content type or a body that cannot be used (PGRST102).
    pub fn read(
        action: &Action,
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
    ) -> Result<Option<Self>, RestError> {
        match action {
            Action::Relation { verb: RelationVerb::Insert | RelationVerb::Update, .. } => {
                Self::of_relation(content_type, columns, body).map(Some)
            }
            // PUT is about a whole row.
            Action::Relation { verb: RelationVerb::Put, .. } => {
                Self::of_relation(content_type, None, body).map(Some)
            }
            Action::Call { verb: CallVerb::Post, .. } => Self::of_call(content_type, columns, body).map(Some),
            // DELETE comes with a content type and without a body: never look at it.
            Action::Relation { .. } | Action::Call { .. } | Action::Root { .. } | Action::Info(_) => Ok(None),
        }
    }

    fn of_relation(
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
    ) -> Result<Self, RestError> {
        match content_type {
            MediaType::Json => Ok(Self::Json(JsonPayload::read(columns, body)?)),
            MediaType::Csv => Ok(Self::Json(JsonPayload::from_csv(&body)?)),
            MediaType::UrlEncoded => {
                let mut row = Map::new();
                for (name, value) in form(&body) {
                    row.insert(name, Value::String(value));
                }
                let keys = columns.map_or_else(|| row.keys().cloned().collect(), <[String]>::to_vec);
                let bytes = Bytes::from(Value::Object(row).to_string());
                Ok(Self::Json(JsonPayload { bytes, keys, shape: JsonShape::Object }))
            }
            MediaType::Any
            | MediaType::ArrayStripped
            | MediaType::Singular { .. }
            | MediaType::GeoJson
            | MediaType::OpenApi
            | MediaType::Plan(_)
            | MediaType::TextPlain
            | MediaType::TextXml
            | MediaType::OctetStream
            | MediaType::Other(_) => Err(not_acceptable(content_type)),
        }
    }

    fn of_call(content_type: &MediaType, columns: Option<&[String]>, body: Bytes) -> Result<Self, RestError> {
        match content_type {
            MediaType::Json if body.iter().all(u8::is_ascii_whitespace) => Ok(Self::Json(JsonPayload {
                bytes: Bytes::from_static(b"{}"),
                keys: Vec::new(),
                shape: JsonShape::Object,
            })),
            MediaType::Json => Ok(Self::Json(JsonPayload::of_arguments(columns, body)?)),
            MediaType::Csv => Ok(Self::Json(JsonPayload::from_csv(&body)?)),
            MediaType::UrlEncoded => Ok(Self::Form(form(&body))),
            MediaType::TextPlain | MediaType::TextXml | MediaType::OctetStream => {
                Ok(Self::Raw { media: content_type.clone(), bytes: body })
            }
            MediaType::Any
            | MediaType::ArrayStripped
            | MediaType::Singular { .. }
            | MediaType::GeoJson
            | MediaType::OpenApi
            | MediaType::Plan(_)
            | MediaType::Other(_) => Err(not_acceptable(content_type)),
        }
    }
}

fn not_acceptable(media: &MediaType) -> RestError {
    RestError::Body(format!("Content-Type not acceptable: {media}"))
}

fn form(body: &Bytes) -> Vec<(String, String)> {
    Parameters::decode(&String::from_utf8_lossy(body)).0
}

impl JsonPayload {
    /// A body for a relation: every element must have the keys of the first. With `columns` PostgreSQL parses it.
    fn read(columns: Option<&[String]>, bytes: Bytes) -> Result<Self, RestError> {
        if let Some(columns) = columns {
            let is_object = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
            let shape = if is_object { JsonShape::Object } else { JsonShape::Array };
            return Ok(Self { bytes, keys: columns.to_vec(), shape });
        }
        match outline(&bytes)? {
            Outline::Object(keys) => Ok(Self { bytes, keys, shape: JsonShape::Object }),
            Outline::Uniform(Some(keys)) => Ok(Self { bytes, keys, shape: JsonShape::Array }),
            Outline::Uniform(None) | Outline::Scalar => {
                Ok(Self { bytes: Bytes::from_static(b"[]"), keys: Vec::new(), shape: JsonShape::Empty })
            }
            Outline::Mixed(_) => Err(RestError::Body("All object keys must match".to_owned())),
        }
    }

    /// A body for a function: arguments are those of the object, or of the first object of an array.
    fn of_arguments(columns: Option<&[String]>, bytes: Bytes) -> Result<Self, RestError> {
        let (keys, shape) = match outline(&bytes)? {
            Outline::Object(keys) => (keys, JsonShape::Object),
            Outline::Uniform(Some(keys)) | Outline::Mixed(keys) => (keys, JsonShape::Array),
            Outline::Uniform(None) | Outline::Scalar => (Vec::new(), JsonShape::Empty),
        };
        let keys = columns.map_or(keys, <[String]>::to_vec);
        Ok(Self { bytes, keys, shape })
    }

    /// A header line of columns, which counts even against `columns=`, then one line per row; `NULL` is null.
    fn from_csv(body: &Bytes) -> Result<Self, RestError> {
        let text = String::from_utf8_lossy(body);
        let mut lines = csv_records(&text).into_iter();
        let header = lines.next().unwrap_or_default();
        let mut rows = Vec::new();
        for line in lines {
            if line.len() != header.len() {
                return Err(RestError::Body("All lines must have same number of fields".to_owned()));
            }
            let row: Map<String, Value> = header
                .iter()
                .cloned()
                .zip(
                    line.into_iter()
                        .map(|field| if field == "NULL" { Value::Null } else { Value::String(field) }),
                )
                .collect();
            rows.push(Value::Object(row));
        }
        let shape = if rows.is_empty() { JsonShape::Empty } else { JsonShape::Array };
        let mut keys = header;
        if rows.is_empty() {
            keys.clear();
        }
        keys.sort();
        keys.dedup();
        Ok(Self { bytes: Bytes::from(Value::Array(rows).to_string()), keys, shape })
    }
}

/// Records of RFC 4180 text; a final line break ends the last record.
fn csv_records(text: &str) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    records
}

/// What of a JSON text decides how it is written.
#[derive(Debug, PartialEq, Eq)]
enum Outline {
    /// An object with these keys.
    Object(Vec<String>),
    /// An array whose elements are objects with the same keys; `None` if it is empty.
    Uniform(Option<Vec<String>>),
    /// An array with other elements; the keys of the first, if it is an object.
    Mixed(Vec<String>),
    /// Anything else.
    Scalar,
}

fn outline(bytes: &[u8]) -> Result<Outline, RestError> {
    serde_json::from_slice(bytes).map_err(|_| RestError::Body(EMPTY_OR_INVALID.to_owned()))
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OutlineVisitor)
    }
}

struct OutlineVisitor;

macro_rules! scalars {
    ($result:expr; $($method:ident: $type:ty),+) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> { Ok($result) })+
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($result) }
    };
}

impl<'de> Visitor<'de> for OutlineVisitor {
    type Value = Outline;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars!(Outline::Scalar; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Outline, A::Error> {
        Ok(Outline::Object(keys_of(map)?))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Outline, A::Error> {
        let Some(first) = elements.next_element::<Outline>()? else { return Ok(Outline::Uniform(None)) };
        let (keys, mut uniform) = match first {
            Outline::Object(keys) => (keys, true),
            Outline::Uniform(_) | Outline::Mixed(_) | Outline::Scalar => (Vec::new(), false),
        };
        while let Some(same) = elements.next_element_seed(SameKeys(&keys))? {
            uniform &= same;
        }
        Ok(if uniform { Outline::Uniform(Some(keys)) } else { Outline::Mixed(keys) })
    }
}

/// Keys, sorted and without doubles.
fn keys_of<'de, A: MapAccess<'de>>(mut map: A) -> Result<Vec<String>, A::Error> {
    let mut keys = Vec::new();
    while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
        keys.push(key);
    }
    keys.sort();
    keys.dedup();
    Ok(keys)
}

/// Whether an element is an object with exactly these keys.
struct SameKeys<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for SameKeys<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SameKeys<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars!(false; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        Ok(keys_of(map)? == self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<JsonPayload, String> {
        JsonPayload::read(None, Bytes::from_static(text.as_bytes())).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_come_from_the_first_object_and_must_match() {
        let keys = |text| read(text).map(|payload| (payload.keys.join(","), payload.shape));
        assert_eq!(keys(r#"{"b":1,"a":{"c":[1,{}]}}"#), Ok(("a,b".to_owned(), JsonShape::Object)));
        assert_eq!(keys(r#"[{"b":1,"a":2},{"a":3,"b":4}]"#), Ok(("a,b".to_owned(), JsonShape::Array)));
        assert_eq!(keys("[{},{}]"), Ok((String::new(), JsonShape::Array)));
        assert_eq!(keys("[]"), Ok((String::new(), JsonShape::Empty)));
        assert_eq!(keys("5"), Ok((String::new(), JsonShape::Empty)));
        for mixed in [r#"[{"a":1},{"b":1}]"#, r#"[{"a":1},[1]]"#, r#"[{"a":1},null]"#, "[1]"] {
            assert_eq!(keys(mixed), Err("All object keys must match".to_owned()), "{mixed}");
        }
        for broken in ["", "{", "[{]", r#"{"a":1} x"#] {
            assert_eq!(keys(broken), Err("Empty or invalid json".to_owned()), "{broken}");
        }
    }

    #[test]
    fn csv_becomes_json() {
        let csv = Bytes::from_static(b"a,b\r\n1,\"x,\"\"y\"\"\nz\"\nNULL,\n");
        let payload = JsonPayload::from_csv(&csv).unwrap();
        assert_eq!(payload.bytes, r#"[{"a":"1","b":"x,\"y\"\nz"},{"a":null,"b":""}]"#);
        assert!(JsonPayload::from_csv(&Bytes::from_static(b"a,b\n1")).is_err());
    }
}
