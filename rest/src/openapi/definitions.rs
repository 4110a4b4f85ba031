//! Definitions of relations and their columns. Code generators parse `<pk/>` and `<fk …/>` in descriptions.

use serde_json::{Map, Value, json};

use super::types::{column_type, default_value, typed};
use crate::schema_cache::relationships::Link;
use crate::schema_cache::{Column, Relation, SchemaCache};

/// Definition of a relation.
pub(super) fn for_relation(relation: &Relation, cache: &SchemaCache) -> Value {
    let required: Vec<&str> =
        relation.columns.iter().filter(|column| !column.nullable).map(|column| &*column.name).collect();
    let properties: Map<String, Value> = relation
        .columns
        .iter()
        .map(|column| (column.name.to_string(), Value::Object(property(column, relation, cache))))
        .collect();
    let mut definition = Map::new();
    if let Some(comment) = &relation.comment {
        definition.insert("description".to_owned(), json!(comment));
    }
    if !required.is_empty() {
        definition.insert("required".to_owned(), json!(required));
    }
    definition.insert("properties".to_owned(), Value::Object(properties));
    definition.insert("type".to_owned(), json!("object"));
    Value::Object(definition)
}

fn property(column: &Column, relation: &Relation, cache: &SchemaCache) -> Map<String, Value> {
    let type_name = column_type(column);
    let mut property = typed(type_name);
    let mut notes = Vec::new();
    if relation.primary_key.iter().any(|key| **key == *column.name) {
        notes.push("This is a Primary Key.<pk/>".to_owned());
    }
    if let Some((table, target)) = foreign_key(column, relation, cache) {
        notes.push(format!(
            "This is a Foreign Key to `{table}.{target}`.<fk table='{table}' column='{target}'/>"
        ));
    }
    let note = (!notes.is_empty()).then(|| format!("Note:\n{}", notes.join("\n")));
    let description: Vec<String> = column.comment.clone().into_iter().chain(note).collect();
    if !description.is_empty() {
        property.insert("description".to_owned(), json!(description.join("\n\n")));
    }
    if let Some(length) = column.max_length {
        property.insert("maxLength".to_owned(), json!(length));
    }
    if !column.enum_labels.is_empty() {
        property.insert("enum".to_owned(), json!(column.enum_labels));
    }
    if let Some(default) = column.default.as_deref().and_then(|default| default_value(default, type_name)) {
        property.insert("default".to_owned(), default);
    }
    property
}

/// Table and column referenced by a single-column foreign key on this column. Base tables are often in private
/// schemas; the first exposed view over the table then replaces it.
fn foreign_key<'c>(
    column: &Column,
    relation: &Relation,
    cache: &'c SchemaCache,
) -> Option<(&'c str, &'c str)> {
    let related = cache.relationships_of(&relation.schema, &relation.name);
    let mut referred = related.iter().filter_map(|relationship| {
        let keys = match &relationship.link {
            Link::ManyToOne(keys) | Link::OneToOne { keys, is_parent: false } => keys,
            Link::OneToMany(_) | Link::OneToOne { .. } | Link::ManyToMany(_) | Link::Computed { .. } => {
                return None;
            }
        };
        match keys.columns.as_slice() {
            [(own, target)] if *own == column.name => Some((relationship, target)),
            _ => None,
        }
    });
    let first = referred.next()?;
    let table = std::iter::once(first).chain(referred).find(|(relationship, _)| !relationship.target_is_view);
    let (relationship, target) = table.unwrap_or(first);
    Some((&relationship.target.name, target))
}
