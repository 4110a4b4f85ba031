//! Grammar of query strings and headers (rest.md §3.2–§3.6, §3.11, §3.12).
//!
//! Each part has its own module; this one defines what they share: fields, their printing and the parse error.
//! Parsers only turn text into types; whether a column or embed exists is checked by the plan. Every type prints
//! (`Display`) as text that parses to the same value; property tests verify that.

pub mod columns;
mod cursor;
pub mod filter;
pub mod logic;
pub mod media;
pub mod order;
pub mod prefer;
pub mod query;
pub mod range;
pub mod select;

use std::borrow::Cow;
use std::fmt;

use cursor::is_ident_char;
pub(crate) use cursor::{Cursor, Failure, Parsed};

/// Parameter that could not be parsed; its description is part of the PGRST100 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `select=`.
    Select,
    /// The value of a filter.
    Filter,
    /// `order=`.
    Order,
    /// The key of a filter or modifier.
    TreePath,
    /// The value of `and=` or `or=`.
    LogicTree,
    /// The key of `and=` or `or=`.
    LogicPath,
    /// `columns=`.
    Columns,
    /// `on_conflict=`.
    OnConflict,
}

impl Parameter {
    const fn description(self) -> &'static str {
        match self {
            Self::Select => "select parameter",
            Self::Filter => "filter",
            Self::Order => "order",
            Self::TreePath => "tree path",
            Self::LogicTree => "logic tree",
            Self::LogicPath => "logic path",
            Self::Columns => "columns parameter",
            Self::OnConflict => "on_conflict parameter",
        }
    }
}

/// Malformed text (PGRST100).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Parameter that contains the error.
    pub parameter: Parameter,
    /// Complete text of the parameter.
    pub input: String,
    /// One-based line of the error; values may contain line breaks.
    pub line: usize,
    /// One-based character position within the line.
    pub column: usize,
    /// Unexpected character; `None` at the end of the input.
    pub found: Option<char>,
    /// Description of what was expected.
    pub expecting: Cow<'static, str>,
}

impl ParseError {
    fn new(parameter: Parameter, input: &str, failure: Failure) -> Self {
        let before = input.get(..failure.at).unwrap_or(input);
        let (above, left) = before
            .rsplit_once('\n')
            .map_or((0, before), |(above, left)| (above.matches('\n').count() + 1, left));
        Self {
            parameter,
            input: input.to_owned(),
            line: above + 1,
            column: left.chars().count() + 1,
            found: input.get(failure.found..).and_then(|after| after.chars().next()),
            expecting: failure.expected(),
        }
    }

    /// `"failed to parse filter (noop.0)" (line 1, column 1)`, quotes included.
    #[must_use]
    pub fn message(&self) -> String {
        format!(
            "\"failed to parse {} ({})\" (line {}, column {})",
            self.parameter.description(),
            self.input,
            self.line,
            self.column
        )
    }

    /// `unexpected "o" expecting …`.
    #[must_use]
    pub fn details(&self) -> String {
        match self.found {
            // Parsec quotes the unexpected character this way when it expected the end.
            Some(found) if self.expecting.ends_with("end of input") => {
                format!("unexpected {found:?} expecting {}", self.expecting)
            }
            Some(found) => format!("unexpected {:?} expecting {}", found.to_string(), self.expecting),
            None => format!("unexpected end of input expecting {}", self.expecting),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message(), self.details())
    }
}

impl std::error::Error for ParseError {}

/// A column, with an optional path into its JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name of a column, computed column or, where the grammar allows it, embed.
    pub name: String,
    /// Path into the value.
    pub path: Vec<JsonStep>,
}

impl Field {
    /// A field without a path.
    #[must_use]
    pub fn plain(name: impl Into<String>) -> Self {
        Self { name: name.into(), path: Vec::new() }
    }

    /// Output key of the field: the last object key of the path, or the column name.
    #[must_use]
    pub fn output_name(&self) -> &str {
        match self.path.as_slice() {
            [.., JsonStep { operand: JsonOperand::Key(key), .. }] => key,
            [before @ .., JsonStep { operand: JsonOperand::Index(_), .. }] => before
                .iter()
                .rev()
                .find_map(|step| match &step.operand {
                    JsonOperand::Key(key) => Some(key.as_str()),
                    JsonOperand::Index(_) => None,
                })
                .unwrap_or(&self.name),
            [] => &self.name,
        }
    }
}

/// Arrow operator: `->` returns JSON, `->>` text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrow {
    /// `->`
    Json,
    /// `->>`
    Text,
}

impl Arrow {
    /// SQL operator.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Json => "->",
            Self::Text => "->>",
        }
    }
}

/// One step of a JSON path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonStep {
    /// Whether the step returns JSON or text.
    pub arrow: Arrow,
    /// Object key or array index.
    pub operand: JsonOperand,
}

/// Operand of a JSON path step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JsonOperand {
    /// Object key.
    Key(String),
    /// Array index: an optional `-` and digits.
    Index(String),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Name(&self.name))?;
        for step in &self.path {
            f.write_str(step.arrow.as_sql())?;
            match &step.operand {
                JsonOperand::Index(index) => f.write_str(index)?,
                JsonOperand::Key(key) => write_quoted(f, key)?,
            }
        }
        Ok(())
    }
}

/// Prints a name so that it parses back to itself.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.0.is_empty() && self.0.chars().all(is_ident_char) && self.0.trim() == self.0;
        if plain { f.write_str(self.0) } else { write_quoted(f, self.0) }
    }
}

/// Writes `"…"` with quotes and backslashes escaped by `\`.
pub(crate) fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    use fmt::Write;
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

/// Writes items separated by `separator`.
pub(crate) fn write_joined<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    separator: &str,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
