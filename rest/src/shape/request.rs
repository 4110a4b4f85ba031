//! What a request asks for, without a plan: the key of its shape, and the values in which requests of one shape differ.
//!
//! Reads with the same parsers as [`crate::request::ApiRequest::read`], so the two cannot disagree; what they would refuse, and the few
//! kinds of requests whose plan depends on a value, have no key and go the long way.

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
use crate::request::payload::{JsonPayload, JsonShape, Payload, Room};
use crate::request::{Action, CallVerb, RelationVerb, action, header_text, resource, root_routine, schema};

/// A larger body goes the long way; so does what would need a longer key.
const LONGEST_BODY_BYTES: usize = 64 * 1024;
const LONGEST_KEY_BYTES: usize = 8 * 1024;

/// A request taken apart into shape and values.
#[derive(Debug)]
pub struct ShapedRequest {
    /// Everything a plan depends on: two requests with one key have the same plan but for the values below.
    pub key: Vec<u8>,
    pub(super) action: Action,
    pub(super) schema: String,
    pub(super) has_profile: bool,
    /// Of the filters, in order.
    pub(super) operations: Vec<Operation>,
    /// Of the root.
    pub(super) range: RowRange,
    pub(super) canonical_query: String,
    /// The body, where one is read.
    pub(super) payload: Option<JsonPayload>,
}

impl ShapedRequest {
    /// Takes a request apart, if it is of a kind that has a shape.
    #[must_use]
    pub fn read(config: &RestConfig, head: &Parts, body: &Bytes) -> Option<Self> {
        let (method, headers) = (&head.method, &head.headers);
        if body.len() > LONGEST_BODY_BYTES || (*method == Method::GET && headers.contains_key(RANGE)) {
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
        let mut written = None;
        for (name, value) in &parameters.0 {
            match (name.as_str(), name.rsplit('.').next().unwrap_or_default()) {
                ("limit", _) => range.limit = range::parse_limit(value).ok()?,
                ("offset", _) => range.offset = range::parse_offset(value),
                ("columns", _) if written.is_none() => {
                    written = Some(columns::parse(Parameter::Columns, value).ok()?);
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
        let room = Room::new(config, None);
        let payload = Payload::read(&action, &content_type, written.as_deref(), body.clone(), room).ok()?;
        let payload = match payload {
            None => None,
            Some(Payload::Json(json)) => {
                key.payload(&json);
                Some(json)
            }
            Some(Payload::Form(_) | Payload::Raw { .. }) => return None,
        };
        (key.0.len() <= LONGEST_KEY_BYTES).then(|| Self {
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

    /// The body as it was read, for a request that is not of a known shape after all.
    pub(crate) fn payload(&self) -> Option<Payload> {
        self.payload.clone().map(Payload::Json)
    }
}

/// PUT compares its filters with its body, and a call by GET tells arguments from filters by their values.
fn has_shape(action: &Action) -> bool {
    match action {
        Action::Relation { verb, .. } => !matches!(verb, RelationVerb::Put),
        Action::Call { verb, .. } => matches!(verb, CallVerb::Post),
        Action::Root { .. } | Action::Info(_) => false,
    }
}

/// A key under construction. Texts come after their lengths, so that no text can pass for two.
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

    /// What negotiation and preferences are read from, as it was sent.
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

    /// A test without the value that it binds.
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

    /// Which of the window's numbers there are: a statement has no clause for the others. `None` for a window that is
    /// planned in a way of its own.
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
