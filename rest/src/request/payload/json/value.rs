//! Text of single values in a JSON body, as passed to PostgreSQL.

use std::borrow::Cow;

use bytes::Bytes;

/// The text of a scalar; `None` is NULL.
pub(super) type Cell<'de> = Option<Cow<'de, str>>;

/// Text that PostgreSQL would read for a JSON value; `None` if the value must be left to PostgreSQL.
pub(super) fn scalar(raw: &str) -> Option<Cell<'_>> {
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

/// Bytes of a value; a slice of the body if it has no escapes.
pub(super) fn bytes(cell: Cell<'_>, body: &Bytes) -> Option<Bytes> {
    cell.map(|text| match text {
        Cow::Borrowed(text) => body.slice_ref(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    })
}

/// Text of an array under construction.
pub(super) struct List(Vec<u8>);

impl List {
    pub(super) fn new(capacity: usize) -> Self {
        let mut text = Vec::with_capacity(capacity);
        text.push(b'{');
        Self(text)
    }

    pub(super) fn push(&mut self, value: Option<&str>) {
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

    pub(super) fn end(mut self) -> Bytes {
        self.0.push(b'}');
        Bytes::from(self.0)
    }
}

/// Whether every surrogate is paired. The parser does not check values that it skips, and PostgreSQL would report its
/// own error.
pub(super) fn has_paired_surrogates(text: &str) -> bool {
    if !text.contains("\\u") {
        return true;
    }
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr(b'\\', rest) {
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

/// UTF-16 code unit of four hex digits; 0 if they are invalid, which the parser reports.
fn unit(digits: [u8; 4]) -> u16 {
    std::str::from_utf8(&digits).ok().and_then(|text| u16::from_str_radix(text, 16).ok()).unwrap_or(0)
}
