//! The grammar of query strings and headers (rest.md §3.2–§3.6, §3.11, §3.12).
//!
//! Each part has its own module; this one holds what they share: the cursor, names, JSON paths and the parse error.
//! Parsers turn text into types and judge nothing else: whether a column or an embed exists is the plan's question.
//! Every type prints back (`Display`) as text that parses to the same value; property tests hold that.

pub mod columns;
pub mod filter;
pub mod logic;
pub mod media;
pub mod order;
pub mod prefer;
pub mod query;
pub mod range;
pub mod select;

use std::fmt;

/// Which parameter could not be read; the words are part of the PGRST100 message.
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
    const fn words(self) -> &'static str {
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

/// Text that does not follow the grammar (PGRST100).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The parameter it was in.
    pub parameter: Parameter,
    /// The whole text that was read.
    pub input: String,
    /// One-based character position of the trouble.
    pub column: usize,
    /// What stood there; `None` at the end of the input.
    pub found: Option<char>,
    /// What could have stood there.
    pub expecting: &'static str,
}

impl ParseError {
    fn new(parameter: Parameter, input: &str, failure: Failure) -> Self {
        let before = input.get(..failure.at).unwrap_or(input);
        Self {
            parameter,
            input: input.to_owned(),
            column: before.chars().count() + 1,
            found: input.get(failure.found..).and_then(|after| after.chars().next()),
            expecting: failure.expecting,
        }
    }

    /// `"failed to parse filter (noop.0)" (line 1, column 1)`, quotes included.
    #[must_use]
    pub fn message(&self) -> String {
        format!(
            "\"failed to parse {} ({})\" (line 1, column {})",
            self.parameter.words(),
            self.input,
            self.column
        )
    }

    /// `unexpected "o" expecting …`.
    #[must_use]
    pub fn details(&self) -> String {
        match self.found {
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

/// Where a parser stopped and what it wanted; becomes a [`ParseError`] once the input is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    at: usize,
    /// The character that did not fit. PostgREST counts a word that does not fit from its beginning, but shows the first
    /// letter that is wrong.
    found: usize,
    expecting: &'static str,
}

pub(crate) type Parsed<T> = Result<T, Failure>;

const FIELD_NAME: &str = "field name (* or [a..z0..9_$])";

/// A position in the text. Backtracking is copying the cursor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Runs `parser` over the whole of `text` and words its failure.
    pub(crate) fn parse_all<T>(
        parameter: Parameter,
        text: &'a str,
        parser: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Result<T, ParseError> {
        let mut cursor = Self::new(text);
        let result = parser(&mut cursor).and_then(|value| match cursor.peek() {
            None => Ok(value),
            Some(_) => cursor.fail("end of input"),
        });
        result.map_err(|failure| ParseError::new(parameter, text, failure))
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Takes `expected` if it is next.
    pub(crate) fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, expected: &'static str) -> Parsed<()> {
        if self.eat(expected) { Ok(()) } else { self.fail(expected) }
    }

    pub(crate) fn fail<T>(&self, expecting: &'static str) -> Parsed<T> {
        Err(Failure { at: self.at, found: self.at, expecting })
    }

    /// Blanks and tabs.
    pub(crate) fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    pub(crate) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// `"…"` where `\x` stands for `x`.
    pub(crate) fn quoted(&mut self) -> Parsed<String> {
        self.expect("\"")?;
        let mut value = String::new();
        loop {
            match self.bump() {
                Some('"') => return Ok(value),
                Some('\\') => match self.bump() {
                    Some(escaped) => value.push(escaped),
                    None => return self.fail("closing quote"),
                },
                Some(plain) => value.push(plain),
                None => return self.fail("closing quote"),
            }
        }
    }

    /// `name = quoted | ident *( "-" ident )`; a `-` that starts `->` ends it.
    pub(crate) fn name(&mut self) -> Parsed<String> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        self.dashed(is_ident_char, FIELD_NAME)
    }

    /// Words with dashes between them, each trimmed.
    fn dashed(&mut self, accept: impl Fn(char) -> bool, expecting: &'static str) -> Parsed<String> {
        let start = *self;
        let mut text = String::new();
        loop {
            let word = self.take_while(&accept);
            if word.is_empty() {
                return self.fail(expecting);
            }
            text.push_str(word.trim());
            if self.rest().starts_with("->") || !self.eat("-") {
                break;
            }
            text.push('-');
        }
        if text.is_empty() { start.fail(expecting) } else { Ok(text) }
    }

    /// A bare identifier: the type of a cast, a text search configuration.
    pub(crate) fn ident(&mut self, expecting: &'static str) -> Parsed<String> {
        let start = *self;
        let ident = self.take_while(is_ident_char).trim();
        if ident.is_empty() { start.fail(expecting) } else { Ok(ident.to_owned()) }
    }

    /// `name *jsonop`.
    pub(crate) fn field(&mut self) -> Parsed<Field> {
        let name = self.name()?;
        Ok(Field { name, path: self.json_path()? })
    }

    /// `*jsonop`.
    pub(crate) fn json_path(&mut self) -> Parsed<Vec<JsonStep>> {
        let mut path = Vec::new();
        loop {
            let arrow = if self.eat("->>") {
                Arrow::Text
            } else if self.eat("->") {
                Arrow::Json
            } else {
                return Ok(path);
            };
            path.push(JsonStep { arrow, operand: self.json_operand()? });
        }
    }

    fn json_operand(&mut self) -> Parsed<JsonOperand> {
        let mut index = *self;
        let negative = index.eat("-");
        let digits = index.take_while(|c| c.is_ascii_digit());
        let rest = index.rest();
        // Before a closing parenthesis it is a key, in PostgREST as in the contract.
        let ends = rest.is_empty() || ["->", "::", ".", ","].iter().any(|end| rest.starts_with(end));
        if !digits.is_empty() && ends {
            *self = index;
            let sign = if negative { "-" } else { "" };
            return Ok(JsonOperand::Index(format!("{sign}{digits}")));
        }
        // No key begins with a dash.
        if negative {
            return index.fail("digit, \"->\", \"::\", \".\", \",\" or end of input");
        }
        if self.peek() == Some('"') {
            return Ok(JsonOperand::Key(self.quoted()?));
        }
        const KEY: &str = "any non reserved character different from: .,>()";
        self.dashed(|c| !"(-:.,>)".contains(c), KEY).map(JsonOperand::Key)
    }
}

/// Letters of any script, digits, underscore, blank and dollar.
fn is_ident_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ' ' | '$')
}

/// A column, possibly with a path into its JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Column, computed column, or (in some places) embed.
    pub name: String,
    /// Steps into the value.
    pub path: Vec<JsonStep>,
}

impl Field {
    /// A field without a path.
    #[must_use]
    pub fn plain(name: impl Into<String>) -> Self {
        Self { name: name.into(), path: Vec::new() }
    }

    /// The key a JSON path is shown under: its last key, where a trailing index shows the key before it, or the column.
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

/// `->` keeps JSON, `->>` makes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrow {
    /// `->`
    Json,
    /// `->>`
    Text,
}

impl Arrow {
    /// The operator.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Json => "->",
            Self::Text => "->>",
        }
    }
}

/// One step into a JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonStep {
    /// What comes out.
    pub arrow: Arrow,
    /// Where to step.
    pub operand: JsonOperand,
}

/// Where a step leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JsonOperand {
    /// Object key.
    Key(String),
    /// Array position, an optional `-` and digits.
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

/// Prints a name so that it reads back as itself.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = !self.0.is_empty() && self.0.chars().all(is_ident_char) && self.0.trim() == self.0;
        if plain { f.write_str(self.0) } else { write_quoted(f, self.0) }
    }
}

/// `"…"` with `\` before quotes and backslashes.
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

/// Items with `separator` between them.
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
