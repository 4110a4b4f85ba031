//! SQL types and defaults in the words of OpenAPI.
//!
//! The format of a column is `int32` or `int64` for integers, else a bare type name. Types of PostgreSQL's own lose their modifiers and stand
//! in for the domains made of them, because generators know `character varying` and know nothing of a domain; what a
//! modifier says is in `maxLength`.

use serde_json::{Map, Value, json};

use crate::schema_cache::Column;

/// The type name that a column's `format` is made of.
pub(super) fn column_type(column: &Column) -> &str {
    // The cache is loaded with an empty search path: only PostgreSQL's own types have no schema.
    let is_builtin = !column.base_type.is_empty() && !column.base_type.contains('.');
    if is_builtin { &column.base_type } else { &column.type_name }
}

/// `format` and `type`; of arrays `items` too.
pub(super) fn typed(type_name: &str) -> Map<String, Value> {
    let mut schema = Map::from_iter([("format".to_owned(), json!(swagger_format(type_name)))]);
    if let Some(kind) = swagger_type(type_name) {
        schema.insert("type".to_owned(), json!(kind));
        if kind == "array" {
            let element = swagger_type(type_name.trim_end_matches("[]"));
            schema.insert(
                "items".to_owned(),
                element.map_or_else(|| json!({}), |element| json!({"type": element})),
            );
        }
    }
    schema
}

/// The width of an integer; other types by their names.
pub(super) fn swagger_format(type_name: &str) -> &str {
    match type_name {
        "smallint" | "integer" => "int32",
        "bigint" => "int64",
        other => other,
    }
}

/// `None` where any JSON value fits.
pub(super) fn swagger_type(type_name: &str) -> Option<&'static str> {
    let plain = type_name.split_once('(').map_or(type_name, |(plain, _)| plain);
    match plain {
        "boolean" => Some("boolean"),
        "smallint" | "integer" | "bigint" => Some("integer"),
        "numeric" | "real" | "double precision" => Some("number"),
        "json" | "jsonb" => None,
        _ if type_name.ends_with("[]") => Some("array"),
        _ => Some("string"),
    }
}

/// `'x'::text` is the string `x`; numbers and booleans are themselves; any other expression says nothing.
pub(super) fn default_value(default: &str, format: &str) -> Option<Value> {
    if swagger_type(format) != Some("string") {
        return serde_json::from_str(default).ok();
    }
    let literal = default.strip_suffix(&format!("::{format}")).map(|literal| literal.trim_matches('\''));
    let text = literal.unwrap_or(default);
    // As PostgREST reads it: what is no JSON string between two quotes, such as `\xff` or `B'1'::"bit"`, is left out.
    serde_json::from_str(&format!("\"{text}\"")).ok()
}

/// A type name as it is written under a search path: the schemas of the path need not be named.
pub(super) fn unqualified<'a>(type_name: &'a str, search_path: &[&str]) -> &'a str {
    let written = |schema: &str| {
        let is_plain = schema.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if is_plain { format!("{schema}.") } else { format!("\"{}\".", schema.replace('"', "\"\"")) }
    };
    search_path.iter().find_map(|schema| type_name.strip_prefix(&written(schema))).unwrap_or(type_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_literals_or_nothing() {
        for (default, format, shown) in [
            ("'none'::character varying", "character varying", json!("none")),
            ("'it''s'::text", "text", json!("it''s")),
            ("'q'::bpchar", "character", json!("'q'::bpchar")),
            ("now()", "timestamp with time zone", json!("now()")),
            ("3", "integer", json!(3)),
            ("true", "boolean", json!(true)),
        ] {
            assert_eq!(default_value(default, format), Some(shown), "{default}");
        }
        for (default, format) in
            [("'\\xff'::bytea", "bytea"), ("'-1'::integer", "integer"), ("'{}'::text[]", "text[]")]
        {
            assert_eq!(default_value(default, format), None, "{default}");
        }
    }

    #[test]
    fn schemas_of_the_path_are_not_named() {
        let path = ["api", "My \"Schema\""];
        assert_eq!(unqualified("api.size[]", &path), "size[]");
        assert_eq!(unqualified("\"My \"\"Schema\"\"\".size", &path), "size");
        assert_eq!(unqualified("apis.size", &path), "apis.size");
        assert_eq!(unqualified("integer", &path), "integer");
    }
}
