//! Plans writes: insert, upsert, update, delete and PUT (rest.md §3.9).

use bytes::Bytes;

use super::condition::Conditions;
use super::read::{Tree, relation};
use super::returned::{Answer, returned};
use super::{BodyFormat, Common, Condition, ReadPlan, Returned, Source, media, preferences};
use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::filter::{Operation, Operator};
use crate::parse::prefer::{Count, Missing, Representation, Resolution};
use crate::request::payload::{JsonPayload, JsonShape, Payload, Values};
use crate::request::{ApiRequest, RelationVerb};
use crate::schema_cache::name::Name;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};

/// Plan of a write.
#[derive(Debug, Clone)]
pub struct WritePlan {
    /// Parts shared by all plans.
    pub common: Common,
    /// Target relation.
    pub relation: QualifiedName,
    /// Operation on the relation.
    pub mutation: Mutation,
    /// Columns of the written rows that the read uses.
    pub returned: Returned,
    /// Read over the written rows.
    pub read: ReadPlan,
    /// Content of the response.
    pub answer: Answer,
    /// Format of the body, if there is one.
    pub format: BodyFormat,
    /// Whether a trigger may suppress an inserted row; it may still set headers and status of the response.
    pub may_drop_rows: bool,
}

impl WritePlan {
    /// Whether the values were decoded from the JSON body.
    #[must_use]
    pub const fn has_values(&self) -> bool {
        match &self.mutation {
            Mutation::Insert { body, .. } | Mutation::Put { body, .. } | Mutation::Update { body, .. } => {
                body.values.is_some()
            }
            Mutation::Delete { .. } | Mutation::Nothing => false,
        }
    }

    /// Leaves decoding of the JSON body to PostgreSQL.
    pub fn leave_decoding_to_postgres(&mut self) {
        match &mut self.mutation {
            Mutation::Insert { body, .. } | Mutation::Put { body, .. } | Mutation::Update { body, .. } => {
                body.values = None;
            }
            Mutation::Delete { .. } | Mutation::Nothing => {}
        }
    }
}

/// Operation of a write.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// POST: insert or upsert.
    Insert {
        /// Rows to insert.
        body: Body,
        /// Handling of existing rows; `None` for a plain insert.
        conflict: Option<Conflict>,
    },
    /// PUT: an upsert of the single row that the filters identify.
    Put {
        /// Row to write.
        body: Body,
        /// Filters on the primary key: (column, value).
        key: Vec<(String, String)>,
    },
    /// PATCH: update.
    Update {
        /// New values.
        body: Body,
        /// Rows to update.
        conditions: Vec<Condition>,
    },
    /// DELETE.
    Delete {
        /// Rows to delete.
        conditions: Vec<Condition>,
    },
    /// PATCH without any values.
    Nothing,
}

/// Rows in a JSON body.
#[derive(Debug, Clone)]
pub struct Body {
    /// JSON text.
    pub bytes: Bytes,
    /// Whether the JSON is an object or an array.
    pub shape: JsonShape,
    /// Columns to write.
    pub columns: Vec<BodyColumn>,
    /// Whether missing keys take the column's default.
    pub defaults: bool,
    /// Decoded values, if passing them as parameters is equivalent to having PostgreSQL parse the JSON. Errors in
    /// them are detected earlier.
    pub values: Option<Values>,
}

/// A column to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyColumn {
    /// Column name.
    pub name: Name,
    /// Type, from the catalog.
    pub type_name: Name,
    /// Default expression, from the catalog.
    pub default: Option<Name>,
    /// Function that converts JSON to the column's domain.
    pub representation: Option<QualifiedName>,
}

impl BodyColumn {
    /// Type of a parameter for this column, if the column accepts the text of a JSON scalar as a literal. Other types
    /// do not: `json` and arrays need the JSON itself, and domains and lengths of `bit` or `interval` have their own
    /// rules.
    #[must_use]
    pub fn literal_type(&self) -> Option<&'static str> {
        // The length is enforced when the value is assigned.
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

/// Handling of rows that already exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Columns that identify an existing row.
    pub columns: Vec<String>,
    /// Predicate of the partial index over the columns, if no full index exists.
    pub predicate: Option<String>,
    /// Whether existing rows are updated or ignored.
    pub resolution: Resolution,
}

/// Plans POST, PUT, PATCH and DELETE on a relation.
///
/// # Errors
/// The first violation found in steps 9 to 15 of rest.md §1.2, and writes without a filter while `safe_update` is on.
pub fn plan(
    request: &ApiRequest,
    name: &str,
    verb: RelationVerb,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<WritePlan, RestError> {
    let relation = relation(&request.schema, name, cache)?;
    let answer = answer(request, verb, relation);
    let mut tree = Tree::for_write(request, &answer, config)?;
    let mut read = tree.read(Source::Returned, Some(relation), None, cache)?;
    let mutation = mutation(request, verb, relation, cache);
    if matches!(mutation, Err(RestError::PutPayload)) {
        // The key comparison happens inside the transaction, so errors of the response format take precedence.
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
    reject_unfiltered(&mutation, config)?;

    let returned = match &answer {
        Answer::Nothing => Returned::Nothing,
        Answer::Location(key) => returned(&mut read, Some(relation), key),
        Answer::Rows => returned(&mut read, Some(relation), &[]),
    };
    let common = Common::writing(request, config);
    // Written rows are counted exactly; an estimate makes no sense.
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
        let context = Conditions { relation: Some(relation), level: None, cache };
        filters
            .map(|(_, filter)| context.filter_condition(filter))
            .chain(trees.map(|(_, tree)| context.tree_condition(tree)))
            .collect::<Vec<_>>()
    };
    let body = || {
        let Some(Payload::Json(payload)) = &request.payload else {
            return Err(RestError::Internal("write without a JSON body"));
        };
        let is_put = verb == RelationVerb::Put;
        let defaults = request.prefer.missing == Some(Missing::Default) && !is_put;
        let body = Body::from_payload(payload, defaults, relation, cache)?;
        // PostgreSQL rejects a text parameter that is too long even if no row matches.
        let is_update = verb == RelationVerb::Update;
        let has_length = body.columns.iter().any(|column| column.type_name.starts_with("character varying("));
        Ok(if is_update && has_length { body } else { body.with_values(payload) })
    };
    match verb {
        RelationVerb::Insert => Ok(Mutation::Insert { body: body()?, conflict: conflict(request, relation) }),
        RelationVerb::Put => {
            let key = put_key(request, relation)?;
            let body = body()?;
            // Without the key columns the body cannot match the key in the URL.
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
        RelationVerb::Read { .. } => Err(RestError::Internal("read planned as a write")),
    }
}

impl Body {
    fn from_payload(
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

    /// Uses the decoded values, if there are any and the text of a JSON scalar is a literal for every column's type.
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

/// Conflict target: `on_conflict`, or else the primary key; with neither the write is a plain insert.
fn conflict(request: &ApiRequest, relation: &Relation) -> Option<Conflict> {
    let resolution = request.prefer.resolution?;
    let columns = request.query.on_conflict.clone().unwrap_or_else(|| relation.primary_key.clone());
    let predicate = relation.partial_key(&columns).map(str::to_owned);
    (!columns.is_empty()).then_some(Conflict { columns, predicate, resolution })
}

/// Parses the filters of a PUT: `eq` on all columns of the primary key and nothing else.
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

/// Rejects UPDATE and DELETE without a filter, as the extension `safeupdate` does in Supabase.
fn reject_unfiltered(mutation: &Mutation, config: &RestConfig) -> Result<(), RestError> {
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
