//! Trees of filters: `and=(…)` and `or=(…)` (rest.md §3.4).

use std::fmt;

use super::cursor::FIELD_NAME;
use super::filter::{Filter, ValueEnd, test};
use super::{Cursor, Parameter, ParseError, Parsed, write_joined};

/// Several conditions joined by one connective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicTree {
    /// Whether `not.` precedes the connective.
    pub negated: bool,
    /// `and` or `or`.
    pub connective: Connective,
    /// Joined conditions; at least one.
    pub nodes: Vec<LogicNode>,
}

/// Logical connective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connective {
    /// All conditions must hold.
    And,
    /// At least one condition must hold.
    Or,
}

impl Connective {
    /// Keyword in the URL grammar.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
        }
    }

    /// SQL operator, with surrounding blanks.
    #[must_use]
    pub const fn as_sql(self) -> &'static str {
        match self {
            Self::And => " AND ",
            Self::Or => " OR ",
        }
    }
}

/// A node of a logic tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogicNode {
    /// A leaf.
    Filter(Filter),
    /// A nested tree.
    Tree(LogicTree),
}

/// Maximum nesting, so that no request can exhaust the stack.
const MAX_DEPTH: usize = 60;

/// Description of what a node may start with.
const NODE: &str = "field name (* or [a..z0..9_$]), negation operator (not) or logic operator (and, or)";

/// Parses the value of an `and` or `or` parameter.
///
/// ```
/// use basalt_rest::parse::logic::{Connective, parse};
/// let tree = parse(false, Connective::Or, r#"(a.eq."x,y",tags.cs.{x,y},not.and(b.gt.1,c.is.null))"#).unwrap();
/// assert_eq!(tree.nodes.len(), 3);
/// assert!(parse(false, Connective::Or, "()").is_err());
/// ```
///
/// # Errors
/// Malformed text (PGRST100).
pub fn parse(negated: bool, connective: Connective, text: &str) -> Result<LogicTree, ParseError> {
    let nodes = Cursor::parse_all(Parameter::LogicTree, text, |cursor| {
        cursor.skip_blanks();
        let nodes = nodes(cursor, 0)?;
        cursor.skip_blanks();
        Ok(nodes)
    })?;
    Ok(LogicTree { negated, connective, nodes })
}

fn nodes(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Vec<LogicNode>> {
    if depth > MAX_DEPTH {
        return cursor.fail("fewer levels of logic");
    }
    cursor.expect("(", "\"(\"")?;
    let mut nodes = Vec::new();
    loop {
        cursor.skip_blanks();
        nodes.push(node(cursor, depth)?);
        cursor.skip_blanks();
        if !cursor.eat(",") {
            break;
        }
    }
    cursor.expect(")", "\",\" or \")\"")?;
    Ok(nodes)
}

fn node(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<LogicNode> {
    let mut ahead = *cursor;
    match filter(&mut ahead) {
        Ok(filter) => {
            *cursor = ahead;
            Ok(LogicNode::Filter(filter))
        }
        // A node that starts like a branch gets the error of the branch.
        Err(failure) => match branch(cursor)? {
            Some((negated, connective)) => {
                Ok(LogicNode::Tree(LogicTree { negated, connective, nodes: nodes(cursor, depth + 1)? }))
            }
            None if failure.expecting == FIELD_NAME && failure.at == cursor.at => cursor.fail(NODE),
            None => Err(failure),
        },
    }
}

fn filter(cursor: &mut Cursor<'_>) -> Parsed<Filter> {
    let field = cursor.field()?;
    if !cursor.eat(".") {
        return cursor.fail_after_word("delimiter (.)");
    }
    Ok(Filter { field, test: test(cursor, ValueEnd::LogicNode)? })
}

/// Parses `[ "not." ] ( "and" | "or" )`; `None` if neither is present.
fn branch(cursor: &mut Cursor<'_>) -> Parsed<Option<(bool, Connective)>> {
    let negated = cursor.eat("not.");
    let connective = if cursor.eat("and") {
        Connective::And
    } else if cursor.eat("or") {
        Connective::Or
    } else if negated {
        return cursor.fail("logic operator (and, or)");
    } else {
        return Ok(None);
    };
    cursor.skip_blanks();
    Ok(Some((negated, connective)))
}

impl fmt::Display for LogicTree {
    /// Formats the tree as a nested node: `not.and(…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("not.")?;
        }
        write!(f, "{}(", self.connective.word())?;
        write_joined(f, &self.nodes, ",")?;
        f.write_str(")")
    }
}

impl fmt::Display for LogicNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter(filter) => filter.fmt(f),
            Self::Tree(tree) => tree.fmt(f),
        }
    }
}
