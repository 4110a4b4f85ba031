//! Tracks the HTML context of values. It is a minimal HTML tokenizer over the text between values. If no escaping makes a value
//! safe (scripts, styles, unquoted attributes), the template is rejected.

use super::escape::Escape;

/// An HTML context, with the enclosing raw text element, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HtmlContext {
    state: State,
    /// The last opened element, in lower case.
    element: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    /// Between tags.
    #[default]
    Text,
    Comment,
    /// After `<`, in a tag's name, which starts with a slash for an end tag.
    TagName(String),
    /// In a tag between attributes.
    Tag,
    AttributeName(String),
    /// After an attribute's name; `has_equals` is set after `=`.
    AfterName {
        name: String,
        has_equals: bool,
    },
    Quoted {
        quote: char,
        kind: Kind,
    },
    Unquoted,
}

/// The content type of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Address(Part),
    /// Scripts, styles and URL lists.
    Unsupported,
}

/// The position in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Start,
    Rest,
    Query,
}

impl Kind {
    fn from_attribute(attribute: &str) -> Self {
        let name = attribute.rsplit(':').next().unwrap_or_default();
        match name {
            "href" | "src" | "action" | "formaction" | "background" | "cite" | "poster" | "data"
            | "longdesc" | "ping" => Self::Address(Part::Start),
            "style" | "srcset" | "srcdoc" => Self::Unsupported,
            _ if name.starts_with("on") => Self::Unsupported,
            _ => Self::Plain,
        }
    }

    /// The kind after `text` in the attribute's value.
    fn after(self, text: &str) -> Self {
        match self {
            Self::Address(_) if text.contains(['?', '#']) => Self::Address(Part::Query),
            Self::Address(Part::Start) if !text.trim().is_empty() => Self::Address(Part::Rest),
            Self::Address(_) | Self::Plain | Self::Unsupported => self,
        }
    }
}

impl HtmlContext {
    /// The escaping of a value in this context.
    pub(super) fn value(&self) -> Result<Escape, String> {
        match &self.state {
            State::Text if matches!(self.element.as_str(), "script" | "style") => {
                Err(format!("values inside <{}> are not supported", self.element))
            }
            State::Text | State::Comment | State::Quoted { kind: Kind::Plain, .. } => Ok(Escape::Html),
            State::Quoted { kind: Kind::Address(part), .. } => {
                // A value does not change the part: it may be empty, and then the next one starts the URL.
                Ok(match part {
                    Part::Start => Escape::Address,
                    Part::Rest => Escape::AddressRest,
                    Part::Query => Escape::Query,
                })
            }
            State::Quoted { kind: Kind::Unsupported, .. } => {
                Err("values in attributes with scripts, styles or URL lists are not supported".to_owned())
            }
            State::TagName(_)
            | State::Tag
            | State::AttributeName(_)
            | State::AfterName { .. }
            | State::Unquoted => Err("a value in a tag must be inside a quoted attribute".to_owned()),
        }
    }

    /// The context after two branches; `None` if they differ.
    pub(super) fn join(self, other: Self) -> Option<Self> {
        let state = match (self.state, other.state) {
            (one, other) if one == other => one,
            // The position in a URL may differ: use the stricter one.
            (
                State::Quoted { quote, kind: Kind::Address(one) },
                State::Quoted { quote: quote2, kind: Kind::Address(other) },
            ) if quote == quote2 => {
                let part = if one == Part::Query || other == Part::Query { Part::Query } else { Part::Start };
                State::Quoted { quote, kind: Kind::Address(part) }
            }
            _ => return None,
        };
        (self.element == other.element).then_some(Self { state, element: self.element })
    }

    /// Advances over the text between two values.
    pub(super) fn text(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            rest = self.step(rest);
        }
    }

    /// Consumes the start of `text` and returns the rest.
    fn step<'a>(&mut self, text: &'a str) -> &'a str {
        let first = text.chars().next().unwrap_or_default();
        let after_first = text.get(first.len_utf8()..).unwrap_or_default();
        match &mut self.state {
            State::Text if is_raw(&self.element) => {
                let end = format!("</{}", self.element);
                match text.to_ascii_lowercase().find(&end) {
                    Some(at) => {
                        self.state = State::TagName(format!("/{}", self.element));
                        text.get(at + end.len()..).unwrap_or_default()
                    }
                    None => "",
                }
            }
            State::Text => match text.split_once('<') {
                Some((_, after)) => {
                    self.state = State::TagName(String::new());
                    after
                }
                None => "",
            },
            State::Comment => match text.split_once("-->") {
                Some((_, after)) => {
                    self.state = State::Text;
                    after
                }
                None => "",
            },
            State::TagName(name) => {
                if name.is_empty() && text.starts_with("!--") {
                    self.state = State::Comment;
                    return text.get(3..).unwrap_or_default();
                }
                match first {
                    '>' => return self.end_tag(after_first),
                    _ if name.is_empty() && !first.is_ascii_alphabetic() && !matches!(first, '/' | '!') => {
                        self.state = State::Text;
                        return text;
                    }
                    '/' if !name.is_empty() => self.start_attributes(),
                    _ if first.is_whitespace() => self.start_attributes(),
                    _ => name.push(first.to_ascii_lowercase()),
                }
                after_first
            }
            State::Tag => match first {
                '>' => self.end_tag(after_first),
                '/' => after_first,
                _ if first.is_whitespace() => after_first,
                _ => {
                    self.state = State::AttributeName(first.to_ascii_lowercase().to_string());
                    after_first
                }
            },
            State::AttributeName(name) => match first {
                '>' => self.end_tag(after_first),
                '/' => {
                    self.state = State::Tag;
                    after_first
                }
                '=' => {
                    self.state = State::AfterName { name: std::mem::take(name), has_equals: true };
                    after_first
                }
                _ if first.is_whitespace() => {
                    self.state = State::AfterName { name: std::mem::take(name), has_equals: false };
                    after_first
                }
                _ => {
                    name.push(first.to_ascii_lowercase());
                    after_first
                }
            },
            State::AfterName { name, has_equals } => match (first, *has_equals) {
                ('>', _) => self.end_tag(after_first),
                ('=', false) => {
                    *has_equals = true;
                    after_first
                }
                ('"' | '\'', true) => {
                    self.state = State::Quoted { quote: first, kind: Kind::from_attribute(name) };
                    after_first
                }
                _ if first.is_whitespace() => after_first,
                (_, true) => {
                    self.state = State::Unquoted;
                    after_first
                }
                (_, false) => {
                    self.state = State::Tag;
                    text
                }
            },
            State::Quoted { quote, kind } => match text.split_once(*quote) {
                Some((_, after)) => {
                    self.state = State::Tag;
                    after
                }
                None => {
                    *kind = kind.after(text);
                    ""
                }
            },
            State::Unquoted => {
                match first {
                    '>' => return self.end_tag(after_first),
                    _ if first.is_whitespace() => self.state = State::Tag,
                    _ => {}
                }
                after_first
            }
        }
    }

    fn start_attributes(&mut self) {
        if let State::TagName(name) = std::mem::replace(&mut self.state, State::Tag) {
            self.element = name;
        }
    }

    fn end_tag<'a>(&mut self, rest: &'a str) -> &'a str {
        self.start_attributes();
        // Only raw text elements matter from here.
        if !is_raw(&self.element) {
            self.element.clear();
        }
        self.state = State::Text;
        rest
    }
}

/// Raw text elements, whose content has no tags.
fn is_raw(element: &str) -> bool {
    matches!(element, "script" | "style" | "title" | "textarea")
}
