//! The values of a body whose objects hold scalars only, taken apart by column.
//!
//! PostgreSQL reads a value of `json_to_record` as it reads a literal: a string without its escapes, a number or boolean
//! as it is written, and null as NULL. So such values can be parameters as well, and PostgreSQL then parses no JSON. An
//! object or array in a value, a key that comes twice, or a character that PostgreSQL refuses leave all of the body to
//! PostgreSQL, and so does anything else that is odd.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{JsonPayload, JsonShape};

/// A longer body goes to PostgreSQL as it came: what is made of it here would be held besides.
const LONGEST_BYTES: usize = 256 * 1024;

/// For each of the payload's keys the text of its value; of an array of objects the text of an array of them.
pub(crate) fn flat(payload: &JsonPayload) -> Option<Vec<Option<Bytes>>> {
    // In order and without doubles: they are looked up.
    let is_sorted = payload.keys.is_sorted_by(|one, next| one < next);
    if payload.keys.is_empty() || !is_sorted || !payload.is_body || payload.bytes.len() > LONGEST_BYTES {
        return None;
    }
    let text = std::str::from_utf8(&payload.bytes).ok()?;
    let mut input = serde_json::Deserializer::from_str(text);
    let keys = &payload.keys;
    let values = match payload.shape {
        JsonShape::Object => {
            let mut one = vec![None; keys.len()];
            Members { keys, row: &mut one }.deserialize(&mut input).ok()?;
            one.into_iter().map(|value: Option<Cow<'_, str>>| value.map(|text| bytes_of(&text))).collect()
        }
        JsonShape::Array => {
            let room = text.len() / keys.len() + 2;
            let many: Vec<List> = keys.iter().map(|_| List::new(room)).collect();
            let many = Elements { keys, lists: many, most: text.len() }.deserialize(&mut input).ok()?;
            many.into_iter().map(|list| Some(list.end())).collect()
        }
        JsonShape::Mixed | JsonShape::Empty => return None,
    };
    input.end().ok()?;
    Some(values)
}

fn bytes_of(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// The text of an array under construction.
struct List(Vec<u8>);

impl List {
    fn new(room: usize) -> Self {
        let mut text = Vec::with_capacity(room);
        text.push(b'{');
        Self(text)
    }

    fn push(&mut self, value: Option<&str>) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        let Some(value) = value else { return self.0.extend_from_slice(b"NULL") };
        self.0.push(b'"');
        let mut rest = value.as_bytes();
        while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
            let (before, special) = rest.split_at(at);
            self.0.extend_from_slice(before);
            self.0.push(b'\\');
            self.0.extend(special.first());
            rest = special.get(1..).unwrap_or_default();
        }
        self.0.extend_from_slice(rest);
        self.0.push(b'"');
    }

    fn end(mut self) -> Bytes {
        self.0.push(b'}');
        Bytes::from(self.0)
    }
}

/// An array of objects.
struct Elements<'a> {
    keys: &'a [String],
    lists: Vec<List>,
    /// Values there may be: more than can be written in the body are NULLs for keys that are missing.
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = Vec<List>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Vec<List>, D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Vec<List>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of flat objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Vec<List>, A::Error> {
        let mut row: Vec<Option<Cow<'de, str>>> = vec![None; self.keys.len()];
        while elements.next_element_seed(Members { keys: self.keys, row: &mut row })?.is_some() {
            self.most = self.most.checked_sub(row.len()).ok_or_else(|| A::Error::custom("mostly missing"))?;
            for (list, value) in self.lists.iter_mut().zip(&mut row) {
                list.push(value.take().as_deref());
            }
        }
        Ok(self.lists)
    }
}

/// One object; what is not among the keys is left out, as `columns=` has it, and what is missing stays `None`.
struct Members<'a, 'de> {
    keys: &'a [String],
    row: &'a mut [Option<Cow<'de, str>>],
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a flat object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // A null in the row looks as if nothing had come.
        let mut seen = vec![false; self.keys.len()];
        let mut expected = 0;
        while let Some(found) = map.next_key_seed(Key { keys: self.keys, expected })? {
            let value = map.next_value::<&RawValue>()?.get();
            let value = scalar(value).ok_or_else(|| A::Error::custom("not flat"))?;
            let Some(index) = found else { continue };
            if let (Some(place), Some(seen)) = (self.row.get_mut(index), seen.get_mut(index)) {
                if std::mem::replace(seen, true) {
                    return Err(A::Error::custom("a key that comes twice"));
                }
                *place = value;
            }
            expected = index + 1;
        }
        Ok(())
    }
}

/// What PostgreSQL reads in the place of a value: `Some(None)` is NULL, and `None` that it is none of ours.
#[expect(clippy::option_option, reason = "three answers, one place")]
fn scalar(raw: &str) -> Option<Option<Cow<'_, str>>> {
    match raw.as_bytes() {
        [b'{' | b'[', ..] | [] => None,
        [b'n', ..] => Some(None),
        [b'"', inside @ .., b'"'] => {
            let text = if memchr::memchr(b'\\', inside).is_none() {
                Cow::Borrowed(raw.get(1..raw.len() - 1)?)
            } else {
                Cow::Owned(serde_json::from_str(raw).ok()?)
            };
            memchr::memchr(0, text.as_bytes()).is_none().then_some(Some(text))
        }
        _ => Some(Some(Cow::Borrowed(raw))),
    }
}

/// Which of the keys it is; most often the one after the last.
struct Key<'a> {
    keys: &'a [String],
    expected: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Option<usize>, D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Option<usize>, E> {
        if memchr::memchr(0, key.as_bytes()).is_some() {
            return Err(E::custom("PostgreSQL takes no such key"));
        }
        if self.keys.get(self.expected).is_some_and(|expected| expected == key) {
            return Ok(Some(self.expected));
        }
        Ok(self.keys.binary_search_by(|known| known.as_str().cmp(key)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keys: &[&str], text: &str) -> Option<Vec<Option<String>>> {
        let is_object = text.trim_start().starts_with('{');
        let payload = JsonPayload {
            bytes: bytes_of(text),
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            shape: if is_object { JsonShape::Object } else { JsonShape::Array },
            is_body: true,
        };
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        flat(&payload).map(|values| values.into_iter().map(|value| value.map(text)).collect())
    }

    #[test]
    fn scalars_are_what_postgresql_would_read() {
        let values =
            |texts: &[Option<&str>]| Some(texts.iter().map(|text| text.map(str::to_owned)).collect());
        assert_eq!(
            read(&["a", "b"], r#" {"b": 1.50 , "a":"x\n\"\u00e9\ud83d\ude00"} "#),
            values(&[Some("x\n\"é😀"), Some("1.50")])
        );
        assert_eq!(read(&["a", "b"], r#"{"a":true,"b":null}"#), values(&[Some("true"), None]));
        assert_eq!(read(&["a"], r#"{"b":-1e5,"c":"x"}"#), values(&[None]), "what columns= leaves out");
        assert_eq!(
            read(&["a", "b"], r#"[{"a":"x\\\"y","b":1},{"b":"NULL","a":null},{"b":""}]"#),
            values(&[Some(r#"{"x\\\"y",NULL,NULL}"#), Some(r#"{"1","NULL",""}"#)])
        );
        assert_eq!(read(&["a"], "[]"), values(&[Some("{}")]));
    }

    #[test]
    fn what_is_odd_is_left_to_postgresql() {
        for odd in [
            r#"{"a":{}}"#,
            r#"{"a":[1]}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":null,"a":1}"#,
            r#"{"a":"\u0000"}"#,
            r#"{"\u0000":1}"#,
            r#"{"b":{},"a":1}"#,
            r#"{"a":"\ud83d"}"#,
            r#"{"a":01}"#,
            r#"{"a":1} x"#,
            r#"{"a":1"#,
            r#"[{"a":1},[]]"#,
            r#"[{"a":1},null]"#,
            r#"[1]"#,
            "{\"a\":\"\t\"}",
            "\"a\"",
            r#"{"a":NaN}"#,
            "",
        ] {
            assert_eq!(read(&["a"], odd), None, "{odd}");
        }
        assert_eq!(read(&[], "{}"), None);
        assert_eq!(read(&["a", "a"], r#"{"a":1}"#), None);
        assert_eq!(read(&["a", "b", "c", "d"], "[{},{},{}]"), None, "more than was sent");
    }
}
