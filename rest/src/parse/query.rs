//! Interprets the parameters of the query string (rest.md §3.2).
//!
//! Parsing has two steps, because in a function call by GET only the value distinguishes an argument from a filter:
//! [`Parameters`] splits and decodes, [`QueryParams::parse`] interprets each parameter.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::filter::{self, Filter};
use super::logic::{self, Connective, LogicTree};
use super::order::{self, OrderTerm};
use super::range::{self, RangeError, RowRange};
use super::select::{self, SelectItem};
use super::{Cursor, Field, Parameter, ParseError, columns};

/// Names of the embeds that lead to a level; empty for the root.
pub type EmbedPath = Vec<String>;

/// Decoded parameters, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters(pub Vec<(String, String)>);

/// Everything except RFC 3986's unreserved characters is encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Parameters {
    /// Splits and decodes a query string; parameters without `=` or without a name are dropped.
    #[must_use]
    pub fn decode(raw: &str) -> Self {
        Self(
            raw.split('&')
                .filter_map(|pair| pair.split_once('='))
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// All parameters sorted by name (stable) and encoded, for `Content-Location`.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut sorted: Vec<&(String, String)> = self.0.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let length = sorted.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
        let mut text = String::with_capacity(length + length / 2);
        for (name, value) in sorted {
            if !text.is_empty() {
                text.push('&');
            }
            push_encoded(&mut text, name);
            text.push('=');
            push_encoded(&mut text, value);
        }
        text
    }
}

/// Decodes a name or value of a form; `None` if it is not UTF-8.
pub(crate) fn decode_component(text: &str) -> Option<String> {
    percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Encodes one component of a URL.
pub(crate) fn encode_component(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn push_encoded(out: &mut String, text: &str) {
    for part in utf8_percent_encode(text, ENCODED) {
        out.push_str(part);
    }
}

fn decode(text: &str) -> String {
    if memchr::memchr2(b'+', b'%', text.as_bytes()).is_none() {
        return text.to_owned();
    }
    let blanks = text.replace('+', " ");
    percent_decode_str(&blanks).decode_utf8_lossy().into_owned()
}

/// The interpreted query string.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryParams {
    /// Items of `select=`; `*` if absent.
    pub select: Vec<SelectItem>,
    /// Whether `select` is present.
    pub has_select: bool,
    /// Names in `columns=`.
    pub columns: Option<Vec<String>>,
    /// Names in `on_conflict=`.
    pub on_conflict: Option<Vec<String>>,
    /// Filters, in order.
    pub filters: Vec<(EmbedPath, Filter)>,
    /// Logic trees, in order.
    pub logic: Vec<(EmbedPath, LogicTree)>,
    /// Orders by level; the first of each level applies.
    pub orders: BTreeMap<EmbedPath, Vec<OrderTerm>>,
    /// `limit` and `offset` by level.
    pub ranges: BTreeMap<EmbedPath, RowRange>,
    /// Whether the root has a limit or offset.
    pub has_root_range: bool,
    /// Function arguments of a call by GET or HEAD, in order.
    pub arguments: Vec<(String, String)>,
}

/// Reason why a query string was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// Malformed parameter (PGRST100).
    Parse(ParseError),
    /// Invalid range (PGRST103).
    Range(RangeError),
}

impl From<ParseError> for QueryError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

/// Whether parameters may be function arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// No: every parameter that is not a modifier is a filter.
    Refused,
    /// Yes, if the value does not parse as an operator (function call by GET or HEAD).
    Accepted,
}

impl QueryParams {
    /// Interprets every parameter.
    ///
    /// # Errors
    /// The first malformed parameter in PostgREST's order of evaluation; a negative limit is reported last.
    pub fn parse(parameters: &Parameters, arguments: Arguments) -> Result<Self, QueryError> {
        let mut query = Self {
            select: vec![SelectItem::Star],
            has_select: false,
            columns: None,
            on_conflict: None,
            filters: Vec::new(),
            logic: Vec::new(),
            orders: BTreeMap::new(),
            ranges: BTreeMap::new(),
            has_root_range: false,
            arguments: Vec::new(),
        };
        let mut first_error: Option<(u8, QueryError)> = None;
        for (name, value) in &parameters.0 {
            if let Err(error) = query.parameter(name, value, arguments) {
                let rank = rank(name, &error);
                if first_error.as_ref().is_none_or(|(known, _)| rank < *known) {
                    first_error = Some((rank, error));
                }
            }
        }
        match first_error {
            Some((_, error)) => Err(error),
            None => Ok(query),
        }
    }

    fn parameter(&mut self, name: &str, value: &str, arguments: Arguments) -> Result<(), QueryError> {
        match name {
            "select" if !self.has_select => {
                self.has_select = true;
                self.select = select::parse(value)?;
            }
            "columns" if self.columns.is_none() => {
                self.columns = Some(columns::parse(Parameter::Columns, value)?);
            }
            "on_conflict" if self.on_conflict.is_none() => {
                self.on_conflict = Some(columns::parse(Parameter::OnConflict, value)?);
            }
            "select" | "columns" | "on_conflict" => {}
            _ => self.modifier_or_filter(name, value, arguments)?,
        }
        Ok(())
    }

    fn modifier_or_filter(
        &mut self,
        name: &str,
        value: &str,
        arguments: Arguments,
    ) -> Result<(), QueryError> {
        let (before, last) = match name.rsplit_once('.') {
            Some((before, last)) => (Some(before), last),
            None => (None, name),
        };
        match last {
            "order" => {
                let path = embed_path(Parameter::TreePath, name, before)?;
                let terms = order::parse(value)?;
                let _first = self.orders.entry(path).or_insert(terms);
            }
            "limit" => {
                let path = embed_path(Parameter::TreePath, name, before)?;
                let limit = range::parse_limit(value).map_err(QueryError::Range)?;
                // The last one applies.
                self.range_mut(path).limit = limit;
            }
            "offset" => {
                let path = embed_path(Parameter::TreePath, name, before)?;
                self.range_mut(path).offset = range::parse_offset(value);
            }
            "and" | "or" => {
                let connective = if last == "and" { Connective::And } else { Connective::Or };
                let mut path = embed_path(Parameter::LogicPath, name, before)?;
                // `not` may occur anywhere in the key, as in `not.tasks.or`.
                let negated = path.iter().any(|part| part == "not");
                path.retain(|part| part != "not");
                // PostgREST counts positions from the connective, which is part of the key.
                let shift = connective.word().len() + if negated { "not.".len() } else { 0 };
                let tree = logic::parse(negated, connective, value);
                let tree = tree.map_err(|error| match error.line {
                    1 => ParseError { column: error.column + shift, ..error },
                    _ => error,
                })?;
                self.logic.push((path, tree));
            }
            _ => match (filter::parse(value), arguments) {
                (Err(_), Arguments::Accepted) => self.arguments.push((name.to_owned(), value.to_owned())),
                (test, Arguments::Accepted | Arguments::Refused) => {
                    let (path, field) = filter_key(name)?;
                    self.filters.push((path, Filter { field, test: test? }));
                }
            },
        }
        Ok(())
    }

    fn range_mut(&mut self, path: EmbedPath) -> &mut RowRange {
        self.has_root_range |= path.is_empty();
        self.ranges.entry(path).or_insert(RowRange::ALL)
    }

    /// Limit and offset of the root level.
    #[must_use]
    pub fn root_range(&self) -> RowRange {
        self.ranges.get::<[String]>(&[]).copied().unwrap_or(RowRange::ALL)
    }
}

/// Precedence of errors. PostgREST parses orders first, then logic, columns, filters, the conflict target, and
/// `select` last; a negative limit is detected once all have been parsed.
fn rank(name: &str, error: &QueryError) -> u8 {
    match (error, name.rsplit('.').next().unwrap_or(name)) {
        (QueryError::Range(_), _) => 6,
        (QueryError::Parse(_), "order" | "limit" | "offset") => 0,
        (QueryError::Parse(_), "and" | "or") => 1,
        (QueryError::Parse(_), "columns") if name == "columns" => 2,
        (QueryError::Parse(_), "on_conflict") if name == "on_conflict" => 4,
        (QueryError::Parse(_), "select") if name == "select" => 5,
        (QueryError::Parse(_), _) => 3,
    }
}

/// Parses names separated by dots.
fn embed_path(parameter: Parameter, whole: &str, path: Option<&str>) -> Result<EmbedPath, ParseError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    Cursor::parse_all(parameter, path, Cursor::dotted)
        .map_err(|error| ParseError { input: whole.to_owned(), ..error })
}

/// Parses `embed.path.column[jsonpath]`.
fn filter_key(key: &str) -> Result<(EmbedPath, Field), ParseError> {
    Cursor::parse_all(Parameter::TreePath, key, |cursor| {
        let mut path = cursor.dotted()?;
        // The last name is the column; there is always one.
        let name = path.pop().unwrap_or_default();
        Ok((path, cursor.field_named(name)?))
    })
}
