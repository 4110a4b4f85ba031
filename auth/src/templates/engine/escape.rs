//! Escaping by context.

use std::fmt::Write as _;

use basalt_core::html;

/// The escaping of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Plain text, unescaped.
    None,
    /// HTML text, comments and attributes.
    Html,
    /// The start of a URL, whose scheme is checked.
    Address,
    /// The rest of a URL, after the scheme.
    AddressRest,
    /// A part of a URL's query or fragment.
    Query,
}

/// Replaces a URL with an unsafe scheme.
const REFUSED_ADDRESS: &str = "#refused";

impl Escape {
    /// Escapes `value`. `checked` contains validated URLs (such as `.RedirectTo` with a custom scheme).
    pub(super) fn apply(self, value: &str, checked: &[&str]) -> String {
        match self {
            Self::None => value.to_owned(),
            Self::Html => html::escape(value),
            Self::Address if checked.contains(&value) || has_harmless_scheme(value) => normalised(value),
            Self::Address => REFUSED_ADDRESS.to_owned(),
            Self::AddressRest => normalised(value),
            Self::Query => query(value),
        }
    }
}

/// Whether the URL has no scheme or an allowed one. Browsers ignore white space and control characters in schemes, so
/// anything else with a colon before the first slash is unsafe.
fn has_harmless_scheme(address: &str) -> bool {
    let beginning = address.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((scheme, _)) = beginning.split_once(':') else { return true };
    ["http", "https", "mailto", "tel"].iter().any(|harmless| scheme.eq_ignore_ascii_case(harmless))
}

/// Percent-encodes characters that are invalid in URLs; keeps existing escapes.
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
    // Writing to a string cannot fail.
    let _written = write!(out, "%{byte:02X}");
}

/// Percent-encodes a query value, with `%20` for spaces.
fn query(text: &str) -> String {
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
