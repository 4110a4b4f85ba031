//! Parsing of client frames. They borrow from the received message; only the envelope is parsed here.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Encoding, Version, json_text};

/// Longer than any counter a client could send.
const MAX_REF_BYTES: usize = 128;

/// The frame cannot be parsed. It is dropped; the socket stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A message from a client.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    /// JSON text of a string or number.
    pub(crate) join_ref: Option<Cow<'a, str>>,
    /// JSON text of a string or number.
    pub(crate) reference: Option<Cow<'a, str>>,
    pub(crate) topic: Cow<'a, str>,
    pub(crate) event: Cow<'a, str>,
    pub(crate) body: Body<'a>,
}

/// Payload of a message.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// JSON text of any value.
    Json(&'a str),
    /// A broadcast in a binary frame (kind 3).
    Broadcast(UserBroadcast<'a>),
    /// A binary push (kind 0), which no event uses.
    Bytes,
}

/// A broadcast whose payload is framed separately from its event.
#[derive(Debug)]
pub(crate) struct UserBroadcast<'a> {
    pub(crate) event: &'a str,
    pub(crate) encoding: Encoding,
    /// Validated if `encoding` is JSON.
    pub(crate) payload: Bytes,
}

#[derive(Deserialize)]
struct Object<'a> {
    topic: String,
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow, default, rename = "ref")]
    reference: Option<&'a RawValue>,
    #[serde(borrow, default)]
    join_ref: Option<&'a RawValue>,
}

impl<'a> Incoming<'a> {
    /// Parses a text frame.
    ///
    /// # Errors
    /// The frame is not a message of this serializer.
    pub(crate) fn text(version: Version, frame: &'a Utf8Bytes) -> Result<Self, Malformed> {
        let (join_ref, reference, topic, event, payload) = match version {
            Version::V1 => {
                let Object { topic, event, payload, reference, join_ref } = serde_json::from_str(frame)
                    .map_err(|_| Malformed("not a JSON object with the keys of a message"))?;
                (join_ref, reference, topic, event, payload)
            }
            Version::V2 => {
                type Parts<'a> = (Option<&'a RawValue>, Option<&'a RawValue>, String, String, &'a RawValue);
                let parts: Parts<'a> = serde_json::from_str(frame)
                    .map_err(|_| Malformed("not a JSON array of five elements"))?;
                parts
            }
        };
        Ok(Self {
            join_ref: checked_ref(join_ref)?,
            reference: checked_ref(reference)?,
            topic: topic.into(),
            event: event.into(),
            body: Body::Json(payload.get()),
        })
    }

    /// Parses a binary frame, which only serializer 2.0.0 has.
    ///
    /// # Errors
    /// The frame is not a message.
    pub(crate) fn binary(frame: &'a Bytes) -> Result<Self, Malformed> {
        let mut rest = Reader { frame, at: 0 };
        match rest.byte()? {
            0 => {
                let lengths = [rest.byte()?, rest.byte()?, rest.byte()?, rest.byte()?];
                let [join_ref, reference, topic, event] = rest.texts(lengths)?;
                Ok(Self {
                    join_ref: text_ref(join_ref)?,
                    reference: text_ref(reference)?,
                    topic: topic.into(),
                    event: event.into(),
                    body: Body::Bytes,
                })
            }
            3 => {
                let lengths = [rest.byte()?, rest.byte()?, rest.byte()?, rest.byte()?, rest.byte()?];
                let encoding = if rest.byte()? == 0 { Encoding::Binary } else { Encoding::Json };
                // The metadata only requests features this server does not have.
                let [join_ref, reference, topic, event, _metadata] = rest.texts(lengths)?;
                let payload = frame.slice(rest.at..);
                if encoding == Encoding::Json && !is_json(&payload) {
                    return Err(Malformed("the payload of a JSON broadcast is not JSON"));
                }
                Ok(Self {
                    join_ref: text_ref(join_ref)?,
                    reference: text_ref(reference)?,
                    topic: topic.into(),
                    event: "broadcast".into(),
                    body: Body::Broadcast(UserBroadcast { event, encoding, payload }),
                })
            }
            _ => Err(Malformed("unknown kind of binary frame")),
        }
    }
}

/// Whether `bytes` is exactly one JSON value. Checked before forwarding: invalid JSON would break the
/// receivers.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// A ref is echoed to the client, so it must be a short string or number.
fn checked_ref(given: Option<&RawValue>) -> Result<Option<Cow<'_, str>>, Malformed> {
    let Some(text) = given.map(RawValue::get) else { return Ok(None) };
    let is_plain = text.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit());
    if !is_plain || text.len() > MAX_REF_BYTES {
        return Err(Malformed("the ref is not a short string"));
    }
    Ok(Some(text.into()))
}

/// An empty ref means none.
fn text_ref(given: &str) -> Result<Option<Cow<'_, str>>, Malformed> {
    if given.len() > MAX_REF_BYTES {
        return Err(Malformed("the ref is too long"));
    }
    Ok((!given.is_empty()).then(|| json_text(given).into()))
}

struct Reader<'a> {
    frame: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<usize, Malformed> {
        let byte = self.frame.get(self.at).ok_or(Malformed("truncated binary frame"))?;
        self.at += 1;
        Ok(usize::from(*byte))
    }

    fn texts<const N: usize>(&mut self, lengths: [usize; N]) -> Result<[&'a str; N], Malformed> {
        let mut texts = [""; N];
        for (text, length) in texts.iter_mut().zip(lengths) {
            let bytes = self.frame.get(self.at..self.at + length);
            let bytes = bytes.ok_or(Malformed("truncated binary frame"))?;
            *text = std::str::from_utf8(bytes).map_err(|_| Malformed("a name is not UTF-8"))?;
            self.at += length;
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(version: Version, frame: &str) -> Result<(String, String, String, String, String), Malformed> {
        let frame = Utf8Bytes::from(frame);
        let read = Incoming::text(version, &frame)?;
        let text = |given: Option<Cow<'_, str>>| given.map_or("-".to_owned(), Cow::into_owned);
        let Body::Json(payload) = read.body else { panic!("{:?}", read.body) };
        let names = (read.topic.into_owned(), read.event.into_owned());
        Ok((text(read.join_ref), text(read.reference), names.0, names.1, payload.to_owned()))
    }

    fn parts(parts: [&str; 5]) -> (String, String, String, String, String) {
        let [a, b, c, d, e] = parts.map(str::to_owned);
        (a, b, c, d, e)
    }

    #[test]
    fn payloads_are_kept_byte_for_byte() {
        let frame = r#"["1","4","realtime:room1","broadcast",{ "n": 1.0e5 , "n":2}]"#;
        let expected = parts(["\"1\"", "\"4\"", "realtime:room1", "broadcast", "{ \"n\": 1.0e5 , \"n\":2}"]);
        assert_eq!(read(Version::V2, frame), Ok(expected));
        let frame = r#"[null,"7","phoenix","heartbeat",{}]"#;
        assert_eq!(read(Version::V2, frame), Ok(parts(["-", "\"7\"", "phoenix", "heartbeat", "{}"])));
        let frame = r#"{"topic":"realtime:a","event":"phx_join","payload":{},"ref":"1","extra":[1]}"#;
        assert_eq!(read(Version::V1, frame), Ok(parts(["-", "\"1\"", "realtime:a", "phx_join", "{}"])));
    }

    #[test]
    fn rejects_malformed_frames() {
        let long = format!(r#"["1","{}","t","e",{{}}]"#, "9".repeat(200));
        for frame in [
            "",
            "x",
            "null",
            "[]",
            r#"["1","4","t","e"]"#,
            r#"["1","4","t","e",{},{}]"#,
            r#"["1","4",5,"e",{}]"#,
            r#"[{"a":1},"4","t","e",{}]"#,
            r#"["1",[1],"t","e",{}]"#,
            r#"{"topic":"t","event":"e","payload":{},"ref":"1"}"#,
            r#"["1","4","t","e",{}] x"#,
            &long,
        ] {
            assert!(read(Version::V2, frame).is_err(), "{frame}");
        }
        for frame in [r#"["1","4","t","e",{}]"#, r#"{"topic":"t","event":"e","ref":"1"}"#, r#"{"topic":"t"}"#]
        {
            assert!(read(Version::V1, frame).is_err(), "{frame}");
        }
    }

    #[test]
    fn parses_binary_broadcasts() {
        let frame = Bytes::from_static(b"\x03\x01\x01\x0a\x01\x00\x0115realtime:ax{}");
        let read = Incoming::binary(&frame).unwrap();
        assert_eq!((read.join_ref.unwrap(), read.reference.unwrap()), ("\"1\"".into(), "\"5\"".into()));
        assert_eq!((read.topic.as_ref(), read.event.as_ref()), ("realtime:a", "broadcast"));
        let Body::Broadcast(broadcast) = read.body else { panic!("{:?}", read.body) };
        assert_eq!((broadcast.event, broadcast.encoding), ("x", Encoding::Json));
        assert_eq!(broadcast.payload, "{}");
        for bad in [
            &b"\x03\x01\x01\x0a\x01\x00\x0115realtime:ax{"[..],
            b"\x03\x01\x01\x0a\x01\x00\x0115realtime:ax{}{}",
            b"\x03\x01\x01\xff\x01\x00\x0115realtime:ax{}",
            b"\x03\x01\x01\x01\x01\x00\x0015\xffx",
            b"\x03",
            b"\x01\x00\x00\x00",
            b"",
        ] {
            assert!(Incoming::binary(&Bytes::copy_from_slice(bad)).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0_u8..5) {
            let mut framed = vec![kind];
            framed.extend_from_slice(&bytes);
            let _read = Incoming::binary(&Bytes::from(framed));
            if let Ok(text) = String::from_utf8(bytes) {
                let text = Utf8Bytes::from(text);
                let _read = (Incoming::text(Version::V1, &text), Incoming::text(Version::V2, &text));
            }
        }
    }
}
