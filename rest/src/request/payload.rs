//! Request bodies (rest.md §3.9, §3.10).
//!
//! A JSON body goes to PostgreSQL as the bytes that came, or, where a write is all scalars, as its values. CSV and forms
//! are written as JSON, so that writes know one kind of body.

mod csv;
mod json;

use basalt_core::memory::BodyLease;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Action, CallVerb, RelationVerb};
use crate::config::RestConfig;
use crate::cpu_permits::{self, ClientCpu};
use crate::error::RestError;
use crate::parse::media::MediaType;
use crate::parse::query::decode_component;

/// Names of a body that are told apart. No table has more columns than 1,600 and no function more arguments than 100, so
/// that what comes after so many changes nothing.
const MOST_KEYS: usize = 2_000;
/// Pairs of a form; names may come up again, for variadic arguments.
const MOST_PAIRS: usize = 10_000;

/// What may be made of a body.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// At most so many bytes.
    pub most: usize,
    /// Where they are counted.
    pub hold: Option<&'a BodyLease>,
}

impl<'a> Room<'a> {
    /// Rows of CSV name their columns once, and as JSON in each row: four times `rest.max_body_bytes` is room for short
    /// names and values.
    #[must_use]
    pub const fn new(config: &RestConfig, hold: Option<&'a BodyLease>) -> Self {
        Self { most: config.max_body_bytes.saturating_mul(4), hold }
    }

    /// What was made of a body outlives it, and holds what it held and its own share besides.
    fn keep(&self, made: Bytes) -> Result<Bytes, RestError> {
        match self.hold {
            Some(hold) if hold.grow(made.len()) => Ok(hold.keep(made)),
            Some(_) => Err(RestError::Busy),
            None => Ok(made),
        }
    }
}

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
    /// Columns or arguments, without doubles; the first in order, should there be more than any table has columns.
    pub keys: Vec<String>,
    /// What it is.
    pub shape: JsonShape,
    /// It is the body itself; otherwise it was made of another type, and is no JSON argument.
    pub is_body: bool,
    /// Of a body that may be written and holds scalars only, the values of the keys.
    pub values: Option<Values>,
}

/// For each column the text of its value, or the text of an array of them.
pub type Values = Vec<Option<Bytes>>;

/// The outside of a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonShape {
    /// One object.
    Object,
    /// An array of objects with the same keys; or, unread, anything that does not begin with a brace.
    Array,
    /// An array of anything else: only a function that takes it whole can use it.
    Mixed,
    /// `[]`, or a scalar, which counts as that.
    Empty,
}

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
        room: Room<'_>,
    ) -> Result<Option<Self>, RestError> {
        match action {
            Action::Relation { verb: RelationVerb::Insert | RelationVerb::Update, .. } => {
                Self::of_relation(content_type, columns, true, body, room).map(Some)
            }
            // PUT is about a whole row, which PostgreSQL compares with the filters.
            Action::Relation { verb: RelationVerb::Put, .. } => {
                Self::of_relation(content_type, None, false, body, room).map(Some)
            }
            Action::Call { verb: CallVerb::Post, .. } => {
                Self::of_call(content_type, columns, body, room).map(Some)
            }
            // DELETE comes with a content type and without a body: never look at it.
            Action::Relation { .. } | Action::Call { .. } | Action::Root { .. } | Action::Info(_) => Ok(None),
        }
    }

    /// As [`Payload::read`], and where that takes long, off the runtime's threads. What is begun comes to its end though
    /// the client has left, and so body and `room` are held until then.
    pub(crate) async fn read_long(
        action: &Action,
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
        room: Room<'_>,
        cpu: ClientCpu<'_>,
    ) -> Result<Option<Self>, RestError> {
        // With `columns`, as clients send many rows, PostgreSQL reads it; PUT alone does not heed them.
        let is_put = matches!(action, Action::Relation { verb: RelationVerb::Put, .. });
        let is_passed_on = *content_type == MediaType::Json && columns.is_some() && !is_put;
        if is_passed_on || !cpu_permits::is_long(body.len()) {
            return Self::read(action, content_type, columns, body, room);
        }
        let (action, content_type) = (action.clone(), content_type.clone());
        let columns = columns.map(<[String]>::to_vec);
        let (most, hold) = (room.most, room.hold.cloned());
        cpu.run(move || {
            let room = Room { most, hold: hold.as_ref() };
            Self::read(&action, &content_type, columns.as_deref(), body, room)
        })
        .await?
    }

    /// `columns` is about JSON alone: other types name theirs themselves.
    fn of_relation(
        content_type: &MediaType,
        columns: Option<&[String]>,
        with_values: bool,
        body: Bytes,
        room: Room<'_>,
    ) -> Result<Self, RestError> {
        match content_type {
            MediaType::Json => {
                let payload = JsonPayload::read(columns, with_values, body)?;
                payload.refuse_mixed()?;
                Ok(Self::Json(match payload.shape {
                    JsonShape::Empty => JsonPayload { bytes: Bytes::from_static(b"[]"), ..payload },
                    JsonShape::Object | JsonShape::Array | JsonShape::Mixed => payload,
                }))
            }
            MediaType::Csv => Ok(Self::Json(JsonPayload::from_csv(&body, room)?)),
            MediaType::UrlEncoded => {
                let mut row = Map::new();
                for (name, value) in form(&body)? {
                    row.insert(name, Value::String(value));
                }
                let keys = row.keys().cloned().collect();
                let bytes = room.keep(Bytes::from(Value::Object(row).to_string()))?;
                Ok(Self::Json(JsonPayload {
                    bytes,
                    keys,
                    shape: JsonShape::Object,
                    is_body: false,
                    values: None,
                }))
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

    fn of_call(
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
        room: Room<'_>,
    ) -> Result<Self, RestError> {
        match content_type {
            // What a function with named parameters cannot use is refused once it is clear that it has them.
            MediaType::Json => {
                let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
                Ok(Self::Json(JsonPayload::read(columns, false, body)?))
            }
            MediaType::Csv => Ok(Self::Json(JsonPayload::from_csv(&body, room)?)),
            MediaType::UrlEncoded => Ok(Self::Form(form(&body)?)),
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

/// Names and values; a name alone has the empty text, as in PostgREST, though in a query string it is ignored.
fn form(body: &[u8]) -> Result<Vec<(String, String)>, RestError> {
    let wrong = || RestError::Body("The form is not UTF-8".to_owned());
    let decode = |text: &str| decode_component(text).ok_or_else(wrong);
    let text = std::str::from_utf8(body).map_err(|_| wrong())?;
    if memchr::memchr_iter(b'&', body).nth(MOST_PAIRS - 1).is_some() {
        return Err(RestError::Body(format!("The form has more than {MOST_PAIRS} fields")));
    }
    text.split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| Ok((decode(name)?, decode(value)?)))
        .collect()
}

impl JsonPayload {
    /// The body, its keys and, if they are wanted, its values. With `columns` PostgreSQL parses it, if the values do not
    /// come of it: all that is known is whether it is an object.
    fn read(columns: Option<&[String]>, with_values: bool, bytes: Bytes) -> Result<Self, RestError> {
        let Some(columns) = columns else {
            let json::Read { keys, shape, values } = json::read(&bytes, with_values)
                .ok_or_else(|| RestError::Body("Empty or invalid json".to_owned()))?;
            return Ok(Self { bytes, keys, shape, is_body: true, values });
        };
        let is_object = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let shape = if is_object { JsonShape::Object } else { JsonShape::Array };
        // By name, as the keys of a body that is read: of several unknown ones the same is named either way.
        let mut keys = columns.to_vec();
        keys.sort_unstable();
        let values = if with_values { json::values(&bytes, &keys, shape) } else { None };
        Ok(Self { bytes, keys, shape, is_body: true, values })
    }

    /// An array whose elements are no objects, or not alike, has no columns.
    ///
    /// # Errors
    /// PGRST102.
    pub fn refuse_mixed(&self) -> Result<(), RestError> {
        match self.shape {
            JsonShape::Mixed => Err(RestError::Body("All object keys must match".to_owned())),
            JsonShape::Object | JsonShape::Array | JsonShape::Empty => Ok(()),
        }
    }

    /// A header line of columns, which counts even against `columns=`, then one line per row.
    fn from_csv(body: &[u8], room: Room<'_>) -> Result<Self, RestError> {
        let rows = csv::rows(body, &room).map_err(|wrong| match wrong {
            csv::Wrong::Form(what) => RestError::Body(what.to_owned()),
            csv::Wrong::TooLong => RestError::CsvTooLarge { limit: room.most },
            csv::Wrong::NoRoom => RestError::Busy,
        })?;
        let (mut keys, shape) =
            if rows.is_empty { (Vec::new(), JsonShape::Empty) } else { (rows.header, JsonShape::Array) };
        keys.sort_unstable();
        keys.dedup();
        // It outlives the body, and goes on holding what the body held.
        let bytes = match room.hold {
            Some(hold) => hold.keep(rows.json),
            None => rows.json,
        };
        Ok(Self { bytes, keys, shape, is_body: false, values: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<(String, JsonShape), String> {
        let read = JsonPayload::read(None, false, Bytes::from_static(text.as_bytes())).and_then(|payload| {
            payload.refuse_mixed()?;
            Ok(payload)
        });
        read.map(|payload| (payload.keys.join(","), payload.shape)).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_come_from_the_first_object_and_must_match() {
        assert_eq!(read(r#"{"b":1,"a":{"c":[1,{}]}}"#), Ok(("a,b".to_owned(), JsonShape::Object)));
        assert_eq!(read(r#"[{"b":1,"a":2},{"a":3,"b":4}]"#), Ok(("a,b".to_owned(), JsonShape::Array)));
        assert_eq!(read("[{},{}]"), Ok((String::new(), JsonShape::Array)));
        assert_eq!(read("[]"), Ok((String::new(), JsonShape::Empty)));
        assert_eq!(read("5"), Ok((String::new(), JsonShape::Empty)));
        for mixed in [r#"[{"a":1},{"b":1}]"#, r#"[{"a":1},[1]]"#, r#"[{"a":1},null]"#, "[1]"] {
            assert_eq!(read(mixed), Err("All object keys must match".to_owned()), "{mixed}");
        }
        for broken in ["", "{", "[{]", r#"{"a":1} x"#] {
            assert_eq!(read(broken), Err("Empty or invalid json".to_owned()), "{broken}");
        }
    }

    #[test]
    fn forms_are_pairs_of_text() {
        let form = |text: &'static str| form(text.as_bytes()).map_err(|error| error.to_string());
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(
            form("a=x+y%20z&b&c=&=d&&é=%C3%A9"),
            Ok(pairs(&[("a", "x y z"), ("b", ""), ("c", ""), ("é", "é")]))
        );
        assert_eq!(form(""), Ok(Vec::new()));
        assert_eq!(form("a=%FF"), Err("The form is not UTF-8".to_owned()));
        let many = |count: usize| super::form("a=1&".repeat(count).trim_end_matches('&').as_bytes());
        assert!(many(MOST_PAIRS).is_ok_and(|pairs| pairs.len() == MOST_PAIRS));
        assert!(many(MOST_PAIRS + 1).is_err());
    }
}
