//! The `order` parameter (rest.md §3.5).

use std::fmt;

use super::cursor::Failure;
use super::filter::common_prefix_length;
use super::{Cursor, Field, Name, Parameter, ParseError, Parsed};

/// One sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderTerm {
    /// To-one embed whose field sorts this level (`clients(name)`).
    pub relation: Option<String>,
    /// Field to sort by.
    pub field: Field,
    /// `asc` or `desc`; PostgreSQL's default if absent.
    pub direction: Option<Direction>,
    /// Position of nulls; PostgreSQL's default if absent.
    pub nulls: Option<Nulls>,
}

/// Sort direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants are named as in the URL grammar")]
pub enum Direction {
    Asc,
    Desc,
}

impl Direction {
    /// SQL keyword, with a leading blank.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::Asc => " ASC",
            Self::Desc => " DESC",
        }
    }
}

/// Position of nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "variants are named as in the URL grammar")]
pub enum Nulls {
    First,
    Last,
}

impl Nulls {
    /// SQL keywords, with a leading blank.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::First => " NULLS FIRST",
            Self::Last => " NULLS LAST",
        }
    }
}

/// Parses a list of sort keys.
///
/// ```
/// use basalt_rest::parse::order::parse;
/// assert_eq!(parse("data->>a.desc.nullslast, clients(name), id").unwrap().len(), 3);
/// let error = parse("id.sideways").unwrap_err();
/// assert_eq!(error.message(), r#""failed to parse order (id.sideways)" (line 1, column 4)"#);
/// ```
///
/// # Errors
/// Malformed text (PGRST100).
pub fn parse(text: &str) -> Result<Vec<OrderTerm>, ParseError> {
    Cursor::parse_all(Parameter::Order, text, |cursor| {
        let mut terms = Vec::new();
        loop {
            cursor.skip_blanks();
            terms.push(term(cursor)?);
            let end = *cursor;
            cursor.skip_blanks();
            if !cursor.eat(",") {
                if cursor.peek().is_some() {
                    *cursor = end;
                }
                return Ok(terms);
            }
        }
    })
}

fn term(cursor: &mut Cursor<'_>) -> Parsed<OrderTerm> {
    // What is not a related term is parsed as a plain one, so errors refer to that.
    let mut ahead = *cursor;
    if let Ok(term) = related(&mut ahead) {
        *cursor = ahead;
        return Ok(term);
    }
    let field = cursor.field()?;
    let (direction, nulls) = suffixes(cursor)?;
    let mut ahead = *cursor;
    ahead.skip_blanks();
    if !matches!(ahead.peek(), None | Some(',')) {
        let expecting =
            if nulls.is_some() { "\",\" or end of input" } else { "delimiter (.), \",\" or end of input" };
        return cursor.fail_after_word(expecting);
    }
    Ok(OrderTerm { relation: None, field, direction, nulls })
}

/// Parses `rel "(" name *jsonop ")"` with its suffixes, up to a comma or the end.
fn related(cursor: &mut Cursor<'_>) -> Parsed<OrderTerm> {
    let relation = cursor.name()?;
    cursor.expect("(", "\"(\"")?;
    cursor.skip_blanks();
    let field = cursor.field()?;
    cursor.expect(")", "\")\"")?;
    let (direction, nulls) = suffixes(cursor)?;
    let mut ahead = *cursor;
    ahead.skip_blanks();
    match ahead.peek() {
        None | Some(',') => Ok(OrderTerm { relation: Some(relation), field, direction, nulls }),
        Some(_) => ahead.fail("\",\" or end of input"),
    }
}

fn suffixes(cursor: &mut Cursor<'_>) -> Parsed<(Option<Direction>, Option<Nulls>)> {
    let direction = if cursor.eat(".asc") {
        Some(Direction::Asc)
    } else if cursor.eat(".desc") {
        Some(Direction::Desc)
    } else {
        None
    };
    let nulls = if cursor.eat(".nullsfirst") {
        Some(Nulls::First)
    } else if cursor.eat(".nullslast") {
        Some(Nulls::Last)
    } else {
        None
    };
    if nulls.is_none() && cursor.eat(".") {
        let (first, expecting) = match direction {
            Some(_) => ("nullsfirst", "\"nullsfirst\" or \"nullslast\""),
            None => ("asc", "\"asc\", \"desc\", \"nullsfirst\" or \"nullslast\""),
        };
        let found = cursor.at + common_prefix_length(cursor.rest(), first, u8::eq);
        return Err(Failure { found, ..cursor.failure(expecting) });
    }
    Ok((direction, nulls))
}

impl fmt::Display for OrderTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.relation {
            Some(relation) => write!(f, "{}({})", Name(relation), self.field)?,
            None => self.field.fmt(f)?,
        }
        match self.direction {
            Some(Direction::Asc) => f.write_str(".asc")?,
            Some(Direction::Desc) => f.write_str(".desc")?,
            None => {}
        }
        match self.nulls {
            Some(Nulls::First) => f.write_str(".nullsfirst"),
            Some(Nulls::Last) => f.write_str(".nullslast"),
            None => Ok(()),
        }
    }
}
