//! The template engine: the subset of Go's `html/template` that projects use in e-mails (auth.md §3.21). Variables, `if`, `range`
//! and six functions; see [`SUPPORTED`]. Anything else is a syntax error.
//!
//! Values are escaped for their HTML context ([`mod@html_context`]). Steps and output are bounded, because `range` iterates over user
//! data.

mod escape;
mod html_context;
mod parse;

use serde_json::Value;

use escape::Escape;
use parse::{Expr, Function, Node};

/// Maximum size of source and output (auth.md §3.21).
pub(crate) const MAX_BYTES: usize = 1_048_576;
/// Maximum number of nodes and values evaluated per rendering.
const MAX_STEPS: usize = 50_000;
/// Variables with validated URLs, which may have a custom scheme.
const CHECKED_ADDRESSES: [&str; 3] = ["ConfirmationURL", "SiteURL", "RedirectTo"];
/// Part of the error about unsupported syntax.
const SUPPORTED: &str =
    "templates may use .variables, if, else, range, end, and the functions eq, ne, and, or, not, index";

/// A parsed template.
#[derive(Debug, Clone)]
pub(crate) struct Template(Vec<Node>);

/// A syntax error, or a failed rendering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    #[error("larger than 1 MB")]
    TooLong,
    #[error("too many steps")]
    Steps,
}

impl Template {
    /// Parses an HTML template.
    pub(crate) fn html(source: &str) -> Result<Self, TemplateError> {
        parse::parse(source, Some(html_context::HtmlContext::default())).map(Self)
    }

    /// Parses a plain text template, without escaping.
    pub(crate) fn text(source: &str) -> Result<Self, TemplateError> {
        parse::parse(source, None).map(Self)
    }

    /// Renders the template. Missing fields of `values`, an object, are empty.
    pub(crate) fn render(&self, values: &Value) -> Result<String, TemplateError> {
        let checked = CHECKED_ADDRESSES.iter().filter_map(|name| values.get(name)?.as_str()).collect();
        let mut run = Run { root: values, checked, out: String::new(), steps: 0 };
        run.block(&self.0, values)?;
        Ok(run.out)
    }
}

static NULL: Value = Value::Null;
static TRUE: Value = Value::Bool(true);
static FALSE: Value = Value::Bool(false);

struct Run<'a> {
    root: &'a Value,
    checked: Vec<&'a str>,
    out: String,
    steps: usize,
}

impl<'a> Run<'a> {
    fn step(&mut self) -> Result<(), TemplateError> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(TemplateError::Steps) } else { Ok(()) }
    }

    fn block(&mut self, nodes: &'a [Node], dot: &'a Value) -> Result<(), TemplateError> {
        for node in nodes {
            self.step()?;
            match node {
                Node::Text(text) => self.out.push_str(text),
                Node::Print(value, escape) => {
                    let value = printed(self.value(value, dot)?);
                    self.out.push_str(&escape.apply(&value, &self.checked));
                }
                Node::If { condition, then, otherwise } => {
                    let is_met = is_true(self.value(condition, dot)?);
                    self.block(if is_met { then } else { otherwise }, dot)?;
                }
                Node::Range { over, body, otherwise } => {
                    let over = self.value(over, dot)?;
                    if let Some(items) = over.as_array().filter(|items| !items.is_empty()) {
                        items.iter().try_for_each(|item| self.block(body, item))?;
                    } else if let Some(items) = over.as_object().filter(|items| !items.is_empty()) {
                        items.values().try_for_each(|item| self.block(body, item))?;
                    } else {
                        self.block(otherwise, dot)?;
                    }
                }
            }
            if self.out.len() > MAX_BYTES {
                return Err(TemplateError::TooLong);
            }
        }
        Ok(())
    }

    fn value(&mut self, expr: &'a Expr, dot: &'a Value) -> Result<&'a Value, TemplateError> {
        self.step()?;
        Ok(match expr {
            Expr::Literal(value) => value,
            Expr::Path { from_root, names } => {
                let start = if *from_root { self.root } else { dot };
                names.iter().fold(start, |value, name| value.get(name).unwrap_or(&NULL))
            }
            Expr::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument, dot)?);
                }
                call(*function, &values)
            }
        })
    }
}

fn call<'a>(function: Function, values: &[&'a Value]) -> &'a Value {
    let first = values.first().copied().unwrap_or(&NULL);
    let last = values.last().copied().unwrap_or(&NULL);
    let rest = values.get(1..).unwrap_or_default();
    let truth = |is_true: bool| if is_true { &TRUE } else { &FALSE };
    match function {
        Function::Eq => truth(rest.iter().any(|other| is_equal(first, other))),
        Function::Ne => truth(!rest.iter().any(|other| is_equal(first, other))),
        Function::Not => truth(!is_true(first)),
        // As in Go: the deciding value, not a boolean.
        Function::And => values.iter().copied().find(|value| !is_true(value)).unwrap_or(last),
        Function::Or => values.iter().copied().find(|value| is_true(value)).unwrap_or(last),
        Function::Index => rest.iter().fold(first, |value, key| {
            let part = match key.as_str() {
                Some(name) => value.get(name),
                None => key.as_u64().and_then(|at| value.get(usize::try_from(at).ok()?)),
            };
            part.unwrap_or(&NULL)
        }),
    }
}

fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_true) => *is_true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
