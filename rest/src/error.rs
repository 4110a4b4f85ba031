//! Every error of the service and its response (rest.md §3.18). Codes and statuses appear only here.

mod postgres;
mod wire;

pub use wire::{ErrorContext, ErrorResponse, fault};

use basalt_pg::session::SessionError;

use crate::auth::AuthError;
use crate::parse::ParseError;
use crate::parse::query::QueryError;
use crate::parse::range::RangeError;

/// Reason why a request was rejected or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RestError {
    /// The bearer token is missing or invalid.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The schema cache has not been loaded yet.
    #[error("the schema cache is not loaded yet")]
    CacheNotLoaded,
    /// The path matches no resource.
    #[error("invalid path")]
    Path,
    /// The root document is disabled.
    #[error("the root document is disabled")]
    RootDisabled,
    /// The schema of the profile header is not exposed.
    #[error("schema {schema} is not exposed")]
    Schema {
        /// Requested schema.
        schema: String,
        /// Exposed schemas.
        exposed: Vec<String>,
    },
    /// Method other than GET, HEAD and POST on a function.
    #[error("method {0} on RPC")]
    RpcMethod(String),
    /// Method that the resource does not support.
    #[error("method {0}")]
    Method(String),
    /// A parameter is malformed.
    #[error(transparent)]
    Query(#[from] ParseError),
    /// The requested range of rows is invalid.
    #[error("range: {0:?}")]
    Range(RangeError),
    /// The offset is greater than the number of rows.
    #[error("offset {offset} of {total} rows")]
    OffsetBeyond {
        /// Requested offset.
        offset: u128,
        /// Number of rows.
        total: i64,
    },
    /// Limit or offset on PUT.
    #[error("limit or offset with PUT")]
    PutRange,
    /// The body is invalid; the message gives the reason.
    #[error("{0}")]
    Body(String),
    /// The body exceeds the limit.
    #[error("the body is too large")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The rows of a CSV body, converted to JSON objects that repeat the column names, exceed the limit.
    #[error("the CSV body is too large as JSON")]
    CsvTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Not enough memory is available to process the body.
    #[error("the server is busy")]
    Busy,
    /// The client disconnected while sending the body.
    #[error("the client disconnected before the body was complete")]
    BodyIncomplete,
    /// The relation is not in the schema cache.
    #[error("relation {schema}.{name} is unknown")]
    RelationUnknown {
        /// Schema name.
        schema: String,
        /// Relation name.
        name: String,
        /// Relations with similar names.
        similar: Vec<Named>,
    },
    /// No function with this name accepts these arguments.
    #[error(transparent)]
    RoutineUnknown(Box<RoutineUnknown>),
    /// More than one function accepts the arguments.
    #[error("more than one function matches")]
    RoutineAmbiguous {
        /// Signatures of the candidates.
        signatures: Vec<Named>,
    },
    /// A filter, order, limit or related order names a resource that is not embedded.
    #[error("{0} is not embedded")]
    NotEmbedded(String),
    /// A filter, order or limit names an aliased embed by its target while legacy target names are disabled.
    #[error("{target} is embedded as {alias}")]
    NamedByTarget {
        /// Target of the embed.
        target: String,
        /// Alias of the embed.
        alias: String,
    },
    /// No relationship connects the two relations.
    #[error(transparent)]
    RelationshipUnknown(Box<RelationshipUnknown>),
    /// More than one relationship connects the two relations.
    #[error(transparent)]
    RelationshipAmbiguous(Box<RelationshipAmbiguous>),
    /// Order by a column of a to-many embed.
    #[error("{relation} and {embed} are not in a to-one relationship")]
    RelatedOrder {
        /// Relation being ordered.
        relation: String,
        /// Embed named by the order.
        embed: String,
    },
    /// Aggregates are disabled.
    #[error("aggregates are disabled")]
    AggregatesDisabled,
    /// Aggregate in a to-many spread.
    #[error("aggregate in a to-many spread")]
    AggregateInSpread,
    /// The body or `columns` names an unknown column.
    #[error("column {column} of {relation} is unknown")]
    ColumnUnknown {
        /// Column name.
        column: String,
        /// Relation name.
        relation: String,
    },
    /// The filters of a PUT are not exactly its primary key.
    #[error("PUT filters are not exactly the primary key")]
    PutFilters,
    /// The key values in a PUT body differ from those in its filters.
    #[error("PUT body and filters differ in the primary key")]
    PutPayload,
    /// The server cannot produce any of the accepted media types.
    #[error("none of the accepted media types is available")]
    NotAcceptable(Vec<String>),
    /// Unknown preferences with `handling=strict`.
    #[error("unknown preferences with handling=strict")]
    Preferences(Vec<String>),
    /// More rows were affected than `max-affected` allows.
    #[error("{0} rows affected, more than max-affected allows")]
    MaxAffected(i64),
    /// `max-affected` on a function that does not return a set.
    #[error("max-affected on a function that does not return a set")]
    MaxAffectedRoutine,
    /// A singular response was requested, but the result does not have exactly one row.
    #[error("expected one row, got {0}")]
    NotSingular(i64),
    /// UPDATE or DELETE without a filter.
    #[error("{0} without a filter")]
    UnsafeWrite(&'static str),
    /// `response.headers` is malformed.
    #[error("malformed response.headers setting")]
    ResponseHeaders,
    /// `response.status` is malformed.
    #[error("malformed response.status setting")]
    ResponseStatus,
    /// The transaction failed.
    #[error(transparent)]
    Session(SessionError),
    /// A bug in the server.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// Value of [`Object::kind`] for relations.
pub const RELATION: &str = "relation";

/// Name suggested in a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Text of the suggestion.
    pub text: String,
    /// Database object that the text names.
    pub object: Object,
}

/// A database object, which errors name only to roles that may access it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Schema name.
    pub schema: String,
    /// Object name.
    pub name: String,
    /// Kind of object, as `visible.sql` expects it.
    pub kind: String,
}

impl Object {
    /// Creates an object from its schema, name and kind.
    pub fn new(schema: &str, name: &str, kind: impl Into<String>) -> Self {
        Self { schema: schema.to_owned(), name: name.to_owned(), kind: kind.into() }
    }
}

/// No function matches a call (PGRST202).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("function {schema}.{name} is unknown")]
pub struct RoutineUnknown {
    /// Schema name.
    pub schema: String,
    /// Function name.
    pub name: String,
    /// Argument names, sorted.
    pub arguments: Vec<String>,
    /// Type of the single unnamed parameter that the body could have been passed to.
    pub raw: Option<&'static str>,
    /// The body is not a set of named arguments.
    pub opaque: bool,
    /// Functions with a similar name or similar parameters, as `f(a, b)` or `f`.
    pub similar: Vec<Named>,
}

/// No relationship connects a relation and its embed (PGRST200).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no relationship between {origin} and {target}")]
pub struct RelationshipUnknown {
    /// Relation that contains the embed.
    pub origin: String,
    /// Name of the embed.
    pub target: String,
    /// Hint given with the embed.
    pub hint: Option<String>,
    /// Schema that was searched.
    pub schema: String,
    /// Suggested names, and the name that they replace.
    pub similar: (Vec<Named>, String),
}

/// More than one relationship connects a relation and its embed (PGRST201).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several relationships between {origin} and {target}")]
pub struct RelationshipAmbiguous {
    /// Relation that contains the embed.
    pub origin: String,
    /// Name of the embed.
    pub target: String,
    /// The relationships, in the order of the message.
    pub candidates: Vec<RelationshipText>,
}

/// A relationship as shown in the details of PGRST201.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RelationshipText {
    /// `many-to-one`, `one-to-many`, `one-to-one` or `many-to-many`.
    pub cardinality: &'static str,
    /// `orders with addresses`
    pub embedding: String,
    /// `billing_fk using orders(billing_id) and addresses(id)`
    pub relationship: String,
    /// `addresses!billing_fk`
    #[serde(skip)]
    pub choice: String,
    /// Database objects named in the text.
    #[serde(skip)]
    pub objects: Vec<Object>,
}

impl RestError {
    /// Whether a newer schema cache might contain the unknown object.
    #[must_use]
    pub const fn may_be_stale(&self) -> bool {
        matches!(
            self,
            Self::RelationUnknown { .. }
                | Self::RoutineUnknown(_)
                | Self::RelationshipUnknown(_)
                | Self::ColumnUnknown { .. }
        )
    }
}

impl RestError {
    /// Database objects that the error names beyond those in the request.
    pub(crate) fn suggested_objects(&self) -> Vec<&Object> {
        fn list(similar: &[Named]) -> Vec<&Object> {
            similar.iter().map(|named| &named.object).collect()
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "other variants name no objects")]
        match self {
            Self::RelationUnknown { similar, .. } => list(similar),
            Self::RoutineAmbiguous { signatures } => list(signatures),
            Self::RoutineUnknown(unknown) => list(&unknown.similar),
            Self::RelationshipUnknown(unknown) => list(&unknown.similar.0),
            Self::RelationshipAmbiguous(ambiguous) => {
                ambiguous.candidates.iter().flat_map(|candidate| &candidate.objects).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes the objects for which `is_shown` is false.
    pub(crate) fn retain_objects(&mut self, is_shown: impl Fn(&Object) -> bool) {
        let keep = |similar: &mut Vec<Named>| similar.retain(|named| is_shown(&named.object));
        #[expect(clippy::wildcard_enum_match_arm, reason = "other variants name no objects")]
        match self {
            Self::RelationUnknown { similar, .. } => keep(similar),
            Self::RoutineAmbiguous { signatures } => keep(signatures),
            Self::RoutineUnknown(unknown) => keep(&mut unknown.similar),
            Self::RelationshipUnknown(unknown) => keep(&mut unknown.similar.0),
            Self::RelationshipAmbiguous(ambiguous) => {
                ambiguous.candidates.retain(|candidate| candidate.objects.iter().all(&is_shown));
            }
            _ => {}
        }
    }
}

impl From<QueryError> for RestError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Parse(error) => Self::Query(error),
            QueryError::Range(error) => Self::Range(error),
        }
    }
}

impl From<SessionError> for RestError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}
