//! `columns=` and `on_conflict=`: lists of column names (rest.md §3.9).

use std::collections::HashSet;

use super::{Cursor, Parameter, ParseError};

/// Parses a list of names; duplicates are dropped, keeping the order of first appearance.
///
/// ```
/// use basalt_rest::parse::{Parameter, columns};
/// assert_eq!(columns::parse(Parameter::Columns, r#""a","b c",a"#).unwrap(), ["a", "b c"]);
/// assert!(columns::parse(Parameter::Columns, "").is_err());
/// ```
///
/// # Errors
/// The text is blank, or contains anything but names and commas (PGRST100).
pub fn parse(parameter: Parameter, text: &str) -> Result<Vec<String>, ParseError> {
    Cursor::parse_all(parameter, text, |cursor| {
        let mut names: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        loop {
            cursor.skip_blanks();
            let name = cursor.name()?;
            cursor.skip_blanks();
            if seen.insert(name.clone()) {
                names.push(name);
            }
            if !cursor.eat(",") {
                return Ok(names);
            }
        }
    })
}
