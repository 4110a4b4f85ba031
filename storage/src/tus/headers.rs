//! Request headers of the TUS protocol.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::{HeaderMap, StatusCode, header};

use super::refusal::Refusal;
use crate::objects::routes::ObjectPath;

/// Maximum length of `Upload-Metadata` in bytes; the listener limits all headers together.
const MAX_METADATA_BYTES: usize = 16 * 1024;
const BODY_TYPE: &str = "application/offset+octet-stream";

/// Headers of a POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Creation {
    /// `None` if the length is deferred.
    pub(super) length: Option<u64>,
    pub(super) metadata: String,
    /// Whether the request contains the first bytes.
    pub(super) has_body: bool,
}

/// Headers of a PATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Append {
    pub(super) offset: u64,
    /// Length of an upload that did not have one.
    pub(super) length: Option<u64>,
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn invalid(name: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, format!("Invalid {name}"))
}

/// Parses a number: digits only, at most `i64::MAX`.
fn number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(text) = text(headers, name) else { return Ok(None) };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if is_number && i64::try_from(number).is_ok() => Ok(Some(number)),
        _ => Err(invalid(name)),
    }
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, "content-length")?.parse().ok()
}

pub(super) fn signature(headers: &HeaderMap) -> Option<String> {
    text(headers, "x-signature").map(str::to_owned)
}

/// Checks the protocol version.
pub(super) fn resumable(headers: &HeaderMap) -> Result<(), Refusal> {
    match text(headers, "tus-resumable") {
        None => Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "Tus-Resumable Required")),
        Some("1.0.0") => Ok(()),
        Some(_) => Err(invalid("tus-resumable")),
    }
}

/// Whether there is a body; it must have the protocol's content type.
fn has_body(headers: &HeaderMap) -> Result<bool, Refusal> {
    match text(headers, header::CONTENT_TYPE.as_str()) {
        None => Ok(false),
        Some(BODY_TYPE) => Ok(true),
        Some(_) => Err(invalid("content-type")),
    }
}

pub(super) fn creation(headers: &HeaderMap) -> Result<Creation, Refusal> {
    resumable(headers)?;
    if headers.contains_key("upload-concat") {
        let text =
            "Concatenation extension is not (yet) supported. Disable parallel uploads in the tus client.";
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, text));
    }
    let length = number(headers, "upload-length")?;
    let is_deferred = match text(headers, "upload-defer-length") {
        None => false,
        Some("1") if length.is_none() => true,
        Some(_) => return Err(invalid("upload-defer-length")),
    };
    if length.is_none() && !is_deferred {
        let text = "Upload-Length or Upload-Defer-Length header required";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    let metadata = text(headers, "upload-metadata").unwrap_or_default().to_owned();
    Ok(Creation { length, metadata, has_body: has_body(headers)? })
}

pub(super) fn append(headers: &HeaderMap) -> Result<Append, Refusal> {
    resumable(headers)?;
    if !has_body(headers)? {
        return Err(invalid("content-type"));
    }
    let length = number(headers, "upload-length")?;
    let offset = number(headers, "upload-offset")?
        .ok_or_else(|| Refusal::new(StatusCode::FORBIDDEN, "Upload-Offset header required"))?;
    Ok(Append { offset, length })
}

/// Parsed `Upload-Metadata`: pairs of a key and a base64 value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Metadata {
    bucket: Option<String>,
    key: Option<String>,
    pub(super) content_type: Option<String>,
    /// The value to store.
    pub(super) cache_control: String,
    /// User metadata: text of a JSON object.
    pub(super) user_metadata: Option<String>,
    /// The header as HEAD returns it, with the stored `cacheControl`.
    pub(super) echo: String,
}

impl Metadata {
    pub(super) fn read(header: &str) -> Result<Self, Refusal> {
        let mut read = Self {
            bucket: None,
            key: None,
            content_type: None,
            cache_control: "no-cache".to_owned(),
            user_metadata: None,
            echo: String::new(),
        };
        if header.len() > MAX_METADATA_BYTES {
            return Err(invalid("upload-metadata"));
        }
        let mut echoed = Vec::new();
        for pair in header.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, encoded) = pair.split_once(' ').unwrap_or((pair, ""));
            let value = decode(encoded.trim()).ok_or_else(|| invalid("upload-metadata"))?;
            match key {
                "bucketName" => read.bucket = Some(value),
                "objectName" => read.key = Some(value),
                "contentType" => read.content_type = Some(value).filter(|value| !value.is_empty()),
                "metadata" => {
                    // Ignored unless it is a JSON object, as in other uploads.
                    let parsed: Option<serde_json::Map<_, _>> = serde_json::from_str(&value).ok();
                    read.user_metadata = parsed.map(|parsed| serde_json::Value::Object(parsed).to_string());
                }
                "cacheControl" => {
                    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
                        read.cache_control = format!("max-age={value}");
                    }
                    echoed.push(format!("cacheControl {}", STANDARD.encode(&read.cache_control)));
                    continue;
                }
                _ => {}
            }
            echoed.push(pair.to_owned());
        }
        read.echo = echoed.join(",");
        Ok(read)
    }

    /// The object's path; validated later.
    pub(super) fn path(&self) -> Result<ObjectPath, Refusal> {
        let missing = |text: &str| Refusal::new(StatusCode::BAD_REQUEST, text);
        let bucket = self.bucket.clone().ok_or_else(|| missing("Bucket name invalid"))?;
        let key = self.key.clone().ok_or_else(|| missing("Invalid key: undefined"))?;
        Ok(ObjectPath { bucket, key })
    }
}

/// Decodes base64 with or without padding.
fn decode(encoded: &str) -> Option<String> {
    let bytes = STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded)).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn header_map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn status_and_text<T: std::fmt::Debug>(refused: Result<T, Refusal>) -> (u16, String) {
        let refused = refused.unwrap_err();
        (refused.status().as_u16(), format!("{refused:?}").split('"').nth(1).unwrap().to_owned())
    }

    const VERSION: (&str, &str) = ("tus-resumable", "1.0.0");

    #[test]
    fn creation_requires_a_length_or_deferral() {
        let read = creation(&header_map(&[VERSION, ("upload-length", "10"), ("upload-metadata", "a YQ==")]))
            .unwrap();
        assert_eq!((read.length, read.has_body), (Some(10), false));
        let read =
            creation(&header_map(&[VERSION, ("upload-defer-length", "1"), ("content-type", BODY_TYPE)]))
                .unwrap();
        assert_eq!((read.length, read.has_body), (None, true));
        for (headers, expected) in [
            (vec![], (412, "Tus-Resumable Required")),
            (vec![("tus-resumable", "0.2")], (400, "Invalid tus-resumable")),
            (vec![VERSION], (400, "Upload-Length or Upload-Defer-Length header required")),
            (vec![VERSION, ("upload-length", "-1")], (400, "Invalid upload-length")),
            (vec![VERSION, ("upload-length", "99999999999999999999")], (400, "Invalid upload-length")),
            (
                vec![VERSION, ("upload-length", "1"), ("upload-defer-length", "1")],
                (400, "Invalid upload-defer-length"),
            ),
            (
                vec![VERSION, ("upload-length", "1"), ("content-type", "text/plain")],
                (400, "Invalid content-type"),
            ),
        ] {
            assert_eq!(
                status_and_text(creation(&header_map(&headers))),
                (expected.0, expected.1.to_owned()),
                "{headers:?}"
            );
        }
        assert_eq!(status_and_text(creation(&header_map(&[VERSION, ("upload-concat", "partial")]))).0, 501);
    }

    #[test]
    fn patch_requires_offset_and_content_type() {
        let headers = header_map(&[VERSION, ("upload-offset", "5"), ("content-type", BODY_TYPE)]);
        assert_eq!(append(&headers), Ok(Append { offset: 5, length: None }));
        assert_eq!(
            status_and_text(append(&header_map(&[VERSION, ("upload-offset", "5")]))).1,
            "Invalid content-type"
        );
        assert_eq!(status_and_text(append(&header_map(&[VERSION, ("content-type", BODY_TYPE)]))).0, 403);
    }

    #[test]
    fn parses_metadata_pairs() {
        let header =
            "bucketName YnVja2V0, objectName YS9iLnR4dA==,cacheControl MzYwMA==,metadata eyJrIjoxfQ==,empty";
        let read = Metadata::read(header).unwrap();
        assert_eq!(read.path().unwrap().to_string(), "bucket/a/b.txt");
        assert_eq!(read.cache_control, "max-age=3600");
        assert_eq!(read.user_metadata.as_deref(), Some(r#"{"k":1}"#));
        assert_eq!(
            read.echo,
            "bucketName YnVja2V0,objectName YS9iLnR4dA==,cacheControl bWF4LWFnZT0zNjAw,metadata eyJrIjoxfQ==,empty"
        );
        assert_eq!(status_and_text(Metadata::read("a !!")).1, "Invalid upload-metadata");
        assert_eq!(status_and_text(Metadata::read("").unwrap().path()).1, "Bucket name invalid");
        assert_eq!(
            status_and_text(Metadata::read("bucketName YQ").unwrap().path()).1,
            "Invalid key: undefined"
        );
        assert_eq!(Metadata::read("metadata W10=,cacheControl eA==").unwrap().cache_control, "no-cache");
    }
}
