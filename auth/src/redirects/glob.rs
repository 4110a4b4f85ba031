//! Globs of the allow-list (auth.md §3.11): `*` matches any run without the separators `.` and `/`, `**` any run, `?` one
//! character except separators, `[a-z]` and `[!a]` a class, `{a,b}` alternatives; `\` escapes the next character.
//!
//! Compiled to a regular expression for a linear-time engine, since attackers control the text.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::Regex;

/// A compiled entry.
pub(crate) struct Glob(Regex);

impl Glob {
    /// `None` if a bracket is unbalanced or a class is empty.
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

    /// Whether the entire text matches.
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
        // A dash forms a range between two characters and is literal at an edge.
        let is_at_edge = index == 0 || index == last;
        regex.push_str(if item == "-" && is_at_edge { "\\-" } else { item });
    }
    regex.push(']');
    Some(())
}
