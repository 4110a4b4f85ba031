//! Parses an HTTP request into an [`ApiRequest`]: path, schema, method, query string, ranges and body, in that order
//! (rest.md §1.2). Whether the named objects exist is checked by the plan.

pub mod payload;

use basalt_core::memory::BodyLease;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RANGE};
use http::request::Parts;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

use crate::config::{OpenApiMode, RestConfig};
use crate::error::RestError;
use crate::parse::media::MediaType;
use crate::parse::prefer::Preferences;
use crate::parse::query::{Arguments, Parameters, QueryParams};
use crate::parse::range::{self, RangeError, RowRange};
use payload::{DecodeBudget, Payload};

/// A parsed request.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// Operation and its target.
    pub action: Action,
    /// Target schema.
    pub schema: String,
    /// Whether a profile header named the schema.
    pub has_profile: bool,
    /// Parsed query string.
    pub query: QueryParams,
    /// Query string in canonical form, for `Content-Location`.
    pub canonical_query: String,
    /// Range of rows at the root: limit, offset and `Range` combined.
    pub range: RowRange,
    /// Parsed body, for operations that read one.
    pub payload: Option<Payload>,
    /// Parsed `Prefer` header.
    pub prefer: Preferences,
    /// Media types of `Accept`, most preferred first.
    pub accept: Vec<MediaType>,
    /// Path as `request.path` shows it: still percent-encoded.
    pub path: String,
    /// HTTP method, as `request.method` shows it.
    pub method: Method,
}

/// Operation and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Operation on a relation.
    Relation {
        /// Relation name.
        name: String,
        /// Kind of operation.
        verb: RelationVerb,
    },
    /// Function call.
    Call {
        /// Function name.
        name: String,
        /// Kind of call.
        verb: CallVerb,
    },
    /// The root document.
    Root {
        /// HEAD: no body.
        head: bool,
    },
    /// OPTIONS on a resource.
    Info(Resource),
}

/// Operation on a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationVerb {
    /// GET and HEAD.
    Read {
        /// HEAD: no body.
        head: bool,
    },
    /// POST.
    Insert,
    /// PUT: one row, by its primary key.
    Put,
    /// PATCH.
    Update,
    /// DELETE.
    Delete,
}

/// Kind of function call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallVerb {
    /// GET and HEAD: read only, arguments in the query string.
    Get {
        /// HEAD: no body.
        head: bool,
    },
    /// POST: arguments in the body.
    Post,
}

/// Resource named by a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// `/`
    Root,
    /// `/{relation}`
    Relation(String),
    /// `/rpc/{function}`
    Routine(String),
}

impl Action {
    /// Whether the method is HEAD: the headers of GET, but no body.
    #[must_use]
    pub const fn is_head(&self) -> bool {
        match self {
            Self::Relation { verb: RelationVerb::Read { head }, .. }
            | Self::Call { verb: CallVerb::Get { head }, .. }
            | Self::Root { head } => *head,
            Self::Relation { .. } | Self::Call { .. } | Self::Info(_) => false,
        }
    }

    /// Whether the request is POST, PUT, PATCH or DELETE on a relation.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match self {
            Self::Relation { verb, .. } => !matches!(verb, RelationVerb::Read { .. }),
            Self::Call { .. } | Self::Root { .. } | Self::Info(_) => false,
        }
    }
}

impl ApiRequest {
    /// Parses a request whose body has been received completely. Memory for decoded values is charged to the
    /// [`BodyLease`] in its extensions.
    ///
    /// # Errors
    /// The first violation, in the order of rest.md §1.2.
    pub fn read(config: &RestConfig, head: &Parts, body: Bytes) -> Result<Self, RestError> {
        let (mut api, content_type) = Self::read_head(config, head)?;
        let room = DecodeBudget::new(config, head.extensions.get::<BodyLease>());
        api.payload = Payload::read(&api.action, &content_type, api.query.columns.as_deref(), body, room)?;
        Ok(api)
    }

    /// Parses everything but the body, which is checked last, and returns the body's media type.
    ///
    /// # Errors
    /// As [`ApiRequest::read`], up to step 7.
    pub(crate) fn read_head(config: &RestConfig, head: &Parts) -> Result<(Self, MediaType), RestError> {
        let (method, uri, headers) = (&head.method, &head.uri, &head.headers);
        let resource = resource(uri.path())?;
        if resource == Resource::Root
            && config.openapi_mode == OpenApiMode::Disabled
            && config.root_spec.is_none()
        {
            return Err(RestError::RootDisabled);
        }
        let (schema, has_profile) = schema(config, method, headers)?;
        let (resource, schema) = root_routine(resource, schema, config);
        let action = action(resource, method)?;

        let parameters = Parameters::decode(uri.query().unwrap_or_default());
        let arguments = match action {
            Action::Call { verb: CallVerb::Get { .. }, .. } => Arguments::Accepted,
            Action::Call { .. } | Action::Relation { .. } | Action::Root { .. } | Action::Info(_) => {
                Arguments::Refused
            }
        };
        let query = match action {
            // The root takes no parameters; any that a client appends are ignored.
            Action::Root { .. } | Action::Info(Resource::Root) => {
                QueryParams::parse(&Parameters::default(), arguments)?
            }
            Action::Relation { .. } | Action::Call { .. } | Action::Info(_) => {
                QueryParams::parse(&parameters, arguments)?
            }
        };
        let range = root_range(method, &query, headers)?;
        if matches!(action, Action::Relation { verb: RelationVerb::Put, .. }) && query.has_root_range {
            return Err(RestError::PutRange);
        }
        let content_type = header_text(headers, &CONTENT_TYPE).map_or(MediaType::Json, MediaType::parse);
        let prefer =
            Preferences::parse(headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok()));
        let accept =
            header_text(headers, &ACCEPT).map_or_else(|| vec![MediaType::Any], MediaType::parse_accept);
        let api = Self {
            action,
            schema,
            has_profile,
            query,
            canonical_query: parameters.canonical(),
            range,
            payload: None,
            prefer,
            accept,
            path: uri.path().to_owned(),
            method: method.clone(),
        };
        Ok((api, content_type))
    }
}

pub(crate) fn header_text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Parses `/`, `/{relation}` or `/rpc/{function}`; rejects everything else, trailing slashes included.
pub(crate) fn resource(path: &str) -> Result<Resource, RestError> {
    let segments: Vec<String> = path
        .strip_prefix('/')
        .unwrap_or(path)
        .split('/')
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    match segments.as_slice() {
        [root] if root.is_empty() => Ok(Resource::Root),
        [relation] => Ok(Resource::Relation(relation.clone())),
        [rpc, function] if rpc == "rpc" && !function.is_empty() => Ok(Resource::Routine(function.clone())),
        _ => Err(RestError::Path),
    }
}

/// The function that `rest.root_spec` substitutes for the root document. A function outside the exposed schemas is
/// not in the cache; it is called directly when the root is executed.
pub(crate) fn root_routine(resource: Resource, schema: String, config: &RestConfig) -> (Resource, String) {
    match (&resource, &config.root_spec) {
        (Resource::Root, Some(function)) => {
            let home = function.schema.as_ref().unwrap_or(&schema);
            if config.schemas.contains(home) {
                (Resource::Routine(function.name.clone()), home.clone())
            } else {
                (resource, schema)
            }
        }
        _ => (resource, schema),
    }
}

/// Schema from the profile header, or the first exposed one; and whether the header was present.
pub(crate) fn schema(
    config: &RestConfig,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(String, bool), RestError> {
    let name = match *method {
        Method::POST | Method::PATCH | Method::PUT | Method::DELETE => "content-profile",
        _ => "accept-profile",
    };
    match headers.get(name) {
        None => Ok((config.schemas.first().cloned().unwrap_or_default(), false)),
        Some(value) => {
            let schema = String::from_utf8_lossy(value.as_bytes()).into_owned();
            if config.schemas.contains(&schema) {
                Ok((schema, true))
            } else {
                Err(RestError::Schema { schema, exposed: config.schemas.clone() })
            }
        }
    }
}

pub(crate) fn action(resource: Resource, method: &Method) -> Result<Action, RestError> {
    if *method == Method::OPTIONS {
        return Ok(Action::Info(resource));
    }
    let read = match *method {
        Method::GET => Some(false),
        Method::HEAD => Some(true),
        _ => None,
    };
    match resource {
        Resource::Root => match read {
            Some(head) => Ok(Action::Root { head }),
            None => Err(RestError::Method(method.to_string())),
        },
        Resource::Routine(name) => {
            let verb = match (read, method) {
                (Some(head), _) => CallVerb::Get { head },
                (None, &Method::POST) => CallVerb::Post,
                (None, _) => return Err(RestError::RpcMethod(method.to_string())),
            };
            Ok(Action::Call { name, verb })
        }
        Resource::Relation(name) => {
            let verb = match (read, method) {
                (Some(head), _) => RelationVerb::Read { head },
                (None, &Method::POST) => RelationVerb::Insert,
                (None, &Method::PUT) => RelationVerb::Put,
                (None, &Method::PATCH) => RelationVerb::Update,
                (None, &Method::DELETE) => RelationVerb::Delete,
                (None, _) => return Err(RestError::Method(method.to_string())),
            };
            Ok(Action::Relation { name, verb })
        }
    }
}

/// Range from limit and offset, intersected with the `Range` header on GET.
fn root_range(method: &Method, query: &QueryParams, headers: &HeaderMap) -> Result<RowRange, RestError> {
    let requested = query.root_range();
    if *method != Method::GET {
        return Ok(requested);
    }
    let Some(header) = header_text(headers, &RANGE) else { return Ok(requested) };
    // With a limit of 0 the page is empty whatever the header says.
    if requested.limit == Some(0) {
        return Ok(requested);
    }
    match range::parse_header(header).map_err(RestError::Range)? {
        RowRange::ALL => Ok(requested),
        header => requested.intersect(header).ok_or(RestError::Range(RangeError::NegativeLimit)),
    }
}
