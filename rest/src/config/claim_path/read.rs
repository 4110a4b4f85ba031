//! Claim paths read from text, in either spelling.

use std::str::FromStr;

use regex_lite::Regex;
use serde_json::Value;

use super::{ClaimPath, Filter, Pattern, Slice, Step, Test};
use crate::config::ConfigError;

impl FromStr for ClaimPath {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        parse(text.trim()).ok_or_else(|| ConfigError::ClaimPath(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<ClaimPath> {
    let mut reader = Reader(text.strip_prefix('$').unwrap_or(text));
    let is_old = reader.0.len() == text.len();
    let mut steps = Vec::new();
    while !reader.0.is_empty() {
        steps.push(reader.step()?);
    }
    let slice = match steps.last() {
        Some(Step::Slice(slice)) if is_old => Some(*slice),
        _ => None,
    };
    if slice.is_some() {
        steps.pop();
    }
    let starts_at_member = matches!(steps.first(), Some(Step::Key(_) | Step::Each));
    let slices_again = is_old && steps.iter().any(|step| matches!(step, Step::Slice(_)));
    (starts_at_member && !slices_again).then_some(ClaimPath { steps, slice })
}

/// What is left of the text.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn take(&mut self, expected: &str) -> bool {
        let rest = self.0.strip_prefix(expected);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn blanks(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn step(&mut self) -> Option<Step> {
        if self.take("[") {
            return self.bracketed();
        }
        if !self.take(".") {
            return None;
        }
        if self.take("*") {
            return Some(Step::Each);
        }
        let key = if self.0.starts_with('"') { self.quoted()? } else { self.word()?.to_owned() };
        Some(Step::Key(key))
    }

    /// Letters, digits, `_`, `$`, `@`.
    fn word(&mut self) -> Option<&'a str> {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@');
        let end = self.0.find(|c| !is_word(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Text in either kind of quotes; a backslash keeps the next character from ending it.
    fn quoted(&mut self) -> Option<String> {
        let quote = self.0.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let mut text = String::new();
        let mut escaped = false;
        for (at, c) in self.0.char_indices().skip(1) {
            if !escaped && c == quote {
                self.0 = self.0.get(at + 1..)?;
                return Some(text);
            }
            if !escaped && c == '\\' {
                escaped = true;
                continue;
            }
            // Of the escapes only those of the quote and the backslash mean something in a name or a pattern.
            if escaped && c != quote && c != '\\' {
                text.push('\\');
            }
            escaped = false;
            text.push(c);
        }
        None
    }

    /// After `[`.
    fn bracketed(&mut self) -> Option<Step> {
        self.blanks();
        let step = if self.take("?") {
            Step::Filter(self.filter()?)
        } else if self.take("*") {
            Step::Each
        } else if self.0.starts_with(['"', '\'']) {
            Step::Key(self.quoted()?)
        } else {
            let from = self.number();
            if self.take(":") { Step::Slice(Slice { from, to: self.number() }) } else { Step::Index(from?) }
        };
        self.blanks();
        self.take("]").then_some(step)
    }

    fn number(&mut self) -> Option<i64> {
        let start = self.0;
        let sign = usize::from(start.starts_with('-'));
        let digits = start.get(sign..)?;
        let length = sign + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = start.get(..length)?.parse().ok()?;
        self.0 = start.get(length..)?;
        Some(number)
    }

    /// After `?`, up to the closing bracket.
    fn filter(&mut self) -> Option<Filter> {
        self.blanks();
        let in_parentheses = self.take("(");
        self.blanks();
        let filter = if self.take("search(") {
            let path = self.element_path()?;
            self.blanks();
            if !self.take(",") {
                return None;
            }
            self.blanks();
            let pattern = Regex::new(&self.quoted()?).ok()?;
            self.blanks();
            self.take(")").then_some(Filter { path, test: Test::Search(Pattern(pattern)) })?
        } else {
            Filter { path: self.element_path()?, test: self.test()? }
        };
        self.blanks();
        (!in_parentheses || self.take(")")).then_some(filter)
    }

    /// `@`, and steps from it.
    fn element_path(&mut self) -> Option<Vec<Step>> {
        self.blanks();
        if !self.take("@") {
            return None;
        }
        let mut steps = Vec::new();
        while self.0.starts_with(['.', '[']) {
            steps.push(self.step()?);
        }
        Some(steps)
    }

    fn test(&mut self) -> Option<Test> {
        self.blanks();
        // The longest first: `==` also begins `==^`.
        let operator = ["==^", "^==", "*==", "==", "!="].into_iter().find(|operator| self.take(operator));
        let Some(operator) = operator else { return Some(Test::Exists) };
        self.blanks();
        let value = if self.0.starts_with(['"', '\'']) {
            Value::String(self.quoted()?)
        } else if let Some(number) = self.number() {
            number.into()
        } else {
            match self.word()? {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                _ => return None,
            }
        };
        Some(match (operator, value) {
            ("==", value) => Test::Equals(value),
            ("!=", value) => Test::Differs(value),
            ("^==", Value::String(part)) => Test::StartsWith(part),
            ("==^", Value::String(part)) => Test::EndsWith(part),
            (_, Value::String(part)) => Test::Contains(part),
            _ => return None,
        })
    }
}
