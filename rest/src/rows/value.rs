//! Serialisation of single values.

use std::borrow::Cow;

use super::types::{Form, Scalar};

/// Appends a value as JSON; `None` if its text does not match the type.
pub(super) fn push(json: &mut Vec<u8>, form: Form, text: &[u8]) -> Option<()> {
    match form {
        Form::One(scalar) => push_scalar(json, scalar, text),
        Form::Many(scalar) => push_array(json, scalar, text),
    }
}

fn push_scalar(json: &mut Vec<u8>, scalar: Scalar, text: &[u8]) -> Option<()> {
    match scalar {
        Scalar::Boolean => json.extend_from_slice(match text {
            b"t" => b"true",
            b"f" => b"false",
            _ => return None,
        }),
        Scalar::Number if is_number(text) => json.extend_from_slice(text),
        Scalar::Json => json.extend_from_slice(text),
        Scalar::Date => {
            iso_date(text)?;
            push_string(json, text);
        }
        Scalar::Timestamp => push_timestamp(json, text)?,
        Scalar::Number | Scalar::Text => push_string(json, text),
    }
    Some(())
}

/// Appends a string, escaped like PostgreSQL's `escape_json`.
pub(super) fn push_string(json: &mut Vec<u8>, text: &[u8]) {
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

/// Whether text is a JSON number; PostgreSQL prints no leading `+`, zeros or bare dots.
fn is_number(text: &[u8]) -> bool {
    text.strip_prefix(b"-").unwrap_or(text).first().is_some_and(u8::is_ascii_digit)
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
fn push_array(json: &mut Vec<u8>, scalar: Scalar, text: &[u8]) -> Option<()> {
    // Bounds precede the elements if indexes do not start at one.
    let mut rest = match text.first()? {
        b'[' => text.get(text.iter().position(|byte| *byte == b'=')? + 1..)?,
        _ => text,
    };
    let mut depth = 0_usize;
    while let [byte, tail @ ..] = rest {
        match byte {
            b'{' => {
                depth += 1;
                json.push(b'[');
                rest = tail;
            }
            b'}' => {
                depth = depth.checked_sub(1)?;
                json.push(b']');
                rest = tail;
            }
            b',' => {
                json.push(b',');
                rest = tail;
            }
            b'"' => {
                let (element, behind) = quoted(tail)?;
                push_scalar(json, scalar, &element)?;
                rest = behind;
            }
            _ => {
                let end = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
                let (element, behind) = rest.split_at_checked(end)?;
                match element {
                    b"NULL" => json.extend_from_slice(b"null"),
                    element => push_scalar(json, scalar, element)?,
                }
                rest = behind;
            }
        }
    }
    (depth == 0).then_some(())
}

/// Splits off an element at its closing quote, and removes the backslash escapes.
fn quoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', text)?;
    let (plain, rest) = text.split_at_checked(end)?;
    if let [b'"', behind @ ..] = rest {
        return Some((Cow::Borrowed(plain), behind));
    }
    let mut element = plain.to_vec();
    let mut rest = rest;
    loop {
        match rest {
            [b'"', behind @ ..] => return Some((Cow::Owned(element), behind)),
            [b'\\', byte, behind @ ..] | [byte, behind @ ..] => {
                element.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn to_json(form: Form, text: &str) -> Option<String> {
        let mut json = Vec::new();
        push(&mut json, form, text.as_bytes())?;
        Some(String::from_utf8(json).unwrap())
    }

    fn one(scalar: Scalar, text: &str) -> Option<String> {
        to_json(Form::One(scalar), text)
    }

    #[test]
    fn values_are_serialised_by_type() {
        assert_eq!(one(Scalar::Boolean, "t").unwrap(), "true");
        assert_eq!(one(Scalar::Number, "-1.5e-07").unwrap(), "-1.5e-07");
        assert_eq!(one(Scalar::Number, "-Infinity").unwrap(), "\"-Infinity\"");
        assert_eq!(one(Scalar::Json, "{\"a\": 1}").unwrap(), "{\"a\": 1}");
        assert_eq!(one(Scalar::Date, "0044-03-15 BC").unwrap(), "\"0044-03-15 BC\"");
        assert_eq!(one(Scalar::Text, "a\"\\\n\u{1f}é").unwrap(), "\"a\\\"\\\\\\n\\u001fé\"");
    }

    #[test]
    fn timestamps_become_iso_8601() {
        for (text, json) in [
            ("2026-01-02 03:04:05", "2026-01-02T03:04:05"),
            ("2026-01-02 03:04:05.6+00", "2026-01-02T03:04:05.6+00:00"),
            ("2026-01-02 03:04:05-03:30", "2026-01-02T03:04:05-03:30"),
            ("1850-01-02 03:04:05-07:52:58", "1850-01-02T03:04:05-07:52:58"),
            ("12026-01-02 03:04:05+01 BC", "12026-01-02T03:04:05+01:00 BC"),
            ("-infinity", "-infinity"),
        ] {
            assert_eq!(one(Scalar::Timestamp, text).unwrap(), format!("\"{json}\""));
        }
    }

    #[test]
    fn other_date_styles_are_rejected() {
        for text in [
            "12/17/1997",
            "17-12-1997",
            "17.12.1997",
            "Wed Dec 17 07:37:16 1997 PST",
            "17.12.1997 07:37:16 PST",
        ] {
            assert_eq!(one(Scalar::Date, text), None, "{text}");
            assert_eq!(one(Scalar::Timestamp, text), None, "{text}");
        }
    }

    #[test]
    fn arrays_of_any_dimension_are_serialised() {
        let text = |text| to_json(Form::Many(Scalar::Text), text);
        assert_eq!(text("{}").unwrap(), "[]");
        assert_eq!(text(r#"{a,NULL,"NULL","","b \"c\\d"}"#).unwrap(), r#"["a",null,"NULL","","b \"c\\d"]"#);
        assert_eq!(text("[0:1][2:2]={{a},{b}}").unwrap(), r#"[["a"],["b"]]"#);
        assert_eq!(to_json(Form::Many(Scalar::Boolean), "{t,f}").unwrap(), "[true,false]");
        for broken in ["", "{", "{a", "}", "{\"a", "{\"a\\", "[0:1]{a}"] {
            assert_eq!(text(broken), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn strings_are_valid_json(text in "[\\x01-\\x7f\"\\\\é😀]{0,40}") {
            let json = one(Scalar::Text, &text).unwrap();
            let read: String = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read, text);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut json = Vec::new();
            for scalar in [Scalar::Boolean, Scalar::Number, Scalar::Date, Scalar::Timestamp, Scalar::Text] {
                let _any = push(&mut json, Form::One(scalar), &text);
                let _any = push(&mut json, Form::Many(scalar), &text);
            }
        }
    }
}
