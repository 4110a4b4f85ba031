//! Path items: operations on relations, and function calls.

use serde_json::{Map, Value, json};

use super::types::{swagger_format, swagger_type, typed, unqualified};
use super::{MEDIA, reference};
use crate::schema_cache::Relation;
use crate::schema_cache::routines::{Routine, RoutineParam, Volatility};

/// Path item of the document itself.
pub(super) fn introspection() -> Value {
    json!({"get": {
        "tags": ["Introspection"],
        "summary": "OpenAPI description (this document)",
        "produces": ["application/openapi+json", "application/json"],
        "responses": {"200": {"description": "OK"}},
    }})
}

/// Builds an operation. The first line of a comment becomes its summary, the rest its description; an empty list of
/// parameters is omitted.
fn operation(members: Value, parameters: Vec<Value>, comment: Option<&str>) -> Value {
    let Value::Object(mut operation) = members else { return members };
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), Value::Array(parameters));
    }
    if let Some(comment) = comment {
        let (summary, description) = comment.split_once('\n').unwrap_or((comment, ""));
        operation.insert("summary".to_owned(), json!(summary));
        if !description.is_empty() {
            operation.insert("description".to_owned(), json!(description.trim_start_matches('\n')));
        }
    }
    Value::Object(operation)
}

/// Path item of a relation.
pub(super) fn for_relation(relation: &Relation) -> Value {
    let name = &relation.name;
    let filters =
        || relation.columns.iter().map(|column| reference(&format!("rowFilter.{name}.{}", column.name)));
    let with = |more: &[&str]| -> Vec<Value> { more.iter().map(|parameter| reference(parameter)).collect() };
    let body = format!("body.{name}");
    let described = |parameters: Vec<Value>, responses: Value| {
        operation(json!({"tags": [name], "responses": responses}), parameters, relation.comment.as_deref())
    };
    let reading = ["select", "order", "range", "rangeUnit", "offset", "limit", "preferCount"];
    let rows = json!({"items": {"$ref": format!("#/definitions/{name}")}, "type": "array"});
    let mut path = Map::new();
    path.insert(
        "get".to_owned(),
        described(
            filters().chain(with(&reading)).collect(),
            json!({"200": {"description": "OK", "schema": rows}, "206": {"description": "Partial Content"}}),
        ),
    );
    if relation.insertable {
        let parameters = with(&[&body, "select", "preferPost"]);
        path.insert("post".to_owned(), described(parameters, json!({"201": {"description": "Created"}})));
    }
    let done = || json!({"204": {"description": "No Content"}});
    if relation.deletable {
        path.insert(
            "delete".to_owned(),
            described(filters().chain(with(&["preferReturn"])).collect(), done()),
        );
    }
    if relation.updatable {
        let parameters = filters().chain(with(&[&body, "preferReturn"])).collect();
        path.insert("patch".to_owned(), described(parameters, done()));
    }
    Value::Object(path)
}

/// Path item of a function. Volatile functions are documented with POST only.
pub(super) fn for_routine(routine: &Routine, search_path: &[&str]) -> Value {
    let comment = routine.comment.as_deref();
    let produces: Vec<&str> = MEDIA.iter().copied().filter(|media| *media != "text/csv").collect();
    let described = |parameters: Vec<Value>| {
        let members = json!({
            "tags": [format!("(rpc) {}", routine.name.name)],
            "produces": produces,
            "responses": {"200": {"description": "OK"}},
        });
        operation(members, parameters, comment)
    };
    let mut path = Map::new();
    if routine.volatility != Volatility::Volatile {
        let parameters = routine.params.iter().map(|param| query_parameter(param, search_path)).collect();
        path.insert("get".to_owned(), described(parameters));
    }
    let arguments =
        json!({"in": "body", "name": "args", "required": true, "schema": body(routine, search_path)});
    path.insert("post".to_owned(), described(vec![arguments, reference("preferParams")]));
    Value::Object(path)
}

/// Schema of the arguments of a POST.
fn body(routine: &Routine, search_path: &[&str]) -> Value {
    let property = |param: &RoutineParam| Value::Object(typed(unqualified(&param.type_name, search_path)));
    let properties: Map<String, Value> =
        routine.params.iter().map(|param| (param.name.clone(), property(param))).collect();
    let required: Vec<&str> =
        routine.params.iter().filter(|param| param.required).map(|param| param.name.as_str()).collect();
    let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
    if let Some(comment) = &routine.comment {
        schema.insert("description".to_owned(), json!(comment));
    }
    if !properties.is_empty() {
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Value::Object(schema)
}

fn query_parameter(param: &RoutineParam, search_path: &[&str]) -> Value {
    let param_type = unqualified(&param.type_name, search_path);
    let mut parameter = Map::from_iter([
        ("in".to_owned(), json!("query")),
        ("name".to_owned(), json!(param.name)),
        ("required".to_owned(), json!(param.required)),
    ]);
    if param.variadic {
        let element = param_type.trim_end_matches("[]");
        parameter.insert("type".to_owned(), json!("array"));
        parameter.insert("collectionFormat".to_owned(), json!("multi"));
        parameter.insert(
            "items".to_owned(),
            json!({"format": swagger_format(element), "type": swagger_type(element)}),
        );
    } else {
        // Values in a query string are text; arrays and JSON have no type of their own there.
        let type_name = swagger_type(param_type).filter(|name| *name != "array").unwrap_or("string");
        parameter.insert("type".to_owned(), json!(type_name));
        parameter.insert("format".to_owned(), json!(swagger_format(param_type)));
    }
    Value::Object(parameter)
}
