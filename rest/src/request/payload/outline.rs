//! The outside of a JSON text: which keys its objects have. Values are skipped, never built: they may be large, nested
//! without end, or numbers that no type of ours holds.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::MOST_KEYS;

/// What of a JSON text decides how it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outline {
    /// An object with these keys.
    Object(Vec<String>),
    /// An array whose elements are objects with the same keys; `None` if it is empty.
    Uniform(Option<Vec<String>>),
    /// An array with other elements; the keys of the first, if it is an object.
    Mixed(Vec<String>),
    /// Anything else.
    Scalar,
}

/// The outline of a JSON text, or `None` if it is none.
pub(super) fn outline(bytes: &[u8]) -> Option<Outline> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| has_whole_surrogates(text))?;
    serde_json::from_str(text).ok()
}

/// Whether every `\ud83d` is followed by its other half. Skipped values are not looked at by the parser, and PostgreSQL
/// would call half a character an error of its own.
fn has_whole_surrogates(text: &str) -> bool {
    if !text.contains("\\u") {
        return true;
    }
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        rest = match rest.get(at + 1..).unwrap_or_default() {
            [b'u', a, b, c, d, after @ ..] => match (unit([*a, *b, *c, *d]), after) {
                (0xd800..=0xdbff, [b'\\', b'u', a, b, c, d, after @ ..])
                    if (0xdc00..=0xdfff).contains(&unit([*a, *b, *c, *d])) =>
                {
                    after
                }
                (0xd800..=0xdfff, _) => return false,
                (_, after) => after,
            },
            [_, after @ ..] => after,
            [] => return true,
        };
    }
    true
}

/// The UTF-16 unit of four digits; 0 where they are none, which the parser will say.
fn unit(digits: [u8; 4]) -> u16 {
    std::str::from_utf8(&digits).ok().and_then(|text| u16::from_str_radix(text, 16).ok()).unwrap_or(0)
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OutlineVisitor)
    }
}

struct OutlineVisitor;

macro_rules! scalars {
    ($result:expr; $($method:ident: $type:ty),+) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> { Ok($result) })+
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($result) }
    };
}

impl<'de> Visitor<'de> for OutlineVisitor {
    type Value = Outline;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars!(Outline::Scalar; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
            add(&mut keys, key);
        }
        Ok(Outline::Object(sorted(keys)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Outline, A::Error> {
        let Some(first) = elements.next_element_seed(Element(&[]))? else {
            return Ok(Outline::Uniform(None));
        };
        let (written, mut uniform) = match first {
            Keys::Same => (Vec::new(), true),
            Keys::Other(keys) => (keys, true),
            Keys::NoObject => (Vec::new(), false),
        };
        let mut same = None;
        while let Some(keys) = elements.next_element_seed(Element(&written))? {
            uniform &= match keys {
                Keys::Same => true,
                Keys::Other(keys) => sorted(keys) == *same.get_or_insert_with(|| sorted(written.clone())),
                Keys::NoObject => false,
            };
        }
        let keys = sorted(written);
        Ok(if uniform { Outline::Uniform(Some(keys)) } else { Outline::Mixed(keys) })
    }
}

/// Adds a key. Of too many the first in order stay, one more than are told apart; doubles go first, so that none of those
/// that count is lost.
fn add(keys: &mut Vec<String>, key: String) {
    if keys.len() >= 2 * MOST_KEYS {
        *keys = sorted(std::mem::take(keys));
        keys.truncate(MOST_KEYS + 1);
    }
    keys.push(key);
}

fn sorted(mut keys: Vec<String>) -> Vec<String> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The keys of an array's element, compared with those of the first as they were written: the rows of one client all
/// have them in one order, and so need no memory.
struct Element<'a>(&'a [String]);

enum Keys {
    Same,
    Other(Vec<String>),
    NoObject,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Keys;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Keys, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Keys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars!(Keys::NoObject; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let mut same = 0;
        let other = loop {
            let expected = self.0.get(same).map(String::as_str);
            match map.next_key_seed(Key { expected })? {
                None if expected.is_none() => return Ok(Keys::Same),
                None => break None,
                Some(None) => same += 1,
                Some(Some(key)) => break Some(key),
            }
            let _skipped: IgnoredAny = map.next_value()?;
        };
        let mut keys = self.0.get(..same).unwrap_or_default().to_vec();
        if let Some(key) = other {
            add(&mut keys, key);
            let _skipped: IgnoredAny = map.next_value()?;
            while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                add(&mut keys, key);
            }
        }
        Ok(Keys::Other(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Keys, A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Keys::NoObject)
    }
}

/// A key, unless it is the expected one.
struct Key<'a> {
    expected: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Option<String>, E> {
        Ok((self.expected != Some(key)).then(|| key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|&key| key.to_owned()).collect()
    }

    #[test]
    fn keys_are_compared_whatever_their_order() {
        let uniform = |text: &str| match outline(text.as_bytes()) {
            Some(Outline::Uniform(Some(keys))) => Some(keys),
            _ => None,
        };
        let ab = Some(keys(&["a", "b"]));
        assert_eq!(uniform(r#"[{"b":1,"a":{"c":[1,{}]}}]"#), ab);
        assert_eq!(uniform(r#"[{"b":1,"a":2},{"b":3,"a":4},{"a":5,"b":6}]"#), ab);
        assert_eq!(uniform(r#"[{"a":1,"b":2,"a":3},{"b":4,"a":5},{"a":1,"\u0062":2}]"#), ab);
        for mixed in [
            r#"[{"a":1,"b":1},{"a":1}]"#,
            r#"[{"a":1},{"a":1,"b":1}]"#,
            r#"[{"a":1},{"b":1}]"#,
            r#"[{"a":1},{}]"#,
            r#"[{},{"a":1}]"#,
            r#"[{"a":1},[1]]"#,
            r#"[null,{"a":1}]"#,
        ] {
            assert!(matches!(outline(mixed.as_bytes()), Some(Outline::Mixed(_))), "{mixed}");
        }
        assert_eq!(uniform("[{},{}]"), Some(Vec::new()));
        assert_eq!(outline(b"[]"), Some(Outline::Uniform(None)));
    }

    #[test]
    fn half_a_character_is_no_text() {
        for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#"{"\u00e9":"\\\u0041"}"#, r#""\"\u0000""#] {
            assert!(outline(whole.as_bytes()).is_some(), "{whole}");
        }
        for half in [r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ud83d\u0041""#, r#"[{"a":"\\\uD83Dx"}]"#] {
            assert_eq!(outline(half.as_bytes()), None, "{half}");
        }
        assert_eq!(outline(b"\"\xff\""), None);
        for odd in [r#""\u12""#, r#""\u"#, r#""\"#, r#""\uzzzz""#] {
            assert_eq!(outline(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn endless_keys_take_no_memory_and_doubles_hide_none() {
        let object = |names: &[String]| {
            let members: Vec<String> = names.iter().map(|name| format!("{name:?}:1")).collect();
            format!("{{{}}}", members.join(","))
        };
        let many: Vec<String> = (0..10 * MOST_KEYS).map(|number| format!("k{number:06}")).collect();
        let Some(Outline::Object(keys)) = outline(object(&many).as_bytes()) else { panic!("no object") };
        assert!(keys.len() > MOST_KEYS && keys.len() <= 2 * MOST_KEYS);
        assert_eq!(keys.first(), many.first());
        let doubles: Vec<String> =
            (0..10 * MOST_KEYS).map(|number| format!("k{:06}", number % 1_600)).collect();
        let row = object(&doubles);
        let Some(Outline::Object(keys)) = outline(row.as_bytes()) else { panic!("no object") };
        assert_eq!(keys, many.get(..1_600).unwrap());
        let last = object(&keys.into_iter().rev().collect::<Vec<_>>());
        let rows = format!("[{row},{last},{row}]");
        assert!(
            matches!(outline(rows.as_bytes()), Some(Outline::Uniform(Some(keys))) if keys.len() == 1_600)
        );
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
        assert!(matches!(outline(deep("[", "]").as_bytes()), Some(Outline::Mixed(_))));
        assert!(matches!(outline(deep(r#"{"a":"#, "}").as_bytes()), Some(Outline::Object(_))));
        assert_eq!(outline("[".repeat(200_000).as_bytes()), None);
    }
}
