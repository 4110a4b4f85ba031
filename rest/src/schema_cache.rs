//! Metadata of the database: relations, relationships, functions, role settings.
//!
//! This module defines the cache and its lookups. [`load`] fills it from the catalog in a few queries;
//! [`relationships`] derives what can be embedded; [`routines`] resolves a function call by its arguments. Privileges
//! are not cached: GRANT and REVOKE take effect at once, because PostgreSQL checks every statement.
//!
//! Columns are checked for existence only on writes. Elsewhere an unknown column may be a computed one, so PostgreSQL
//! decides.

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

/// A schema-qualified name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
pub struct QualifiedName {
    /// Schema name.
    pub schema: Name,
    /// Name within the schema.
    pub name: Name,
}

impl QualifiedName {
    /// Creates a qualified name.
    #[must_use]
    pub fn new(schema: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }

    /// Quoted SQL: `"schema"."name"`.
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

/// Metadata of a database at one moment. Immutable; a reload builds a new one.
#[derive(Debug, Default)]
pub struct SchemaCache {
    /// Relations by schema and name.
    relations: HashMap<Name, HashMap<Name, Relation>>,
    /// Relationships by the schema and name of their origin.
    relationships: HashMap<Name, HashMap<Name, Vec<Relationship>>>,
    /// Functions by schema and name, each with its overloads.
    routines: HashMap<Name, HashMap<Name, Vec<Routine>>>,
    /// Settings by role, applied on `SET ROLE`.
    roles: HashMap<String, RoleSettings>,
    /// Comments on schemas.
    schema_comments: HashMap<String, String>,
    /// Casts of domain types.
    representations: Representations,
    /// Aggregates that produce a custom media type.
    pub media_handlers: Vec<MediaHandler>,
    /// Types defined in this database whose values are strings in JSON.
    pub text_types: TextTypes,
    /// Whether any function in the database replaces the caller's claims.
    pub rewrites_claims: bool,
    /// Whether any function in the database may run PREPARE while rows are read.
    pub may_prepare: bool,
    /// Whether any trigger in the database may run PREPARE.
    pub triggers_may_prepare: bool,
}

/// A table, view, materialized view or foreign table.
#[derive(Debug, Clone, Default)]
pub struct Relation {
    /// Schema name.
    pub schema: Name,
    /// Relation name.
    pub name: Name,
    /// Whether it is a view or materialized view.
    pub is_view: bool,
    /// Whether it supports INSERT.
    pub insertable: bool,
    /// Whether it supports UPDATE.
    pub updatable: bool,
    /// Whether it supports DELETE.
    pub deletable: bool,
    /// Whether a trigger may suppress an inserted row, including triggers of partitions and of tables below a view.
    pub may_drop_rows: bool,
    /// Text of `COMMENT ON`.
    pub comment: Option<String>,
    /// Columns in table order.
    pub columns: Vec<Column>,
    /// Names of the primary key columns; for a view, the columns that show its table's key.
    pub primary_key: Vec<String>,
    /// Partial unique indexes over columns that have no full unique index.
    pub partial_keys: Vec<PartialKey>,
}

/// A partial unique index: it covers only the rows that satisfy its predicate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct PartialKey {
    /// Indexed columns.
    pub columns: Vec<String>,
    /// Predicate as PostgreSQL prints it.
    pub predicate: String,
}

impl Relation {
    /// Looks up a column by name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| *column.name == *name)
    }

    /// Predicate of the partial unique index over exactly these columns. `None` also if several such indexes have
    /// different predicates, because the choice would be ambiguous.
    #[must_use]
    pub fn partial_key(&self, columns: &[String]) -> Option<&str> {
        let is_over = |key: &&PartialKey| {
            key.columns.len() == columns.len() && key.columns.iter().all(|column| columns.contains(column))
        };
        let mut predicates = self.partial_keys.iter().filter(is_over).map(|key| key.predicate.as_str());
        let first = predicates.next()?;
        predicates.all(|predicate| predicate == first).then_some(first)
    }

    /// Schema and name of the relation.
    #[must_use]
    pub fn qualified_name(&self) -> QualifiedName {
        QualifiedName { schema: self.schema.clone(), name: self.name.clone() }
    }
}

/// A column of a relation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    /// Column name.
    pub name: Name,
    /// Declared type with modifiers (`character varying(20)`), quoted by PostgreSQL.
    pub type_name: Name,
    /// Type without domains and modifiers; decides JSON and full-text handling.
    pub base_type: Name,
    /// Whether the column has no NOT NULL constraint.
    pub nullable: bool,
    /// Default expression, as PostgreSQL prints it.
    pub default: Option<Name>,
    /// Maximum length in characters: `n` of `varchar(n)`.
    pub max_length: Option<i32>,
    /// Labels of an enum type.
    pub enum_labels: Vec<String>,
    /// Text of `COMMENT ON`.
    pub comment: Option<String>,
    /// Oid of the base type; decides whether the server can serialise its values as JSON ([`crate::rows`]).
    pub type_oid: u32,
}

impl Column {
    /// Whether JSON operators apply without a cast.
    #[must_use]
    pub fn is_json(&self) -> bool {
        matches!(&*self.base_type, "json" | "jsonb")
    }

    /// Whether full-text operators apply without a cast.
    #[must_use]
    pub fn is_tsvector(&self) -> bool {
        &*self.base_type == "tsvector"
    }
}

/// Settings of a role, applied before `SET ROLE`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
pub struct RoleSettings {
    /// `default_transaction_isolation`, if the role has one.
    pub isolation: Option<String>,
    /// Other settings that an unprivileged user may set.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

/// Functions behind implicit casts between domains and JSON or text (domain representations).
#[derive(Debug, Clone, Default)]
pub struct Representations {
    /// Functions that convert a domain to JSON, by domain.
    pub to_json: HashMap<Name, QualifiedName>,
    /// Functions that convert JSON to a domain, by domain.
    pub from_json: HashMap<Name, QualifiedName>,
    /// Functions that convert the text of a filter to a domain, by domain.
    pub from_text: HashMap<Name, QualifiedName>,
}

/// An aggregate that produces a custom media type.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct MediaHandler {
    /// Aggregate function.
    pub function: QualifiedName,
    /// Relation whose rows it takes; `None` for any (`anyelement`).
    pub relation: Option<QualifiedName>,
    /// Media type, from the name of the domain that the aggregate returns.
    pub media: String,
}

/// Parts from which a [`SchemaCache`] is built.
#[derive(Debug, Default)]
pub struct Parts {
    /// Relations with their keys.
    pub relations: Vec<Relation>,
    /// Relationships in both directions.
    pub relationships: Vec<Relationship>,
    /// Functions, with overloads as separate entries.
    pub routines: Vec<Routine>,
    /// Role settings by role.
    pub roles: HashMap<String, RoleSettings>,
    /// Comments by schema.
    pub schema_comments: HashMap<String, String>,
    /// Casts of domain types.
    pub representations: Representations,
    /// Aggregates that produce a custom media type.
    pub media_handlers: Vec<MediaHandler>,
    /// Types defined in this database whose values are strings in JSON.
    pub text_types: TextTypes,
    /// Whether any function in the database replaces the caller's claims.
    pub rewrites_claims: bool,
    /// Whether any function in the database may run PREPARE while rows are read.
    pub may_prepare: bool,
    /// Whether any trigger in the database may run PREPARE.
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
    /// Looks up a relation by schema and name.
    #[must_use]
    pub fn relation(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.relations.get(schema)?.get(name)
    }

    /// All relations of a schema, in arbitrary order.
    pub fn relations_in(&self, schema: &str) -> impl Iterator<Item = &Relation> {
        self.relations.get(schema).into_iter().flat_map(HashMap::values)
    }

    /// Number of relations in a schema.
    #[must_use]
    pub fn relation_count(&self, schema: &str) -> usize {
        self.relations.get(schema).map_or(0, HashMap::len)
    }

    /// Whether the schema is small enough to search for names similar to a misspelled one (rest.md §3.18).
    #[must_use]
    pub fn is_searched(&self, schema: &str) -> bool {
        self.relation_count(schema) < SEARCHED_RELATIONS
    }

    /// Relationships that originate at a relation.
    #[must_use]
    pub fn relationships_of(&self, schema: &str, name: &str) -> &[Relationship] {
        self.relationships.get(schema).and_then(|origins| origins.get(name)).map_or(&[], Vec::as_slice)
    }

    /// Names of the relations of a schema that have relationships, for hints.
    pub fn origins_in(&self, schema: &str) -> impl Iterator<Item = &str> {
        self.relationships.get(schema).into_iter().flat_map(HashMap::keys).map(AsRef::as_ref)
    }

    /// Overloads of a function.
    #[must_use]
    pub fn routines_named(&self, schema: &str, name: &str) -> &[Routine] {
        self.routines.get(schema).and_then(|names| names.get(name)).map_or(&[], Vec::as_slice)
    }

    /// All functions of a schema, in arbitrary order.
    pub fn routines_in(&self, schema: &str) -> impl Iterator<Item = &Routine> {
        self.routines.get(schema).into_iter().flat_map(HashMap::values).flatten()
    }

    /// Names of the functions of a schema, in arbitrary order.
    pub fn routine_names(&self, schema: &str) -> impl Iterator<Item = &str> {
        self.routines.get(schema).into_iter().flat_map(HashMap::keys).map(AsRef::as_ref)
    }

    /// Settings of a role, if it has any.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&RoleSettings> {
        self.roles.get(name)
    }

    /// Text of `COMMENT ON SCHEMA`.
    #[must_use]
    pub fn schema_comment(&self, schema: &str) -> Option<&str> {
        self.schema_comments.get(schema).map(String::as_str)
    }

    /// Casts of domain types.
    #[must_use]
    pub const fn representations(&self) -> &Representations {
        &self.representations
    }

    /// Number of cached objects, for logs and metrics.
    #[must_use]
    pub fn size(&self) -> CacheSize {
        CacheSize {
            relations: self.relations.values().map(HashMap::len).sum(),
            relationships: self.relationships.values().flat_map(HashMap::values).map(Vec::len).sum(),
            routines: self.routines.values().flat_map(HashMap::values).map(Vec::len).sum(),
        }
    }
}

/// Number of objects in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSize {
    /// Number of relations.
    pub relations: usize,
    /// Number of relationships, counted once per direction.
    pub relationships: usize,
    /// Number of functions; each overload counts.
    pub routines: usize,
}
