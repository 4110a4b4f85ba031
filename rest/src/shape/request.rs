//! Splits a request into its shape, which identifies the plan, and the values that differ between requests of one
//! shape.
//!
//! Uses the same parsers as [`crate::request::ApiRequest::read`], so the two cannot disagree. Requests that these
//! reject, and the few kinds whose plan depends on a value, have no shape and are planned individually.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RANGE};
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::config::RestConfig;
use crate::parse::filter::{self, Operation, Test};
use crate::parse::media::MediaType;
use crate::parse::query::Parameters;
use crate::parse::range::{self, RowRange};
use crate::parse::{Parameter, columns};
use crate::request::payload::{DecodeBudget, JsonPayload, JsonShape, Payload};
use crate::request::{Action, CallVerb, RelationVerb, action, header_text, resource, root_routine, schema};

/// A request with a larger body or key is planned individually.
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_KEY_BYTES: usize = 8 * 1024;

/// A request split into shape and values.
#[derive(Debug)]
pub struct ShapedRequest {
    /// Everything the plan depends on: requests with equal keys have the same plan apart from the values below.
    pub key: Vec<u8>,
    pub(super) action: Action,
    pub(super) schema: String,
    pub(super) has_profile: bool,
    /// Operations of the filters, in order.
    pub(super) operations: Vec<Operation>,
    /// Range of the root.
    pub(super) range: RowRange,
    pub(super) canonical_query: String,
    /// Parsed body, for operations that read one.
    pub(super) payload: Option<JsonPayload>,
}

impl ShapedRequest {
    /// Splits a request; `None` if its kind has no shape.
    #[must_use]
    pub fn read(config: &RestConfig, head: &Parts, body: &Bytes) -> Option<Self> {
        let (method, headers) = (&head.method, &head.headers);
        if body.len() > MAX_BODY_BYTES || (*method == Method::GET && headers.contains_key(RANGE)) {
            return None;
        }
        let (schema, has_profile) = schema(config, method, headers).ok()?;
        let (resource, schema) = root_routine(resource(head.uri.path()).ok()?, schema, config);
        let action = action(resource, method).ok().filter(has_shape)?;
        let mut key = Key::default();
        key.text(method.as_str());
        key.text(head.uri.path());
        key.text(&schema);
        key.byte(u8::from(has_profile));
        key.headers(headers);

        let parameters = Parameters::decode(head.uri.query().unwrap_or_default());
        let mut operations = Vec::with_capacity(parameters.0.len());
        let mut range = RowRange::ALL;
        let mut columns = None;
        for (name, value) in &parameters.0 {
            match (name.as_str(), name.rsplit('.').next().unwrap_or_default()) {
                ("limit", _) => range.limit = range::parse_limit(value).ok()?,
                ("offset", _) => range.offset = range::parse_offset(value),
                ("columns", _) if columns.is_none() => {
                    columns = Some(columns::parse(Parameter::Columns, value).ok()?);
                    key.pair(name, value);
                }
                ("select" | "columns" | "on_conflict", _)
                | (_, "order" | "limit" | "offset" | "and" | "or") => {
                    key.pair(name, value);
                }
                _ => {
                    let test = filter::parse(value).ok()?;
                    key.text(name);
                    key.test(&test);
                    operations.push(test.operation);
                }
            }
        }
        key.range(range, config.max_rows)?;
        let content_type = header_text(headers, &CONTENT_TYPE).map_or(MediaType::Json, MediaType::parse);
        if content_type != MediaType::Json && !body.is_empty() {
            return None;
        }
        let budget = DecodeBudget::new(config, None);
        let payload = Payload::read(&action, &content_type, columns.as_deref(), body.clone(), budget).ok()?;
        let payload = match payload {
            None => None,
            Some(Payload::Json(json)) => {
                key.payload(&json);
                Some(json)
            }
            Some(Payload::Form(_) | Payload::Raw { .. }) => return None,
        };
        (key.0.len() <= MAX_KEY_BYTES).then(|| Self {
            key: key.0,
            action,
            schema,
            has_profile,
            operations,
            range,
            canonical_query: parameters.canonical(),
            payload,
        })
    }

    /// The parsed body, for a request whose shape is not cached.
    pub(crate) fn payload(&self) -> Option<Payload> {
        self.payload.clone().map(Payload::Json)
    }
}

/// Excludes PUT, which compares filters with the body, and calls by GET, where values distinguish arguments from
/// filters.
fn has_shape(action: &Action) -> bool {
    match action {
        Action::Relation { verb, .. } => !matches!(verb, RelationVerb::Put),
        Action::Call { verb, .. } => matches!(verb, CallVerb::Post),
        Action::Root { .. } | Action::Info(_) => false,
    }
}

/// A key under construction. Texts are prefixed by their length, so that keys are unambiguous.
struct Key(Vec<u8>);

impl Default for Key {
    fn default() -> Self {
        Self(Vec::with_capacity(512))
    }
}

impl Key {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes.len().to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn payload(&mut self, json: &JsonPayload) {
        self.byte(match json.shape {
            JsonShape::Object => b'o',
            JsonShape::Array => b'a',
            JsonShape::Mixed => b'm',
            JsonShape::Empty => b'e',
        });
        self.byte(u8::from(json.is_body));
        json.keys.iter().for_each(|name| self.text(name));
        self.byte(if json.values.is_some() { b'f' } else { b'n' });
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.text(name);
        self.byte(b'=');
        self.text(value);
    }

    /// Adds the raw headers that determine media type and preferences.
    fn headers(&mut self, headers: &HeaderMap) {
        match headers.get(ACCEPT) {
            Some(accept) => self.bytes(accept.as_bytes()),
            None => self.byte(b'-'),
        }
        for prefer in headers.get_all("prefer") {
            self.byte(b'p');
            self.bytes(prefer.as_bytes());
        }
        self.byte(b'.');
    }

    /// Adds a test without its operand.
    fn test(&mut self, test: &Test) {
        self.byte(if test.negated { b'!' } else { b'?' });
        match &test.operation {
            Operation::Compare { operator, quantifier, .. } => {
                self.text(operator.word());
                self.text(quantifier.map_or("", |quantifier| quantifier.word()));
            }
            Operation::In(_) => self.text("in"),
            Operation::Is(value) => {
                self.text("is");
                self.text(value.word());
            }
            Operation::IsDistinct(_) => self.text("isdistinct"),
            Operation::TextSearch { operator, config, .. } => {
                self.text(operator.word());
                match config {
                    Some(config) => self.text(config),
                    None => self.byte(b'-'),
                }
            }
        }
    }

    /// Adds which of limit and offset are present, because the statement has no clause for the others. `None` for a
    /// range that is planned specially.
    fn range(&mut self, range: RowRange, max_rows: Option<u64>) -> Option<()> {
        let limit = match (range.limit, max_rows.map(u128::from)) {
            (Some(0), _) => return None,
            (None, _) => b'0',
            (Some(limit), Some(cap)) if limit > cap => b'2',
            (Some(_), _) => b'1',
        };
        self.byte(limit);
        self.byte(u8::from(range.offset > 0));
        Some(())
    }
}
