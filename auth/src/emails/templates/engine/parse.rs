//! From source to a tree. The grammar is that of Go's `text/template` without template definitions.

use serde_json::{Number, Value};

use super::TemplateError;
use super::escape::Escape;

/// Blocks and brackets within each other.
const DEEPEST: usize = 32;

/// A piece of a template.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Print { value: Expr, escape: Escape },
    Set { name: String, value: Expr, declares: bool },
    If { condition: Expr, then: Vec<Node>, otherwise: Vec<Node> },
    With { value: Expr, then: Vec<Node>, otherwise: Vec<Node> },
    Range { over: Expr, key: Option<String>, item: Option<String>, body: Vec<Node>, otherwise: Vec<Node> },
}

/// A value, or how to come by it.
#[derive(Debug, Clone)]
pub(super) enum Expr {
    Literal(Value),
    /// `.`
    Dot,
    /// `$name`; the empty name is `$`.
    Variable(String),
    Field(Box<Expr>, String),
    Call(Function, Vec<Expr>),
}

/// The functions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Len,
    Index,
    Print,
    Html,
    UrlQuery,
}

impl Function {
    const ALL: [(Self, &'static str); 14] = [
        (Self::And, "and"),
        (Self::Or, "or"),
        (Self::Not, "not"),
        (Self::Eq, "eq"),
        (Self::Ne, "ne"),
        (Self::Lt, "lt"),
        (Self::Le, "le"),
        (Self::Gt, "gt"),
        (Self::Ge, "ge"),
        (Self::Len, "len"),
        (Self::Index, "index"),
        (Self::Print, "print"),
        (Self::Html, "html"),
        (Self::UrlQuery, "urlquery"),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, own)| *own == name).map(|(function, _)| *function)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(function, _)| *function == self).map_or("", |(_, name)| name)
    }
}

/// One `{{ … }}`, or the text between two.
enum Piece<'a> {
    Text(&'a str),
    Action { inside: &'a str, line: usize },
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    /// `.name`, or `.` alone with an empty name.
    Field(String),
    Variable(String),
    Literal(Value),
    Pipe,
    Open,
    Close,
    Comma,
    Declare,
    Assign,
}

/// Reads a template.
pub(super) fn parse(source: &str) -> Result<Vec<Node>, TemplateError> {
    let pieces = pieces(source)?;
    let mut parser = Parser { pieces: pieces.into_iter(), line: 1 };
    match parser.block(0)? {
        (nodes, Ended::Source) => Ok(nodes),
        (_, Ended::End | Ended::Else(_)) => Err(parser.fault("{{ end }} or {{ else }} without a beginning")),
    }
}

/// Splits text from actions, and trims where `{{-` and `-}}` ask for it.
fn pieces(source: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut out = Vec::new();
    let mut rest = source;
    let mut line = 1;
    let mut trims_next = false;
    let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    while let Some((text, after)) = rest.split_once("{{") {
        let trims_this = after.strip_prefix('-').is_some_and(|after| after.starts_with(char::is_whitespace));
        line += lines(text);
        let mut text = if trims_next { text.trim_start() } else { text };
        if trims_this {
            text = text.trim_end();
        }
        out.push(Piece::Text(text));
        let inside = if trims_this { after.get(1..).unwrap_or_default() } else { after };
        let end = end_of_action(inside)
            .ok_or_else(|| TemplateError::Syntax { line, problem: "{{ without }}".to_owned() })?;
        let (inside, after) = inside.split_at_checked(end).unwrap_or((inside, ""));
        let after = after.strip_prefix("}}").unwrap_or(after);
        let trimmed = inside.strip_suffix('-').filter(|inside| inside.ends_with(char::is_whitespace));
        trims_next = trimmed.is_some();
        out.push(Piece::Action { inside: trimmed.unwrap_or(inside), line });
        line += lines(inside);
        rest = after;
    }
    out.push(Piece::Text(if trims_next { rest.trim_start() } else { rest }));
    Ok(out)
}

/// Where `}}` is, which may also stand in a comment or a quoted text.
fn end_of_action(inside: &str) -> Option<usize> {
    if inside.trim_start().starts_with("/*") {
        let comment = inside.find("*/")?;
        return inside.get(comment..)?.find("}}").map(|end| comment + end);
    }
    let mut quote = None;
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some('"'), '\\') => {
                let _escaped = characters.next();
            }
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '`') => quote = Some(character),
            (None, '}') if inside.get(at..).is_some_and(|rest| rest.starts_with("}}")) => return Some(at),
            _ => {}
        }
    }
    None
}

/// What ended a block.
enum Ended {
    Source,
    End,
    /// `else`, with the tokens after it.
    Else(Vec<Token>),
}

struct Parser<'a> {
    pieces: std::vec::IntoIter<Piece<'a>>,
    line: usize,
}

impl Parser<'_> {
    fn fault(&self, problem: impl Into<String>) -> TemplateError {
        TemplateError::Syntax { line: self.line, problem: problem.into() }
    }

    fn block(&mut self, depth: usize) -> Result<(Vec<Node>, Ended), TemplateError> {
        if depth > DEEPEST {
            return Err(self.fault("blocks are nested too deep"));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (inside, line) = match piece {
                Piece::Text("") => continue,
                Piece::Text(text) => {
                    nodes.push(Node::Text(text.to_owned()));
                    continue;
                }
                Piece::Action { inside, line } => (inside.trim(), line),
            };
            self.line = line;
            if inside.starts_with("/*") {
                if !inside.ends_with("*/") {
                    return Err(self.fault("a comment ends with */ right before }}"));
                }
                continue;
            }
            let mut tokens = self.tokens(inside)?;
            let Some(first) = tokens.first() else { return Err(self.fault("{{ }} says nothing")) };
            let word = if let Token::Word(word) = first { word.clone() } else { String::new() };
            match word.as_str() {
                "end" if tokens.len() == 1 => return Ok((nodes, Ended::End)),
                "else" => {
                    tokens.remove(0);
                    return Ok((nodes, Ended::Else(tokens)));
                }
                "if" | "with" | "range" => {
                    tokens.remove(0);
                    nodes.push(self.control(&word, tokens, depth + 1)?);
                }
                "define" | "template" | "block" | "break" | "continue" => {
                    return Err(self.fault(format!("{{{{ {word} }}}} is not supported")));
                }
                _ => nodes.push(self.statement(tokens)?),
            }
        }
        Ok((nodes, Ended::Source))
    }

    /// `if`, `with` or `range`, from its condition to its `end`.
    fn control(&mut self, word: &str, tokens: Vec<Token>, depth: usize) -> Result<Node, TemplateError> {
        let begun = self.line;
        let (names, tokens) = if word == "range" { range_names(tokens) } else { (Vec::new(), tokens) };
        let value = self.whole(tokens)?;
        let (then, end) = self.block(depth)?;
        let otherwise = match end {
            Ended::End => Vec::new(),
            Ended::Else(tokens) if tokens.is_empty() => match self.block(depth)? {
                (otherwise, Ended::End) => otherwise,
                (_, Ended::Source | Ended::Else(_)) => return Err(self.unended(word, begun)),
            },
            // `else if` ends with the same `end`.
            Ended::Else(mut tokens) => match tokens.first() {
                Some(Token::Word(again)) if again == word && word != "range" => {
                    tokens.remove(0);
                    vec![self.control(word, tokens, depth + 1)?]
                }
                _ => return Err(self.fault("{{ else }} takes nothing but another if")),
            },
            Ended::Source => return Err(self.unended(word, begun)),
        };
        let mut names = names.into_iter();
        Ok(match word {
            "if" => Node::If { condition: value, then, otherwise },
            "with" => Node::With { value, then, otherwise },
            _ => {
                let (first, second) = (names.next(), names.next());
                // One name is the item's, of two the first is the key's.
                let (key, item) = if second.is_some() { (first, second) } else { (None, first) };
                Node::Range { over: value, key, item, body: then, otherwise }
            }
        })
    }

    fn unended(&self, word: &str, line: usize) -> TemplateError {
        TemplateError::Syntax { line, problem: format!("{{{{ {word} }}}} without {{{{ end }}}}") }
    }

    fn statement(&self, mut tokens: Vec<Token>) -> Result<Node, TemplateError> {
        let name = match tokens.as_slice() {
            [Token::Variable(name), Token::Declare | Token::Assign, ..] => Some(name.clone()),
            _ => None,
        };
        let Some(name) = name else {
            return Ok(Node::Print { value: self.whole(tokens)?, escape: Escape::None });
        };
        let value = tokens.split_off(2);
        Ok(Node::Set { name, value: self.whole(value)?, declares: tokens.last() == Some(&Token::Declare) })
    }

    /// All of the tokens as one pipeline.
    fn whole(&self, tokens: Vec<Token>) -> Result<Expr, TemplateError> {
        let mut tokens = tokens.into_iter().peekable();
        let value = self.pipeline(&mut tokens, 0)?;
        match tokens.next() {
            None => Ok(value),
            Some(_) => Err(self.fault("something is left over: a bracket, a comma, an assignment")),
        }
    }

    fn pipeline(&self, tokens: &mut Tokens, depth: usize) -> Result<Expr, TemplateError> {
        if depth > DEEPEST {
            return Err(self.fault("brackets are nested too deep"));
        }
        let mut piped = None;
        loop {
            let value = self.command(tokens, piped, depth)?;
            if tokens.next_if_eq(&Token::Pipe).is_none() {
                return Ok(value);
            }
            piped = Some(value);
        }
    }

    /// A function with its arguments, the piped value last; or one value.
    fn command(&self, tokens: &mut Tokens, piped: Option<Expr>, depth: usize) -> Result<Expr, TemplateError> {
        let function = match tokens.peek() {
            Some(Token::Word(name)) => Some(
                Function::named(name).ok_or_else(|| self.fault(format!("there is no function {name}")))?,
            ),
            _ => None,
        };
        if function.is_some() {
            let _name = tokens.next();
        }
        let mut values = Vec::new();
        while let Some(value) = self.operand(tokens, depth)? {
            values.push(value);
        }
        match (function, values.len(), piped) {
            (Some(function), _, piped) => {
                values.extend(piped);
                Ok(Expr::Call(function, values))
            }
            (None, 1, None) => values.pop().ok_or_else(|| self.fault("a value is missing")),
            (None, 0, _) => Err(self.fault("a value is missing")),
            (None, _, _) => Err(self.fault("only functions take values")),
        }
    }

    fn operand(&self, tokens: &mut Tokens, depth: usize) -> Result<Option<Expr>, TemplateError> {
        let mut value = match tokens.peek() {
            Some(Token::Literal(value)) => Expr::Literal(value.clone()),
            Some(Token::Field(name)) if name.is_empty() => Expr::Dot,
            Some(Token::Field(name)) => Expr::Field(Box::new(Expr::Dot), name.clone()),
            Some(Token::Variable(name)) => Expr::Variable(name.clone()),
            Some(Token::Open) => {
                let _open = tokens.next();
                let value = self.pipeline(tokens, depth + 1)?;
                if tokens.peek() != Some(&Token::Close) {
                    return Err(self.fault("( without )"));
                }
                value
            }
            Some(Token::Word(name)) => {
                // A function without values, as an argument: nobody needs one.
                return Err(self.fault(format!("put brackets around {name} and its values")));
            }
            _ => return Ok(None),
        };
        let is_chained = !matches!(tokens.peek(), Some(Token::Literal(_)));
        let _taken = tokens.next();
        // `.Data.name` came as two fields without a blank between them: see `tokens`.
        if is_chained {
            while let Some(Token::Word(name)) = tokens.next_if(is_chain) {
                value = Expr::Field(Box::new(value), name.trim_start_matches(CHAIN).to_owned());
            }
        }
        Ok(Some(value))
    }

    fn tokens(&self, inside: &str) -> Result<Vec<Token>, TemplateError> {
        let mut out = Vec::new();
        let mut rest = inside;
        // Whether the last token ended right here, so that a dot continues it.
        let mut joined = false;
        loop {
            let trimmed = rest.trim_start();
            joined = joined && trimmed.len() == rest.len();
            rest = trimmed;
            let Some(first) = rest.chars().next() else { return Ok(out) };
            let name_length =
                |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
            let (token, length) = match first {
                '|' => (Token::Pipe, 1),
                '(' => (Token::Open, 1),
                ')' => (Token::Close, 1),
                ',' => (Token::Comma, 1),
                ':' if rest.starts_with(":=") => (Token::Declare, 2),
                '=' => (Token::Assign, 1),
                '"' => self.quoted(rest)?,
                '`' => {
                    let text = rest.get(1..).and_then(|rest| rest.split_once('`')).map(|(text, _)| text);
                    let text = text.ok_or_else(|| self.fault("` without its end"))?;
                    (Token::Literal(text.into()), text.len() + 2)
                }
                '$' => {
                    let length = name_length(rest.get(1..).unwrap_or_default());
                    (Token::Variable(rest.get(1..=length).unwrap_or_default().to_owned()), length + 1)
                }
                '.' if !rest.get(1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) => {
                    let length = name_length(rest.get(1..).unwrap_or_default());
                    let name = rest.get(1..=length).unwrap_or_default();
                    let token = if joined && !name.is_empty() {
                        Token::Word(format!("{CHAIN}{name}"))
                    } else {
                        Token::Field(name.to_owned())
                    };
                    (token, length + 1)
                }
                '0'..='9' | '-' | '+' | '.' => self.number(rest)?,
                first if first.is_alphabetic() || first == '_' => {
                    let length = name_length(rest);
                    let word = rest.get(..length).unwrap_or_default();
                    let token = match word {
                        "true" => Token::Literal(true.into()),
                        "false" => Token::Literal(false.into()),
                        "nil" => Token::Literal(Value::Null),
                        word => Token::Word(word.to_owned()),
                    };
                    (token, length)
                }
                other => return Err(self.fault(format!("{other:?} means nothing here"))),
            };
            let is_value = matches!(&token, Token::Field(name) if !name.is_empty())
                || matches!(token, Token::Variable(_) | Token::Close)
                || is_chain(&token);
            joined = is_value;
            out.push(token);
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    fn quoted(&self, rest: &str) -> Result<(Token, usize), TemplateError> {
        let mut text = String::new();
        let mut characters = rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return Ok((Token::Literal(text.into()), at + 1)),
                '\\' => match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(plain @ ('"' | '\\' | '\'')) => text.push(plain),
                    _ => return Err(self.fault("in quotes, \\ goes before n, t, r, \" or \\")),
                },
                other => text.push(other),
            }
        }
        Err(self.fault("\" without its end"))
    }

    fn number(&self, rest: &str) -> Result<(Token, usize), TemplateError> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let text = rest.get(..length).unwrap_or_default();
        let number = text.parse::<i64>().map(Number::from).ok();
        let number = number.or_else(|| text.parse().ok().and_then(Number::from_f64));
        let number = number.ok_or_else(|| self.fault(format!("{text} is no number")))?;
        Ok((Token::Literal(Value::Number(number)), length))
    }
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<Token>>;

/// Marks a field that continues the value before it; no name begins with it.
const CHAIN: char = '.';

fn is_chain(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.starts_with(CHAIN))
}

/// `$key, $item :=` before what is ranged over.
fn range_names(mut tokens: Vec<Token>) -> (Vec<String>, Vec<Token>) {
    let names = match tokens.as_slice() {
        [Token::Variable(item), Token::Declare, ..] => vec![item.clone()],
        [Token::Variable(key), Token::Comma, Token::Variable(item), Token::Declare, ..] => {
            vec![key.clone(), item.clone()]
        }
        _ => return (Vec::new(), tokens),
    };
    let rest = tokens.split_off(names.len() * 2);
    (names, rest)
}
