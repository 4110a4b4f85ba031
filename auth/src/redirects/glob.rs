//! Globs of the allow-list (auth.md §3.11): `*` is any run without the separators `.` and `/`, `**` any run, `?` one
//! character that is no separator, `[a-z]` and `[!a]` one of a class, `{a,b}` alternatives, `\` takes the next
//! character as it is.
//!
//! Each becomes a regular expression for an engine that is linear in the text: the text is an attacker's.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::Regex;

/// A compiled entry.
pub(crate) struct Glob(Regex);

impl Glob {
    /// `None` when a bracket is left open or a class is empty.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut regex = String::from("^(?s:");
        let mut rest = text.chars().peekable();
        let mut depth = 0_u32;
        while let Some(character) = rest.next() {
            match character {
                '*' if rest.next_if_eq(&'*').is_some() => regex.push_str(".*"),
                '*' => regex.push_str("[^./]*"),
                '?' => regex.push_str("[^./]"),
                '[' => class(&mut rest, &mut regex)?,
                '{' => {
                    depth += 1;
                    regex.push_str("(?:");
                }
                '}' if depth > 0 => {
                    depth -= 1;
                    regex.push(')');
                }
                ',' if depth > 0 => regex.push('|'),
                '\\' => regex.push_str(&literal(rest.next()?)),
                ']' | '}' => return None,
                other => regex.push_str(&literal(other)),
            }
        }
        regex.push_str(")$");
        if depth > 0 || text.is_empty() {
            return None;
        }
        Regex::new(&regex).ok().map(Self)
    }

    /// Whether the whole text is meant.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

fn literal(character: char) -> String {
    regex_lite::escape(character.encode_utf8(&mut [0; 4]))
}

/// The rest of `[…]`.
fn class(rest: &mut Peekable<Chars<'_>>, regex: &mut String) -> Option<()> {
    regex.push_str(if rest.next_if_eq(&'!').is_some() { "[^" } else { "[" });
    let mut items = Vec::new();
    loop {
        items.push(match rest.next()? {
            ']' => break,
            '\\' => literal(rest.next()?),
            '-' => "-".to_owned(),
            other => literal(other),
        });
    }
    let last = items.len().checked_sub(1)?;
    for (index, item) in items.iter().enumerate() {
        // Between two characters a dash makes a range, at an edge it is itself.
        let is_at_edge = index == 0 || index == last;
        regex.push_str(if item == "-" && is_at_edge { "\\-" } else { item });
    }
    regex.push(']');
    Some(())
}
