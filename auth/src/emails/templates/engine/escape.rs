//! Values made fit for the place they land in.

use std::fmt::Write as _;

use basalt_core::html;

/// What a value is escaped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Plain text: nothing.
    None,
    /// HTML text, comments, quoted attributes.
    Text,
    /// An attribute without quotes.
    Unquoted,
    /// The beginning of an address: its scheme is looked at.
    Address,
    /// An address whose scheme stands already.
    AddressRest,
    /// A part of an address's query or fragment.
    Query,
    /// A value of CSS.
    Style,
    /// A name of an attribute.
    Name,
}

/// What stands where an address would have run a script or read a file. Nothing follows it anywhere.
const REFUSED_ADDRESS: &str = "#refused";

impl Escape {
    /// Escapes `value`. `trusted` are addresses that were checked elsewhere (an app's own scheme in `.RedirectTo`).
    pub(super) fn apply(self, value: &str, trusted: &[&str]) -> String {
        match self {
            Self::None => value.to_owned(),
            Self::Text => html::escape(value),
            Self::Unquoted => unquoted(value),
            Self::Address if trusted.contains(&value) || has_harmless_scheme(value) => normalised(value),
            Self::Address => REFUSED_ADDRESS.to_owned(),
            Self::AddressRest => normalised(value),
            Self::Query => query(value),
            Self::Style => style(value),
            Self::Name => value.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect(),
        }
    }
}

/// No scheme at all, or one that a link in a mail may have. Browsers skip white space and control characters in
/// schemes, so that everything which is not a plain scheme and has a colon before the first slash is refused.
fn has_harmless_scheme(address: &str) -> bool {
    let beginning = address.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((scheme, _)) = beginning.split_once(':') else { return true };
    ["http", "https", "mailto", "tel"].iter().any(|harmless| scheme.eq_ignore_ascii_case(harmless))
}

/// An address in an attribute: what no address holds is percent-encoded, escapes that are there stay.
fn normalised(address: &str) -> String {
    let mut out = String::with_capacity(address.len());
    for byte in address.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'!' | b'#' | b'$' | b'*' | b'+' | b',' | b'/' | b':' | b';'
            | b'=' | b'?' | b'@' | b'[' | b']' | b'%' => out.push(char::from(byte)),
            b'&' => out.push_str("&amp;"),
            _ => encode(&mut out, byte),
        }
    }
    out
}

fn encode(out: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _written = write!(out, "%{byte:02X}");
}

/// One value of a query: everything that could end it is encoded, a blank as `%20`.
pub(super) fn query(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => encode(&mut out, byte),
        }
    }
    out
}

fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_alphanumeric() {
            out.push(character);
        } else {
            // Writing to a string does not fail.
            let _written = write!(out, "&#{};", u32::from(character).max(1));
        }
    }
    out
}

/// Colours, lengths, names. Anything else (a bracket, a quote, a backslash) could leave the value, so that none of
/// it is left.
fn style(text: &str) -> String {
    let is_harmless =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '#' | '%' | '.' | ',' | '-' | '_' | '+');
    if text.chars().all(is_harmless) { text.to_owned() } else { "unset".to_owned() }
}
