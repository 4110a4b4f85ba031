//! The schema cache as JSON, for diagnostics (`/schema_cache` on the admin port). The format may change in any
//! release.

use serde_json::{Value, json};

use super::{Relation, SchemaCache};

impl SchemaCache {
    /// Relations, relationships and functions, sorted by name.
    #[must_use]
    pub fn describe(&self) -> Value {
        let mut relations: Vec<&Relation> =
            self.relations.values().flat_map(|schema| schema.values()).collect();
        relations.sort_by_key(|relation| (&relation.schema, &relation.name));
        let mut relationships: Vec<_> =
            self.relationships.values().flat_map(|schema| schema.values()).flatten().collect();
        relationships.sort_by_key(|relationship| (&relationship.origin, &relationship.target));
        let mut routines: Vec<_> =
            self.routines.values().flat_map(|schema| schema.values()).flatten().collect();
        routines.sort_by_key(|routine| &routine.name);
        json!({
            "relations": relations.iter().map(|relation| describe_relation(relation)).collect::<Vec<_>>(),
            "relationships": relationships.iter().map(|relationship| json!({
                "origin": relationship.origin.to_string(),
                "target": relationship.target.to_string(),
                "cardinality": if relationship.link.is_to_one() { "to-one" } else { "to-many" },
                "origin_columns": relationship.link.origin_columns(),
            })).collect::<Vec<_>>(),
            "routines": routines.iter().map(|routine| json!({
                "name": routine.name.to_string(),
                "parameters": routine.params.iter().map(|param| json!({
                    "name": param.name,
                    "type": param.type_name,
                    "required": param.required,
                    "variadic": param.variadic,
                })).collect::<Vec<_>>(),
                "returns_set": routine.returns.set,
            })).collect::<Vec<_>>(),
        })
    }
}

fn describe_relation(relation: &Relation) -> Value {
    json!({
        "schema": relation.schema,
        "name": relation.name,
        "is_view": relation.is_view,
        "insertable": relation.insertable,
        "updatable": relation.updatable,
        "deletable": relation.deletable,
        "primary_key": relation.primary_key,
        "columns": relation.columns.iter().map(|column| json!({
            "name": column.name,
            "type": column.type_name,
            "nullable": column.nullable,
            "default": column.default,
        })).collect::<Vec<_>>(),
    })
}
