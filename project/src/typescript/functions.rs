//! Types of functions that clients call with `rpc()`, and of functions that act as columns or relationships of a row.

use super::catalog::{Catalog, Function, Input};
use super::print::{Lines, Ts, property, quoted, typescript};
use super::relation::Relation;

/// json, jsonb, text: the types that the API passes to a function without argument names.
const UNNAMED: [u32; 3] = [114, 3802, 25];

/// Prints the functions of a schema; overloads form a union.
pub(super) fn print(lines: &mut Lines, catalog: &Catalog, schema: &str) {
    let functions: Vec<&Function> = catalog
        .functions
        .iter()
        .filter(|function| function.schema == schema && is_callable(catalog, function))
        .collect();
    for overloads in functions.chunk_by(|a, b| a.name == b.name) {
        let Some(first) = overloads.first() else { continue };
        let name = property(&first.name);
        if let [only] = overloads {
            signature(lines, catalog, only, overloads, &format!("{name}: "));
        } else {
            lines.line(&format!("{name}:"));
            lines.indented(|lines| {
                for function in overloads {
                    signature(lines, catalog, function, overloads, "| ");
                }
            });
        }
    }
}

/// Whether the schema has a callable function.
pub(super) fn any(catalog: &Catalog, schema: &str) -> bool {
    catalog.functions.iter().any(|function| function.schema == schema && is_callable(catalog, function))
}

/// Computed columns: functions whose only argument is a row of this relation. Yields names and types.
pub(super) fn computed<'a>(
    catalog: &'a Catalog,
    relation: u32,
    row: &'a Relation,
) -> impl Iterator<Item = (&'a str, Returned)> {
    catalog.functions.iter().filter_map(move |function| {
        let [input] = function.inputs.as_slice() else { return None };
        let takes_row = catalog.row_type(input.kind).is_some_and(|kind| kind.relation == relation);
        (takes_row && function.schema == row.schema)
            .then(|| (function.name.as_str(), returned(catalog, function)))
    })
}

/// A function's result: an object with members, or a type.
#[derive(Debug)]
pub(super) enum Returned {
    Object(Vec<(String, Ts)>),
    Type(Ts),
}

/// The API calls functions by argument names; without names, only with a single JSON, text or row argument.
fn is_callable(catalog: &Catalog, function: &Function) -> bool {
    let is_unnamed = |input: &Input| input.name.is_empty();
    if !function.inputs.iter().any(is_unnamed) {
        return true;
    }
    let takes_unnamed = |input: &Input| UNNAMED.contains(&input.kind);
    match function.inputs.as_slice() {
        [only] => takes_unnamed(only) || catalog.row_type(only.kind).is_some(),
        inputs => {
            inputs.iter().all(|input| !is_unnamed(input) || (input.has_default && takes_unnamed(input)))
        }
    }
}

fn returned(catalog: &Catalog, function: &Function) -> Returned {
    if !function.table.is_empty() {
        let members = function.table.iter();
        return Returned::Object(
            members.map(|(name, kind)| (property(name), typescript(catalog, *kind))).collect(),
        );
    }
    match catalog.relations.get(&function.returned_relation) {
        Some(relation) if relation.schema == function.schema => Returned::Object(
            relation
                .columns
                .iter()
                .map(|column| {
                    let kind = typescript(catalog, column.kind).nullable(column.is_nullable);
                    (property(&column.name), kind)
                })
                .collect(),
        ),
        _ => Returned::Type(typescript(catalog, function.returns)),
    }
}

/// The name of the relation or composite type whose rows a function returns.
fn returned_relation<'a>(catalog: &'a Catalog, function: &Function) -> Option<&'a str> {
    if function.returned_relation == 0 {
        return None;
    }
    let relation = catalog.relations.get(&function.returned_relation).map(|relation| relation.name.as_str());
    relation.or_else(|| catalog.row_type(function.returns).map(|kind| kind.name.as_str()))
}

/// What postgrest-js needs to embed a function's result.
struct Embedding<'a> {
    from: &'a str,
    to: &'a str,
    is_one_to_one: bool,
    is_set: bool,
}

fn embedding<'a>(catalog: &'a Catalog, function: &Function) -> Option<Embedding<'a>> {
    let to = returned_relation(catalog, function)?;
    let source = function.only_argument.and_then(|kind| catalog.row_type(kind));
    Some(Embedding {
        from: source.map_or("*", |kind| kind.format.as_str()),
        to,
        is_one_to_one: !function.has_many_rows,
        is_set: function.is_set,
    })
}

/// Prints `{ Args: …; Returns: … }`, on one line if it fits.
fn signature(lines: &mut Lines, catalog: &Catalog, function: &Function, overloads: &[&Function], head: &str) {
    let inputs: Vec<(String, Ts)> = function
        .inputs
        .iter()
        .map(|input| {
            let optional = if input.has_default { "?" } else { "" };
            (format!("{}{optional}", property(&input.name)), typescript(catalog, input.kind))
        })
        .collect();
    let flat_inputs: Vec<String> =
        inputs.iter().map(|(name, kind)| format!("{name}: {}", kind.flat())).collect();
    let arguments = if inputs.is_empty() {
        // Not `never`: postgrest-js treats functions with `Args: never` as computed columns.
        "Record<PropertyKey, never>".to_owned()
    } else {
        format!("{{ {} }}", flat_inputs.join("; "))
    };
    let error = conflict(catalog, function, overloads).or_else(|| row_without_relation(catalog, function));
    let embedding = embedding(catalog, function);
    let suffix = if function.is_set && (function.has_many_rows || embedding.is_none()) { "[]" } else { "" };
    let returned = match &error {
        Some(message) => Returned::Type(Ts::word(&format!("{{ error: true }} & {}", quoted(message)))),
        None => returned(catalog, function),
    };
    if let (Returned::Type(kind), None) = (&returned, &embedding) {
        let flat = format!("{head}{{ Args: {arguments}; Returns: {} }}", with_suffix(kind, suffix));
        if lines.fits(&flat) {
            return lines.line(&flat);
        }
    }
    lines.block(head, "", |lines| {
        let flat = format!("Args: {arguments}");
        if inputs.is_empty() || lines.fits(&flat) {
            lines.line(&flat);
        } else {
            lines.block("Args: ", "", |lines| {
                for (name, kind) in &inputs {
                    lines.member(name, kind);
                }
            });
        }
        match &returned {
            Returned::Object(members) => lines.block("Returns: ", suffix, |lines| {
                for (name, kind) in members {
                    lines.member(name, kind);
                }
            }),
            Returned::Type(kind) => lines.line(&format!("Returns: {}", with_suffix(kind, suffix))),
        }
        if let Some(embedding) = &embedding {
            lines.block("SetofOptions: ", "", |lines| {
                lines.line(&format!("from: {}", quoted(embedding.from)));
                lines.line(&format!("to: {}", quoted(embedding.to)));
                lines.line(&format!("isOneToOne: {}", embedding.is_one_to_one));
                lines.line(&format!("isSetofReturn: {}", embedding.is_set));
            });
        }
    });
}

fn with_suffix(kind: &Ts, suffix: &str) -> String {
    if suffix.is_empty() { kind.flat() } else { Ts::array_of(kind).flat() }
}

/// The API's error message if it cannot choose between overloads.
fn conflict(catalog: &Catalog, function: &Function, overloads: &[&Function]) -> Option<String> {
    let type_name = |oid: u32| catalog.types.get(&oid).map_or("unknown", |kind| kind.name.as_str());
    let full_name = format!("{}.{}", function.schema, function.name);
    let others = overloads.iter().filter(|other| !std::ptr::eq(**other, function));
    let candidates = match function.inputs.as_slice() {
        [] => {
            let other = others.clone().find(
                |other| matches!(other.inputs.as_slice(), [only] if only.name.is_empty() && only.has_default),
            )?;
            format!("{full_name}(), {full_name}( => {})", type_name(other.returns))
        }
        [only] if !only.name.is_empty() => {
            let mut kinds: Vec<u32> = others
                .filter_map(|other| match other.inputs.as_slice() {
                    [input] if input.name == only.name && input.kind != only.kind => Some(input.kind),
                    _ => None,
                })
                .collect();
            if kinds.is_empty() {
                return None;
            }
            kinds.push(only.kind);
            kinds.sort_unstable();
            let candidate = |kind: &u32| format!("{full_name}({} => {})", only.name, type_name(*kind));
            kinds.iter().map(candidate).collect::<Vec<_>>().join(", ")
        }
        _ => return None,
    };
    Some(format!(
        "Could not choose the best candidate function between: {candidates}. Try renaming the parameters or the function itself in the database so function overloading can be resolved"
    ))
}

/// The API's error message for a computed column, which cannot be called.
fn row_without_relation(catalog: &Catalog, function: &Function) -> Option<String> {
    let [only] = function.inputs.as_slice() else { return None };
    let takes_row = only.name.is_empty() && catalog.row_type(only.kind).is_some();
    (takes_row && returned_relation(catalog, function).is_none()).then(|| {
        format!(
            "the function {}.{} with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache",
            function.schema, function.name
        )
    })
}
