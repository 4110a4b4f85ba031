//! TypeScript types for PostgreSQL types, and their layout: indented by two spaces, 80 columns wide.

use super::catalog::{Catalog, Type};

const WIDTH: usize = 80;

/// A union type: `string | null` has two alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ts(Vec<String>);

impl Ts {
    pub(super) fn word(word: &str) -> Self {
        Self(vec![word.to_owned()])
    }

    fn unknown() -> Self {
        Self::word("unknown")
    }

    pub(super) fn array_of(element: &Self) -> Self {
        match element.0.as_slice() {
            [one] => Self(vec![format!("{one}[]")]),
            _ => Self(vec![format!("({})[]", element.flat())]),
        }
    }

    /// Adds null unless the type includes it: `Json` and `unknown` do.
    pub(super) fn nullable(mut self, is_nullable: bool) -> Self {
        match (self.flat().as_str(), is_nullable) {
            ("Json", false) => Self::word("NonNullable<Json>"),
            ("unknown", _) | (_, false) => self,
            (_, true) => {
                self.0.push("null".to_owned());
                self
            }
        }
    }

    pub(super) fn flat(&self) -> String {
        self.0.join(" | ")
    }
}

/// The type of a PostgreSQL value in JSON. Ranges, geometric types and others with a special JSON form are `unknown`.
pub(super) fn typescript(catalog: &Catalog, oid: u32) -> Ts {
    let Some(kind) = catalog.types.get(&oid) else { return Ts::unknown() };
    match kind.name.as_str() {
        "bool" => return Ts::word("boolean"),
        "int2" | "int4" | "int8" | "float4" | "float8" | "numeric" => return Ts::word("number"),
        "bytea" | "bpchar" | "varchar" | "date" | "text" | "citext" | "time" | "timetz" | "timestamp"
        | "timestamptz" | "uuid" | "vector" | "interval" => return Ts::word("string"),
        "json" | "jsonb" => return Ts::word("Json"),
        "void" => return Ts::word("undefined"),
        "record" => return Ts::word("Record<string, unknown>"),
        _ => {}
    }
    if kind.element != 0 {
        return Ts::array_of(&typescript(catalog, kind.element));
    }
    let is_generated = catalog.schemas.contains(&kind.schema);
    let member =
        |part: &str| format!("Database[{}][\"{part}\"][{}]", quoted(&kind.schema), quoted(&kind.name));
    if !kind.labels.is_empty() {
        return if is_generated { Ts::word(&member("Enums")) } else { labels(kind) };
    }
    if !kind.attributes.is_empty() && is_generated {
        return Ts::word(&member("CompositeTypes"));
    }
    match catalog.relations.get(&kind.relation) {
        Some(relation) => {
            let part = if relation.is_view { "Views" } else { "Tables" };
            Ts::word(&format!("{}[\"Row\"]", member(part)))
        }
        None => Ts::unknown(),
    }
}

/// An enum's labels as a union type.
pub(super) fn labels(kind: &Type) -> Ts {
    Ts(kind.labels.iter().map(|label| quoted(label)).collect())
}

/// A string literal; JSON's syntax is valid TypeScript.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A property name, quoted unless it is an identifier.
pub(super) fn property(name: &str) -> String {
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    if is_identifier { name.to_owned() } else { quoted(name) }
}

/// Generated code, line by line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(&"  ".repeat(self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes `head {` … `}tail` around the indented `body`.
    pub(super) fn block(&mut self, head: &str, tail: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{head}{{"));
        self.indented(body);
        self.line(&format!("}}{tail}"));
    }

    /// Writes `name: [` … `]` around the indented `body`.
    pub(super) fn list(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{name}: ["));
        self.indented(body);
        self.line("]");
    }

    pub(super) fn indented(&mut self, body: impl FnOnce(&mut Self)) {
        self.depth += 1;
        body(self);
        self.depth -= 1;
    }

    /// Writes `name: type`, with one alternative per line if it is too long.
    pub(super) fn member(&mut self, name: &str, kind: &Ts) {
        let flat = format!("{name}: {}", kind.flat());
        if kind.0.len() == 1 || self.fits(&flat) {
            return self.line(&flat);
        }
        self.line(&format!("{name}:"));
        self.indented(|lines| {
            for alternative in &kind.0 {
                lines.line(&format!("| {alternative}"));
            }
        });
    }

    /// Writes `name: [a, b]tail`, with one element per line if it is too long.
    pub(super) fn array(&mut self, name: &str, elements: &[String], tail: &str) {
        let quoted: Vec<String> = elements.iter().map(|element| quoted(element)).collect();
        let flat = format!("{name}: [{}]{tail}", quoted.join(", "));
        if self.fits(&flat) {
            return self.line(&flat);
        }
        self.line(&format!("{name}: ["));
        self.indented(|lines| {
            for element in &quoted {
                lines.line(&format!("{element},"));
            }
        });
        self.line(&format!("]{tail}"));
    }

    pub(super) fn fits(&self, line: &str) -> bool {
        2 * self.depth + line.chars().count() <= WIDTH
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_long_unions_and_lists() {
        let long = "x".repeat(50);
        let mut lines = Lines::default();
        lines.member("kind", &Ts(vec!["\"a\"".to_owned(), "null".to_owned()]));
        lines.member("kind", &Ts(vec![quoted(&long), quoted(&long)]));
        lines.array("columns", &["a".to_owned(), "b".to_owned()], "");
        lines.array("columns", &[long.clone(), long.clone()], ",");
        let expected = format!(
            "kind: \"a\" | null\nkind:\n  | \"{long}\"\n  | \"{long}\"\ncolumns: [\"a\", \"b\"]\ncolumns: [\n  \"{long}\",\n  \"{long}\",\n],\n"
        );
        assert_eq!(lines.into_text(), expected);
    }

    #[test]
    fn prints_nulls_arrays_and_property_names() {
        assert_eq!(Ts::word("string").nullable(true).flat(), "string | null");
        assert_eq!(Ts::word("Json").nullable(false).flat(), "NonNullable<Json>");
        assert_eq!(Ts::word("unknown").nullable(true).flat(), "unknown");
        assert_eq!(Ts::array_of(&Ts::word("string").nullable(true)).flat(), "(string | null)[]");
        assert_eq!(property("plan_id"), "plan_id");
        assert_eq!(property("a \"b\""), r#""a \"b\"""#);
        assert_eq!(property("1st"), "\"1st\"");
    }
}
