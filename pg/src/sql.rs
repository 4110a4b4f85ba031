//! SQL fragments: the only way statement text is built.
//!
//! Text is a `&'static str`, a quoted identifier, or text that PostgreSQL itself produced ([`Sql::catalog`]); request
//! data can only become a [`Param`]. This makes SQL injection a type error. Placeholders are numbered when the
//! complete statement is rendered, so fragments compose in any order.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

/// A value bound to a placeholder, in text format; PostgreSQL infers its type as for a literal. `None` is NULL.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Param(pub Option<Bytes>);

impl Param {
    /// SQL NULL.
    #[must_use]
    pub const fn null() -> Self {
        Self(None)
    }

    /// Converts the value's `Display` text.
    pub fn from_display(value: impl fmt::Display) -> Self {
        Self::from(value.to_string())
    }
}

impl fmt::Debug for Param {
    /// Omits the value, which must not reach a log (STYLE 7.6): only presence and size are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => write!(f, "Param({} bytes)", bytes.len()),
            None => f.write_str("Param(NULL)"),
        }
    }
}

impl From<String> for Param {
    fn from(value: String) -> Self {
        Self(Some(Bytes::from(value)))
    }
}

impl From<&str> for Param {
    fn from(value: &str) -> Self {
        Self(Some(Bytes::copy_from_slice(value.as_bytes())))
    }
}

impl From<Bytes> for Param {
    fn from(value: Bytes) -> Self {
        Self(Some(value))
    }
}

impl From<Option<String>> for Param {
    fn from(value: Option<String>) -> Self {
        Self(value.map(Bytes::from))
    }
}

impl ToSql for Param {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Some(bytes) => {
                out.put_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    tokio_postgres::types::to_sql_checked!();
}

/// A statement under construction, or a part of one: text, and the positions in it at which parameters go.
///
/// Every request builds several, so this is one buffer rather than a list of parts.
#[derive(Clone, Debug, Default)]
pub struct Sql {
    text: String,
    /// Byte positions in `text`, ascending, each with the parameter that goes there.
    holes: Vec<(usize, Param)>,
}

impl Sql {
    /// An empty fragment.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new(), holes: Vec::new() }
    }

    /// Literal text from this source code.
    #[must_use]
    pub fn text(text: &'static str) -> Self {
        Self::owned(text.to_owned())
    }

    /// A quoted identifier; safe for any name. NUL bytes, which PostgreSQL cannot store, are dropped.
    #[must_use]
    pub fn ident(name: &str) -> Self {
        let mut sql = Self { text: String::with_capacity(name.len() + 2), holes: Vec::new() };
        sql.push_ident(name);
        sql
    }

    /// `"schema"."name"`, both quoted.
    #[must_use]
    pub fn qualified(schema: &str, name: &str) -> Self {
        let mut quoted = String::with_capacity(schema.len() + name.len() + 5);
        push_quoted(&mut quoted, schema, '"');
        quoted.push('.');
        push_quoted(&mut quoted, name, '"');
        Self::owned(quoted)
    }

    /// A quoted string literal, for values that must be part of the text (such as JSON keys in a select list) because
    /// a parameter would change the statement's type inference. Backslashes force the `E''` form, so the result does
    /// not depend on `standard_conforming_strings`.
    #[must_use]
    pub fn literal(value: &str) -> Self {
        let mut quoted = String::with_capacity(value.len() + 4);
        if value.contains('\\') {
            quoted.push_str(" E");
            push_quoted(&mut quoted, &value.replace('\\', "\\\\"), '\'');
        } else {
            push_quoted(&mut quoted, value, '\'');
        }
        Self::owned(quoted)
    }

    /// Text that PostgreSQL produced and quoted itself (`format_type()`, `pg_get_expr()`). Never request data.
    #[must_use]
    pub const fn catalog(text: String) -> Self {
        Self::owned(text)
    }

    /// A single placeholder bound to `value`.
    #[must_use]
    pub fn param(value: impl Into<Param>) -> Self {
        Self { text: String::new(), holes: vec![(0, value.into())] }
    }

    const fn owned(text: String) -> Self {
        Self { text, holes: Vec::new() }
    }

    /// Returns `self` followed by `next`.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.push(next);
        self
    }

    /// Appends `next` in place.
    pub fn push(&mut self, next: Self) {
        if self.is_empty() {
            *self = next;
            return;
        }
        let begin = self.text.len();
        self.text.push_str(&next.text);
        self.holes.extend(next.holes.into_iter().map(|(at, param)| (begin + at, param)));
    }

    /// Appends literal text from this source code.
    pub fn push_text(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    /// Appends a quoted identifier, as [`Sql::ident`] makes it.
    pub fn push_ident(&mut self, name: &str) {
        push_quoted(&mut self.text, name, '"');
    }

    /// Appends a placeholder bound to `value`.
    pub fn push_param(&mut self, value: impl Into<Param>) {
        self.holes.push((self.text.len(), value.into()));
    }

    /// Concatenates the items with `separator` between them.
    #[must_use]
    pub fn join(items: impl IntoIterator<Item = Self>, separator: &'static str) -> Self {
        let mut joined = Self::new();
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                joined.push_text(separator);
            }
            joined.push(item);
        }
        joined
    }

    /// Whether the fragment has neither text nor parameters.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.holes.is_empty()
    }

    /// Statement text with `$1…` in order of appearance, and the corresponding parameters.
    #[must_use]
    pub fn render(self) -> (String, Vec<Param>) {
        if self.holes.is_empty() {
            return (self.text, Vec::new());
        }
        let mut text = String::with_capacity(self.text.len() + 4 * self.holes.len());
        let mut params = Vec::with_capacity(self.holes.len());
        let mut rest = self.text.as_str();
        let mut position = 0;
        for (at, param) in self.holes {
            // Positions are earlier lengths of `text`, in ascending order.
            let (before, after) = rest.split_at_checked(at - position).unwrap_or((rest, ""));
            (rest, position) = (after, at);
            text.push_str(before);
            params.push(param);
            text.push('$');
            text.push_str(&params.len().to_string());
        }
        text.push_str(rest);
        (text, params)
    }
}

/// Appends `value` between `quote` characters, doubling those inside. NUL bytes, which PostgreSQL cannot store, are
/// dropped.
pub fn push_quoted(out: &mut String, value: &str, quote: char) {
    out.push(quote);
    if value.bytes().any(|byte| byte == 0 || char::from(byte) == quote) {
        for character in value.chars().filter(|character| *character != '\0') {
            if character == quote {
                out.push(quote);
            }
            out.push(character);
        }
    } else {
        out.push_str(value);
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn placeholders_are_numbered_when_rendered() {
        let filter = Sql::text(" where title = ").then(Sql::param("a"));
        let sql = Sql::text("select ")
            .then(Sql::ident("id"))
            .then(Sql::param("x"))
            .then(Sql::text(" from "))
            .then(Sql::qualified("public", "plans"))
            .then(filter);
        let (text, params) = sql.render();
        assert_eq!(text, r#"select "id"$1 from "public"."plans" where title = $2"#);
        assert_eq!(params, vec![Param::from("x"), Param::from("a")]);
    }

    #[test]
    fn quotes_inside_names_and_literals_are_doubled() {
        assert_eq!(Sql::ident("a\"b").render().0, r#""a""b""#);
        assert_eq!(Sql::literal("a'b").render().0, "'a''b'");
        assert_eq!(Sql::literal(r"a\'b").render().0, r" E'a\\''b'");
    }

    #[test]
    fn join_puts_separators_between() {
        assert_eq!(Sql::join([Sql::text("a"), Sql::text("b")], ", ").render().0, "a, b");
        assert!(Sql::join([], ", ").is_empty());
    }

    #[test]
    fn debug_output_of_a_parameter_hides_its_value() {
        assert_eq!(format!("{:?}", Param::from("secret")), "Param(6 bytes)");
    }

    proptest! {
        #[test]
        fn a_quoted_identifier_contains_no_unescaped_quote(name in ".*") {
            let text = Sql::ident(&name).render().0;
            let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
            prop_assert!(!inner.replace("\"\"", "").contains('"'));
        }
    }
}
