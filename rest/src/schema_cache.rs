//! What the server knows about the database: relations, relationships, functions, role settings.
//!
//! Answers for the shape of that knowledge and for looking things up in it. [`load`] fills it from the catalog in a
//! few queries; [`relationships`] derives what can be embedded; [`routines`] chooses a function by its arguments.
//! Privileges are not in it: GRANT and REVOKE act at once, because PostgreSQL judges each statement.
//!
//! The existence of columns is checked here only for writes. Anywhere else an unknown column may be a
//! computed one, so PostgreSQL decides.

mod describe;
pub mod load;
pub mod name;
pub mod relationships;
pub mod routines;
pub mod view_columns;

use std::collections::HashMap;
use std::fmt;

use name::Name;
use relationships::Relationship;
use routines::Routine;

use crate::rows::types::TextTypes;
use crate::suggest::SEARCHED_RELATIONS;

/// A name with its schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
pub struct QualifiedName {
    /// Schema.
    pub schema: Name,
    /// Name in it.
    pub name: Name,
}

impl QualifiedName {
    /// A name in a schema.
    #[must_use]
    pub fn new(schema: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }

    /// `"schema"."name"`.
    #[must_use]
    pub fn sql(&self) -> basalt_pg::sql::Sql {
        basalt_pg::sql::Sql::qualified(&self.schema, &self.name)
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// Everything known about a database at one moment. Immutable; a reload makes a new one.
#[derive(Debug, Default)]
pub struct SchemaCache {
    /// Relations by schema and name.
    relations: HashMap<Name, HashMap<Name, Relation>>,
    /// Relationships by the schema and name of their origin.
    relationships: HashMap<Name, HashMap<Name, Vec<Relationship>>>,
    /// Functions by schema and name; overloads side by side.
    routines: HashMap<Name, HashMap<Name, Vec<Routine>>>,
    /// Settings that apply when a role is taken on.
    roles: HashMap<String, RoleSettings>,
    /// Comments on schemas.
    schema_comments: HashMap<String, String>,
    /// Conversions of domain types.
    representations: Representations,
    /// Aggregates that make a body of a media type.
    pub media_handlers: Vec<MediaHandler>,
    /// Types of the database's own whose values are strings in JSON.
    pub text_types: TextTypes,
    /// Some function of the database puts other claims in the place of the caller's.
    pub rewrites_claims: bool,
    /// Some function of the database may PREPARE while rows are read.
    pub may_prepare: bool,
    /// Some trigger of the database may.
    pub triggers_may_prepare: bool,
}

/// A table, view, materialized view or foreign table.
#[derive(Debug, Clone, Default)]
pub struct Relation {
    /// Schema.
    pub schema: Name,
    /// Name.
    pub name: Name,
    /// View or materialized view.
    pub is_view: bool,
    /// INSERT can work.
    pub insertable: bool,
    /// UPDATE can work.
    pub updatable: bool,
    /// DELETE can work.
    pub deletable: bool,
    /// Something runs before a row is inserted and may leave it out: a trigger, also one of a partition or below a view.
    pub may_drop_rows: bool,
    /// `COMMENT ON`.
    pub comment: Option<String>,
    /// Columns in their order.
    pub columns: Vec<Column>,
    /// Primary key, by name; of a view: what it shows of its table's.
    pub primary_key: Vec<String>,
    /// Unique indexes with a condition, over columns that no unique index without one is over.
    pub partial_keys: Vec<PartialKey>,
}

/// A unique index of which only the rows that fulfil a condition are part.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct PartialKey {
    /// Its columns.
    pub columns: Vec<String>,
    /// The condition, as PostgreSQL prints it.
    pub predicate: String,
}

impl Relation {
    /// A column by name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| *column.name == *name)
    }

    /// The condition of the partial unique index over just these columns; `None` too if several differ in it, because
    /// then nothing says which one is meant.
    #[must_use]
    pub fn partial_key(&self, columns: &[String]) -> Option<&str> {
        let is_over = |key: &&PartialKey| {
            key.columns.len() == columns.len() && key.columns.iter().all(|column| columns.contains(column))
        };
        let mut predicates = self.partial_keys.iter().filter(is_over).map(|key| key.predicate.as_str());
        let first = predicates.next()?;
        predicates.all(|predicate| predicate == first).then_some(first)
    }

    /// Schema and name.
    #[must_use]
    pub fn qualified_name(&self) -> QualifiedName {
        QualifiedName { schema: self.schema.clone(), name: self.name.clone() }
    }
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: Name,
    /// Type as declared, modifiers included (`character varying(20)`), quoted by PostgreSQL.
    pub type_name: Name,
    /// The same without domains and modifiers: decides JSON and full-text treatment.
    pub base_type: Name,
    /// No NOT NULL constraint.
    pub nullable: bool,
    /// Default expression, as PostgreSQL prints it.
    pub default: Option<Name>,
    /// `n` of `varchar(n)`.
    pub max_length: Option<i32>,
    /// Labels of an enum.
    pub enum_labels: Vec<String>,
    /// `COMMENT ON`.
    pub comment: Option<String>,
    /// Number of the base type: decides whether we can write its values as JSON ([`crate::rows`]).
    pub type_oid: u32,
}

impl Column {
    /// Whether JSON operators apply to it as it is.
    #[must_use]
    pub fn is_json(&self) -> bool {
        matches!(&*self.base_type, "json" | "jsonb")
    }

    /// Whether full-text operators apply to it as it is.
    #[must_use]
    pub fn is_tsvector(&self) -> bool {
        &*self.base_type == "tsvector"
    }
}

/// Settings of a role, applied before it is taken on.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
pub struct RoleSettings {
    /// `default_transaction_isolation`, if the role has one.
    pub isolation: Option<String>,
    /// The others that a plain user may set.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

/// Functions behind implicit casts between domains and JSON or text (domain representations).
#[derive(Debug, Clone, Default)]
pub struct Representations {
    /// Domain to the function that shows it as JSON.
    pub to_json: HashMap<Name, QualifiedName>,
    /// Domain to the function that reads it from JSON.
    pub from_json: HashMap<Name, QualifiedName>,
    /// Domain to the function that reads it from the text of a filter.
    pub from_text: HashMap<Name, QualifiedName>,
}

/// An aggregate that makes a body of a media type.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct MediaHandler {
    /// The aggregate.
    pub function: QualifiedName,
    /// Relation whose rows it takes; `None` is any (`anyelement`).
    pub relation: Option<QualifiedName>,
    /// Media type, from the name of the domain it returns.
    pub media: String,
}

/// Everything a [`SchemaCache`] is made of.
#[derive(Debug, Default)]
pub struct Parts {
    /// Relations with their keys.
    pub relations: Vec<Relation>,
    /// Relationships in every direction.
    pub relationships: Vec<Relationship>,
    /// Functions.
    pub routines: Vec<Routine>,
    /// Role settings by role.
    pub roles: HashMap<String, RoleSettings>,
    /// Comments by schema.
    pub schema_comments: HashMap<String, String>,
    /// Domain representations.
    pub representations: Representations,
    /// Media handlers.
    pub media_handlers: Vec<MediaHandler>,
    /// Types of the database's own whose values are strings in JSON.
    pub text_types: TextTypes,
    /// Some function of the database puts other claims in the place of the caller's.
    pub rewrites_claims: bool,
    /// Some function of the database may PREPARE while rows are read.
    pub may_prepare: bool,
    /// Some trigger of the database may.
    pub triggers_may_prepare: bool,
}

impl From<Parts> for SchemaCache {
    fn from(parts: Parts) -> Self {
        let mut cache = Self {
            roles: parts.roles,
            schema_comments: parts.schema_comments,
            representations: parts.representations,
            media_handlers: parts.media_handlers,
            text_types: parts.text_types,
            rewrites_claims: parts.rewrites_claims,
            may_prepare: parts.may_prepare,
            triggers_may_prepare: parts.triggers_may_prepare,
            ..Self::default()
        };
        for relation in parts.relations {
            let schema = cache.relations.entry(relation.schema.clone()).or_default();
            schema.insert(relation.name.clone(), relation);
        }
        for relationship in parts.relationships {
            let schema = cache.relationships.entry(relationship.origin.schema.clone()).or_default();
            schema.entry(relationship.origin.name.clone()).or_default().push(relationship);
        }
        for routine in parts.routines {
            let schema = cache.routines.entry(routine.name.schema.clone()).or_default();
            schema.entry(routine.name.name.clone()).or_default().push(routine);
        }
        cache
    }
}

impl SchemaCache {
    /// A relation by schema and name.
    #[must_use]
    pub fn relation(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.relations.get(schema)?.get(name)
    }

    /// The relations of a schema, in no order.
    pub fn relations_in(&self, schema: &str) -> impl Iterator<Item = &Relation> {
        self.relations.get(schema).into_iter().flat_map(HashMap::values)
    }

    /// How many relations a schema has.
    #[must_use]
    pub fn relation_count(&self, schema: &str) -> usize {
        self.relations.get(schema).map_or(0, HashMap::len)
    }

    /// Whether a misspelled name is worth a search for what was meant (rest.md §3.18).
    #[must_use]
    pub fn is_searched(&self, schema: &str) -> bool {
        self.relation_count(schema) < SEARCHED_RELATIONS
    }

    /// Relationships that start at a relation.
    #[must_use]
    pub fn relationships_of(&self, schema: &str, name: &str) -> &[Relationship] {
        self.relationships.get(schema).and_then(|origins| origins.get(name)).map_or(&[], Vec::as_slice)
    }

    /// Relations of a schema that have relationships, for hints.
    pub fn origins_in(&self, schema: &str) -> impl Iterator<Item = &str> {
        self.relationships.get(schema).into_iter().flat_map(HashMap::keys).map(AsRef::as_ref)
    }

    /// The overloads of a function.
    #[must_use]
    pub fn routines_named(&self, schema: &str, name: &str) -> &[Routine] {
        self.routines.get(schema).and_then(|names| names.get(name)).map_or(&[], Vec::as_slice)
    }

    /// All functions of a schema, in no order.
    pub fn routines_in(&self, schema: &str) -> impl Iterator<Item = &Routine> {
        self.routines.get(schema).into_iter().flat_map(HashMap::values).flatten()
    }

    /// Names of the functions of a schema, in no order.
    pub fn routine_names(&self, schema: &str) -> impl Iterator<Item = &str> {
        self.routines.get(schema).into_iter().flat_map(HashMap::keys).map(AsRef::as_ref)
    }

    /// Settings of a role.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&RoleSettings> {
        self.roles.get(name)
    }

    /// Comment on a schema.
    #[must_use]
    pub fn schema_comment(&self, schema: &str) -> Option<&str> {
        self.schema_comments.get(schema).map(String::as_str)
    }

    /// Domain representations.
    #[must_use]
    pub const fn representations(&self) -> &Representations {
        &self.representations
    }

    /// Relations, relationships and functions held, for logs and metrics.
    #[must_use]
    pub fn size(&self) -> CacheSize {
        CacheSize {
            relations: self.relations.values().map(HashMap::len).sum(),
            relationships: self.relationships.values().flat_map(HashMap::values).map(Vec::len).sum(),
            routines: self.routines.values().flat_map(HashMap::values).map(Vec::len).sum(),
        }
    }
}

/// How much a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSize {
    /// Relations.
    pub relations: usize,
    /// Relationships, counted in each direction.
    pub relationships: usize,
    /// Functions, each overload counted.
    pub routines: usize,
}
