//! Column types: how values become JSON, and how filters compare them. Values are text as PostgreSQL prints
//! it under `SESSION_SETTINGS` of `stream.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use basalt_pg::json::JsonEncoding;
use basalt_pg::sql::Sql;

/// Depth to which nested types (arrays of composites of arrays …) are resolved; deeper values are encoded as
/// text.
const MAX_DEPTH: usize = 8;

/// A row of `pg_type`.
#[derive(Clone, Debug)]
pub struct TypeRow {
    /// `pg_type.typname`.
    pub name: String,
    /// `pg_type.typtype`.
    pub kind: u8,
    /// Element type, for true arrays.
    pub element: Option<u32>,
    /// Delimiter between array elements of this type.
    pub delimiter: u8,
    /// Base type of a domain.
    pub base: Option<u32>,
    /// Attribute names and types of a composite type.
    pub attributes: Vec<(String, u32)>,
    /// The type in SQL.
    pub sql: Arc<SqlType>,
    /// Whether `like` accepts its values.
    pub is_text: bool,
}

/// A type as named in casts and comparisons.
///
/// The qualified name, never what `format_type` prints: `character` and `bit` mean `character(1)` and
/// `bit(1)`, so a cast to them would truncate, and an unqualified name depends on the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlType {
    /// `schema.name`, quoted where needed.
    pub name: Arc<str>,
    /// Qualified name of its array type; array types have none.
    pub array: Option<Arc<str>>,
    /// Schema of its comparison operators, quoted where needed.
    pub operators: Arc<str>,
}

impl SqlType {
    /// Casts `text` to this type. `text` must have type `varchar`: PostgreSQL then uses the type's input
    /// function, while a cast from `text` may call a cast function of an extension or the project.
    #[must_use]
    pub fn cast(&self, text: Sql) -> Sql {
        Sql::text("(").then(text).then(Sql::text(")::")).then(Sql::catalog(self.name.to_string()))
    }

    /// An operator of this type, qualified so that the search path does not matter.
    #[must_use]
    pub fn operator(&self, symbol: &str) -> Sql {
        Sql::catalog(format!(" operator({}.{symbol}) ", self.operators))
    }
}

/// Resolves domains to their base type, which determines comparison.
#[must_use]
pub fn base_type(oid: u32, types: &HashMap<u32, TypeRow>) -> u32 {
    let mut oid = oid;
    for _ in 0..MAX_DEPTH {
        match types.get(&oid) {
            Some(TypeRow { kind: b'd', base: Some(base), .. }) => oid = *base,
            Some(_) | None => break,
        }
    }
    oid
}

/// JSON encoding of a type.
#[must_use]
pub fn json_for(oid: u32, types: &HashMap<u32, TypeRow>) -> JsonEncoding {
    json_within(oid, types, MAX_DEPTH)
}

fn json_within(oid: u32, types: &HashMap<u32, TypeRow>, depth: usize) -> JsonEncoding {
    match oid {
        16 => return JsonEncoding::Boolean,
        20 | 21 | 23 | 700 | 701 | 1700 => return JsonEncoding::FiniteNumber,
        // A frame must be valid JSON, and `json` columns keep the writer's text.
        114 | 3802 => return JsonEncoding::CheckedJson,
        17 => return JsonEncoding::Hex,
        1114 | 1184 => return JsonEncoding::Timestamp,
        _ => {}
    }
    let (Some(row), Some(depth)) = (types.get(&oid), depth.checked_sub(1)) else { return JsonEncoding::Text };
    if let Some(element) = row.element {
        let delimiter = types.get(&element).map_or(b',', |element| element.delimiter);
        return JsonEncoding::Array { element: Arc::new(json_within(element, types, depth)), delimiter };
    }
    match (row.kind, row.base) {
        (b'd', Some(base)) => json_within(base, types, depth),
        (b'c', _) => {
            let attributes = row.attributes.iter();
            JsonEncoding::Composite(
                attributes.map(|(name, oid)| (name.clone(), json_within(*oid, types, depth))).collect(),
            )
        }
        _ => JsonEncoding::Text,
    }
}

/// An element of an array, unquoted; `None` for NULL.
type Item = Option<String>;

/// Splits an array literal, one level deep: nested arrays are returned as literals.
#[must_use]
pub fn array_items(text: &str, delimiter: u8) -> Option<Vec<Item>> {
    let text = if text.starts_with('[') { text.split_once('=')?.1 } else { text };
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    if inside.is_empty() {
        return Some(items);
    }
    let delimiter = char::from(delimiter);
    let mut chars = inside.chars();
    loop {
        let mut item = String::new();
        let (mut is_quoted, mut depth, mut ended) = (false, 0_usize, false);
        while let Some(c) = chars.next() {
            match c {
                '{' => {
                    depth += 1;
                    item.push(c);
                }
                '}' => {
                    depth = depth.checked_sub(1)?;
                    item.push(c);
                }
                '"' => {
                    // Inside a nested array, keep quotes and escapes for the next level.
                    is_quoted |= depth == 0;
                    if depth > 0 {
                        item.push('"');
                    }
                    loop {
                        match chars.next()? {
                            '"' => break,
                            '\\' if depth > 0 => {
                                item.push('\\');
                                item.push(chars.next()?);
                            }
                            '\\' => item.push(chars.next()?),
                            c => item.push(c),
                        }
                    }
                    if depth > 0 {
                        item.push('"');
                    }
                }
                '\\' => item.push(chars.next()?),
                c if c == delimiter && depth == 0 => {
                    ended = true;
                    break;
                }
                c => item.push(c),
            }
        }
        if depth > 0 {
            return None;
        }
        let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
        items.push((!is_null).then_some(item));
        if !ended {
            return Some(items);
        }
    }
}

/// Appends an array literal of texts, for a parameter.
pub fn push_array_literal<'a>(out: &mut String, items: impl Iterator<Item = Option<&'a str>>) {
    out.push('{');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        match item {
            None => out.push_str("NULL"),
            Some(item) => {
                out.push('"');
                for c in item.chars() {
                    if matches!(c, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(c);
                }
                out.push('"');
            }
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn array_literals_round_trip(
            items in proptest::collection::vec(proptest::option::of(".{0,8}"), 0..5),
        ) {
            let mut out = String::new();
            push_array_literal(&mut out, items.iter().map(Option::as_deref));
            prop_assert_eq!(array_items(&out, b','), Some(items));
        }
    }
}
