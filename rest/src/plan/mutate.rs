//! Writes: insert, upsert, update, delete and PUT (rest.md §3.9).

use bytes::Bytes;

use super::condition::Conditions;
use super::read::{Tree, relation};
use super::returned::returned;
use super::{BodyFormat, Common, Condition, ReadPlan, Returned, Source, media, preferences};
use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::filter::{Operation, Operator};
use crate::parse::prefer::{Count, Missing, Representation, Resolution};
use crate::request::payload::{JsonPayload, JsonShape, Payload, Values};
use crate::request::{ApiRequest, RelationVerb};
use crate::schema_cache::name::Name;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};

/// A write and what it answers.
#[derive(Debug, Clone)]
pub struct WritePlan {
    /// What every plan has.
    pub common: Common,
    /// What is written to.
    pub relation: QualifiedName,
    /// The write.
    pub mutation: Mutation,
    /// What of the rows is returned to the statement.
    pub returned: Returned,
    /// The read over them.
    pub read: ReadPlan,
    /// What the client gets.
    pub answer: Answer,
    /// The body, where there is one.
    pub format: BodyFormat,
    /// A row that is inserted may be left out by what runs before it, which may speak of the response all the same.
    pub may_drop_rows: bool,
}

impl WritePlan {
    /// Whether the values were taken out of the JSON.
    #[must_use]
    pub const fn has_values(&self) -> bool {
        match &self.mutation {
            Mutation::Insert { body, .. } | Mutation::Put { body, .. } | Mutation::Update { body, .. } => {
                body.values.is_some()
            }
            Mutation::Delete { .. } | Mutation::Nothing => false,
        }
    }

    /// Leaves the JSON to PostgreSQL.
    pub fn leave_values(&mut self) {
        match &mut self.mutation {
            Mutation::Insert { body, .. } | Mutation::Put { body, .. } | Mutation::Update { body, .. } => {
                body.values = None;
            }
            Mutation::Delete { .. } | Mutation::Nothing => {}
        }
    }
}

/// What is done.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// POST.
    Insert {
        /// The rows.
        body: Body,
        /// What happens to rows that exist.
        conflict: Option<Conflict>,
    },
    /// PUT: an upsert of the one row that the filters name.
    Put {
        /// The row.
        body: Body,
        /// The filters on the primary key: (column, value).
        key: Vec<(String, String)>,
    },
    /// PATCH.
    Update {
        /// The new values.
        body: Body,
        /// Which rows.
        conditions: Vec<Condition>,
    },
    /// DELETE.
    Delete {
        /// Which rows.
        conditions: Vec<Condition>,
    },
    /// PATCH without values.
    Nothing,
}

/// Rows in a JSON body.
#[derive(Debug, Clone)]
pub struct Body {
    /// The JSON text.
    pub bytes: Bytes,
    /// What it is.
    pub shape: JsonShape,
    /// The columns it is about.
    pub columns: Vec<BodyColumn>,
    /// Keys that are missing take the column's default.
    pub defaults: bool,
    /// The values, where they are as good as having PostgreSQL parse the JSON, but for errors: those come earlier.
    pub values: Option<Values>,
}

/// A column that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyColumn {
    /// Column.
    pub name: Name,
    /// Its type, from the catalog.
    pub type_name: Name,
    /// Its default, from the catalog.
    pub default: Option<Name>,
    /// Function that reads a domain from JSON.
    pub representation: Option<QualifiedName>,
}

impl BodyColumn {
    /// The type as a parameter has it, if the column takes a scalar of JSON as it takes a literal of the same text. Others
    /// do not: `json` and arrays read the JSON itself, domains and lengths of `bit` or `interval` follow rules of their own.
    #[must_use]
    pub fn literal_type(&self) -> Option<&'static str> {
        // A length is seen to when the value is assigned.
        let name = self.type_name.split_once('(').map_or(&*self.type_name, |(name, _)| name);
        const WITH_LENGTH: [&str; 2] = ["numeric", "character varying"];
        const OTHERS: [&str; 11] = [
            "text",
            "uuid",
            "integer",
            "bigint",
            "smallint",
            "boolean",
            "real",
            "double precision",
            "date",
            "timestamp with time zone",
            "timestamp without time zone",
        ];
        let with_length = WITH_LENGTH.into_iter().find(|known| *known == name);
        with_length.or_else(|| OTHERS.into_iter().find(|known| *known == &*self.type_name))
    }
}

/// What happens to rows that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Columns that tell whether a row exists.
    pub columns: Vec<String>,
    /// Condition of the partial index over them, where no full one is.
    pub predicate: Option<String>,
    /// Update or leave.
    pub resolution: Resolution,
}

/// What the client gets of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// A `Location`, made of these columns.
    Location(Vec<String>),
    /// The rows.
    Rows,
}

/// Plans POST, PUT, PATCH and DELETE of a relation.
///
/// # Errors
/// Steps 9 to 15 of rest.md §1.2, and the safeupdate rule.
pub fn plan(
    request: &ApiRequest,
    name: &str,
    verb: RelationVerb,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<WritePlan, RestError> {
    let relation = relation(&request.schema, name, cache)?;
    let answer = answer(request, verb, relation);
    let mut tree = Tree::of_write(request, &answer, config)?;
    let mut read = tree.read(Source::Returned, Some(relation), None, cache)?;
    let mutation = mutation(request, verb, relation, cache);
    if matches!(mutation, Err(RestError::PutPayload)) {
        // The row is compared in the transaction: what is wrong with the answer's form comes first.
        preferences::check(request)?;
        let _format = media::for_relation(request, Some(relation), config, cache)?;
    }
    let mutation = mutation?;

    preferences::check(request)?;
    let conflict = match &mutation {
        Mutation::Insert { conflict, .. } => conflict.as_ref().map(|conflict| conflict.resolution),
        Mutation::Put { .. } | Mutation::Update { .. } | Mutation::Delete { .. } | Mutation::Nothing => None,
    };
    let applied = preferences::applied(request, config, conflict);
    let format = media::for_relation(request, Some(relation), config, cache)?;
    refuse_unfiltered(&mutation, config)?;

    let returned = match &answer {
        Answer::Nothing => Returned::Nothing,
        Answer::Location(key) => returned(&mut read, Some(relation), key),
        Answer::Rows => returned(&mut read, Some(relation), &[]),
    };
    let common = Common::writing(request, config);
    // Rows are counted by being written; an estimate makes no sense.
    let count = common.count.filter(|count| *count != Count::Planned);
    Ok(WritePlan {
        common: Common {
            legacy_names: tree.legacy_names,
            embeds: !read.embeds.is_empty(),
            applied,
            count,
            ..common
        },
        relation: relation.qualified_name(),
        mutation,
        returned,
        read,
        answer,
        format,
        may_drop_rows: relation.may_drop_rows,
    })
}

fn answer(request: &ApiRequest, verb: RelationVerb, relation: &Relation) -> Answer {
    match request.prefer.representation {
        Some(Representation::Full) => Answer::Rows,
        Some(Representation::HeadersOnly) if verb == RelationVerb::Insert => {
            Answer::Location(relation.primary_key.clone())
        }
        Some(Representation::HeadersOnly | Representation::Minimal) | None => Answer::Nothing,
    }
}

fn mutation(
    request: &ApiRequest,
    verb: RelationVerb,
    relation: &Relation,
    cache: &SchemaCache,
) -> Result<Mutation, RestError> {
    let conditions = || {
        let root = |path: &[String]| path.is_empty();
        let filters = request.query.filters.iter().filter(|(path, _)| root(path));
        let trees = request.query.logic.iter().filter(|(path, _)| root(path));
        let known = Conditions { relation: Some(relation), level: None, cache };
        filters
            .map(|(_, filter)| known.of_filter(filter))
            .chain(trees.map(|(_, tree)| known.of_tree(tree)))
            .collect::<Vec<_>>()
    };
    let body = || {
        let Some(Payload::Json(payload)) = &request.payload else {
            return Err(RestError::Internal("a write without a JSON body"));
        };
        let is_put = verb == RelationVerb::Put;
        let defaults = request.prefer.missing == Some(Missing::Default) && !is_put;
        let body = Body::of(payload, defaults, relation, cache)?;
        // A text that is too long is refused whether or not there is a row for it.
        let is_update = verb == RelationVerb::Update;
        let has_length = body.columns.iter().any(|column| column.type_name.starts_with("character varying("));
        Ok(if is_update && has_length { body } else { body.with_values(payload) })
    };
    match verb {
        RelationVerb::Insert => Ok(Mutation::Insert { body: body()?, conflict: conflict(request, relation) }),
        RelationVerb::Put => {
            let key = put_key(request, relation)?;
            let body = body()?;
            // A body without the key cannot have the key of the URL.
            if key.iter().any(|(name, _)| !body.columns.iter().any(|column| *column.name == **name)) {
                return Err(RestError::PutPayload);
            }
            Ok(Mutation::Put { body, key })
        }
        RelationVerb::Update => {
            let body = body()?;
            if body.columns.is_empty() {
                return Ok(Mutation::Nothing);
            }
            Ok(Mutation::Update { body, conditions: conditions() })
        }
        RelationVerb::Delete => Ok(Mutation::Delete { conditions: conditions() }),
        RelationVerb::Read { .. } => Err(RestError::Internal("a read planned as a write")),
    }
}

impl Body {
    fn of(
        payload: &JsonPayload,
        defaults: bool,
        relation: &Relation,
        cache: &SchemaCache,
    ) -> Result<Self, RestError> {
        let readers = &cache.representations().from_json;
        let columns = payload.keys.iter().map(|key| {
            let column = relation.column(key).ok_or_else(|| column_unknown(key, relation))?;
            Ok(BodyColumn {
                name: column.name.clone(),
                type_name: column.type_name.clone(),
                default: column.default.clone(),
                representation: readers.get(&column.type_name).cloned(),
            })
        });
        Ok(Self {
            bytes: payload.bytes.clone(),
            shape: payload.shape,
            columns: columns.collect::<Result<_, RestError>>()?,
            defaults,
            values: None,
        })
    }

    /// Takes the values, if there are some and every column is of a type for which the text of a JSON scalar is a literal.
    fn with_values(mut self, payload: &JsonPayload) -> Self {
        let is_known =
            |column: &BodyColumn| column.representation.is_none() && column.literal_type().is_some();
        if !self.defaults && self.columns.iter().all(is_known) {
            self.values.clone_from(&payload.values);
        }
        self
    }
}

fn column_unknown(column: &str, relation: &Relation) -> RestError {
    RestError::ColumnUnknown { column: column.to_owned(), relation: relation.name.to_string() }
}

/// `on_conflict`, else the primary key; with neither it is a plain insert.
fn conflict(request: &ApiRequest, relation: &Relation) -> Option<Conflict> {
    let resolution = request.prefer.resolution?;
    let columns = request.query.on_conflict.clone().unwrap_or_else(|| relation.primary_key.clone());
    let predicate = relation.partial_key(&columns).map(str::to_owned);
    (!columns.is_empty()).then_some(Conflict { columns, predicate, resolution })
}

/// The filters of a PUT: `eq` on all columns of the primary key and nothing else.
fn put_key(request: &ApiRequest, relation: &Relation) -> Result<Vec<(String, String)>, RestError> {
    let query = &request.query;
    if !query.logic.is_empty() || relation.primary_key.is_empty() {
        return Err(RestError::PutFilters);
    }
    let mut key = Vec::new();
    for (path, filter) in &query.filters {
        let Operation::Compare { operator: Operator::Eq, quantifier: None, value } = &filter.test.operation
        else {
            return Err(RestError::PutFilters);
        };
        if !path.is_empty() || !filter.field.path.is_empty() || filter.test.negated {
            return Err(RestError::PutFilters);
        }
        key.push((filter.field.name.clone(), value.clone()));
    }
    let mut names: Vec<&String> = key.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    if names.len() == relation.primary_key.len()
        && names.iter().all(|name| relation.primary_key.contains(name))
    {
        Ok(key)
    } else {
        Err(RestError::PutFilters)
    }
}

/// Supabase loads `safeupdate`; where it is not there, we are.
fn refuse_unfiltered(mutation: &Mutation, config: &RestConfig) -> Result<(), RestError> {
    match mutation {
        Mutation::Update { conditions, .. } if conditions.is_empty() && config.safe_update => {
            Err(RestError::UnsafeWrite("UPDATE"))
        }
        Mutation::Delete { conditions } if conditions.is_empty() && config.safe_update => {
            Err(RestError::UnsafeWrite("DELETE"))
        }
        Mutation::Insert { .. }
        | Mutation::Put { .. }
        | Mutation::Update { .. }
        | Mutation::Delete { .. }
        | Mutation::Nothing => Ok(()),
    }
}
