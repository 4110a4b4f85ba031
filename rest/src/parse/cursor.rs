//! The cursor shared by all parsers, with the grammar of names and JSON paths.

use std::borrow::Cow;

use super::{Arrow, Field, JsonOperand, JsonStep, Parameter, ParseError};

/// Position of a parse failure and what was expected; becomes a [`ParseError`] once the input is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(super) at: usize,
    /// Position of the unexpected character. PostgREST counts a mismatched word from its beginning, but shows its
    /// first wrong letter.
    pub(super) found: usize,
    /// What could have continued the preceding word, or empty.
    pub(super) continuing: &'static str,
    pub(super) expecting: &'static str,
}

impl Failure {
    /// Everything that was expected, formatted like Parsec's lists.
    pub(super) fn expected(&self) -> Cow<'static, str> {
        let Self { continuing, expecting, .. } = self;
        match (continuing.is_empty(), expecting.contains(" or ")) {
            (true, _) => Cow::Borrowed(expecting),
            (false, true) => Cow::Owned(format!("{continuing}, {expecting}")),
            (false, false) => Cow::Owned(format!("{continuing} or {expecting}")),
        }
    }
}

pub(crate) type Parsed<T> = Result<T, Failure>;

pub(super) const FIELD_NAME: &str = "field name (* or [a..z0..9_$])";

/// What may continue an unquoted name.
const NAME_CONTINUES: &str = "letter, digit, \"-\", \"->>\", \"->\"";
/// What may continue an unquoted key of a JSON path.
const KEY_CONTINUES: &str = "\"-\", \"->>\", \"->\"";
/// What may follow a quoted name or key, or an index.
const PATH_CONTINUES: &str = "\"->>\", \"->\"";

/// A position in the text. Copying the cursor allows backtracking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pub(super) at: usize,
    /// What could continue the word that ends here.
    continuing: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, continuing: "" }
    }

    /// Runs `parser` over all of `text`, and converts a failure to a [`ParseError`].
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
        self.continuing = "";
        Some(next)
    }

    /// Consumes `expected` if it is next.
    pub(crate) fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
            self.continuing = "";
        }
        found
    }

    /// Consumes `expected`, or fails; `expecting` describes everything that is allowed here.
    pub(crate) fn expect(&mut self, expected: &str, expecting: &'static str) -> Parsed<()> {
        if self.eat(expected) { Ok(()) } else { self.fail(expecting) }
    }

    pub(crate) fn fail<T>(&self, expecting: &'static str) -> Parsed<T> {
        Err(self.failure(expecting))
    }

    pub(super) const fn failure(&self, expecting: &'static str) -> Failure {
        Failure { at: self.at, found: self.at, continuing: "", expecting }
    }

    /// Like [`Cursor::fail`], if the preceding word could also continue.
    pub(crate) fn fail_after_word<T>(&self, expecting: &'static str) -> Parsed<T> {
        Err(Failure { at: self.at, found: self.at, continuing: self.continuing, expecting })
    }

    /// Skips blanks and tabs.
    pub(crate) fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    pub(crate) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        if end > 0 {
            self.continuing = "";
        }
        rest.get(..end).unwrap_or_default()
    }

    /// Parses `"…"`, where `\x` stands for `x`.
    pub(crate) fn quoted(&mut self) -> Parsed<String> {
        self.expect("\"", "\"\\\"\"")?;
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

    /// Parses `name = quoted | ident *( "-" ident )`; a `-` that starts `->` ends the name.
    pub(crate) fn name(&mut self) -> Parsed<String> {
        if self.peek() == Some('"') {
            let start = *self;
            let name = self.quoted()?;
            // PostgreSQL cannot represent NUL, and the name without it would denote something else.
            self.continuing = PATH_CONTINUES;
            return if name.contains('\0') { start.fail("name without NUL") } else { Ok(name) };
        }
        let name = self.dashed(is_ident_char, FIELD_NAME)?;
        self.continuing = NAME_CONTINUES;
        Ok(name)
    }

    /// Parses words joined by dashes; each word is trimmed.
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

    /// Parses an unquoted identifier: the type of a cast, or a text search configuration.
    pub(crate) fn ident(&mut self, expecting: &'static str) -> Parsed<String> {
        let start = *self;
        let ident = self.take_while(is_ident_char).trim();
        if ident.is_empty() {
            return start.fail(expecting);
        }
        let ident = ident.to_owned();
        self.continuing = "letter, digit";
        Ok(ident)
    }

    /// Parses `name *jsonop`.
    pub(crate) fn field(&mut self) -> Parsed<Field> {
        let name = self.name()?;
        self.field_named(name)
    }

    /// Parses `*jsonop` and the blanks after a field, which only an unquoted name or key includes.
    pub(crate) fn field_named(&mut self, name: String) -> Parsed<Field> {
        let path = self.json_path()?;
        self.skip_blanks();
        Ok(Field { name, path })
    }

    /// Parses `name *( "." name )`, a path through embeds.
    pub(crate) fn dotted(&mut self) -> Parsed<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.eat(".") {
            names.push(self.name()?);
        }
        Ok(names)
    }

    /// Parses `*jsonop`.
    fn json_path(&mut self) -> Parsed<Vec<JsonStep>> {
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
        // Digits before a closing parenthesis are a key, in PostgREST as in the contract.
        let ends = rest.is_empty() || ["->", "::", ".", ","].iter().any(|end| rest.starts_with(end));
        if !digits.is_empty() && ends {
            *self = index;
            self.continuing = PATH_CONTINUES;
            let sign = if negative { "-" } else { "" };
            return Ok(JsonOperand::Index(format!("{sign}{digits}")));
        }
        // A key cannot begin with a dash.
        if negative && digits.is_empty() {
            return index.fail("digit");
        }
        if negative {
            return index.fail("digit, \"->\", \"::\", \".\", \",\" or end of input");
        }
        if self.peek() == Some('"') {
            let key = self.quoted()?;
            self.continuing = PATH_CONTINUES;
            return Ok(JsonOperand::Key(key));
        }
        const KEY: &str = "any non reserved character different from: .,>()";
        let key = self.dashed(|c| !"(-:.,>)".contains(c), KEY)?;
        self.continuing = KEY_CONTINUES;
        Ok(JsonOperand::Key(key))
    }
}

/// Letters of any script, digits, underscore, blank and dollar sign.
pub(super) fn is_ident_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ' ' | '$')
}
