//! Plans: an [`ApiRequest`] validated against the schema cache. Pure: no I/O, no clock.
//!
//! The types here define what the API can do. [`read`] builds trees of embeds, [`mutate`] plans writes, [`call`]
//! function calls, and [`media`] the format of the body. The statement module turns a plan into SQL and cannot fail:
//! every invalid request is rejected here, in the order of rest.md §1.2.
//!
//! Writes and calls also read. Their rows arrive in a CTE, and a [`ReadPlan`] over it ([`Source::Returned`]) selects,
//! embeds and orders them like those of a relation.

pub mod call;
mod condition;
pub mod delivery;
pub mod media;
pub mod mutate;
pub mod preferences;
pub mod read;
pub mod returned;
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

/// The plan of a request.
#[derive(Debug, Clone)]
pub enum Plan {
    /// GET and HEAD of a relation.
    Read(Box<TablePlan>),
    /// POST, PUT, PATCH and DELETE on a relation.
    Write(Box<WritePlan>),
    /// Function call.
    Call(Box<CallPlan>),
    /// The OpenAPI document.
    Root,
    /// OPTIONS: lists the supported methods.
    Info {
        /// Value of the `Allow` header.
        allow: String,
    },
}

impl Plan {
    /// Makes PostgreSQL serialise the rows as JSON.
    pub fn deliver_value(&mut self) {
        match self {
            Self::Read(read) => read.delivery = Delivery::Value,
            Self::Call(call) => call.delivery = Delivery::Value,
            Self::Write(_) | Self::Root | Self::Info { .. } => {}
        }
    }

    /// Whether the statement's parameters are decoded from the body rather than slices of it.
    #[must_use]
    pub fn has_values(&self) -> bool {
        match self {
            Self::Write(write) => write.has_values(),
            Self::Call(call) => call.has_values(),
            Self::Read(_) | Self::Root | Self::Info { .. } => false,
        }
    }
}

/// The parts that plans of every kind have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// Access mode of the transaction.
    pub access: Access,
    /// Isolation level declared by a function; otherwise the role's applies.
    pub isolation: Option<Isolation>,
    /// Settings declared by a function.
    pub settings: Vec<(String, String)>,
    /// Entries of `Preference-Applied`, in order.
    pub applied: Vec<String>,
    /// Aliased embeds that the request addressed by their target: (target, alias).
    pub legacy_names: Vec<(String, String)>,
    /// Whether rows of other relations are embedded, which may be far more than the rows of the result.
    pub embeds: bool,
    /// Requested kind of count.
    pub count: Option<Count>,
    /// Maximum number of affected rows.
    pub max_affected: Option<u64>,
    /// Whether to roll the transaction back, if the caller may choose and did.
    pub rollback: Option<bool>,
}

/// Plan of a GET or HEAD on a relation.
#[derive(Debug, Clone)]
pub struct TablePlan {
    /// Parts shared by all plans.
    pub common: Common,
    /// Root of the tree of reads.
    pub read: ReadPlan,
    /// Format of the body.
    pub format: BodyFormat,
    /// HEAD: count rows, but build no body.
    pub head: bool,
    /// Upper bound for estimated counts (`rest.max_rows`).
    pub max_rows: Option<u64>,
    /// `rest.max_rows`, if it rather than the caller limits the page.
    pub row_cap: Option<u64>,
    /// How rows are returned from PostgreSQL.
    pub delivery: Delivery,
}

/// One level of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    /// Source of the rows.
    pub source: Source,
    /// Output columns, in order.
    pub outputs: Vec<Output>,
    /// Conditions that rows must satisfy, joined by AND.
    pub conditions: Vec<Condition>,
    /// Sort order.
    pub order: Vec<OrderBy>,
    /// Limit and offset.
    pub range: RowRange,
    /// Embeds of this level.
    pub embeds: Vec<EmbedPlan>,
}

impl ReadPlan {
    /// Whether rows are grouped, because some output is an aggregate.
    #[must_use]
    pub fn is_grouped(&self) -> bool {
        self.outputs.iter().any(|output| output.aggregate.is_some())
    }
}

/// Source of a level's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A relation under its own name, at the root of a read.
    Relation(QualifiedName),
    /// A relation under an alias, in an embed.
    Aliased {
        /// Relation name.
        relation: QualifiedName,
        /// Alias in the statement.
        alias: String,
    },
    /// Rows returned by a function of the parent row: a computed relationship.
    Computed {
        /// Function name.
        function: QualifiedName,
        /// Alias in the statement.
        alias: String,
        /// The parent's relation, whose row type the function takes.
        origin: QualifiedName,
    },
    /// Rows returned by a write or a call, in the CTE `pgrst_source`.
    Returned,
}

/// One output column of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Value of the column.
    pub value: Value,
    /// Aggregate over the value, and the type that its result is cast to.
    pub aggregate: Option<(Aggregate, Option<CastType>)>,
    /// Output key, if it differs from the column name.
    pub name: Option<String>,
}

impl Output {
    /// The output key, if the plan knows it; `*` has many.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.name.as_deref().or(match &self.value {
            Value::Column { column, .. } => Some(&column.name),
            Value::Lifted { column, .. } => Some(column),
            Value::Star | Value::Presence | Value::Embed(_) => None,
        })
    }

    /// Whether the output is an unmodified column under its own name.
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

/// A value that a level can output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// All columns; with the aggregate `count`, all rows.
    Star,
    /// A constant that represents the row, so that a parent can count it.
    Presence,
    /// A column or computed column.
    Column {
        /// Column name and path.
        column: ColumnRef,
        /// Type that the value is cast to.
        cast: Option<CastType>,
        /// Function that converts a domain to JSON.
        representation: Option<QualifiedName>,
    },
    /// The object or array of an embed, by the embed's index.
    Embed(usize),
    /// A column lifted out of a spread embed.
    Lifted {
        /// Index of the embed.
        embed: usize,
        /// Column in the lateral query of the embed.
        column: String,
    },
}

/// A column of a level, with an optional path into its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRef {
    /// Column or computed column.
    pub name: String,
    /// Path into the value.
    pub path: Vec<JsonStep>,
    /// The column is not JSON; wrap it in `to_jsonb` before applying the path.
    pub to_jsonb: bool,
}

/// A condition on rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Comparison of a column.
    Test {
        /// Column to compare.
        column: ColumnRef,
        /// Whether `not.` negates the comparison.
        negated: bool,
        /// Operator and operand.
        operation: Operation,
        /// Whether full-text search must convert the column to `tsvector` first.
        to_tsvector: bool,
        /// Function that parses the text of the operand as a domain.
        representation: Option<QualifiedName>,
    },
    /// Several conditions joined by a connective.
    Group {
        /// Whether `not.` negates the group.
        negated: bool,
        /// `and` or `or`.
        connective: Connective,
        /// Conditions in the group.
        conditions: Vec<Condition>,
    },
    /// Whether an embed has a row.
    Embed {
        /// Index of the embed.
        embed: usize,
        /// Whether a row must exist or must not.
        exists: bool,
    },
}

impl Condition {
    /// Whether the condition tests for rows of the embed at this index.
    #[must_use]
    pub fn tests_embed(&self, position: usize) -> bool {
        match self {
            Self::Test { .. } => false,
            Self::Group { conditions, .. } => conditions.iter().any(|inner| inner.tests_embed(position)),
            Self::Embed { embed, .. } => *embed == position,
        }
    }
}

/// A sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    /// Index of the to-one embed that has the column; `None` for a column of this level.
    pub embed: Option<usize>,
    /// Column to sort by.
    pub column: ColumnRef,
    /// Sort direction.
    pub direction: Option<Direction>,
    /// Position of nulls.
    pub nulls: Option<Nulls>,
}

/// An embed of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedPlan {
    /// Output key of the object or array.
    pub name: String,
    /// Alias of the lateral query.
    pub lateral: String,
    /// Whether parents without a match are dropped.
    pub inner: bool,
    /// How the embed's rows are represented.
    pub form: EmbedForm,
    /// Whether the embed is part of the output, rather than only a filter.
    pub is_shown: bool,
    /// How the embed's rows are joined with the parent's.
    pub link: Link,
    /// Alias of the junction table in the statement.
    pub junction_alias: Option<String>,
    /// Read of the embedded rows.
    pub read: ReadPlan,
}

/// How the rows of an embed are represented in the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedForm {
    /// One object, or null.
    Object,
    /// An array of objects.
    Array,
    /// Columns of the parent.
    SpreadObject,
    /// Columns of the parent that hold arrays.
    SpreadArray,
}

/// Columns that a write or call must return for the read over its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// None: only the number of rows matters.
    Nothing,
    /// All columns.
    Star,
    /// Named columns.
    Columns {
        /// Columns and computed columns.
        names: Vec<String>,
        /// Whether the row itself is returned as `pgrst_row`, for computed relationships.
        row: bool,
    },
}

/// Plans a request.
///
/// # Errors
/// The first violation found in steps 9 to 16 of rest.md §1.2.
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
        Action::Info(resource) => Ok(Plan::Info { allow: allowed_methods(resource, request, cache)? }),
    }
}

/// Value of the `Allow` header of OPTIONS (rest.md §3.13).
fn allowed_methods(
    resource: &Resource,
    request: &ApiRequest,
    cache: &SchemaCache,
) -> Result<String, RestError> {
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

/// Parses an isolation level; any other text means PostgreSQL's default.
#[must_use]
pub fn isolation(text: &str) -> Isolation {
    match text.to_ascii_lowercase().as_str() {
        "repeatable read" => Isolation::RepeatableRead,
        "serializable" => Isolation::Serializable,
        _ => Isolation::ReadCommitted,
    }
}
