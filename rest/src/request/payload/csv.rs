//! CSV bodies as JSON (rest.md §3.9).
//!
//! RFC 4180: lines end in LF, CRLF or CR, a field in quotes may hold anything, blank lines do not count. A byte order
//! mark, which spreadsheets write, is no part of the first column's name.

use std::borrow::Cow;

use bytes::Bytes;

use super::{MOST_KEYS, Room};

/// Why there are no rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// In PostgREST's words where it has some.
    Form(&'static str),
    /// The rows are too long as JSON, which repeats the columns' names in each.
    TooLong,
    /// There is no memory for the JSON now.
    NoRoom,
}

/// Room is made for so many bytes at a time.
const STEP_BYTES: usize = 256 * 1024;

impl From<&'static str> for Wrong {
    fn from(what: &'static str) -> Self {
        Self::Form(what)
    }
}

/// Rows in JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// An array of objects.
    pub(super) json: Bytes,
    /// The columns of the header line, as they stand there.
    pub(super) header: Vec<String>,
    /// There are none.
    pub(super) is_empty: bool,
}

/// Reads a header line of columns and then one line per row; the text `NULL` is null.
///
/// # Errors
/// What is wrong with it, or that the JSON finds no room.
pub(super) fn rows(body: &[u8], room: &Room<'_>) -> Result<Rows, Wrong> {
    let text = std::str::from_utf8(body).map_err(|_| "The CSV body is not UTF-8")?;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut header: Option<Vec<String>> = None;
    // As they stand in each row: `{"a":`, `,"b":`.
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
            if fields.len() > MOST_KEYS {
                return Err(Wrong::Form("The CSV header has more columns than a table can have"));
            }
            keys = fields.iter().enumerate().map(|(index, name)| key(index, name)).collect();
            header = Some(fields.drain(..).map(Cow::into_owned).collect());
            continue;
        }
        if fields.len() != keys.len() {
            return Err(Wrong::Form("All lines must have same number of fields"));
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
        if json.len() > room.most {
            return Err(Wrong::TooLong);
        }
        while json.len() > granted {
            if room.hold.is_some_and(|hold| !hold.grow(STEP_BYTES)) {
                return Err(Wrong::NoRoom);
            }
            granted += STEP_BYTES;
        }
    }
    json.push(b']');
    Ok(Rows { json: json.into(), header: header.unwrap_or_default(), is_empty })
}

/// The name of a column, with what stands before and behind it in a row.
fn key(index: usize, name: &str) -> Vec<u8> {
    let mut key = vec![if index == 0 { b'{' } else { b',' }];
    push_text(&mut key, name);
    key.push(b':');
    key
}

fn push_text(json: &mut Vec<u8>, text: &str) {
    // Text into memory: neither can fail.
    let _written = serde_json::to_writer(json, text);
}

/// Takes one line off `rest` into `fields`; false for a blank one, which is no record.
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

/// A field without its quotes; a copy only where some are in it.
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

    const ROOM: Room<'_> = Room { most: 1000, hold: None };

    fn json(csv: &str) -> Result<String, Wrong> {
        rows(csv.as_bytes(), &ROOM).map(|rows| String::from_utf8(rows.json.to_vec()).unwrap())
    }

    #[test]
    fn fields_are_text_and_null_is_null() {
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
    fn lines_end_in_any_way_and_blank_ones_do_not_count() {
        let two = r#"[{"a":"1"},{"a":"2"}]"#;
        for csv in ["a\n1\n2", "a\r\n1\r\n2\r\n", "a\r1\r2\r", "\n\na\n\n1\n\r\n2\n\n"] {
            assert_eq!(json(csv).unwrap(), two, "{csv:?}");
        }
        // An empty text in quotes is a row, unlike a blank line.
        assert_eq!(json("a\n\"\"\n").unwrap(), r#"[{"a":""}]"#);
        for empty in ["", "a,b", "a,b\n"] {
            assert_eq!(json(empty).unwrap(), "[]", "{empty:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_in_one_way_is_refused() {
        for ragged in ["a,b\n1", "a,b\n1,2,3", "a\n1\n,", "a,b\n1,2\n3"] {
            assert_eq!(
                json(ragged),
                Err(Wrong::Form("All lines must have same number of fields")),
                "{ragged:?}"
            );
        }
        for misplaced in ["a\nx\"y\"", "a\n\"x\"y", "a\n\"x\" ", "a\n \"x\""] {
            assert_eq!(json(misplaced), Err(Wrong::Form(MISPLACED_QUOTE)), "{misplaced:?}");
        }
        assert_eq!(json("a\n\"x"), Err(Wrong::Form("A quoted CSV field has no end")));
        assert_eq!(rows(b"a\n\xff", &ROOM), Err(Wrong::Form("The CSV body is not UTF-8")));
    }

    #[test]
    fn long_names_and_many_rows_make_no_endless_json() {
        let csv = format!("{}\n{}", "a".repeat(100), "b\n".repeat(9));
        assert!(json(&csv).is_ok_and(|json| json.len() < 1000));
        assert_eq!(json(&format!("{csv}b\n")), Err(Wrong::TooLong));
        // A row too much is one row of bytes too many, and no more.
        let one = format!("{}\nb", "a".repeat(2000));
        assert_eq!(json(&one), Err(Wrong::TooLong));
        let wide = "a,".repeat(MOST_KEYS);
        assert!(matches!(json(&wide), Err(Wrong::Form(_))), "one more than there may be");
        assert!(json(wide.trim_end_matches(',')).is_ok());
    }
}
