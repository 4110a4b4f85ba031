//! `basalt gen types typescript`: generates the type for supabase-js' `createClient<Database>()`.
//!
//! The content and the mapping of PostgreSQL types match Supabase's generator (postgres-meta); a test compares
//! both on one database. Everything is sorted by name, so databases with the same schema give the same file.

mod catalog;
mod functions;
mod order;
mod print;
mod relation;
mod relationships;

use tokio_postgres::Client;

use crate::error::ProjectError;
use catalog::Catalog;
use functions::Returned;
use print::{Lines, Ts, labels, property, quoted, typescript};
use relation::{Column, Relation};

const JSON: &str = "export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]

";

/// Generates the types of these schemas; `Tables<"name">` and similar types refer to the first one.
///
/// # Errors
/// A schema does not exist, or the connection breaks.
pub async fn generate(client: &Client, schemas: &[String]) -> Result<String, ProjectError> {
    let Some(default_schema) = schemas.first() else { return Err(ProjectError::NoSchemas) };
    let known = existing_schemas(client, schemas).await?;
    if let Some(unknown) = schemas.iter().find(|schema| !known.contains(schema)) {
        return Err(ProjectError::NoSchema { schema: unknown.clone() });
    }
    let catalog = Catalog::read(client, schemas).await?;

    let mut lines = Lines::default();
    lines.block("export type Database = ", "", |lines| {
        lines.line("// supabase-js reads here which features of the REST API there are.");
        lines.block("__InternalSupabase: ", "", |lines| {
            lines.line(&format!("PostgrestVersion: {}", quoted(POSTGREST_VERSION)));
        });
        for schema in &catalog.schemas {
            lines
                .block(&format!("{}: ", property(schema)), "", |lines| print_schema(lines, &catalog, schema));
        }
    });
    let database = lines.into_text();

    let mut lines = Lines::default();
    lines.block("export const Constants = ", " as const", |lines| {
        for schema in &catalog.schemas {
            lines.block(&format!("{}: ", property(schema)), ",", |lines| {
                print_constants(lines, &catalog, schema);
            });
        }
    });
    let constants = lines.into_text();
    let helpers = include_str!("typescript/helpers.ts")
        .replace("Schemas[\"public\"]", &format!("Schemas[{}]", quoted(default_schema)));
    Ok(format!("{JSON}{database}{helpers}{constants}"))
}

/// Those of the schemas that exist, in their order. A project may expose schemas of extensions that it does not have.
///
/// # Errors
/// The connection breaks.
pub async fn existing_schemas(client: &Client, schemas: &[String]) -> Result<Vec<String>, ProjectError> {
    const KNOWN: &str =
        "select array(select nspname::text from pg_catalog.pg_namespace where nspname = any ($1))";
    let known: Vec<String> = client.query_one(KNOWN, &[&schemas]).await?.try_get(0)?;
    Ok(schemas.iter().filter(|schema| known.contains(schema)).cloned().collect())
}

/// The version from which supabase-js 2.119 derives features: 13 and 14 enable `maxAffected` and spreads of lists; later versions are unknown to it.
const POSTGREST_VERSION: &str = "14.12";

fn print_schema(lines: &mut Lines, catalog: &Catalog, schema: &str) {
    for (part, are_views) in [("Tables", false), ("Views", true)] {
        let relations = catalog.relations_of(schema, are_views);
        members(lines, part, relations.is_empty(), |lines| {
            for (oid, relation) in &relations {
                lines.block(&format!("{}: ", property(&relation.name)), "", |lines| {
                    print_relation(lines, catalog, *oid, relation);
                });
            }
        });
    }
    members(lines, "Functions", !functions::any(catalog, schema), |lines| {
        functions::print(lines, catalog, schema);
    });
    let types = catalog.types_of(schema);
    members(lines, "Enums", types.iter().all(|kind| kind.labels.is_empty()), |lines| {
        for kind in types.iter().filter(|kind| !kind.labels.is_empty()) {
            lines.member(&property(&kind.name), &labels(kind));
        }
    });
    members(lines, "CompositeTypes", types.iter().all(|kind| kind.attributes.is_empty()), |lines| {
        for kind in types.iter().filter(|kind| !kind.attributes.is_empty()) {
            lines.block(&format!("{}: ", property(&kind.name)), "", |lines| {
                for (name, attribute) in &kind.attributes {
                    lines.member(&property(name), &typescript(catalog, *attribute).nullable(true));
                }
            });
        }
    });
}

/// Prints `name: { … }`, with an empty index signature if there are no members.
fn members(lines: &mut Lines, name: &str, is_empty: bool, body: impl FnOnce(&mut Lines)) {
    lines.block(&format!("{name}: "), "", |lines| {
        if is_empty {
            lines.line("[_ in never]: never");
        } else {
            body(lines);
        }
    });
}

fn print_relation(lines: &mut Lines, catalog: &Catalog, oid: u32, relation: &Relation) {
    let kind = |column: &Column| typescript(catalog, column.kind);
    lines.block("Row: ", "", |lines| {
        for column in &relation.columns {
            lines.member(&property(&column.name), &kind(column).nullable(column.is_nullable));
        }
        for (name, returned) in functions::computed(catalog, oid, relation) {
            match returned {
                Returned::Type(kind) => lines.member(&property(name), &kind.nullable(true)),
                Returned::Object(found) => {
                    lines.block(&format!("{}: ", property(name)), " | null", |lines| {
                        for (name, kind) in &found {
                            lines.member(name, kind);
                        }
                    })
                }
            }
        }
    });
    // Which columns of a view are required is unknown, so all are optional and nullable.
    let written = |column: &Column, is_update: bool| {
        let may_write = if relation.is_view { column.is_writable } else { !column.is_generated };
        if !may_write {
            return (format!("{}?", property(&column.name)), Ts::word("never"));
        }
        let is_optional = relation.is_view || is_update || column.is_nullable || column.has_default;
        let name = format!("{}{}", property(&column.name), if is_optional { "?" } else { "" });
        (name, kind(column).nullable(relation.is_view || column.is_nullable))
    };
    for (name, is_update, is_possible) in
        [("Insert", false, relation.can_insert), ("Update", true, relation.can_update)]
    {
        if is_possible {
            lines.block(&format!("{name}: "), "", |lines| {
                for column in &relation.columns {
                    let (name, kind) = written(column, is_update);
                    lines.member(&name, &kind);
                }
            });
        }
    }
    if relation.relationships.is_empty() {
        return lines.line("Relationships: []");
    }
    lines.list("Relationships", |lines| {
        for relationship in &relation.relationships {
            lines.block("", ",", |lines| {
                lines.line(&format!("foreignKeyName: {}", quoted(&relationship.key)));
                lines.array("columns", &relationship.columns, "");
                lines.line(&format!("isOneToOne: {}", relationship.is_one_to_one));
                lines.line(&format!("referencedRelation: {}", quoted(&relationship.referenced)));
                lines.array("referencedColumns", &relationship.referenced_columns, "");
            });
        }
    });
}

/// Prints enums as constants: their labels in order.
fn print_constants(lines: &mut Lines, catalog: &Catalog, schema: &str) {
    let types = catalog.types_of(schema);
    if types.iter().all(|kind| kind.labels.is_empty()) {
        return lines.line("Enums: {},");
    }
    lines.block("Enums: ", ",", |lines| {
        for kind in types.iter().filter(|kind| !kind.labels.is_empty()) {
            lines.array(&property(&kind.name), &kind.labels, ",");
        }
    });
}
