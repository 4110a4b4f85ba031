//! Object metadata: what the server records, and what users supply (storage.md §3.5).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::error::StorageError;

/// User metadata of uploads without any.
pub(crate) const NO_USER_METADATA: &str = "{}";

/// Header with base64-encoded user metadata.
const X_METADATA: &str = "x-metadata";

/// Decodes like Node: padding is optional, trailing bits are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// `storage.objects.metadata` of an upload.
#[derive(Debug)]
pub(super) struct ObjectMetadata<'a> {
    /// With quotes.
    pub(super) e_tag: &'a str,
    pub(super) size: u64,
    pub(super) mime_type: &'a str,
    pub(super) cache_control: &'a str,
    pub(super) robots: Option<&'a str>,
    pub(super) written_at: Timestamp,
}

impl ObjectMetadata<'_> {
    pub(super) fn to_json(&self) -> String {
        let mut metadata = Map::new();
        let mut set = |name: &str, value: Value| drop(metadata.insert(name.to_owned(), value));
        set("eTag", self.e_tag.into());
        set("size", self.size.into());
        set("mimetype", self.mime_type.into());
        set("cacheControl", self.cache_control.into());
        set("lastModified", iso(self.written_at).into());
        set("contentLength", self.size.into());
        set("httpStatusCode", 200.into());
        if let Some(robots) = self.robots {
            set("xRobotsTag", robots.into());
        }
        Value::Object(metadata).to_string()
    }
}

/// ISO 8601 with milliseconds.
pub(super) fn iso(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Validates user metadata. `None` if the text is not JSON, which is not an error.
///
/// # Errors
/// The JSON is not an object, or PostgreSQL cannot store it.
pub(crate) fn user_metadata(json: &str) -> Result<Option<String>, StorageError> {
    let Ok(value) = serde_json::from_str::<Value>(json) else { return Ok(None) };
    if !value.is_object() || has_nul(&value) {
        return Err(StorageError::invalid_json());
    }
    Ok(Some(json.to_owned()))
}

/// User metadata from the header `x-metadata`.
///
/// # Errors
/// As for [`user_metadata`].
pub(crate) fn user_metadata_header(headers: &HeaderMap) -> Result<Option<String>, StorageError> {
    let Some(header) = headers.get(X_METADATA) else { return Ok(None) };
    let Ok(bytes) = BASE64.decode(header.as_bytes()) else { return Ok(None) };
    user_metadata(&String::from_utf8_lossy(&bytes))
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
    }
}

/// Whether the text can be sent as a header value.
pub(super) fn is_header_value(text: &str) -> bool {
    HeaderValue::from_bytes(text.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_matches_upstream() {
        let metadata = ObjectMetadata {
            e_tag: "\"781e5e245d69b566979b86e28d23f2c7\"",
            size: 10,
            mime_type: "text/plain",
            cache_control: "max-age=3600",
            robots: None,
            written_at: "2026-11-20T09:30:55.0426Z".parse().unwrap(),
        };
        let expected = r#"{"eTag":"\"781e5e245d69b566979b86e28d23f2c7\"","size":10,"mimetype":"text/plain","cacheControl":"max-age=3600","lastModified":"2026-11-20T09:30:55.042Z","contentLength":10,"httpStatusCode":200}"#;
        assert_eq!(metadata.to_json(), expected);
        let robots = ObjectMetadata { robots: Some("none"), ..metadata }.to_json();
        assert!(robots.ends_with(r#","httpStatusCode":200,"xRobotsTag":"none"}"#), "{robots}");
    }

    #[test]
    fn user_metadata_must_be_a_json_object() {
        for json in [r#"{"a": 1e2}"#, "{}", r#" {"a":{"b":["\\u0000"]}}"#] {
            assert_eq!(user_metadata(json), Ok(Some(json.to_owned())), "{json}");
        }
        for json in ["", "{", "no", "\"", r#"{"a":"\ud800"}"#] {
            assert_eq!(user_metadata(json), Ok(None), "{json}");
        }
        for json in ["1", "\"a\"", "[{}]", "null", r#"{"a":["\u0000"]}"#, r#"{"\u0000":1}"#] {
            assert_eq!(user_metadata(json), Err(StorageError::invalid_json()), "{json}");
        }
    }

    #[test]
    fn decodes_the_base64_header() {
        let read = |header: &'static str| {
            let header = HeaderValue::from_static(header);
            user_metadata_header(&HeaderMap::from_iter([(http::HeaderName::from_static(X_METADATA), header)]))
        };
        assert_eq!(read("eyJhIjoxfQ=="), Ok(Some(r#"{"a":1}"#.to_owned())));
        assert_eq!(read("eyJhIjoxfQ"), Ok(Some(r#"{"a":1}"#.to_owned())));
        assert_eq!(read("MQ=="), Err(StorageError::invalid_json()));
        assert_eq!(read("!"), Ok(None));
        assert_eq!(read("////"), Ok(None));
        assert_eq!(user_metadata_header(&HeaderMap::new()), Ok(None));
    }
}
