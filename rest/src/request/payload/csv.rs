//! CSV bodies as JSON (rest.md §3.9).
//!
//! RFC 4180: lines end in LF, CRLF or CR, a field in quotes may hold anything, blank lines do not count. A byte order
//! mark, which spreadsheets write, is no part of the first column's name.

use std::io::Write;

use bytes::Bytes;

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
/// What is wrong with it, in PostgREST's words where it has some.
pub(super) fn rows(body: &[u8]) -> Result<Rows, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| "The CSV body is not UTF-8")?;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut header: Option<Vec<String>> = None;
    let mut keys: Vec<String> = Vec::new();
    let mut json = Vec::with_capacity(text.len() * 2 + 2);
    json.push(b'[');
    let mut is_empty = true;
    while !rest.is_empty() {
        let Some(record) = record(&mut rest)? else { continue };
        if header.is_none() {
            keys = record.iter().map(|name| json_text(name)).collect();
            header = Some(record);
            continue;
        }
        if record.len() != keys.len() {
            return Err("All lines must have same number of fields");
        }
        if !is_empty {
            json.push(b',');
        }
        is_empty = false;
        for (index, (key, field)) in keys.iter().zip(&record).enumerate() {
            let value = if field == "NULL" { "null".to_owned() } else { json_text(field) };
            let start = if index == 0 { '{' } else { ',' };
            // Writing to a Vec cannot fail.
            let _written = write!(json, "{start}{key}:{value}");
        }
        json.push(b'}');
    }
    json.push(b']');
    Ok(Rows { json: json.into(), header: header.unwrap_or_default(), is_empty })
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Takes one line off `rest`; a blank one is no record.
fn record(rest: &mut &str) -> Result<Option<Vec<String>>, &'static str> {
    let mut fields = Vec::new();
    loop {
        let is_quoted = rest.starts_with('"');
        fields.push(if is_quoted { quoted(rest)? } else { bare(rest)? });
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
        let is_blank = !is_quoted && fields.len() == 1 && fields.iter().all(String::is_empty);
        return Ok((!is_blank).then_some(fields));
    }
}

const MISPLACED_QUOTE: &str = "A CSV field with a quote must be quoted, and the quote doubled";

fn bare(rest: &mut &str) -> Result<String, &'static str> {
    let end = rest.find([',', '\n', '\r', '"']).unwrap_or(rest.len());
    let (field, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if after.starts_with('"') {
        return Err(MISPLACED_QUOTE);
    }
    *rest = after;
    Ok(field.to_owned())
}

fn quoted(rest: &mut &str) -> Result<String, &'static str> {
    let mut field = String::new();
    let mut inside = rest.strip_prefix('"').unwrap_or(rest);
    loop {
        let (text, after) = inside.split_once('"').ok_or("A quoted CSV field has no end")?;
        field.push_str(text);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
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

    fn json(csv: &str) -> Result<String, &'static str> {
        rows(csv.as_bytes()).map(|rows| String::from_utf8(rows.json.to_vec()).unwrap())
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
            assert_eq!(json(ragged), Err("All lines must have same number of fields"), "{ragged:?}");
        }
        for misplaced in ["a\nx\"y\"", "a\n\"x\"y", "a\n\"x\" ", "a\n \"x\""] {
            assert_eq!(json(misplaced), Err(MISPLACED_QUOTE), "{misplaced:?}");
        }
        assert_eq!(json("a\n\"x"), Err("A quoted CSV field has no end"));
        assert_eq!(rows(b"a\n\xff"), Err("The CSV body is not UTF-8"));
    }
}
