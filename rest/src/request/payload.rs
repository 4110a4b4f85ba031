//! Request bodies (rest.md §3.9, §3.10).
//!
//! A JSON body is passed to PostgreSQL unchanged or, if a write contains only scalars, as its values. CSV and forms
//! are converted to JSON, so that writes handle a single kind of body.

mod csv;
mod json;

use basalt_core::memory::BodyLease;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Action, CallVerb, RelationVerb};
use crate::client_cpu::{self, ClientCpu};
use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::media::MediaType;
use crate::parse::query::decode_component;

/// Maximum number of distinct names in a body. No table has more than 1,600 columns and no function more than 100
/// arguments, so further names make no difference.
const MAX_KEYS: usize = 2_000;
/// Maximum number of pairs in a form; names may repeat, for variadic arguments.
const MAX_PAIRS: usize = 10_000;

/// Memory limit for data decoded from a body.
#[derive(Debug, Clone, Copy)]
pub struct DecodeBudget<'a> {
    /// Maximum size in bytes.
    pub max_bytes: usize,
    /// Lease that the memory is charged to.
    pub lease: Option<&'a BodyLease>,
}

impl<'a> DecodeBudget<'a> {
    /// Creates a budget of four times `rest.max_body_bytes`: CSV names the columns once but JSON repeats them in each
    /// row, and short names and values fit into that.
    #[must_use]
    pub const fn new(config: &RestConfig, lease: Option<&'a BodyLease>) -> Self {
        Self { max_bytes: config.max_body_bytes.saturating_mul(4), lease }
    }

    /// Charges decoded data to the lease and attaches the lease to it, because the data outlives the body.
    fn keep(&self, decoded: Bytes) -> Result<Bytes, RestError> {
        match self.lease {
            Some(lease) if lease.grow(decoded.len()) => Ok(lease.keep(decoded)),
            Some(_) => Err(RestError::Busy),
            None => Ok(decoded),
        }
    }
}

/// A decoded request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON with named values.
    Json(JsonPayload),
    /// `application/x-www-form-urlencoded`, for a function: text literals by name, in order.
    Form(Vec<(String, String)>),
    /// A single value, for a function with one unnamed parameter.
    Raw {
        /// `text/plain`, `text/xml` or `application/octet-stream`.
        media: MediaType,
        /// The body.
        bytes: Bytes,
    },
}

/// A JSON body with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPayload {
    /// JSON text.
    pub bytes: Bytes,
    /// Distinct column or argument names in alphabetical order; truncated if there are more than any table has
    /// columns.
    pub keys: Vec<String>,
    /// Structure of the JSON.
    pub shape: JsonShape,
    /// Whether the text is the request body itself, rather than converted from another type. Only the former can be a
    /// JSON argument.
    pub is_body: bool,
    /// Values by key, if they were requested and are all scalars.
    pub values: Option<Values>,
}

/// For each column the text of its value, or of an array of its values.
pub type Values = Vec<Option<Bytes>>;

/// Structure of a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonShape {
    /// One object.
    Object,
    /// An array of objects with the same keys; if the body was not parsed, anything that does not start with a brace.
    Array,
    /// An array of other elements, which only a function with a single unnamed parameter accepts.
    Mixed,
    /// `[]`, or a scalar, which is treated the same.
    Empty,
}

impl Payload {
    /// Decodes the body of a request, if its action takes one.
    ///
    /// # Errors
    /// The content type is not supported or the body is malformed (PGRST102).
    pub fn read(
        action: &Action,
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
        budget: DecodeBudget<'_>,
    ) -> Result<Option<Self>, RestError> {
        match action {
            Action::Relation { verb: RelationVerb::Insert | RelationVerb::Update, .. } => {
                Self::for_relation(content_type, columns, true, body, budget).map(Some)
            }
            // PUT takes a complete row, which PostgreSQL compares with the filters.
            Action::Relation { verb: RelationVerb::Put, .. } => {
                Self::for_relation(content_type, None, false, body, budget).map(Some)
            }
            Action::Call { verb: CallVerb::Post, .. } => {
                Self::for_call(content_type, columns, body, budget).map(Some)
            }
            // Clients send DELETE with a content type but no body, so it is ignored.
            Action::Relation { .. } | Action::Call { .. } | Action::Root { .. } | Action::Info(_) => Ok(None),
        }
    }

    /// As [`Payload::read`], but runs long work outside the runtime's threads. Started work continues after the
    /// client disconnects, so it keeps body and budget until then.
    pub(crate) async fn read_long(
        action: &Action,
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
        budget: DecodeBudget<'_>,
        cpu: ClientCpu<'_>,
    ) -> Result<Option<Self>, RestError> {
        // With `columns`, which clients send for bulk inserts, PostgreSQL parses the body. PUT ignores `columns`.
        let is_put = matches!(action, Action::Relation { verb: RelationVerb::Put, .. });
        let is_unparsed = *content_type == MediaType::Json && columns.is_some() && !is_put;
        if is_unparsed || !client_cpu::is_long(body.len()) {
            return Self::read(action, content_type, columns, body, budget);
        }
        let (action, content_type) = (action.clone(), content_type.clone());
        let columns = columns.map(<[String]>::to_vec);
        let (max_bytes, lease) = (budget.max_bytes, budget.lease.cloned());
        cpu.run(move || {
            let budget = DecodeBudget { max_bytes, lease: lease.as_ref() };
            Self::read(&action, &content_type, columns.as_deref(), body, budget)
        })
        .await?
    }

    /// Decodes the body of a write. `columns` applies only to JSON; other types name their own columns.
    fn for_relation(
        content_type: &MediaType,
        columns: Option<&[String]>,
        with_values: bool,
        body: Bytes,
        budget: DecodeBudget<'_>,
    ) -> Result<Self, RestError> {
        match content_type {
            MediaType::Json => {
                let payload = JsonPayload::read(columns, with_values, body)?;
                payload.reject_mixed()?;
                Ok(Self::Json(match payload.shape {
                    JsonShape::Empty => JsonPayload { bytes: Bytes::from_static(b"[]"), ..payload },
                    JsonShape::Object | JsonShape::Array | JsonShape::Mixed => payload,
                }))
            }
            MediaType::Csv => Ok(Self::Json(JsonPayload::from_csv(&body, budget)?)),
            MediaType::UrlEncoded => {
                let mut row = Map::new();
                for (name, value) in form(&body)? {
                    row.insert(name, Value::String(value));
                }
                let keys = row.keys().cloned().collect();
                let bytes = budget.keep(Bytes::from(Value::Object(row).to_string()))?;
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

    fn for_call(
        content_type: &MediaType,
        columns: Option<&[String]>,
        body: Bytes,
        budget: DecodeBudget<'_>,
    ) -> Result<Self, RestError> {
        match content_type {
            // A body that named parameters cannot use is rejected once the function is resolved.
            MediaType::Json => {
                let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
                Ok(Self::Json(JsonPayload::read(columns, false, body)?))
            }
            MediaType::Csv => Ok(Self::Json(JsonPayload::from_csv(&body, budget)?)),
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

/// Decodes the pairs of a form; a name without a value has an empty one, as in PostgREST (in a query string it is
/// ignored).
fn form(body: &[u8]) -> Result<Vec<(String, String)>, RestError> {
    let invalid = || RestError::Body("The form is not UTF-8".to_owned());
    let decode = |text: &str| decode_component(text).ok_or_else(invalid);
    let text = std::str::from_utf8(body).map_err(|_| invalid())?;
    if memchr::memchr_iter(b'&', body).nth(MAX_PAIRS - 1).is_some() {
        return Err(RestError::Body(format!("The form has more than {MAX_PAIRS} fields")));
    }
    text.split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| Ok((decode(name)?, decode(value)?)))
        .collect()
}

impl JsonPayload {
    /// Parses keys and, if requested, values. With `columns` and without values only PostgreSQL parses the body; here
    /// it is just checked for an opening brace.
    fn read(columns: Option<&[String]>, with_values: bool, bytes: Bytes) -> Result<Self, RestError> {
        let Some(columns) = columns else {
            let json::ParsedBody { keys, shape, values } = json::read(&bytes, with_values)
                .ok_or_else(|| RestError::Body("Empty or invalid json".to_owned()))?;
            return Ok(Self { bytes, keys, shape, is_body: true, values });
        };
        let is_object = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let shape = if is_object { JsonShape::Object } else { JsonShape::Array };
        // Sorted like the keys of a parsed body, so that errors name the same column if several are unknown.
        let mut keys = columns.to_vec();
        keys.sort_unstable();
        let values = if with_values { json::values(&bytes, &keys, shape) } else { None };
        Ok(Self { bytes, keys, shape, is_body: true, values })
    }

    /// Rejects arrays whose elements are not objects with the same keys.
    ///
    /// # Errors
    /// The array has no common columns (PGRST102).
    pub fn reject_mixed(&self) -> Result<(), RestError> {
        match self.shape {
            JsonShape::Mixed => Err(RestError::Body("All object keys must match".to_owned())),
            JsonShape::Object | JsonShape::Array | JsonShape::Empty => Ok(()),
        }
    }

    /// Converts a header line of columns, which overrides `columns=`, followed by one line per row.
    fn from_csv(body: &[u8], budget: DecodeBudget<'_>) -> Result<Self, RestError> {
        let rows = csv::rows(body, &budget).map_err(|invalid| match invalid {
            csv::Error::Malformed(what) => RestError::Body(what.to_owned()),
            csv::Error::TooLarge => RestError::CsvTooLarge { limit: budget.max_bytes },
            csv::Error::OutOfMemory => RestError::Busy,
        })?;
        let (mut keys, shape) =
            if rows.is_empty { (Vec::new(), JsonShape::Empty) } else { (rows.header, JsonShape::Array) };
        keys.sort_unstable();
        keys.dedup();
        // The JSON outlives the body, so it keeps the body's lease.
        let bytes = match budget.lease {
            Some(lease) => lease.keep(rows.json),
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
            payload.reject_mixed()?;
            Ok(payload)
        });
        read.map(|payload| (payload.keys.join(","), payload.shape)).map_err(|error| error.to_string())
    }

    #[test]
    fn objects_must_have_the_same_keys() {
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
    fn form_decodes_to_pairs() {
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
        assert!(many(MAX_PAIRS).is_ok_and(|pairs| pairs.len() == MAX_PAIRS));
        assert!(many(MAX_PAIRS + 1).is_err());
    }
}
