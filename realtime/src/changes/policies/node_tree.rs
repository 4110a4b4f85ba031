//! Parser of `pg_node_tree`, the text format in which PostgreSQL stores parsed expressions.
//!
//! Unlike the SQL text of a policy, it names operators, functions, types and collations by object id, so
//! that no search path has to be applied to it.

/// Longest text that is parsed.
const MAX_BYTES: usize = 64 << 10;
/// Deepest nesting that is parsed.
const MAX_DEPTH: usize = 64;

/// A node or one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A number, a name, `<>` for a missing value.
    Atom(String),
    /// `( … )`
    List(Vec<Node>),
    /// `{NAME :field value …}`
    Object(Object),
}

/// A node with its fields in the order PostgreSQL wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) name: String,
    /// A field usually has one value; the bytes of a constant are one value each.
    fields: Vec<(String, Vec<Node>)>,
}

impl Object {
    /// The field names, for comparing them with those the reader of this node understands.
    pub(super) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// All values of a field; `None` if it is absent or occurs twice.
    pub(super) fn values(&self, field: &str) -> Option<&[Node]> {
        let mut found = self.fields.iter().filter(|(name, _)| name == field);
        let (_, values) = found.next()?;
        found.next().is_none().then_some(values)
    }

    /// The only value of a field.
    pub(super) fn value(&self, field: &str) -> Option<&Node> {
        match self.values(field)? {
            [value] => Some(value),
            _ => None,
        }
    }

    pub(super) fn atom(&self, field: &str) -> Option<&str> {
        match self.value(field)? {
            Node::Atom(atom) => Some(atom),
            Node::List(_) | Node::Object(_) => None,
        }
    }

    pub(super) fn number<T: std::str::FromStr>(&self, field: &str) -> Option<T> {
        self.atom(field)?.parse().ok()
    }

    pub(super) fn boolean(&self, field: &str) -> Option<bool> {
        match self.atom(field)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The nodes of a list; none for `<>`.
    pub(super) fn list(&self, field: &str) -> Option<&[Node]> {
        match self.value(field)? {
            Node::List(items) => Some(items),
            Node::Atom(atom) if atom == "<>" => Some(&[]),
            Node::Atom(_) | Node::Object(_) => None,
        }
    }

    pub(super) fn object(&self, field: &str) -> Option<&Object> {
        self.value(field)?.as_object()
    }
}

impl Node {
    pub(super) const fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Atom(_) | Self::List(_) => None,
        }
    }
}

/// Parses one node; `None` if the text is malformed or exceeds a limit.
pub(super) fn parse(text: &str) -> Option<Node> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut tokens = Tokens { rest: text };
    let node = parse_node(&mut tokens, MAX_DEPTH)?;
    tokens.next().is_none().then_some(node)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    OpenObject,
    CloseObject,
    Word(String),
}

struct Tokens<'a> {
    rest: &'a str,
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\t']);
        let mut chars = self.rest.char_indices();
        let (_, first) = chars.next()?;
        let single = match first {
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            '{' => Some(Token::OpenObject),
            '}' => Some(Token::CloseObject),
            _ => None,
        };
        if let Some(token) = single {
            self.rest = chars.as_str();
            return Some(token);
        }
        let mut word = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => word.extend(chars.next().map(|(_, escaped)| escaped)),
                ' ' | '\n' | '\t' | '(' | ')' | '{' | '}' => {
                    end = at;
                    break;
                }
                c => word.push(c),
            }
        }
        self.rest = self.rest.get(end..).unwrap_or_default();
        Some(Token::Word(word))
    }
}

fn parse_node(tokens: &mut Tokens<'_>, depth: usize) -> Option<Node> {
    let token = tokens.next()?;
    parse_from(token, tokens, depth)
}

fn parse_from(token: Token, tokens: &mut Tokens<'_>, depth: usize) -> Option<Node> {
    let depth = depth.checked_sub(1)?;
    match token {
        Token::Word(word) => Some(Node::Atom(word)),
        Token::Open => {
            let mut items = Vec::new();
            loop {
                match tokens.next()? {
                    Token::Close => return Some(Node::List(items)),
                    token @ (Token::Open | Token::OpenObject | Token::CloseObject | Token::Word(_)) => {
                        items.push(parse_from(token, tokens, depth)?);
                    }
                }
            }
        }
        Token::OpenObject => {
            let Token::Word(name) = tokens.next()? else { return None };
            let mut fields: Vec<(String, Vec<Node>)> = Vec::new();
            loop {
                match tokens.next()? {
                    Token::CloseObject => return Some(Node::Object(Object { name, fields })),
                    Token::Word(word) if word.starts_with(':') => {
                        fields.push((word.trim_start_matches(':').to_owned(), Vec::new()));
                    }
                    token @ (Token::Open | Token::Close | Token::OpenObject | Token::Word(_)) => {
                        fields.last_mut()?.1.push(parse_from(token, tokens, depth)?);
                    }
                }
            }
        }
        Token::Close | Token::CloseObject => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_fields_lists_and_constants() {
        let node = parse(
            "{OPEXPR :opno 96 :args ({VAR :varno 1 :varnullingrels (b)} {CONST :constvalue 4 [ 5 0 0 -1 ]}) :x <>}",
        );
        let Some(Node::Object(object)) = node else { panic!("an object") };
        assert_eq!((object.name.as_str(), object.number("opno")), ("OPEXPR", Some(96)));
        let args = object.list("args").unwrap();
        assert_eq!(args.len(), 2);
        assert_eq!(args[1].as_object().unwrap().values("constvalue").unwrap().len(), 7);
        assert_eq!(object.list("x"), Some(&[][..]));
        assert_eq!(object.field_names().collect::<Vec<_>>(), ["opno", "args", "x"]);
    }

    #[test]
    fn rejects_malformed_deep_and_long_texts() {
        for text in ["", "{", "{A", "(", ")", "{A :b 1} x", "{A 1}", "{(}"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("{}1{}", "(".repeat(80), ")".repeat(80))), None);
        assert_eq!(parse(&"a".repeat(MAX_BYTES + 1)), None);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[{}()\\\\: a-c0-9<>]{0,60}") {
            let _read = parse(&text);
        }
    }
}
