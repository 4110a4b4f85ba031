//! SQL types and defaults as OpenAPI schemas.
//!
//! The format of a column is `int32` or `int64` for integers, and otherwise the bare type name. Built-in types lose
//! their modifiers and replace the domains based on them, because generators know `character varying` but not a
//! domain; the modifier's length is in `maxLength`.

use serde_json::{Map, Value, json};

use crate::schema_cache::Column;

/// Name of the type that determines a column's `format`.
pub(super) fn column_type(column: &Column) -> &str {
    // The cache is loaded with an empty search path, so only built-in types have no schema.
    let is_builtin = !column.base_type.is_empty() && !column.base_type.contains('.');
    if is_builtin { &column.base_type } else { &column.type_name }
}

/// Schema with `format` and `type`, and `items` for arrays.
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

/// Format: the width of an integer, or the name of another type.
pub(super) fn swagger_format(type_name: &str) -> &str {
    match type_name {
        "smallint" | "integer" => "int32",
        "bigint" => "int64",
        other => other,
    }
}

/// JSON type; `None` if any JSON value is possible.
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

/// Default value as JSON: `'x'::text` is the string `x`, and numbers and booleans are literals; other expressions are
/// omitted for types that are not strings.
pub(super) fn default_value(default: &str, format: &str) -> Option<Value> {
    if swagger_type(format) != Some("string") {
        return serde_json::from_str(default).ok();
    }
    let literal = default.strip_suffix(&format!("::{format}")).map(|literal| literal.trim_matches('\''));
    let text = literal.unwrap_or(default);
    // As in PostgREST: text that is not a valid JSON string between quotes, such as `\xff` or `B'1'::"bit"`, is
    // omitted.
    serde_json::from_str(&format!("\"{text}\"")).ok()
}

/// Type name as displayed under a search path, without the schemas in that path.
pub(super) fn unqualified<'a>(type_name: &'a str, search_path: &[&str]) -> &'a str {
    let prefix = |schema: &str| {
        let is_plain = schema.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if is_plain { format!("{schema}.") } else { format!("\"{}\".", schema.replace('"', "\"\"")) }
    };
    search_path.iter().find_map(|schema| type_name.strip_prefix(&prefix(schema))).unwrap_or(type_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_become_json_literals() {
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
    fn schemas_in_search_path_are_omitted() {
        let path = ["api", "My \"Schema\""];
        assert_eq!(unqualified("api.size[]", &path), "size[]");
        assert_eq!(unqualified("\"My \"\"Schema\"\"\".size", &path), "size");
        assert_eq!(unqualified("apis.size", &path), "apis.size");
        assert_eq!(unqualified("integer", &path), "integer");
    }
}
