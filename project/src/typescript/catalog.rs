//! The catalog data for generated types: relations with columns and keys, functions, enums and composite types.

use std::collections::{BTreeMap, HashMap};

use basalt_core::convert::saturating;
use basalt_pg::view_origins::ViewOrigins;
use tokio_postgres::{Client, Row};

use super::order::by_name;
use super::relation::{Column, ForeignKey, Relation};
use super::relationships::relationships;
use crate::error::ProjectError;

#[derive(Debug)]
pub(super) struct Type {
    pub(super) schema: String,
    pub(super) name: String,
    /// The relation whose rows it describes, or 0.
    pub(super) relation: u32,
    /// The element type of an array, or 0.
    pub(super) element: u32,
    /// The type's SQL name.
    pub(super) format: String,
    /// The labels of an enum.
    pub(super) labels: Vec<String>,
    /// Names and types of a composite type's attributes.
    pub(super) attributes: Vec<(String, u32)>,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) schema: String,
    pub(super) name: String,
    /// Input arguments, sorted by name.
    pub(super) inputs: Vec<Input>,
    /// The columns of `returns table`, sorted by name.
    pub(super) table: Vec<(String, u32)>,
    /// The type of the only argument, counting inputs and outputs.
    pub(super) only_argument: Option<u32>,
    pub(super) returns: u32,
    /// The relation whose rows it returns, or 0.
    pub(super) returned_relation: u32,
    pub(super) is_set: bool,
    pub(super) has_many_rows: bool,
    pub(super) arguments: String,
    pub(super) result: String,
}

#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) has_default: bool,
}

/// The objects of the selected schemas, and all types.
#[derive(Debug)]
pub(super) struct Catalog {
    /// Sorted by name.
    pub(super) schemas: Vec<String>,
    pub(super) relations: HashMap<u32, Relation>,
    pub(super) types: HashMap<u32, Type>,
    /// Sorted by name; overloads by their arguments.
    pub(super) functions: Vec<Function>,
}

impl Catalog {
    pub(super) async fn read(client: &Client, schemas: &[String]) -> Result<Self, ProjectError> {
        let mut names: Vec<String> = schemas.to_vec();
        names.sort_by(|a, b| by_name(a, b));
        names.dedup();

        let mut relations = HashMap::new();
        for row in client.query(include_str!("relations.sql"), &[&names]).await? {
            let _before = relations.insert(row.try_get("oid")?, relation(&row)?);
        }
        for row in client.query(include_str!("columns.sql"), &[&names]).await? {
            if let Some(relation) = relations.get_mut(&row.try_get("relation")?) {
                relation.columns.push(column(&row)?);
            }
        }
        for relation in relations.values_mut() {
            relation.columns.sort_by(|a, b| by_name(&a.name, &b.name));
        }
        let mut types = HashMap::new();
        for row in client.query(include_str!("types.sql"), &[]).await? {
            let _before = types.insert(row.try_get("oid")?, read_type(&row)?);
        }
        let keys = client.query(include_str!("keys.sql"), &[&names]).await?;
        let keys: Vec<ForeignKey> = keys.iter().map(key).collect::<Result<_, _>>()?;
        let trees: BTreeMap<u32, String> = client
            .query(include_str!("views.sql"), &[&names])
            .await?
            .iter()
            .map(|row| Ok((row.try_get("oid")?, row.try_get("tree")?)))
            .collect::<Result<_, ProjectError>>()?;
        let views: Vec<u32> = trees.keys().copied().collect();
        let origins = ViewOrigins::read(trees.iter().map(|(oid, tree)| (*oid, tree.as_str())));
        for (oid, found) in relationships(&relations, &keys, &views, &origins) {
            if let Some(relation) = relations.get_mut(&oid) {
                relation.relationships = found;
            }
        }
        let functions = client.query(include_str!("functions.sql"), &[&names]).await?;
        let mut functions: Vec<Function> = functions.iter().map(function).collect::<Result<_, _>>()?;
        functions.sort_by(|a, b| {
            by_name(&a.name, &b.name)
                .then_with(|| by_name(&a.arguments, &b.arguments))
                .then_with(|| by_name(&a.result, &b.result))
        });
        Ok(Self { schemas: names, relations, types, functions })
    }

    /// The tables or views of a schema, sorted by name.
    pub(super) fn relations_of(&self, schema: &str, are_views: bool) -> Vec<(u32, &Relation)> {
        let mut relations: Vec<(u32, &Relation)> = self
            .relations
            .iter()
            .filter(|(_, relation)| relation.schema == schema && relation.is_view == are_views)
            .map(|(oid, relation)| (*oid, relation))
            .collect();
        relations.sort_by(|a, b| by_name(&a.1.name, &b.1.name));
        relations
    }

    /// The enums and composite types of a schema, sorted by name.
    pub(super) fn types_of(&self, schema: &str) -> Vec<&Type> {
        let mut types: Vec<&Type> = self
            .types
            .values()
            .filter(|kind| kind.schema == schema && (!kind.labels.is_empty() || !kind.attributes.is_empty()))
            .collect();
        types.sort_by(|a, b| by_name(&a.name, &b.name));
        types
    }

    /// The type, if it describes rows.
    pub(super) fn row_type(&self, oid: u32) -> Option<&Type> {
        self.types.get(&oid).filter(|kind| kind.relation != 0)
    }
}

fn relation(row: &Row) -> Result<Relation, ProjectError> {
    let kind: String = row.try_get("kind")?;
    let is_view = kind == "v" || kind == "m";
    Ok(Relation {
        schema: row.try_get("schema")?,
        name: row.try_get("name")?,
        is_view,
        can_insert: !is_view || row.try_get("can_insert")?,
        can_update: !is_view || row.try_get("can_update")?,
        columns: Vec::new(),
        relationships: Vec::new(),
    })
}

fn column(row: &Row) -> Result<Column, ProjectError> {
    Ok(Column {
        number: row.try_get("number")?,
        name: row.try_get("name")?,
        kind: row.try_get("type")?,
        is_nullable: row.try_get("is_nullable")?,
        has_default: row.try_get("has_default")?,
        is_generated: row.try_get("is_generated")?,
        is_writable: row.try_get("is_writable")?,
    })
}

fn read_type(row: &Row) -> Result<Type, ProjectError> {
    let names: Vec<String> = row.try_get("attribute_names")?;
    let kinds: Vec<u32> = row.try_get("attribute_types")?;
    Ok(Type {
        schema: row.try_get("schema")?,
        name: row.try_get("name")?,
        relation: row.try_get("relation")?,
        element: row.try_get("element")?,
        format: row.try_get("format")?,
        labels: row.try_get("labels")?,
        attributes: names.into_iter().zip(kinds).collect(),
    })
}

fn key(row: &Row) -> Result<ForeignKey, ProjectError> {
    Ok(ForeignKey {
        name: row.try_get("name")?,
        relation: row.try_get("relation")?,
        referenced: row.try_get("referenced")?,
        columns: row.try_get("columns")?,
        referenced_columns: row.try_get("referenced_columns")?,
        is_one_to_one: row.try_get("is_one_to_one")?,
    })
}

fn function(row: &Row) -> Result<Function, ProjectError> {
    let kinds: Vec<u32> = row.try_get("types")?;
    let modes: Option<Vec<String>> = row.try_get("modes")?;
    let names: Option<Vec<String>> = row.try_get("names")?;
    let input_count: i32 = row.try_get("input_count")?;
    let default_count: i32 = row.try_get("default_count")?;
    let (mut inputs, mut table) = (Vec::new(), Vec::new());
    for (index, kind) in kinds.iter().copied().enumerate() {
        let name = names.as_ref().and_then(|names| names.get(index)).cloned().unwrap_or_default();
        match modes.as_ref().and_then(|modes| modes.get(index)).map(String::as_str) {
            None | Some("i" | "b" | "v") => {
                // Only trailing inputs can have defaults.
                let position = saturating::<i32>(inputs.len());
                inputs.push(Input { name, kind, has_default: position >= input_count - default_count });
            }
            Some("t") => table.push((name, kind)),
            Some(_) => {}
        }
    }
    inputs.sort_by(|a, b| by_name(&a.name, &b.name));
    table.sort_by(|a, b| by_name(&a.0, &b.0));
    Ok(Function {
        schema: row.try_get("schema")?,
        name: row.try_get("name")?,
        inputs,
        table,
        only_argument: kinds.first().copied().filter(|_| kinds.len() == 1),
        returns: row.try_get("returns")?,
        returned_relation: row.try_get("returned_relation")?,
        is_set: row.try_get("is_set")?,
        has_many_rows: row.try_get("has_many_rows")?,
        arguments: row.try_get("arguments")?,
        result: row.try_get("result")?,
    })
}
