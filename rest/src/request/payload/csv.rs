//! Converts CSV bodies to JSON (rest.md §3.9).
//!
//! Follows RFC 4180: lines end in LF, CRLF or CR, quoted fields may contain anything, and blank lines are ignored. A
//! byte order mark, which spreadsheets write, is not part of the first column's name.

use std::borrow::Cow;

use bytes::Bytes;

use super::{DecodeBudget, MAX_KEYS};

/// Reason why a CSV body was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// The text is malformed; worded as in PostgREST where it has an equivalent.
    Malformed(&'static str),
    /// The rows as JSON, which repeats the column names, exceed the limit.
    TooLarge,
    /// Not enough memory is available for the JSON.
    OutOfMemory,
}

/// Memory is reserved in steps of this size.
const STEP_BYTES: usize = 256 * 1024;

impl From<&'static str> for Error {
    fn from(message: &'static str) -> Self {
        Self::Malformed(message)
    }
}

/// The rows as JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// An array of objects.
    pub(super) json: Bytes,
    /// Column names in the order of the header line.
    pub(super) header: Vec<String>,
    /// Whether there are no rows.
    pub(super) is_empty: bool,
}

/// Converts a header line of columns followed by one line per row; the text `NULL` becomes null.
///
/// # Errors
/// The text is malformed, or the JSON exceeds a limit.
pub(super) fn rows(body: &[u8], budget: &DecodeBudget<'_>) -> Result<Rows, Error> {
    let text = std::str::from_utf8(body).map_err(|_| "The CSV body is not UTF-8")?;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut header: Option<Vec<String>> = None;
    // Keys with the punctuation of a row: `{"a":`, `,"b":`.
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut fields = Vec::new();
    let (mut json, mut granted) = (Vec::new(), 0);
    json.push(b'[');
    let mut is_empty = true;
    while !rest.is_empty() {
        if !record(&mut rest, &mut fields)? {
            continue;
        }
        if header.is_none() {
            if fields.len() > MAX_KEYS {
                return Err(Error::Malformed("The CSV header has more columns than a table can have"));
            }
            keys = fields.iter().enumerate().map(|(index, name)| key(index, name)).collect();
            header = Some(fields.drain(..).map(Cow::into_owned).collect());
            continue;
        }
        if fields.len() != keys.len() {
            return Err(Error::Malformed("All lines must have same number of fields"));
        }
        if !is_empty {
            json.push(b',');
        }
        is_empty = false;
        for (key, field) in keys.iter().zip(&fields) {
            json.extend_from_slice(key);
            match field.as_ref() {
                "NULL" => json.extend_from_slice(b"null"),
                text => push_text(&mut json, text),
            }
        }
        json.push(b'}');
        if json.len() > budget.max_bytes {
            return Err(Error::TooLarge);
        }
        while json.len() > granted {
            if budget.lease.is_some_and(|lease| !lease.grow(STEP_BYTES)) {
                return Err(Error::OutOfMemory);
            }
            granted += STEP_BYTES;
        }
    }
    json.push(b']');
    Ok(Rows { json: json.into(), header: header.unwrap_or_default(), is_empty })
}

/// A quoted column name with its surrounding punctuation.
fn key(index: usize, name: &str) -> Vec<u8> {
    let mut key = vec![if index == 0 { b'{' } else { b',' }];
    push_text(&mut key, name);
    key.push(b':');
    key
}

fn push_text(json: &mut Vec<u8>, text: &str) {
    // Serialising a string to memory cannot fail.
    let _written = serde_json::to_writer(json, text);
}

/// Parses one line of `rest` into `fields`; false for a blank line, which is not a record.
fn record<'a>(rest: &mut &'a str, fields: &mut Vec<Cow<'a, str>>) -> Result<bool, &'static str> {
    fields.clear();
    loop {
        let is_quoted = rest.starts_with('"');
        fields.push(if is_quoted { quoted(rest)? } else { bare(rest)?.into() });
        if let Some(after) = rest.strip_prefix(',') {
            *rest = after;
            continue;
        }
        let end = ["\r\n", "\n", "\r"].into_iter().find_map(|end| rest.strip_prefix(end));
        match end {
            Some(after) => *rest = after,
            None if rest.is_empty() => {}
            None => return Err(MISPLACED_QUOTE),
        }
        return Ok(is_quoted || fields.len() > 1 || fields.iter().any(|field| !field.is_empty()));
    }
}

const MISPLACED_QUOTE: &str = "A CSV field with a quote must be quoted, and the quote doubled";

fn bare<'a>(rest: &mut &'a str) -> Result<&'a str, &'static str> {
    let is_end = |byte| matches!(byte, b',' | b'\n' | b'\r' | b'"');
    let end = rest.bytes().position(is_end).unwrap_or(rest.len());
    let (field, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if after.starts_with('"') {
        return Err(MISPLACED_QUOTE);
    }
    *rest = after;
    Ok(field)
}

/// Parses a quoted field; copies it only if it contains escaped quotes.
fn quoted<'a>(rest: &mut &'a str) -> Result<Cow<'a, str>, &'static str> {
    let mut field = Cow::Borrowed("");
    let mut inside = rest.strip_prefix('"').unwrap_or(rest);
    loop {
        let (text, after) = inside.split_once('"').ok_or("A quoted CSV field has no end")?;
        field += text;
        match after.strip_prefix('"') {
            Some(more) => {
                field.to_mut().push('"');
                inside = more;
            }
            None => {
                *rest = after;
                return Ok(field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: DecodeBudget<'_> = DecodeBudget { max_bytes: 1000, lease: None };

    fn json(csv: &str) -> Result<String, Error> {
        rows(csv.as_bytes(), &BUDGET).map(|rows| String::from_utf8(rows.json.to_vec()).unwrap())
    }

    #[test]
    fn unquoted_null_becomes_null() {
        assert_eq!(
            json("a,b\r\n1,\"x,\"\"y\"\"\nz\"\nNULL,\n").unwrap(),
            r#"[{"a":"1","b":"x,\"y\"\nz"},{"a":null,"b":""}]"#
        );
        assert_eq!(
            json("a\n\"NULL\"\nnull\n NULL \n").unwrap(),
            r#"[{"a":null},{"a":"null"},{"a":" NULL "}]"#
        );
        assert_eq!(json("\u{feff}a,é\n日,b").unwrap(), r#"[{"a":"日","é":"b"}]"#);
    }

    #[test]
    fn accepts_any_line_ending_and_blank_lines() {
        let two = r#"[{"a":"1"},{"a":"2"}]"#;
        for csv in ["a\n1\n2", "a\r\n1\r\n2\r\n", "a\r1\r2\r", "\n\na\n\n1\n\r\n2\n\n"] {
            assert_eq!(json(csv).unwrap(), two, "{csv:?}");
        }
        // A quoted empty field is a row, unlike a blank line.
        assert_eq!(json("a\n\"\"\n").unwrap(), r#"[{"a":""}]"#);
        for empty in ["", "a,b", "a,b\n"] {
            assert_eq!(json(empty).unwrap(), "[]", "{empty:?}");
        }
    }

    #[test]
    fn rejects_ambiguous_input() {
        for ragged in ["a,b\n1", "a,b\n1,2,3", "a\n1\n,", "a,b\n1,2\n3"] {
            assert_eq!(
                json(ragged),
                Err(Error::Malformed("All lines must have same number of fields")),
                "{ragged:?}"
            );
        }
        for misplaced in ["a\nx\"y\"", "a\n\"x\"y", "a\n\"x\" ", "a\n \"x\""] {
            assert_eq!(json(misplaced), Err(Error::Malformed(MISPLACED_QUOTE)), "{misplaced:?}");
        }
        assert_eq!(json("a\n\"x"), Err(Error::Malformed("A quoted CSV field has no end")));
        assert_eq!(rows(b"a\n\xff", &BUDGET), Err(Error::Malformed("The CSV body is not UTF-8")));
    }

    #[test]
    fn json_size_is_limited() {
        let csv = format!("{}\n{}", "a".repeat(100), "b\n".repeat(9));
        assert!(json(&csv).is_ok_and(|json| json.len() < 1000));
        assert_eq!(json(&format!("{csv}b\n")), Err(Error::TooLarge));
        // The limit is exceeded by at most one row.
        let one = format!("{}\nb", "a".repeat(2000));
        assert_eq!(json(&one), Err(Error::TooLarge));
        let wide = "a,".repeat(MAX_KEYS);
        assert!(matches!(json(&wide), Err(Error::Malformed(_))), "one column above the limit");
        assert!(json(wide.trim_end_matches(',')).is_ok());
    }
}
