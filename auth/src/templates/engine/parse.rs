//! The parser. [`HtmlContext`] tracks the HTML between actions and determines each value's escaping.

use serde_json::Value;

use super::html_context::HtmlContext;
use super::{Escape, MAX_BYTES, SUPPORTED, TemplateError};

/// Maximum nesting of blocks and parentheses.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Print(Expr, Escape),
    If { condition: Expr, then: Vec<Node>, otherwise: Vec<Node> },
    Range { over: Expr, body: Vec<Node>, otherwise: Vec<Node> },
}

#[derive(Debug, Clone)]
pub(super) enum Expr {
    Literal(Value),
    /// `.a.b`, or `$.a.b` from the root. Without names, the value itself.
    Path {
        from_root: bool,
        names: Vec<String>,
    },
    Call(Function, Vec<Expr>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
    Eq,
    Ne,
    And,
    Or,
    Not,
    Index,
}

impl Function {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            "index" => Self::Index,
            _ => return None,
        })
    }
}

/// Parses `source`. `context` is the initial HTML context, `None` for plain text.
pub(super) fn parse(source: &str, context: Option<HtmlContext>) -> Result<Vec<Node>, TemplateError> {
    if source.len() > MAX_BYTES {
        return Err(TemplateError::TooLong);
    }
    let mut parser = Parser { source, rest: source, context, depth: 0 };
    let parsed = parser.block().and_then(|(nodes, end)| match end {
        BlockEnd::Source => Ok(nodes),
        BlockEnd::Else(_) | BlockEnd::Close => {
            Err("{{ end }} or {{ else }} without {{ if }} or {{ range }}".to_owned())
        }
    });
    parsed.map_err(|problem| TemplateError::Syntax { line: parser.line(), problem })
}

/// What ended a block.
enum BlockEnd {
    Source,
    /// With the rest of `else if …`; empty for a plain `else`.
    Else(String),
    Close,
}

struct Parser<'a> {
    source: &'a str,
    rest: &'a str,
    context: Option<HtmlContext>,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// The line of the last parsed action.
    fn line(&self) -> usize {
        let read = self.source.len() - self.rest.len();
        self.source.get(..read).unwrap_or_default().matches('\n').count() + 1
    }

    fn block(&mut self) -> Result<(Vec<Node>, BlockEnd), String> {
        let mut nodes = Vec::new();
        while let Some(action) = self.text_and_action(&mut nodes)? {
            let (word, words) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
            match word {
                "" => {}
                "end" => return Ok((nodes, BlockEnd::Close)),
                "else" => return Ok((nodes, BlockEnd::Else(words.trim().to_owned()))),
                "if" => nodes.push(self.condition(words)?),
                "range" => nodes.push(self.range(words)?),
                _ => {
                    let value = expression(action)?;
                    let escape = self.context.as_ref().map_or(Ok(Escape::None), HtmlContext::value)?;
                    nodes.push(Node::Print(value, escape));
                }
            }
        }
        Ok((nodes, BlockEnd::Source))
    }

    /// Parses the text up to the next action, and the action; `None` at the end of the source.
    fn text_and_action(&mut self, nodes: &mut Vec<Node>) -> Result<Option<&'a str>, String> {
        let (text, action) = match self.rest.split_once("{{") {
            Some((text, action)) => (text, Some(action)),
            None => (self.rest, None),
        };
        // `{{-` trims the white space before it, `-}}` after it.
        let trimmed = action.is_some_and(|action| {
            action.strip_prefix('-').is_some_and(|action| action.starts_with(char::is_whitespace))
        });
        let text = if trimmed { text.trim_end() } else { text };
        if !text.is_empty() {
            if let Some(context) = &mut self.context {
                context.text(text);
            }
            nodes.push(Node::Text(text.to_owned()));
        }
        let Some(action) = action else {
            self.rest = "";
            return Ok(None);
        };
        self.rest = action;
        let action = if trimmed { action.get(1..).unwrap_or_default() } else { action };
        let is_comment = action.trim_start().starts_with("/*");
        let end =
            if is_comment { action.find("*/").and_then(|at| end_of(action, at)) } else { end_of(action, 0) };
        let end = end.ok_or("{{ without }}")?;
        let (action, rest) = action.split_at(end);
        self.rest = rest.strip_prefix("}}").unwrap_or(rest);
        let action = match action.strip_suffix('-') {
            Some(action) if action.ends_with(char::is_whitespace) => {
                self.rest = self.rest.trim_start();
                action
            }
            _ => action,
        };
        match action.trim() {
            "" => Err("{{ }} is empty".to_owned()),
            _ if is_comment => Ok(Some("")),
            action => Ok(Some(action)),
        }
    }

    fn condition(&mut self, words: &str) -> Result<Node, String> {
        let condition = expression(words)?;
        let (then, otherwise) = self.branches("if")?;
        Ok(Node::If { condition, then, otherwise })
    }

    fn range(&mut self, words: &str) -> Result<Node, String> {
        let over = expression(words)?;
        let start = self.context.clone();
        let (body, otherwise) = self.branches("range")?;
        // Otherwise the second item would be in another context than the first.
        if self.context != start {
            return Err("{{ range }} must end in the HTML context in which it begins".to_owned());
        }
        Ok(Node::Range { over, body, otherwise })
    }

    /// Parses both branches of a block, which must end in the same HTML context.
    fn branches(&mut self, what: &str) -> Result<(Vec<Node>, Vec<Node>), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("blocks are nested too deep".to_owned());
        }
        let (start, begins) = (self.context.clone(), self.rest);
        let (then, end) = self.block()?;
        let after_then = std::mem::replace(&mut self.context, start);
        let otherwise = match end {
            BlockEnd::Close => Vec::new(),
            BlockEnd::Source => {
                self.rest = begins;
                return Err(format!("{{{{ {what} }}}} without {{{{ end }}}}"));
            }
            BlockEnd::Else(words) => match words.strip_prefix("if") {
                Some(words) if what == "if" => vec![self.condition(words)?],
                _ => self.otherwise(&words)?,
            },
        };
        self.depth -= 1;
        self.context = match (self.context.take(), after_then) {
            (Some(one), Some(other)) => {
                let joined = one.join(other);
                Some(joined.ok_or_else(|| {
                    format!("the branches of {{{{ {what} }}}} end in different HTML contexts")
                })?)
            }
            _ => None,
        };
        Ok((then, otherwise))
    }

    /// The branch after a plain `else`.
    fn otherwise(&mut self, words: &str) -> Result<Vec<Node>, String> {
        if !words.is_empty() {
            return Err(unsupported(&format!("else {words}")));
        }
        match self.block()? {
            (nodes, BlockEnd::Close) => Ok(nodes),
            (_, BlockEnd::Else(_)) => Err("duplicate {{ else }}".to_owned()),
            (_, BlockEnd::Source) => Err("{{ else }} without {{ end }}".to_owned()),
        }
    }
}

/// Position of `}}` after `from`, outside quotes.
fn end_of(action: &str, from: usize) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in action.char_indices().skip_while(|(at, _)| *at < from) {
        match (quote, character) {
            (Some('"'), '\\') if !is_escaped => {
                is_escaped = true;
                continue;
            }
            (Some(open), close) if open == close && !is_escaped => quote = None,
            (None, '"' | '`') => quote = Some(character),
            (None, '}') if action.get(at..).is_some_and(|rest| rest.starts_with("}}")) => return Some(at),
            _ => {}
        }
        is_escaped = false;
    }
    None
}

/// Parses all of `text` as one value.
fn expression(text: &str) -> Result<Expr, String> {
    let (expr, rest) = operands(text, 0)?;
    match rest.trim_start().chars().next() {
        None => Ok(expr),
        Some(')') => Err(") without (".to_owned()),
        Some(_) => Err(unsupported(text)),
    }
}

fn unsupported(text: &str) -> String {
    format!("{{{{ {} }}}} is not supported: {SUPPORTED}", text.trim())
}

/// Parses a function call or a value, up to `)` or the end.
fn operands(text: &str, depth: usize) -> Result<(Expr, &str), String> {
    if depth > MAX_DEPTH {
        return Err("parentheses are nested too deep".to_owned());
    }
    let text = text.trim_start();
    let name_length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, mut rest) = text.split_at(name_length);
    let Some(function) = Function::from_name(name) else { return operand(text, depth) };
    let mut arguments = Vec::new();
    while !rest.trim_start().is_empty() && !rest.trim_start().starts_with(')') {
        let (argument, after) = operand(rest, depth)?;
        arguments.push(argument);
        rest = after;
    }
    let least = if matches!(function, Function::Eq | Function::Ne | Function::Index) { 2 } else { 1 };
    if arguments.len() < least {
        return Err(format!("{name} needs at least {least} values"));
    }
    Ok((Expr::Call(function, arguments), rest))
}

fn operand(text: &str, depth: usize) -> Result<(Expr, &str), String> {
    let text = text.trim_start();
    let first = text.chars().next();
    if let Some(inner) = text.strip_prefix('(') {
        let (inner, rest) = operands(inner, depth + 1)?;
        let rest = rest.trim_start().strip_prefix(')').ok_or("( without )")?;
        return Ok((inner, rest));
    }
    if let Some(quote @ ('"' | '`')) = first {
        let length = quoted_length(text, quote).ok_or("unterminated string")?;
        let (literal, rest) = text.split_at(length);
        let text = match quote {
            '"' => serde_json::from_str(literal).map_err(|error| format!("{literal}: {error}"))?,
            _ => literal.trim_matches('`').to_owned(),
        };
        return Ok((Expr::Literal(Value::String(text)), rest));
    }
    let length = text.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')')).unwrap_or(text.len());
    let (word, rest) = text.split_at(length);
    let (from_root, path) = match word.strip_prefix('$') {
        Some(path) => (true, path),
        None => (false, word),
    };
    if let Some(path) = path.strip_prefix('.') {
        let names: Vec<String> = path.split('.').filter(|_| !path.is_empty()).map(str::to_owned).collect();
        let is_name =
            |name: &String| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        return if names.iter().all(is_name) {
            Ok((Expr::Path { from_root, names }, rest))
        } else {
            Err(unsupported(word))
        };
    }
    if word == "$" {
        return Ok((Expr::Path { from_root, names: Vec::new() }, rest));
    }
    let literal = match word {
        "nil" => Value::Null,
        // JSON numbers and booleans are valid in Go.
        _ => match serde_json::from_str(word) {
            Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
            _ => return Err(unsupported(word)),
        },
    };
    Ok((Expr::Literal(literal), rest))
}

/// The length of a quoted string including quotes.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if character == quote && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = quote == '"' && character == '\\' && !is_escaped;
    }
    None
}
