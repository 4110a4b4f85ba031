//! The parsers of `basalt_rest::parse`: query strings and headers.

use std::fmt::{Debug, Display};
use std::str::from_utf8;

use basalt_rest::parse::filter::Filter;
use basalt_rest::parse::logic::Connective;
use basalt_rest::parse::media::MediaType;
use basalt_rest::parse::prefer::Preferences;
use basalt_rest::parse::query::{Arguments, Parameters, QueryParams};
use basalt_rest::parse::range::{self, RowRange};
use basalt_rest::parse::{self, Field, Parameter, ParseError};

/// The whole query string: its canonical form must parse to the same request.
pub(crate) fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parameters = Parameters::decode(&text);
    let mut sorted = parameters.0.clone();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(Parameters::decode(&parameters.canonical()).0, sorted);
    for arguments in [Arguments::Refused, Arguments::Accepted] {
        if let Ok(read) = QueryParams::parse(&parameters, arguments) {
            for (_, filter) in &read.filters {
                reads_back(&filter.test.to_string(), &filter.test, parse::filter::parse);
            }
        }
    }
}

/// `select=`.
pub(crate) fn select(data: &[u8]) {
    of_text(data, parse::select::parse, |items| joined(items));
}

/// The value of a filter; and the filter as a node of a logic tree.
pub(crate) fn filter(data: &[u8]) {
    of_text(data, parse::filter::parse, ToString::to_string);
    if let Some(test) = from_utf8(data).ok().and_then(|text| parse::filter::parse(text).ok()) {
        let node = Filter { field: Field::plain("column"), test };
        let tree = parse::logic::parse(false, Connective::And, &format!("({node})"));
        assert_eq!(tree.map(|tree| joined(&tree.nodes)), Ok(node.to_string()));
    }
}

/// `and=(…)`, `or=(…)`.
pub(crate) fn logic(data: &[u8]) {
    of_text(
        data,
        |text| parse::logic::parse(false, Connective::Or, text),
        |tree| format!("({})", joined(&tree.nodes)),
    );
}

/// `order=`.
pub(crate) fn order(data: &[u8]) {
    of_text(data, parse::order::parse, |terms| joined(terms));
}

/// `columns=` and `on_conflict=`.
pub(crate) fn columns(data: &[u8]) {
    of_text(
        data,
        |text| parse::columns::parse(Parameter::Columns, text),
        |names| {
            let fields: Vec<Field> = names.iter().map(Field::plain).collect();
            joined(&fields)
        },
    );
}

pub(crate) fn prefer(data: &[u8]) {
    if let Ok(text) = from_utf8(data) {
        let read = Preferences::parse([text]);
        assert_eq!(Preferences::parse([read.to_string().as_str()]), read);
    }
}

/// `Range`, `limit` and `offset`, and windows laid over each other.
pub(crate) fn range(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let offset = range::parse_offset(text);
    let limit = range::parse_limit(text).ok().flatten();
    let Ok(window) = range::parse_header(text) else { return };
    assert_eq!(range::parse_header(&window.to_string()), Ok(window));
    let other = RowRange { offset, limit };
    assert_eq!(window.intersect(other), other.intersect(window));
    if let Some(both) = window.intersect(other) {
        assert!(both.offset >= window.offset && both.offset >= offset, "{both:?}");
    }
    assert!(window.capped(Some(1000)).limit.is_some_and(|limit| limit <= 1000));
}

/// `Accept` and `Content-Type`.
pub(crate) fn accept(data: &[u8]) {
    if let Ok(text) = from_utf8(data) {
        let _one = MediaType::parse(text).content_type();
        for media in MediaType::parse_accept(text) {
            // A nested plan type is printed only in an error.
            if matches!(&media, MediaType::Plan(plan) if matches!(plan.target, MediaType::Plan(_))) {
                continue;
            }
            let printed = media.to_string();
            assert_eq!(MediaType::parse(&printed), media, "{printed}");
        }
    }
}

/// Parses text; the result must print as text that parses to the same value.
fn of_text<T: PartialEq + Debug>(
    data: &[u8],
    parse: impl Fn(&str) -> Result<T, ParseError>,
    print: impl Fn(&T) -> String,
) {
    let Ok(text) = from_utf8(data) else { return };
    match parse(text) {
        Ok(value) => reads_back(&print(&value), &value, parse),
        Err(error) => {
            assert!(error.column >= 1 && error.column <= text.chars().count() + 1, "{error}");
            assert!(error.message().contains(text));
            assert!(!error.details().is_empty());
        }
    }
}

fn reads_back<T: PartialEq + Debug>(printed: &str, value: &T, parse: impl Fn(&str) -> Result<T, ParseError>) {
    assert_eq!(parse(printed).as_ref(), Ok(value), "printed as {printed}");
}

fn joined<T: Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
