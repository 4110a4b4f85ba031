//! Where in HTML each value lands. One pass over the text between values, in the order of the source, by a machine
//! that knows as much of HTML as that takes: tags, attributes and their quotes, comments, and elements whose content
//! is no HTML.

use super::TemplateError;
use super::escape::Escape;
use super::parse::Node;

/// A place in HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between tags.
    Text,
    /// Within `<…`, before an attribute's name or in it.
    Tag {
        element: Element,
    },
    /// After an attribute's name.
    Name {
        element: Element,
        kind: Kind,
    },
    /// After `=`.
    Value {
        element: Element,
        kind: Kind,
    },
    /// In an attribute's value.
    Attribute {
        element: Element,
        kind: Kind,
        quote: Quote,
        part: Part,
    },
    Comment,
    /// In an element whose content is no HTML, until its end tag.
    Raw(Element),
}

/// Elements whose content is read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Other,
    Script,
    Style,
    /// Text without tags.
    Title,
    Textarea,
}

/// What an attribute holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Address,
    Style,
    Script,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    Single,
    Double,
    None,
}

/// How far into an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Start,
    BeforeQuery,
    Query,
}

/// Gives each value its escape.
pub(super) fn assign(nodes: &mut [Node]) -> Result<(), TemplateError> {
    let _end = walk(nodes, Place::Text)?;
    Ok(())
}

fn walk(nodes: &mut [Node], mut place: Place) -> Result<Place, TemplateError> {
    for node in nodes {
        place = match node {
            Node::Text(text) => after(place, text),
            Node::Set { .. } => place,
            Node::Print { escape, .. } => {
                *escape = escape_at(place)?;
                after_value(place)
            }
            Node::If { then, otherwise, .. } => branches("if", walk(then, place)?, walk(otherwise, place)?)?,
            Node::With { then, otherwise, .. } => {
                branches("with", walk(then, place)?, walk(otherwise, place)?)?
            }
            Node::Range { body, otherwise, .. } => {
                let once = branches("range", walk(body, place)?, walk(otherwise, place)?)?;
                // Its second turn begins where the first ended.
                branches("range", once, walk(body, once)?)?
            }
        };
    }
    Ok(place)
}

/// The place after both branches, which must agree.
fn branches(what: &'static str, one: Place, other: Place) -> Result<Place, TemplateError> {
    match (one, other) {
        (one, other) if one == other => Ok(one),
        // How far an address has come may differ: the stricter reading holds.
        (
            Place::Attribute { element, kind, quote, part },
            Place::Attribute { element: element2, kind: kind2, quote: quote2, part: part2 },
        ) if (element, kind, quote) == (element2, kind2, quote2) => {
            let part = if part == Part::Query || part2 == Part::Query { Part::Query } else { Part::Start };
            Ok(Place::Attribute { element, kind, quote, part })
        }
        (Place::Tag { element }, Place::Name { .. }) | (Place::Name { .. }, Place::Tag { element }) => {
            Ok(Place::Tag { element })
        }
        _ => Err(TemplateError::Branches(what)),
    }
}

fn escape_at(place: Place) -> Result<Escape, TemplateError> {
    Ok(match place {
        Place::Text | Place::Comment | Place::Raw(Element::Title | Element::Textarea | Element::Other) => {
            Escape::Text
        }
        Place::Raw(Element::Style) => Escape::Style,
        Place::Raw(Element::Script) => return Err(TemplateError::Script),
        Place::Tag { .. } | Place::Name { .. } => Escape::Name,
        // `href={{ .X }}`: no quotes.
        Place::Value { kind, .. } => attribute(kind, Quote::None, Part::Start)?,
        Place::Attribute { kind, quote, part, .. } => attribute(kind, quote, part)?,
    })
}

fn attribute(kind: Kind, quote: Quote, part: Part) -> Result<Escape, TemplateError> {
    Ok(match (kind, part, quote) {
        (Kind::Script, _, _) => return Err(TemplateError::Script),
        (Kind::Style, _, _) => Escape::Style,
        (Kind::Address, Part::Start, _) => Escape::Address,
        (Kind::Address, Part::BeforeQuery, _) => Escape::AddressRest,
        (Kind::Address, Part::Query, _) => Escape::Query,
        (Kind::Plain, _, Quote::None) => Escape::Unquoted,
        (Kind::Plain, _, Quote::Single | Quote::Double) => Escape::Text,
    })
}

fn after_value(place: Place) -> Place {
    match place {
        Place::Value { element, kind } => {
            Place::Attribute { element, kind, quote: Quote::None, part: Part::BeforeQuery }
        }
        Place::Attribute { element, kind, quote, part: Part::Start } => {
            Place::Attribute { element, kind, quote, part: Part::BeforeQuery }
        }
        same @ (Place::Text
        | Place::Tag { .. }
        | Place::Name { .. }
        | Place::Attribute { .. }
        | Place::Comment
        | Place::Raw(_)) => same,
    }
}

/// The place after some text.
fn after(mut place: Place, text: &str) -> Place {
    let mut rest = text;
    while !rest.is_empty() {
        let (next, length) = step(place, rest);
        place = next;
        rest = rest.get(length.max(1)..).or_else(|| next_character(rest)).unwrap_or_default();
    }
    place
}

fn next_character(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    let _first = characters.next()?;
    Some(characters.as_str())
}

/// One step into `text`, which is not empty: the place after it, and its length in bytes.
fn step(place: Place, text: &str) -> (Place, usize) {
    let first = text.chars().next().unwrap_or_default();
    let width = first.len_utf8();
    match place {
        Place::Text => match text.find('<') {
            None => (Place::Text, text.len()),
            Some(0) => tag(text),
            Some(at) => (Place::Text, at),
        },
        Place::Comment => text.find("-->").map_or((place, text.len()), |at| (Place::Text, at + 3)),
        Place::Raw(element) => {
            let end = match element {
                Element::Script => "</script",
                Element::Style => "</style",
                Element::Title => "</title",
                Element::Textarea => "</textarea",
                Element::Other => return (Place::Text, 0),
            };
            match text.to_ascii_lowercase().find(end) {
                None => (place, text.len()),
                Some(at) => (Place::Tag { element: Element::Other }, at + end.len()),
            }
        }
        Place::Tag { element } => match first {
            '>' => (inside(element), width),
            blank if blank.is_whitespace() || blank == '/' => (place, width),
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/');
                let length = text.find(is_end).unwrap_or(text.len()).max(width);
                (Place::Name { element, kind: kind(text.get(..length).unwrap_or_default()) }, length)
            }
        },
        Place::Name { element, kind } => match first {
            '=' => (Place::Value { element, kind }, width),
            blank if blank.is_whitespace() => (place, width),
            _ => (Place::Tag { element }, 0),
        },
        Place::Value { element, kind } => match first {
            '"' => (Place::Attribute { element, kind, quote: Quote::Double, part: Part::Start }, width),
            '\'' => (Place::Attribute { element, kind, quote: Quote::Single, part: Part::Start }, width),
            '>' => (inside(element), width),
            blank if blank.is_whitespace() => (place, width),
            _ => (Place::Attribute { element, kind, quote: Quote::None, part: Part::Start }, 0),
        },
        Place::Attribute { element, kind, quote, part } => {
            let ends = match quote {
                Quote::Double => first == '"',
                Quote::Single => first == '\'',
                Quote::None => first.is_whitespace() || first == '>',
            };
            match (ends, quote) {
                (true, Quote::None) => (Place::Tag { element }, 0),
                (true, Quote::Single | Quote::Double) => (Place::Tag { element }, width),
                (false, _) => {
                    let part = match (part, first) {
                        (_, '?' | '#') | (Part::Query, _) => Part::Query,
                        (Part::Start, blank) if blank.is_whitespace() => Part::Start,
                        (Part::Start | Part::BeforeQuery, _) => Part::BeforeQuery,
                    };
                    (Place::Attribute { element, kind, quote, part }, width)
                }
            }
        }
    }
}

/// At `<`.
fn tag(text: &str) -> (Place, usize) {
    if text.starts_with("<!--") {
        return (Place::Comment, 4);
    }
    let after = text.get(1..).unwrap_or_default();
    let is_tag = after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
    if !is_tag {
        return (Place::Text, 1);
    }
    let is_end = |c: char| c.is_whitespace() || c == '>';
    let length = after.find(is_end).unwrap_or(after.len());
    let name = after.get(..length).unwrap_or_default().trim_end_matches('/');
    let element = match name.to_ascii_lowercase().as_str() {
        "script" => Element::Script,
        "style" => Element::Style,
        "title" => Element::Title,
        "textarea" => Element::Textarea,
        _ => Element::Other,
    };
    (Place::Tag { element }, 1 + length)
}

/// After `>`.
fn inside(element: Element) -> Place {
    if element == Element::Other { Place::Text } else { Place::Raw(element) }
}

fn kind(name: &str) -> Kind {
    const ADDRESSES: [&str; 13] = [
        "href",
        "src",
        "action",
        "formaction",
        "cite",
        "poster",
        "background",
        "data",
        "longdesc",
        "manifest",
        "icon",
        "srcset",
        "ping",
    ];
    let name = name.to_ascii_lowercase();
    // `xlink:href` and the like.
    let name = name.rsplit(':').next().unwrap_or_default();
    if name.starts_with("on") {
        Kind::Script
    } else if name == "style" {
        Kind::Style
    } else if ADDRESSES.contains(&name) {
        Kind::Address
    } else {
        Kind::Plain
    }
}
