//! The value of a filter, `[not.]OP.VALUE` (rest.md §3.4).
//!
//! The same operators occur at the top level, where an operand extends to the end of the parameter and is taken
//! verbatim, and inside `and=(…)`/`or=(…)`, where it ends at a comma or parenthesis and may be quoted: `ValueEnd`.

mod operator;

use std::fmt;

use super::{Cursor, Failure, Field, Parameter, ParseError, Parsed, write_quoted};
pub use operator::{IsValue, Operator, Quantifier, TextSearch};

/// A filter on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Field to compare.
    pub field: Field,
    /// Comparison.
    pub test: Test,
}

/// A comparison, `[not.]OP.VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Whether `not.` precedes the operator. It is rendered as `NOT column OP value`, so nulls match neither form.
    pub negated: bool,
    /// Operator and operand.
    pub operation: Operation,
}

/// Operator and operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A binary operator; `neq`, containment and range operators accept no quantifier.
    Compare {
        /// Operator.
        operator: Operator,
        /// `(any)` or `(all)`; the operand is then an array literal.
        quantifier: Option<Quantifier>,
        /// Operand as written.
        value: String,
    },
    /// `in.(a,b)`.
    In(Vec<String>),
    /// `is.null`, `is.true` and so on.
    Is(IsValue),
    /// `isdistinct.value`.
    IsDistinct(String),
    /// Full-text search.
    TextSearch {
        /// Query syntax.
        operator: TextSearch,
        /// Text search configuration.
        config: Option<String>,
        /// Search query.
        query: String,
    },
}

/// Where an operand ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueEnd {
    /// At the end of the parameter; taken verbatim.
    Parameter,
    /// Before `,` or `)`; may be quoted or in braces.
    LogicNode,
}

/// Parses the value of a top-level filter.
///
/// ```
/// use basalt_rest::parse::filter::parse;
/// assert!(parse("not.in.(1,\"a,b\")").is_ok());
/// assert!(parse("like(any).{O*,P*}").is_ok());
/// let error = parse("noop.0").unwrap_err();
/// assert_eq!(error.message(), r#""failed to parse filter (noop.0)" (line 1, column 1)"#);
/// assert_eq!(error.details(), r#"unexpected "o" expecting "not" or operator (eq, gt, ...)"#);
/// ```
///
/// # Errors
/// Unknown operator, unsupported quantifier, or invalid operand (PGRST100).
pub fn parse(text: &str) -> Result<Test, ParseError> {
    Cursor::parse_all(Parameter::Filter, text, |cursor| test(cursor, ValueEnd::Parameter))
}

pub(crate) fn test(cursor: &mut Cursor<'_>, end: ValueEnd) -> Parsed<Test> {
    let start = *cursor;
    let negated = cursor.eat("not.");
    let operation = operation(cursor, end).map_err(|failure| {
        // No operator starts like `not`, so the error is the character that replaces part of it or of the dot after
        // it.
        let matched = start.at + common_prefix_length(start.rest(), "not", u8::eq);
        match (negated, matched - start.at) {
            (false, 3) => Failure { at: matched, found: matched, expecting: "delimiter (.)", ..failure },
            (false, _) if failure.at == start.at => Failure { found: matched, ..failure },
            (true | false, _) => failure,
        }
    })?;
    Ok(Test { negated, operation })
}

/// Length of the longest common prefix of a text and an ASCII word, with bytes compared by `same`.
pub(super) fn common_prefix_length(text: &str, word: &str, same: fn(&u8, &u8) -> bool) -> usize {
    text.bytes().zip(word.bytes()).take_while(|(a, b)| same(a, b)).count()
}

/// The kinds of operators.
#[derive(Debug, Clone, Copy)]
enum OperatorKind {
    Compare(Operator),
    TextSearch(TextSearch),
    In,
    Is,
    IsDistinct,
}

/// The longest operator that is a prefix of `text`. A shorter one cannot be meant, because a letter follows it.
fn operator_kind(text: &str) -> Option<(&'static str, OperatorKind)> {
    let compare =
        Operator::ALL.into_iter().map(|operator| (operator.word(), OperatorKind::Compare(operator)));
    let search =
        TextSearch::ALL.into_iter().map(|operator| (operator.word(), OperatorKind::TextSearch(operator)));
    let others =
        [("in", OperatorKind::In), ("is", OperatorKind::Is), ("isdistinct", OperatorKind::IsDistinct)];
    compare
        .chain(search)
        .chain(others)
        .filter(|(word, _)| text.starts_with(word))
        .max_by_key(|(word, _)| word.len())
}

const OPERATOR: &str = "operator (eq, gt, ...)";

fn operation(cursor: &mut Cursor<'_>, end: ValueEnd) -> Parsed<Operation> {
    let Some((word, kind)) = operator_kind(cursor.rest()) else {
        return cursor.fail("\"not\" or operator (eq, gt, ...)");
    };
    cursor.eat(word);
    match kind {
        OperatorKind::Compare(operator) => {
            let quantifier = if operator.is_quantifiable() { quantifier(cursor)? } else { None };
            dot(cursor)?;
            Ok(Operation::Compare { operator, quantifier, value: value(cursor, end)? })
        }
        OperatorKind::TextSearch(operator) => {
            let config = if cursor.eat("(") {
                let config = cursor.ident(OPERATOR)?;
                cursor.expect(")", OPERATOR)?;
                Some(config)
            } else {
                None
            };
            dot(cursor)?;
            Ok(Operation::TextSearch { operator, config, query: value(cursor, end)? })
        }
        OperatorKind::In => {
            dot(cursor)?;
            Ok(Operation::In(list(cursor)?))
        }
        OperatorKind::Is => {
            dot(cursor)?;
            Ok(Operation::Is(is_value(cursor)?))
        }
        OperatorKind::IsDistinct => {
            dot(cursor)?;
            Ok(Operation::IsDistinct(value(cursor, end)?))
        }
    }
}

/// Consumes the dot between operator and operand.
fn dot(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.eat(".") { Ok(()) } else { cursor.fail(OPERATOR) }
}

fn quantifier(cursor: &mut Cursor<'_>) -> Parsed<Option<Quantifier>> {
    if !cursor.eat("(") {
        return Ok(None);
    }
    let quantifier = if cursor.eat("any") {
        Quantifier::Any
    } else if cursor.eat("all") {
        Quantifier::All
    } else {
        return cursor.fail(OPERATOR);
    };
    if cursor.eat(")") { Ok(Some(quantifier)) } else { cursor.fail(OPERATOR) }
}

fn is_value(cursor: &mut Cursor<'_>) -> Parsed<IsValue> {
    let matched =
        |value: IsValue| common_prefix_length(cursor.rest(), value.word(), u8::eq_ignore_ascii_case);
    let known = IsValue::ALL.into_iter().map(|value| (value, matched(value)));
    let (value, matched) = known.max_by_key(|(_, matched)| *matched).unwrap_or((IsValue::Null, 0));
    cursor.at += matched;
    if matched == value.word().len() {
        Ok(value)
    } else {
        cursor.fail("isVal: (null, not_null, true, false, unknown)")
    }
}

fn value(cursor: &mut Cursor<'_>, end: ValueEnd) -> Parsed<String> {
    match end {
        ValueEnd::Parameter => Ok(cursor.take_while(|_| true).to_owned()),
        ValueEnd::LogicNode => {
            if let Some(quoted) = quoted_before(cursor) {
                return Ok(quoted);
            }
            let mut braced = *cursor;
            if braced.eat("{") {
                let inside = braced.take_while(|c| !matches!(c, '{' | '}'));
                if braced.eat("}") {
                    *cursor = braced;
                    return Ok(format!("{{{inside}}}"));
                }
            }
            Ok(cursor.take_while(|c| !matches!(c, ',' | ')')).to_owned())
        }
    }
}

/// Parses a quoted value if `,` or `)` follows its closing quote; other quotes are part of the value.
fn quoted_before(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    let value = ahead.quoted().ok()?;
    matches!(ahead.peek(), Some(',' | ')')).then(|| {
        *cursor = ahead;
        value
    })
}

/// Parses `(` elements `)`; blanks around the list are allowed.
fn list(cursor: &mut Cursor<'_>) -> Parsed<Vec<String>> {
    cursor.skip_blanks();
    cursor.expect("(", "\"(\"")?;
    // Blanks after a comma belong to the element; those after the parenthesis are skipped.
    cursor.skip_blanks();
    let mut elements = Vec::new();
    loop {
        elements.push(match quoted_before(cursor) {
            Some(quoted) => quoted,
            None => cursor.take_while(|c| !matches!(c, ',' | ')')).to_owned(),
        });
        if !cursor.eat(",") {
            break;
        }
    }
    cursor.expect(")", "\",\" or \")\"")?;
    cursor.skip_blanks();
    // `in.()` and `in.("")` both mean the empty list.
    if elements == [""] {
        elements.clear();
    }
    Ok(elements)
}

impl Test {
    fn write(&self, f: &mut fmt::Formatter<'_>, quote: bool) -> fmt::Result {
        let value = |f: &mut fmt::Formatter<'_>, text: &str| {
            if quote { write_quoted(f, text) } else { f.write_str(text) }
        };
        if self.negated {
            f.write_str("not.")?;
        }
        match &self.operation {
            Operation::Compare { operator, quantifier, value: text } => {
                f.write_str(operator.word())?;
                if let Some(quantifier) = quantifier {
                    write!(f, "({})", quantifier.word())?;
                }
                f.write_str(".")?;
                value(f, text)
            }
            Operation::In(elements) => {
                f.write_str("in.(")?;
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    write_quoted(f, element)?;
                }
                f.write_str(")")
            }
            Operation::Is(is) => write!(f, "is.{}", is.word()),
            Operation::IsDistinct(text) => {
                f.write_str("isdistinct.")?;
                value(f, text)
            }
            Operation::TextSearch { operator, config, query } => {
                f.write_str(operator.word())?;
                if let Some(config) = config {
                    write!(f, "({config})")?;
                }
                f.write_str(".")?;
                value(f, query)
            }
        }
    }
}

impl fmt::Display for Test {
    /// Formats the test as the value of a top-level parameter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl fmt::Display for Filter {
    /// Formats the filter as a node of a logic tree, with quoted values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.field)?;
        self.test.write(f, true)
    }
}
