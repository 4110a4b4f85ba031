//! Fills a template in: values, truth and comparison as Go has them, and the bounds.

use std::borrow::Cow;
use std::cmp::Ordering;

use basalt_core::html;
use serde_json::Value;

use super::escape::query;
use super::parse::{Expr, Function, Node};
use super::{LONGEST, TemplateError};

/// Pieces, values and turns of loops in one rendering.
const STEPS: usize = 50_000;

/// The root's variables that hold addresses which were checked before.
const CHECKED: [&str; 3] = ["ConfirmationURL", "SiteURL", "RedirectTo"];

struct Run<'a> {
    root: &'a Value,
    /// `.`
    dot: Cow<'a, Value>,
    trusted: Vec<&'a str>,
    /// Names with values, innermost last.
    variables: Vec<(&'a str, Cow<'a, Value>)>,
    out: String,
    steps: usize,
}

/// Renders `nodes` with `values`.
pub(super) fn render(nodes: &[Node], values: &Value) -> Result<String, TemplateError> {
    let trusted = CHECKED.iter().filter_map(|name| values.get(name)?.as_str()).collect();
    let mut run = Run {
        root: values,
        dot: Cow::Borrowed(values),
        trusted,
        variables: Vec::new(),
        out: String::new(),
        steps: 0,
    };
    run.block(nodes)?;
    Ok(run.out)
}

impl<'a> Run<'a> {
    fn step(&mut self) -> Result<(), TemplateError> {
        self.steps += 1;
        if self.steps > STEPS { Err(TemplateError::Steps) } else { Ok(()) }
    }

    fn block(&mut self, nodes: &'a [Node]) -> Result<(), TemplateError> {
        let outside = self.variables.len();
        for node in nodes {
            self.node(node)?;
        }
        self.variables.truncate(outside);
        Ok(())
    }

    /// A block with a dot of its own.
    fn block_of(&mut self, nodes: &'a [Node], dot: Cow<'a, Value>) -> Result<(), TemplateError> {
        let outside = std::mem::replace(&mut self.dot, dot);
        let result = self.block(nodes);
        self.dot = outside;
        result
    }

    fn node(&mut self, node: &'a Node) -> Result<(), TemplateError> {
        self.step()?;
        match node {
            Node::Text(text) => self.write(text),
            Node::Print { value, escape } => {
                let value = self.value(value)?;
                let text = escape.apply(&printed(&value), &self.trusted);
                self.write(&text)
            }
            Node::Set { name, value, declares } => {
                let value = self.value(value)?;
                let known = self.variables.iter_mut().rev().find(|(own, _)| own == name);
                match known.filter(|_| !declares) {
                    Some((_, own)) => *own = value,
                    None => self.variables.push((name, value)),
                }
                Ok(())
            }
            Node::If { condition, then, otherwise } => {
                let branch = if is_true(&*self.value(condition)?) { then } else { otherwise };
                self.block(branch)
            }
            Node::With { value, then, otherwise } => {
                let value = self.value(value)?;
                if is_true(&value) { self.block_of(then, value) } else { self.block(otherwise) }
            }
            Node::Range { over, key, item, body, otherwise } => {
                let over = self.value(over)?;
                let items = items(&over);
                if items.is_empty() {
                    return self.block(otherwise);
                }
                for (name, value) in items {
                    self.step()?;
                    let value: Cow<'a, Value> = Cow::Owned(value);
                    let outside = self.variables.len();
                    self.variables.extend(key.as_deref().map(|key| (key, Cow::Owned(name))));
                    self.variables.extend(item.as_deref().map(|item| (item, value.clone())));
                    self.block_of(body, value)?;
                    self.variables.truncate(outside);
                }
                Ok(())
            }
        }
    }

    fn write(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.out.len() + text.len() > LONGEST {
            return Err(TemplateError::TooLong);
        }
        self.out.push_str(text);
        Ok(())
    }

    fn value(&mut self, expr: &'a Expr) -> Result<Cow<'a, Value>, TemplateError> {
        self.step()?;
        Ok(match expr {
            Expr::Literal(value) => Cow::Borrowed(value),
            Expr::Dot => self.dot.clone(),
            Expr::Variable(name) if name.is_empty() => Cow::Borrowed(self.root),
            Expr::Variable(name) => {
                let known = self.variables.iter().rev().find(|(own, _)| own == name);
                known.map_or(Cow::Owned(Value::Null), |(_, value)| value.clone())
            }
            Expr::Field(of, name) => field(self.value(of)?, name),
            Expr::Call(function, values) => {
                let mut given = Vec::with_capacity(values.len());
                for value in values {
                    given.push(self.value(value)?);
                }
                call(*function, given)?
            }
        })
    }
}

/// A member of an object; of anything else, nothing.
fn field<'a>(of: Cow<'a, Value>, name: &str) -> Cow<'a, Value> {
    match of {
        Cow::Borrowed(of) => of.get(name).map_or(Cow::Owned(Value::Null), Cow::Borrowed),
        Cow::Owned(of) => Cow::Owned(of.get(name).cloned().unwrap_or_default()),
    }
}

/// What `range` goes over: an array's items by number, an object's members by name, `n` numbers from 0.
fn items(over: &Value) -> Vec<(Value, Value)> {
    match over {
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.into(), item.clone())).collect()
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            members.into_iter().map(|(name, item)| (name.as_str().into(), item.clone())).collect()
        }
        Value::Number(count) => {
            let count = count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            (0..count.min(STEPS + 1)).map(|index| (index.into(), index.into())).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Vec::new(),
    }
}

fn call<'a>(function: Function, mut given: Vec<Cow<'a, Value>>) -> Result<Cow<'a, Value>, TemplateError> {
    let unfit = || TemplateError::Call(function.name());
    let truth = |truth: bool| Ok(Cow::Owned(Value::Bool(truth)));
    match function {
        Function::And | Function::Or => {
            // The first that decides, else the last, as Go has it.
            let deciding = given.iter().position(|value| is_true(value) == (function == Function::Or));
            let at = deciding.unwrap_or(given.len().checked_sub(1).ok_or_else(unfit)?);
            Ok(given.swap_remove(at))
        }
        Function::Not => match given.as_slice() {
            [value] => truth(!is_true(value)),
            _ => Err(unfit()),
        },
        Function::Eq => match given.as_slice() {
            [value, others @ ..] if !others.is_empty() => {
                truth(others.iter().any(|other| equal(value, other)))
            }
            _ => Err(unfit()),
        },
        Function::Ne => {
            let (left, right) = pair(&given).ok_or_else(unfit)?;
            truth(!equal(left, right))
        }
        Function::Lt => truth(ordered(&given).ok_or_else(unfit)?.is_some_and(Ordering::is_lt)),
        Function::Le => truth(ordered(&given).ok_or_else(unfit)?.is_some_and(Ordering::is_le)),
        Function::Gt => truth(ordered(&given).ok_or_else(unfit)?.is_some_and(Ordering::is_gt)),
        Function::Ge => truth(ordered(&given).ok_or_else(unfit)?.is_some_and(Ordering::is_ge)),
        Function::Len => match given.as_slice() {
            [value] => Ok(Cow::Owned(match value.as_ref() {
                Value::String(text) => text.len().into(),
                Value::Array(items) => items.len().into(),
                Value::Object(members) => members.len().into(),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0.into(),
            })),
            _ => Err(unfit()),
        },
        Function::Index => {
            let mut given = given.into_iter();
            let mut value = given.next().ok_or_else(unfit)?;
            for key in given {
                value = match key.as_ref() {
                    Value::String(name) => field(value, name),
                    Value::Number(index) => {
                        let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
                        let item = index.and_then(|index| value.get(index)).cloned();
                        Cow::Owned(item.unwrap_or_default())
                    }
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return Err(unfit()),
                };
            }
            Ok(value)
        }
        Function::Print => {
            Ok(Cow::Owned(given.iter().map(|value| printed(value).into_owned()).collect::<String>().into()))
        }
        Function::Html => {
            Ok(Cow::Owned(given.iter().map(|value| html::escape(&printed(value))).collect::<String>().into()))
        }
        Function::UrlQuery => {
            Ok(Cow::Owned(given.iter().map(|value| query(&printed(value))).collect::<String>().into()))
        }
    }
}

fn pair<'v>(given: &'v [Cow<'_, Value>]) -> Option<(&'v Value, &'v Value)> {
    if let [left, right] = given { Some((left, right)) } else { None }
}

/// How two values are ordered, if they are; `None` when there are not two.
fn ordered(given: &[Cow<'_, Value>]) -> Option<Option<Ordering>> {
    pair(given).map(|(left, right)| order(left, right))
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

/// Numbers among themselves, texts among themselves; nothing else has an order.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Go's truth: not empty, not zero.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// A value as text; what is not there is empty.
fn printed(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) => Cow::Owned(value.to_string()),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(printed).collect();
            Cow::Owned(format!("[{}]", items.join(" ")))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let members: Vec<_> =
                members.into_iter().map(|(name, value)| format!("{name}:{}", printed(value))).collect();
            Cow::Owned(format!("map[{}]", members.join(" ")))
        }
    }
}
