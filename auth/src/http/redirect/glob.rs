//! Globs of the allow-list (auth.md §3.11): `*` is any run without the separators `.` and `/`, `**` any run, `?` one
//! character that is no separator, `[a-z]` and `[!a]` one of a class, `{a,b}` alternatives, `\` takes the next
//! character as it is.
//!
//! Each becomes a regular expression for an engine that is linear in the text: the text is an attacker's.

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
                '\\' => literal(rest.next()?, &mut regex),
                ']' | '}' => return None,
                other => literal(other, &mut regex),
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

fn literal(character: char, regex: &mut String) {
    regex.push_str(&regex_lite::escape(character.encode_utf8(&mut [0; 4])));
}

/// The rest of `[…]`.
fn class(rest: &mut impl Iterator<Item = char>, regex: &mut String) -> Option<()> {
    let mut items = Vec::new();
    let mut first = rest.next()?;
    let is_negated = first == '!';
    if is_negated {
        first = rest.next()?;
    }
    let mut next = Some(first);
    loop {
        match next? {
            ']' => break,
            '\\' => items.push(Item::One(rest.next()?)),
            '-' => items.push(Item::Dash),
            other => items.push(Item::One(other)),
        }
        next = rest.next();
    }
    if items.is_empty() {
        return None;
    }
    regex.push_str(if is_negated { "[^" } else { "[" });
    let last = items.len() - 1;
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Item::One(character) => literal(character, regex),
            // Between two characters a dash makes a range, at an edge it is itself.
            Item::Dash if index > 0 && index < last => regex.push('-'),
            Item::Dash => regex.push_str("\\-"),
        }
    }
    regex.push(']');
    Some(())
}

enum Item {
    One(char),
    Dash,
}
