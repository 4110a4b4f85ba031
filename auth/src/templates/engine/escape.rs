//! The escapes.

use std::fmt::Write as _;

use basalt_core::html;

/// What a value is escaped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Plain text: nothing.
    None,
    /// HTML text, comments, attributes.
    Html,
    /// The beginning of an address: its scheme is checked.
    Address,
    /// An address whose scheme is there already.
    AddressRest,
    /// A part of an address's query or fragment.
    Query,
}

/// Stands for an address that would have run a script or read a file. It leads nowhere.
const REFUSED_ADDRESS: &str = "#refused";

impl Escape {
    /// Escapes `value`. `checked` are addresses that were checked elsewhere (an app's own scheme in `.RedirectTo`).
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

/// No scheme, or one that a link in an e-mail may have. Browsers skip white space and control characters in schemes, so
/// anything else with a colon before the first slash is refused.
fn has_harmless_scheme(address: &str) -> bool {
    let beginning = address.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((scheme, _)) = beginning.split_once(':') else { return true };
    ["http", "https", "mailto", "tel"].iter().any(|harmless| scheme.eq_ignore_ascii_case(harmless))
}

/// An address in an attribute: characters that no address holds are percent-encoded, existing escapes stay.
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

/// One value of a query: every character that could end it is encoded, a blank as `%20`.
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
