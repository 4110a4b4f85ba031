//! Column types: how values become JSON, and how filters compare them. Values are text as PostgreSQL prints
//! it under `SESSION_SETTINGS` of `stream.rs`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use basalt_pg::sql::Sql;

use super::filter::Comparison;

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

/// Encoding of a type's text as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `t` and `f`.
    Bool,
    /// Digits; `NaN` and infinities, which JSON lacks, become null.
    Number,
    /// The text is JSON already.
    Verbatim,
    /// `\x…`, encoded without the prefix.
    Bytes,
    /// The space between date and time becomes `T`.
    Timestamp,
    /// Like [`Json::Timestamp`], and the offset gets minutes.
    TimestampTz,
    /// `{…}` of elements.
    Array {
        /// Encoding of the elements.
        element: Arc<Json>,
        /// Delimiter between the elements.
        delimiter: u8,
    },
    /// `(…)` of attributes.
    Composite(Vec<(String, Json)>),
    /// A string.
    Text,
}

/// JSON encoding of a type.
#[must_use]
pub fn json_for(oid: u32, types: &HashMap<u32, TypeRow>) -> Json {
    json_within(oid, types, MAX_DEPTH)
}

fn json_within(oid: u32, types: &HashMap<u32, TypeRow>, depth: usize) -> Json {
    match oid {
        16 => return Json::Bool,
        20 | 21 | 23 | 700 | 701 | 1700 => return Json::Number,
        114 | 3802 => return Json::Verbatim,
        17 => return Json::Bytes,
        1114 => return Json::Timestamp,
        1184 => return Json::TimestampTz,
        _ => {}
    }
    let (Some(row), Some(depth)) = (types.get(&oid), depth.checked_sub(1)) else { return Json::Text };
    if let Some(element) = row.element {
        let delimiter = types.get(&element).map_or(b',', |element| element.delimiter);
        return Json::Array { element: Arc::new(json_within(element, types, depth)), delimiter };
    }
    match (row.kind, row.base) {
        (b'd', Some(base)) => json_within(base, types, depth),
        (b'c', _) => {
            let attributes = row.attributes.iter();
            Json::Composite(
                attributes.map(|(name, oid)| (name.clone(), json_within(*oid, types, depth))).collect(),
            )
        }
        _ => Json::Text,
    }
}

/// Comparison of a type. Text with a nondeterministic collation, in which different texts are equal, is left
/// to PostgreSQL.
#[must_use]
pub fn comparison_for(
    oid: u32,
    types: &HashMap<u32, TypeRow>,
    is_deterministic: bool,
    is_c: bool,
) -> Comparison {
    let oid = base_type(oid, types);
    match oid {
        16 => Comparison::Bool,
        20 | 21 | 23 | 26 => Comparison::Integer,
        700 | 701 => Comparison::Float,
        1700 => Comparison::Numeric,
        // uuid, time
        2950 | 1083 => Comparison::Ordered,
        // date, timestamp, timestamptz
        1082 | 1114 | 1184 => Comparison::Date,
        // text, varchar
        25 | 1043 if is_c => Comparison::Ordered,
        25 | 1043 if is_deterministic => Comparison::Equality,
        _ if types.get(&oid).is_some_and(|row| row.kind == b'e') => Comparison::Equality,
        _ => Comparison::Postgres,
    }
}

/// Appends a JSON string.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let mut special = tail.chars();
        match special.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(c) => {
                let _written = write!(out, "\\u{:04x}", u32::from(c));
            }
            None => {}
        }
        rest = special.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

impl Json {
    /// Appends a value. Text that does not have the type's format is appended as a string.
    pub fn push(&self, out: &mut String, text: &str) {
        match self {
            Self::Bool => match text {
                "t" | "true" => out.push_str("true"),
                "f" | "false" => out.push_str("false"),
                _ => push_string(out, text),
            },
            Self::Number => match text {
                "NaN" | "Infinity" | "-Infinity" => out.push_str("null"),
                _ if is_json_number(text) => out.push_str(text),
                _ => push_string(out, text),
            },
            // Validated again: a frame must be valid JSON, and `json` columns keep the writer's text.
            Self::Verbatim => match serde_json::from_str::<&serde_json::value::RawValue>(text) {
                Ok(json) => out.push_str(json.get()),
                Err(_) => push_string(out, text),
            },
            Self::Bytes => push_string(out, text.strip_prefix("\\x").unwrap_or(text)),
            Self::Timestamp => push_string(out, &text.replacen(' ', "T", 1)),
            Self::TimestampTz => push_string(out, &with_offset_minutes(&text.replacen(' ', "T", 1))),
            Self::Array { element, delimiter } => {
                let begin = out.len();
                if push_array(out, text, element, *delimiter).is_none() {
                    out.truncate(begin);
                    push_string(out, text);
                }
            }
            Self::Composite(attributes) => {
                let begin = out.len();
                if push_composite(out, text, attributes).is_none() {
                    out.truncate(begin);
                    push_string(out, text);
                }
            }
            Self::Text => push_string(out, text),
        }
    }
}

/// Whether the text is a number both as PostgreSQL prints it and in JSON.
fn is_json_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = digits.split_once('e').map_or((digits, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    all_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(all_digits)
        && exponent.is_none_or(|exponent| all_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// Expands the offset `+00` to `+00:00`, also before a trailing `BC`.
fn with_offset_minutes(text: &str) -> String {
    let (time, era) = text.strip_suffix(" BC").map_or((text, ""), |time| (time, " BC"));
    let mut text = time.to_owned();
    if time.len() > 10 && matches!(time.as_bytes().get(time.len() - 3), Some(b'+' | b'-')) {
        text.push_str(":00");
    }
    text.push_str(era);
    text
}

/// An array element or composite attribute, unquoted; `None` for NULL.
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

fn push_array(out: &mut String, text: &str, element: &Json, delimiter: u8) -> Option<()> {
    let items = array_items(text, delimiter)?;
    let is_nested = is_nested(text);
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match item {
            None => out.push_str("null"),
            Some(item) if is_nested => push_array(out, item, element, delimiter)?,
            Some(item) => element.push(out, item),
        }
    }
    out.push(']');
    Some(())
}

/// Whether the array has several dimensions: its literal starts with two braces, which a quoted element
/// cannot.
fn is_nested(text: &str) -> bool {
    let text = if text.starts_with('[') { text.split_once('=').map_or("", |(_, text)| text) } else { text };
    text.starts_with("{{")
}

fn push_composite(out: &mut String, text: &str, attributes: &[(String, Json)]) -> Option<()> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut chars = inside.chars().peekable();
    out.push('{');
    for (index, (name, json)) in attributes.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_string(out, name);
        out.push(':');
        let (mut item, mut is_present) = (String::new(), false);
        while let Some(c) = chars.next() {
            match c {
                ',' => break,
                '"' => {
                    is_present = true;
                    loop {
                        match chars.next()? {
                            // A doubled quote is a literal one.
                            '"' if chars.peek() == Some(&'"') => {
                                chars.next();
                                item.push('"');
                            }
                            '"' => break,
                            '\\' => item.push(chars.next()?),
                            c => item.push(c),
                        }
                    }
                }
                '\\' => {
                    is_present = true;
                    item.push(chars.next()?);
                }
                c => {
                    is_present = true;
                    item.push(c);
                }
            }
        }
        if is_present { json.push(out, &item) } else { out.push_str("null") }
    }
    out.push('}');
    chars.next().is_none().then_some(())
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

    fn shown(json: &Json, text: &str) -> String {
        let mut out = String::new();
        json.push(&mut out, text);
        let _read: serde_json::Value = serde_json::from_str(&out).unwrap();
        out
    }

    fn array(element: Json) -> Json {
        Json::Array { element: Arc::new(element), delimiter: b',' }
    }

    #[test]
    fn encodes_values_by_type() {
        for (json, text, expected) in [
            (Json::Bool, "t", "true"),
            (Json::Number, "9007199254740993", "9007199254740993"),
            (Json::Number, "1.50", "1.50"),
            (Json::Number, "1e+20", "1e+20"),
            (Json::Number, "NaN", "null"),
            (Json::Number, "-Infinity", "null"),
            (Json::Verbatim, r#"{"a": [1, 2]}"#, r#"{"a": [1, 2]}"#),
            (Json::Bytes, "\\xdeadbeef", r#""deadbeef""#),
            (Json::Timestamp, "2024-02-03 04:05:06.789123", r#""2024-02-03T04:05:06.789123""#),
            (Json::TimestampTz, "2024-02-03 02:05:06.789123+00", r#""2024-02-03T02:05:06.789123+00:00""#),
            (Json::TimestampTz, "infinity", r#""infinity""#),
            (Json::TimestampTz, "0044-03-15 12:00:00+00 BC", r#""0044-03-15T12:00:00+00:00 BC""#),
            (Json::Text, "say \"hi\"\\\n\u{1}", r#""say \"hi\"\\\n\u0001""#),
            (array(Json::Number), "{1,2,NULL}", "[1,2,null]"),
            (array(Json::Number), "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
            (array(Json::Number), "[0:1]={1,2}", "[1,2]"),
            (array(Json::Text), r#"{a,"b,c","NULL","d\"e",""}"#, r#"["a","b,c","NULL","d\"e",""]"#),
            (array(Json::Text), r#"{{"a,b",c},{d,"{"}}"#, r#"[["a,b","c"],["d","{"]]"#),
            (array(Json::Text), r#"{"{x}"}"#, r#"["{x}"]"#),
            (array(Json::Verbatim), r#"{"{\"a\": 1}"}"#, r#"[{"a": 1}]"#),
            (array(Json::Number), "{}", "[]"),
            (array(Json::Number), "{1", r#""{1""#),
        ] {
            assert_eq!(shown(&json, text), expected, "{text}");
        }
    }

    #[test]
    fn encodes_composites_as_objects() {
        let json = Json::Composite(vec![
            ("a".to_owned(), Json::Number),
            ("b".to_owned(), Json::Text),
            ("c".to_owned(), array(Json::Number)),
        ]);
        assert_eq!(shown(&json, r#"(1,"x ""y"", z","{1,2}")"#), r#"{"a":1,"b":"x \"y\", z","c":[1,2]}"#);
        assert_eq!(shown(&json, r#"(,"",)"#), r#"{"a":null,"b":"","c":null}"#);
        assert_eq!(shown(&json, "(1,2,3,4)"), r#""(1,2,3,4)""#);
    }

    proptest! {
        #[test]
        fn strings_round_trip(text in ".{0,30}") {
            let mut out = String::new();
            push_string(&mut out, &text);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }

        #[test]
        fn array_literals_round_trip(
            items in proptest::collection::vec(proptest::option::of(".{0,8}"), 0..5),
        ) {
            let mut out = String::new();
            push_array_literal(&mut out, items.iter().map(Option::as_deref));
            prop_assert_eq!(array_items(&out, b','), Some(items));
        }

        #[test]
        fn any_text_encodes_as_valid_json(text in "[{}(),\"\\\\a1 \\-.]{0,20}", which in 0_usize..8) {
            let types = [
                Json::Bool, Json::Number, Json::Verbatim, Json::Bytes, Json::TimestampTz, array(array(Json::Number)), array(Json::Text),
                Json::Composite(vec![("a".to_owned(), Json::Text), ("b".to_owned(), Json::Bool)]),
            ];
            let mut out = String::new();
            types[which].push(&mut out, &text);
            prop_assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{}", out);
        }
    }
}
