//! Frames of both serializers (realtime.md 3.2), incoming (`frames/incoming.rs`) and outgoing. A message to
//! many channels is encoded once per serializer ([`Fanout`]).

mod incoming;

use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use uuid::Uuid;

pub(crate) use incoming::{Body, Incoming, Malformed, UserBroadcast};

/// The serializer of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// `1.0.0`: JSON objects.
    V1,
    /// `2.0.0`: JSON arrays, and binary frames of broadcasts.
    V2,
}

impl Version {
    /// Parses the handshake's `vsn`; accepts every compatible version.
    pub(crate) fn parse(vsn: &str) -> Option<Self> {
        let mut parts = vsn.split('.').map(|part| part.parse::<u32>().ok());
        let (major, minor, _patch) = (parts.next()??, parts.next()??, parts.next()??);
        match (major, minor, parts.next()) {
            (1, 0, None) => Some(Self::V1),
            (2, 0, None) => Some(Self::V2),
            _ => None,
        }
    }
}

/// Encodes text as a JSON string, including quotes.
pub(crate) fn json_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// Encodes a text frame. Refs and topic are JSON texts, `payload` is a JSON object; `event` is not escaped.
pub(crate) fn text(
    version: Version,
    join_ref: Option<&str>,
    reference: Option<&str>,
    topic: &str,
    event: &str,
    payload: &str,
) -> Message {
    let (join_ref, reference) = (join_ref.unwrap_or("null"), reference.unwrap_or("null"));
    let length = join_ref.len() + reference.len() + topic.len() + event.len() + payload.len() + 48;
    let mut out = String::with_capacity(length);
    match version {
        Version::V1 => {
            out.push_str("{\"topic\":");
            out.push_str(topic);
            out.push_str(",\"event\":\"");
            out.push_str(event);
            out.push_str("\",\"payload\":");
            out.push_str(payload);
            out.push_str(",\"ref\":");
            out.push_str(reference);
            out.push('}');
        }
        Version::V2 => {
            out.push('[');
            out.push_str(join_ref);
            out.push(',');
            out.push_str(reference);
            out.push(',');
            out.push_str(topic);
            out.push_str(",\"");
            out.push_str(event);
            out.push_str("\",");
            out.push_str(payload);
            out.push(']');
        }
    }
    Message::Text(Utf8Bytes::from(out))
}

/// Encoding of a broadcast's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Encoding {
    Binary,
    /// Validated JSON.
    Json,
}

/// Content of a fan-out.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A text frame whose payload is a JSON object.
    Text { event: &'static str, payload: Bytes },
    /// A broadcast whose payload is framed separately from its event: kind 4.
    User {
        /// The user's event name.
        event: Box<str>,
        encoding: Encoding,
        meta: Option<Box<str>>,
        payload: Bytes,
    },
}

/// A message to all channels of a topic, encoded lazily, once per serializer.
#[derive(Debug)]
pub(crate) struct Fanout {
    /// Full name, `realtime:…`.
    topic: Box<str>,
    content: Content,
    /// Id of a message stored in `realtime.messages`.
    pub(crate) id: Option<Uuid>,
    v1: OnceLock<Option<Message>>,
    v2: OnceLock<Option<Message>>,
}

impl Fanout {
    pub(crate) fn new(topic: impl Into<Box<str>>, content: Content) -> Self {
        Self { topic: topic.into(), content, id: None, v1: OnceLock::new(), v2: OnceLock::new() }
    }

    /// Marks it as a message stored in `realtime.messages`.
    pub(crate) fn with_id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// The encoded frame, or `None` if the serializer cannot represent it.
    pub(crate) fn frame(&self, version: Version) -> Option<Message> {
        let encoded = match version {
            Version::V1 => &self.v1,
            Version::V2 => &self.v2,
        };
        encoded.get_or_init(|| self.encode(version, None)).clone()
    }

    /// Encoded as a push to one channel, with its join ref.
    pub(crate) fn push_frame(&self, version: Version, join_ref: &str) -> Option<Message> {
        self.encode(version, Some(join_ref))
    }

    fn encode(&self, version: Version, join_ref: Option<&str>) -> Option<Message> {
        match &self.content {
            Content::Text { event, payload } => {
                let payload = std::str::from_utf8(payload).ok()?;
                Some(text(version, join_ref, None, &json_text(&self.topic), event, payload))
            }
            Content::User { event, encoding, meta, payload } => {
                let meta = meta.as_deref();
                if version == Version::V2
                    && (join_ref.is_none() || *encoding == Encoding::Binary)
                    && let Some(frame) = user_broadcast(&self.topic, event, *encoding, meta, payload)
                {
                    return Some(Message::Binary(frame));
                }
                // Text frames cannot carry bytes.
                if *encoding == Encoding::Binary {
                    return None;
                }
                let payload = broadcast_object(event, std::str::from_utf8(payload).ok()?, meta);
                Some(text(version, join_ref, None, &json_text(&self.topic), "broadcast", &payload))
            }
        }
    }
}

/// `{"event":…,"payload":…,"type":"broadcast"}`.
pub(crate) fn broadcast_object(event: &str, payload: &str, meta: Option<&str>) -> String {
    let event = json_text(event);
    let meta_length = meta.map_or(0, |meta| meta.len() + 8);
    let mut out = String::with_capacity(event.len() + payload.len() + meta_length + 48);
    out.push_str("{\"event\":");
    out.push_str(&event);
    out.push_str(",\"payload\":");
    out.push_str(payload);
    out.push_str(",\"type\":\"broadcast\"");
    if let Some(meta) = meta {
        out.push_str(",\"meta\":");
        out.push_str(meta);
    }
    out.push('}');
    out
}

/// Encodes kind 4. `None` if a name is too long for its one-byte length.
fn user_broadcast(
    topic: &str,
    event: &str,
    encoding: Encoding,
    meta: Option<&str>,
    payload: &[u8],
) -> Option<Bytes> {
    let meta = meta.unwrap_or_default();
    let lengths =
        [u8::try_from(topic.len()).ok()?, u8::try_from(event.len()).ok()?, u8::try_from(meta.len()).ok()?];
    let mut out = BytesMut::with_capacity(5 + topic.len() + event.len() + meta.len() + payload.len());
    out.put_u8(4);
    out.put_slice(&lengths);
    out.put_u8(u8::from(encoding == Encoding::Json));
    for part in [topic.as_bytes(), event.as_bytes(), meta.as_bytes(), payload] {
        out.put_slice(part);
    }
    Some(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_versions_like_upstream() {
        for (vsn, version) in [
            ("1.0.0", Some(Version::V1)),
            ("2.0.0", Some(Version::V2)),
            ("2.0.7", Some(Version::V2)),
            ("2.1.0", None),
            ("3.0.0", None),
            ("2.0", None),
            ("2.0.0.0", None),
            ("", None),
            ("two", None),
        ] {
            assert_eq!(Version::parse(vsn), version, "{vsn}");
        }
    }

    #[test]
    fn encodes_text_frames_for_both_serializers() {
        let frame =
            |version| text(version, Some("\"1\""), Some("\"4\""), "\"realtime:a\"", "phx_reply", "{}");
        assert_eq!(frame(Version::V2).to_text().unwrap(), r#"["1","4","realtime:a","phx_reply",{}]"#);
        let expected = r#"{"topic":"realtime:a","event":"phx_reply","payload":{},"ref":"4"}"#;
        assert_eq!(frame(Version::V1).to_text().unwrap(), expected);
    }

    #[test]
    fn user_broadcast_is_kind_4_in_v2_and_json_in_v1() {
        let content = Content::User {
            event: "x".into(),
            encoding: Encoding::Json,
            meta: None,
            payload: Bytes::from_static(b"{}"),
        };
        let fanout = Fanout::new("realtime:a", content);
        let expected = b"\x04\x0a\x01\x00\x01realtime:ax{}";
        assert_eq!(fanout.frame(Version::V2).unwrap().into_data().as_ref(), expected);
        let old = fanout.frame(Version::V1).unwrap();
        let expected = r#"{"topic":"realtime:a","event":"broadcast","payload":{"event":"x","payload":{},"type":"broadcast"},"ref":null}"#;
        assert_eq!(old.to_text().unwrap(), expected);
    }

    #[test]
    fn long_names_fall_back_to_text_or_drop_bytes() {
        let topic = format!("realtime:{}", "é".repeat(150));
        let content = |encoding| Content::User {
            event: "x".into(),
            encoding,
            meta: Some("{\"id\":\"1\"}".into()),
            payload: Bytes::from_static(b"1"),
        };
        let json = Fanout::new(topic.as_str(), content(Encoding::Json)).frame(Version::V2).unwrap();
        let read: Value = serde_json::from_str(json.to_text().unwrap()).unwrap();
        let object =
            serde_json::json!({ "event": "x", "payload": 1, "type": "broadcast", "meta": { "id": "1" } });
        assert_eq!(read, serde_json::json!([null, null, topic, "broadcast", object]));
        assert!(Fanout::new(topic.as_str(), content(Encoding::Binary)).frame(Version::V2).is_none());
        assert!(Fanout::new("realtime:a", content(Encoding::Binary)).frame(Version::V1).is_none());
    }
}
