//! Everything that can go wrong, and its wire shape (rest.md §3.18). The only file that knows codes and statuses.

mod postgres;
mod wire;

pub use wire::{ErrorContext, ErrorResponse, fault};

use basalt_pg::session::SessionError;

use crate::auth::AuthError;
use crate::parse::ParseError;
use crate::parse::query::QueryError;
use crate::parse::range::RangeError;

/// Why a request was refused or failed, named by cause.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RestError {
    /// The token.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// No schema cache yet.
    #[error("the schema cache is not loaded yet")]
    CacheNotLoaded,
    /// No such path.
    #[error("invalid path")]
    Path,
    /// The root document is turned off.
    #[error("the root document is disabled")]
    RootDisabled,
    /// The schema is not exposed.
    #[error("schema {schema} is not exposed")]
    Schema {
        /// What was asked for.
        schema: String,
        /// What there is.
        exposed: Vec<String>,
    },
    /// Method that functions do not have.
    #[error("method {0} on RPC")]
    RpcMethod(String),
    /// Method that nothing here has.
    #[error("method {0}")]
    Method(String),
    /// A parameter does not follow the grammar.
    #[error(transparent)]
    Query(#[from] ParseError),
    /// The wanted window of rows is none.
    #[error("range: {0:?}")]
    Range(RangeError),
    /// The offset lies behind the last row.
    #[error("offset {offset} of {total} rows")]
    OffsetBeyond {
        /// What was asked for.
        offset: u128,
        /// What there is.
        total: i64,
    },
    /// Limit or offset with PUT.
    #[error("limit or offset with PUT")]
    PutRange,
    /// The body cannot be used; the text says why.
    #[error("{0}")]
    Body(String),
    /// The body passed the limit.
    #[error("the body is too large")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The rows of a CSV body passed the limit when they were written as JSON, with the columns' names in each.
    #[error("the rows of the body are too large")]
    CsvTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// There is no memory now for what is made of the body.
    #[error("the server is busy")]
    Busy,
    /// The client stopped sending its body.
    #[error("the body ended early")]
    BodyIncomplete,
    /// No such relation.
    #[error("relation {schema}.{name} is unknown")]
    RelationUnknown {
        /// Schema.
        schema: String,
        /// Name.
        name: String,
        /// Relations with names like it.
        similar: Vec<Named>,
    },
    /// No such function, or none with these arguments.
    #[error(transparent)]
    RoutineUnknown(Box<RoutineUnknown>),
    /// Several functions fit.
    #[error("several functions fit")]
    RoutineAmbiguous {
        /// Their signatures.
        signatures: Vec<Named>,
    },
    /// A filter, order, limit or related order names an embed that is not selected.
    #[error("{0} is not embedded")]
    NotEmbedded(String),
    /// A filter, order or limit names an aliased embed by its target, and legacy target names are off.
    #[error("{target} is embedded as {alias}")]
    NamedByTarget {
        /// What was embedded.
        target: String,
        /// Its alias.
        alias: String,
    },
    /// No relationship.
    #[error(transparent)]
    RelationshipUnknown(Box<RelationshipUnknown>),
    /// Several relationships.
    #[error(transparent)]
    RelationshipAmbiguous(Box<RelationshipAmbiguous>),
    /// Order by a to-many embed.
    #[error("{relation} and {embed} are not to-one")]
    RelatedOrder {
        /// The ordered relation.
        relation: String,
        /// The embed.
        embed: String,
    },
    /// Aggregates are turned off.
    #[error("aggregates are disabled")]
    AggregatesDisabled,
    /// Aggregates in a to-many spread.
    #[error("aggregates in a to-many spread")]
    AggregateInSpread,
    /// A written column is unknown.
    #[error("column {column} of {relation} is unknown")]
    ColumnUnknown {
        /// The column.
        column: String,
        /// The relation.
        relation: String,
    },
    /// The filters of a PUT are not its primary key.
    #[error("PUT filters")]
    PutFilters,
    /// The body of a PUT has another key than its filters.
    #[error("PUT payload")]
    PutPayload,
    /// No acceptable media type can be produced.
    #[error("not acceptable")]
    NotAcceptable(Vec<String>),
    /// Unknown preferences with strict handling.
    #[error("invalid preferences")]
    Preferences(Vec<String>),
    /// More rows affected than allowed.
    #[error("{0} rows affected")]
    MaxAffected(i64),
    /// max-affected on a function that returns no set.
    #[error("max-affected needs a set")]
    MaxAffectedRoutine,
    /// One row was wanted.
    #[error("{0} rows instead of one")]
    NotSingular(i64),
    /// UPDATE or DELETE of every row.
    #[error("{0} without a filter")]
    UnsafeWrite(&'static str),
    /// `response.headers` cannot be used.
    #[error("response.headers")]
    ResponseHeaders,
    /// `response.status` cannot be used.
    #[error("response.status")]
    ResponseStatus,
    /// The transaction failed.
    #[error(transparent)]
    Session(SessionError),
    /// A bug of ours.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// The kind of relations.
pub const RELATION: &str = "relation";

/// A name for a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// As the hint has it.
    pub text: String,
    /// What it is the name of.
    pub object: Object,
}

/// Something that only a role is told about that may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its kind, as `visible.sql` has it.
    pub kind: String,
}

impl Object {
    /// Something of a schema.
    pub fn new(schema: &str, name: &str, kind: impl Into<String>) -> Self {
        Self { schema: schema.to_owned(), name: name.to_owned(), kind: kind.into() }
    }
}

/// PGRST202.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("function {schema}.{name} is unknown")]
pub struct RoutineUnknown {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Argument names, sorted.
    pub arguments: Vec<String>,
    /// Parameter type the body could have gone to.
    pub raw: Option<&'static str>,
    /// The body is no set of named arguments.
    pub opaque: bool,
    /// Functions with a name or parameters like these, as `f(a, b)` or `f`.
    pub similar: Vec<Named>,
}

/// PGRST200.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no relationship between {origin} and {target}")]
pub struct RelationshipUnknown {
    /// Where the embed is.
    pub origin: String,
    /// What it names.
    pub target: String,
    /// Its hint.
    pub hint: Option<String>,
    /// The schema searched.
    pub schema: String,
    /// Better names, and the wrong one.
    pub similar: (Vec<Named>, String),
}

/// PGRST201.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several relationships between {origin} and {target}")]
pub struct RelationshipAmbiguous {
    /// Where the embed is.
    pub origin: String,
    /// What it names.
    pub target: String,
    /// The relationships, in the order of the message.
    pub candidates: Vec<RelationshipText>,
}

/// A relationship as PGRST201 tells it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RelationshipText {
    /// `many-to-one` and so on.
    pub cardinality: &'static str,
    /// `orders with addresses`
    pub embedding: String,
    /// `billing_fk using orders(billing_id) and addresses(id)`
    pub relationship: String,
    /// `addresses!billing_fk`
    #[serde(skip)]
    pub choice: String,
    /// What it names.
    #[serde(skip)]
    pub objects: Vec<Object>,
}

impl RestError {
    /// A newer schema cache may know what this one does not.
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
    /// What the error would tell of besides what the request named.
    pub(crate) fn told(&self) -> Vec<&Object> {
        fn list(similar: &[Named]) -> Vec<&Object> {
            similar.iter().map(|named| &named.object).collect()
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these tell of anything")]
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

    /// Keeps of that what is shown.
    pub(crate) fn tell_only(&mut self, is_shown: impl Fn(&Object) -> bool) {
        let keep = |similar: &mut Vec<Named>| similar.retain(|named| is_shown(&named.object));
        #[expect(clippy::wildcard_enum_match_arm, reason = "as above")]
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
