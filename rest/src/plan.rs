//! What to do: an [`ApiRequest`] checked against the schema cache. Pure: no I/O, no clock.
//!
//! The types here say what the API can do. [`read`] builds trees of embeds, [`mutate`] writes, [`call`] functions,
//! [`media`] the form of the body. The statement module turns a plan into SQL and cannot fail; what can be wrong
//! with a request is found here, in the order of rest.md §1.2.
//!
//! Writes and calls read too. Their rows arrive in a CTE, and a [`ReadPlan`] over it ([`Source::Returned`])
//! selects, embeds and orders them like a relation.

pub mod call;
mod condition;
pub mod delivery;
pub mod media;
pub mod mutate;
pub mod preferences;
pub mod read;
mod returned;
mod tree;

use basalt_pg::session::{Access, Isolation};

use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::JsonStep;
use crate::parse::filter::Operation;
use crate::parse::logic::Connective;
use crate::parse::order::{Direction, Nulls};
use crate::parse::prefer::Count;
use crate::parse::range::RowRange;
use crate::parse::select::{Aggregate, CastType};
use crate::request::{Action, ApiRequest, RelationVerb, Resource};
use crate::schema_cache::relationships::Link;
use crate::schema_cache::{QualifiedName, SchemaCache};
pub use call::CallPlan;
pub use delivery::Delivery;
pub use media::BodyFormat;
pub use mutate::WritePlan;

/// What a request comes to.
#[derive(Debug, Clone)]
pub enum Plan {
    /// GET and HEAD of a relation.
    Read(Box<TablePlan>),
    /// POST, PUT, PATCH, DELETE.
    Write(Box<WritePlan>),
    /// `/rpc/…`
    Call(Box<CallPlan>),
    /// The OpenAPI document.
    Root,
    /// OPTIONS: the methods that work.
    Info {
        /// The `Allow` header.
        allow: String,
    },
}

impl Plan {
    /// Has PostgreSQL write the rows as JSON.
    pub fn deliver_value(&mut self) {
        match self {
            Self::Read(read) => read.delivery = Delivery::Value,
            Self::Call(call) => call.delivery = Delivery::Value,
            Self::Write(_) | Self::Root | Self::Info { .. } => {}
        }
    }

    /// Whether parameters of the statement are made of the body, and not slices of it.
    #[must_use]
    pub fn has_values(&self) -> bool {
        match self {
            Self::Write(write) => write.has_values(),
            Self::Call(call) => call.has_values(),
            Self::Read(_) | Self::Root | Self::Info { .. } => false,
        }
    }
}

/// Everything a plan decides besides its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// Read only or read write.
    pub access: Access,
    /// Isolation a function asks for; the role's applies otherwise.
    pub isolation: Option<Isolation>,
    /// Settings a function asks for.
    pub settings: Vec<(String, String)>,
    /// `Preference-Applied`, in its order.
    pub applied: Vec<String>,
    /// Embeds addressed by their target's name although they have an alias: (target, alias).
    pub legacy_names: Vec<(String, String)>,
    /// Rows of other relations are embedded, and may be many more than those of the answer.
    pub embeds: bool,
    /// Rows counted, and how.
    pub count: Option<Count>,
    /// More affected rows than this are an error.
    pub max_affected: Option<u64>,
    /// How the transaction ends, if the caller may choose and did.
    pub rollback: Option<bool>,
}

/// Read of a relation.
#[derive(Debug, Clone)]
pub struct TablePlan {
    /// What every plan has.
    pub common: Common,
    /// The tree.
    pub read: ReadPlan,
    /// The body.
    pub format: BodyFormat,
    /// HEAD: count, but build no body.
    pub head: bool,
    /// Cap of estimated counts.
    pub max_rows: Option<u64>,
    /// Max-rows, where it and not the caller limits the page.
    pub cut_at: Option<u64>,
    /// How the rows reach us.
    pub delivery: Delivery,
}

/// One level of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    /// Where rows come from.
    pub source: Source,
    /// What is shown, in order.
    pub outputs: Vec<Output>,
    /// What rows must fulfil.
    pub conditions: Vec<Condition>,
    /// How they are sorted.
    pub order: Vec<OrderBy>,
    /// Which of them are wanted.
    pub range: RowRange,
    /// What hangs off them.
    pub embeds: Vec<EmbedPlan>,
}

impl ReadPlan {
    /// Whether rows are grouped: some output is an aggregate.
    #[must_use]
    pub fn is_grouped(&self) -> bool {
        self.outputs.iter().any(|output| output.aggregate.is_some())
    }
}

/// Where the rows of a level come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A relation under its own name: the root of a read.
    Relation(QualifiedName),
    /// A relation under an alias: an embed.
    Aliased {
        /// The relation.
        relation: QualifiedName,
        /// Its name in the statement.
        alias: String,
    },
    /// Rows of a function over the parent's row: a computed relationship.
    Computed {
        /// The function.
        function: QualifiedName,
        /// Its name in the statement.
        alias: String,
        /// The parent's relation, whose row type it takes.
        origin: QualifiedName,
    },
    /// Rows that a write or a call returned, in the CTE `pgrst_source`.
    Returned,
}

/// One output column of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its value.
    pub value: Value,
    /// An aggregate over it, and the type of the result.
    pub aggregate: Option<(Aggregate, Option<CastType>)>,
    /// Its key, where that is not the column's name.
    pub name: Option<String>,
}

impl Output {
    /// The key under which it is shown, where the plan knows it: `*` has many.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.name.as_deref().or(match &self.value {
            Value::Column { column, .. } => Some(&column.name),
            Value::Lifted { column, .. } => Some(column),
            Value::Star | Value::Presence | Value::Embed(_) => None,
        })
    }

    /// It is a column as it is, under its own name.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.aggregate.is_none()
            && matches!(
                &self.value,
                Value::Column { column, cast: None, representation: None }
                    if column.path.is_empty() && self.key() == Some(&column.name)
            )
    }
}

/// A value that a level can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// All columns; with `count` as aggregate, all rows.
    Star,
    /// A constant that stands for the row, so that a parent can count it.
    Presence,
    /// A column.
    Column {
        /// Which.
        column: ColumnRef,
        /// Type it is cast to.
        cast: Option<CastType>,
        /// Function that shows a domain as JSON.
        representation: Option<QualifiedName>,
    },
    /// The object or array of an embed, by its position.
    Embed(usize),
    /// A column lifted out of a spread embed.
    Lifted {
        /// Position of the embed.
        embed: usize,
        /// Column of its lateral query.
        column: String,
    },
}

/// A column of a level, possibly with a path into its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRef {
    /// Column or computed column.
    pub name: String,
    /// Steps into it.
    pub path: Vec<JsonStep>,
    /// It is no JSON yet: `to_jsonb` before the steps.
    pub to_jsonb: bool,
}

/// What a row must fulfil.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A test of a column.
    Test {
        /// The column.
        column: ColumnRef,
        /// `not.`
        negated: bool,
        /// Operator and value.
        operation: Operation,
        /// Full-text search on something that is no `tsvector`.
        to_tsvector: bool,
        /// Function that reads a domain from text.
        representation: Option<QualifiedName>,
    },
    /// Several, held together.
    Group {
        /// `not.`
        negated: bool,
        /// `and` or `or`.
        connective: Connective,
        /// They.
        conditions: Vec<Condition>,
    },
    /// A row of an embed exists, or does not.
    Embed {
        /// Its position.
        embed: usize,
        /// Which of the two.
        exists: bool,
    },
}

impl Condition {
    /// Whether it asks for rows of the embed at this position.
    #[must_use]
    pub fn asks_for(&self, position: usize) -> bool {
        match self {
            Self::Test { .. } => false,
            Self::Group { conditions, .. } => conditions.iter().any(|inner| inner.asks_for(position)),
            Self::Embed { embed, .. } => *embed == position,
        }
    }
}

/// A sort term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    /// The to-one embed whose column it is; else a column of this level.
    pub embed: Option<usize>,
    /// The column.
    pub column: ColumnRef,
    /// Direction.
    pub direction: Option<Direction>,
    /// Where nulls go.
    pub nulls: Option<Nulls>,
}

/// An embed of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedPlan {
    /// Key of its object or array.
    pub name: String,
    /// Name of its lateral query.
    pub lateral: String,
    /// Parents without a match are dropped.
    pub inner: bool,
    /// What becomes of its rows.
    pub form: EmbedForm,
    /// It shows something; otherwise it only filters.
    pub is_shown: bool,
    /// How its rows belong to the parent's.
    pub link: Link,
    /// Name of the junction in the statement.
    pub junction_alias: Option<String>,
    /// Its own level.
    pub read: ReadPlan,
}

/// What becomes of an embed's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedForm {
    /// One object or null.
    Object,
    /// An array.
    Array,
    /// Columns in the parent.
    SpreadObject,
    /// Columns of arrays in the parent.
    SpreadArray,
}

/// What the rows of a write or call must hold for the read over them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// Nothing: only how many there are matters.
    Nothing,
    /// All columns.
    Star,
    /// These.
    Columns {
        /// Columns and computed columns.
        names: Vec<String>,
        /// The row itself too, as `pgrst_row`, for computed relationships.
        row: bool,
    },
}

/// Makes the plan of a request.
///
/// # Errors
/// What of it cannot be done: steps 9 to 16 of rest.md §1.2.
pub fn plan(request: &ApiRequest, config: &RestConfig, cache: &SchemaCache) -> Result<Plan, RestError> {
    match &request.action {
        Action::Relation { name, verb: RelationVerb::Read { head } } => {
            read::plan(request, name, *head, config, cache).map(|plan| Plan::Read(Box::new(plan)))
        }
        Action::Relation { name, verb } => {
            mutate::plan(request, name, *verb, config, cache).map(|plan| Plan::Write(Box::new(plan)))
        }
        Action::Call { name, verb } => {
            call::plan(request, name, *verb, config, cache).map(|plan| Plan::Call(Box::new(plan)))
        }
        Action::Root { .. } => media::root(&request.accept).map(|()| Plan::Root),
        Action::Info(resource) => Ok(Plan::Info { allow: allowed(resource, request, cache)? }),
    }
}

/// The `Allow` header of OPTIONS (rest.md §3.13).
fn allowed(resource: &Resource, request: &ApiRequest, cache: &SchemaCache) -> Result<String, RestError> {
    let mut methods = vec!["OPTIONS"];
    match resource {
        Resource::Root => methods.extend(["GET", "HEAD"]),
        Resource::Routine(name) => {
            let volatile = call::info(request, name, cache)?;
            methods.extend(if volatile { &["POST"][..] } else { &["GET", "HEAD", "POST"] });
        }
        Resource::Relation(name) => {
            let relation = read::relation(&request.schema, name, cache)?;
            methods.extend(["GET", "HEAD"]);
            let can_put = relation.insertable && relation.updatable && !relation.primary_key.is_empty();
            let verbs = [
                (relation.insertable, "POST"),
                (can_put, "PUT"),
                (relation.updatable, "PATCH"),
                (relation.deletable, "DELETE"),
            ];
            methods.extend(verbs.iter().filter(|(can, _)| *can).map(|(_, verb)| verb));
        }
    }
    Ok(methods.join(","))
}

/// The isolation level of a setting's text; unknown text is PostgreSQL's default.
#[must_use]
pub fn isolation(text: &str) -> Isolation {
    match text.to_ascii_lowercase().as_str() {
        "repeatable read" => Isolation::RepeatableRead,
        "serializable" => Isolation::Serializable,
        _ => Isolation::ReadCommitted,
    }
}
