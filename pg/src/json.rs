//! Encodes values in PostgreSQL's text format as JSON.
//!
//! How the text of a value becomes JSON depends only on its type: numbers and JSON are copied, booleans become `true` and
//! `false`, timestamps get their `T`, and nearly everything else becomes a string. Settings that affect the text
//! (`IntervalStyle`, `TimeZone`, `extra_float_digits`) do not matter, because `to_json` uses the same text. The exception
//! is `DateStyle`: JSON always contains ISO 8601 dates.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

/// How values of a type are encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonEncoding {
    /// `t` and `f` become `true` and `false`.
    Boolean,
    /// Copied; `NaN` and the infinities, which JSON lacks, become strings.
    Number,
    /// Copied; `NaN` and the infinities become `null`.
    FiniteNumber,
    /// Copied.
    Json,
    /// Copied after validation.
    CheckedJson,
    /// A string, which must be in ISO style.
    Date,
    /// A string with `T` between date and time, and minutes in the offset.
    Timestamp,
    /// `\x…`, a string without the prefix.
    Hex,
    /// A string.
    Text,
    /// An array of any number of dimensions.
    Array {
        /// Encoding of the elements.
        element: Arc<JsonEncoding>,
        /// Delimiter between the elements: a comma for nearly all types.
        delimiter: u8,
    },
    /// An object of a composite type's attributes.
    Composite(Vec<(String, JsonEncoding)>),
}

impl JsonEncoding {
    /// An array whose elements are separated by commas.
    #[must_use]
    pub fn array(element: Self) -> Self {
        Self::Array { element: Arc::new(element), delimiter: b',' }
    }

    /// Appends a value; `None` if its text does not have the type's format. Part of the value may then have been appended.
    pub fn push(&self, json: &mut Vec<u8>, text: &[u8]) -> Option<()> {
        match self {
            Self::Boolean => json.extend_from_slice(match text {
                b"t" => b"true",
                b"f" => b"false",
                _ => return None,
            }),
            Self::Number | Self::FiniteNumber => match (text, self) {
                (b"NaN" | b"Infinity" | b"-Infinity", Self::FiniteNumber) => json.extend_from_slice(b"null"),
                (b"NaN" | b"Infinity" | b"-Infinity", _) => push_string(json, text),
                _ if is_number(text) => json.extend_from_slice(text),
                _ => return None,
            },
            Self::Json => json.extend_from_slice(text),
            Self::CheckedJson => {
                let checked: &RawValue = serde_json::from_slice(text).ok()?;
                json.extend_from_slice(checked.get().as_bytes());
            }
            Self::Date => {
                iso_date(text)?;
                push_string(json, text);
            }
            Self::Timestamp => push_timestamp(json, text)?,
            Self::Hex => push_string(json, text.strip_prefix(b"\\x")?),
            Self::Text => push_string(json, text),
            Self::Array { element, delimiter } => push_array(json, element, *delimiter, text)?,
            Self::Composite(attributes) => push_composite(json, attributes, text)?,
        }
        Some(())
    }

    /// Appends a value. Text that does not have the type's format is appended as a string.
    pub fn push_or_string(&self, json: &mut Vec<u8>, text: &str) {
        let start = json.len();
        if self.push(json, text.as_bytes()).is_none() {
            json.truncate(start);
            push_string(json, text.as_bytes());
        }
    }
}

/// Appends a string, escaped like PostgreSQL's `escape_json`.
pub fn push_string(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    let mut rest = text;
    while let Some((plain, [special, tail @ ..])) =
        first_special(rest).and_then(|at| rest.split_at_checked(at))
    {
        json.extend_from_slice(plain);
        match special {
            b'"' => json.extend_from_slice(b"\\\""),
            b'\\' => json.extend_from_slice(b"\\\\"),
            0x08 => json.extend_from_slice(b"\\b"),
            0x0c => json.extend_from_slice(b"\\f"),
            b'\n' => json.extend_from_slice(b"\\n"),
            b'\r' => json.extend_from_slice(b"\\r"),
            b'\t' => json.extend_from_slice(b"\\t"),
            control => {
                json.extend_from_slice(b"\\u00");
                json.push(b'0' + (control >> 4));
                json.push(b"0123456789abcdef".get(usize::from(control & 15)).copied().unwrap_or(b'0'));
            }
        }
        rest = tail;
    }
    json.extend_from_slice(rest);
    json.push(b'"');
}

/// Position of the first byte that must be escaped. Most strings have none, so eight bytes are tested at a time.
fn first_special(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES * 0x80;
    /// Whether some byte is less than `limit`, which is at most 128.
    const fn has_less(word: u64, limit: u64) -> bool {
        word.wrapping_sub(ONES * limit) & !word & HIGH != 0
    }
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    let mut at = 0;
    let mut rest = text;
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        let bytes = u64::from_ne_bytes(*word);
        let quote = bytes ^ (ONES * 0x22);
        let backslash = bytes ^ (ONES * 0x5c);
        if has_less(bytes, 0x20) || has_less(quote, 1) || has_less(backslash, 1) {
            break;
        }
        at += 8;
        rest = tail;
    }
    rest.iter().position(is_special).map(|found| at + found)
}

/// Whether the text is a number both as PostgreSQL prints it and in JSON: `-12.5e+07`.
fn is_number(text: &[u8]) -> bool {
    /// The text after one or more digits.
    fn after_digits(text: &[u8]) -> Option<&[u8]> {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 { text.get(digits..) } else { None }
    }
    let parse = || {
        let mut rest = match text.strip_prefix(b"-").unwrap_or(text) {
            [b'0', rest @ ..] => rest,
            integer => after_digits(integer)?,
        };
        if let Some(fraction) = rest.strip_prefix(b".") {
            rest = after_digits(fraction)?;
        }
        if let Some(exponent) = rest.strip_prefix(b"e") {
            rest = match exponent {
                [b'+' | b'-', digits @ ..] => after_digits(digits)?,
                digits => after_digits(digits)?,
            };
        }
        Some(rest.is_empty())
    };
    parse().unwrap_or(false)
}

/// The text after a date in ISO style. The special values count as dates without further text.
fn iso_date(text: &[u8]) -> Option<&[u8]> {
    if matches!(text, b"infinity" | b"-infinity") {
        return Some(b"");
    }
    let year = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // No other style starts with four digits.
    let [b'-', m1, m2, b'-', d1, d2, rest @ ..] = text.get(year..)? else { return None };
    (year >= 4 && [m1, m2, d1, d2].iter().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

/// Appends a timestamp: `2026-01-02 03:04:05.6+00` becomes `"2026-01-02T03:04:05.6+00:00"`.
fn push_timestamp(json: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    let rest = iso_date(text)?;
    if rest.is_empty() {
        push_string(json, text);
        return Some(());
    }
    let date = text.strip_suffix(rest)?;
    let time = rest.strip_prefix(b" ")?;
    let (time, era) = time.strip_suffix(b" BC").map_or((time, &b""[..]), |time| (time, b" BC"));
    let zone = time.iter().position(|byte| matches!(byte, b'+' | b'-')).unwrap_or(time.len());
    let (clock, zone) = time.split_at_checked(zone)?;
    let is_clock =
        clock.len() >= 8 && clock.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    let is_zone = zone.iter().skip(1).all(|byte| byte.is_ascii_digit() || *byte == b':');
    if !is_clock || !is_zone {
        return None;
    }
    json.push(b'"');
    json.extend_from_slice(date);
    json.push(b'T');
    json.extend_from_slice(clock);
    json.extend_from_slice(zone);
    if zone.len() == 3 {
        json.extend_from_slice(b":00");
    }
    json.extend_from_slice(era);
    json.push(b'"');
    Some(())
}

/// Appends an array: `{1,NULL}`, `{{a,"b c"},{"",d}}`, `[0:1]={1,2}`.
fn push_array(json: &mut Vec<u8>, element: &JsonEncoding, delimiter: u8, text: &[u8]) -> Option<()> {
    /// The token before the current position.
    #[derive(PartialEq)]
    enum Previous {
        Start,
        Open,
        Delimiter,
        Item,
    }
    // Bounds precede the elements if indexes do not start at one.
    let mut rest = match text.first()? {
        b'[' => text.get(text.iter().position(|byte| *byte == b'=')? + 1..)?,
        _ => text,
    };
    let (mut depth, mut previous) = (0_usize, Previous::Start);
    while let [byte, tail @ ..] = rest {
        let is_in_array = depth > 0;
        if *byte == b'{' && previous != Previous::Item {
            depth += 1;
            json.push(b'[');
            (rest, previous) = (tail, Previous::Open);
        } else if *byte == b'}' && is_in_array && previous != Previous::Delimiter {
            depth -= 1;
            json.push(b']');
            (rest, previous) = (tail, Previous::Item);
        } else if *byte == delimiter && is_in_array && previous == Previous::Item {
            json.push(b',');
            (rest, previous) = (tail, Previous::Delimiter);
        } else if !is_in_array || previous == Previous::Item || *byte == delimiter || *byte == b'}' {
            return None;
        } else if *byte == b'"' {
            let (item, behind) = quoted_item(tail)?;
            element.push(json, &item)?;
            (rest, previous) = (behind, Previous::Item);
        } else {
            let end = rest.iter().position(|byte| *byte == delimiter || *byte == b'}')?;
            let (item, behind) = rest.split_at_checked(end)?;
            match item {
                b"NULL" => json.extend_from_slice(b"null"),
                item => element.push(json, item)?,
            }
            (rest, previous) = (behind, Previous::Item);
        }
    }
    (depth == 0 && previous == Previous::Item).then_some(())
}

/// Splits off an element at its closing quote, and removes the backslash escapes.
fn quoted_item(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', text)?;
    let (plain, rest) = text.split_at_checked(end)?;
    if let [b'"', behind @ ..] = rest {
        return Some((Cow::Borrowed(plain), behind));
    }
    let mut item = plain.to_vec();
    let mut rest = rest;
    loop {
        match rest {
            [b'"', behind @ ..] => return Some((Cow::Owned(item), behind)),
            [b'\\', byte, behind @ ..] | [byte, behind @ ..] => {
                item.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

/// Appends a composite: `(1,"x ""y"", z",)`.
fn push_composite(json: &mut Vec<u8>, attributes: &[(String, JsonEncoding)], text: &[u8]) -> Option<()> {
    let mut rest = text.strip_prefix(b"(")?.strip_suffix(b")")?;
    json.push(b'{');
    for (index, (name, encoding)) in attributes.iter().enumerate() {
        if index > 0 {
            json.push(b',');
            rest = rest.strip_prefix(b",")?;
        }
        push_string(json, name.as_bytes());
        json.push(b':');
        let value;
        (value, rest) = attribute(rest)?;
        match value {
            Some(value) => encoding.push(json, &value)?,
            None => json.extend_from_slice(b"null"),
        }
    }
    json.push(b'}');
    rest.is_empty().then_some(())
}

/// Splits off an attribute at the next comma, and unquotes it; `None` is NULL.
fn attribute(text: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    let (mut value, mut rest, mut is_quoted) = (None::<Vec<u8>>, text, false);
    loop {
        let (byte, tail) = match rest {
            // A doubled quote is a literal one.
            [b'"', b'"', tail @ ..] if is_quoted => (b'"', tail),
            [b'"', tail @ ..] => {
                is_quoted = !is_quoted;
                value.get_or_insert_default();
                rest = tail;
                continue;
            }
            [b'\\', byte, tail @ ..] => (*byte, tail),
            [b',', ..] | [] if !is_quoted => return Some((value, rest)),
            [byte, tail @ ..] => (*byte, tail),
            [] => return None,
        };
        value.get_or_insert_default().push(byte);
        rest = tail;
    }
}

#[cfg(test)]
mod tests;
