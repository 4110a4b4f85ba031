//! What the client takes (`Accept-Encoding`) and what it has already (`If-None-Match`, `If-Modified-Since`).

use http::header::{ACCEPT_ENCODING, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};

/// A compressed form that the build may have put beside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Brotli,
    Gzip,
}

impl Encoding {
    /// The name in `Content-Encoding`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The ending of the sibling's name.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }
}

/// The forms the client takes, best first: by its weights, brotli before gzip when it does not care.
pub(super) fn encodings(headers: &HeaderMap) -> Vec<Encoding> {
    let listed: Vec<(&str, f32)> = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|item| {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            let weight = parameters
                .trim()
                .strip_prefix("q=")
                .map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
            (name.trim(), weight)
        })
        .collect();
    let weight_of = |encoding: Encoding| {
        let named = listed.iter().find(|(name, _)| name.eq_ignore_ascii_case(encoding.name()));
        named.or_else(|| listed.iter().find(|(name, _)| *name == "*")).map_or(0.0, |(_, weight)| *weight)
    };
    let mut weighted = [Encoding::Brotli, Encoding::Gzip].map(|encoding| (encoding, weight_of(encoding)));
    weighted.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    weighted.into_iter().filter(|(_, weight)| *weight > 0.0).map(|(encoding, _)| encoding).collect()
}

/// By what a client can tell whether its copy is still the one.
pub(super) struct Validators {
    pub(super) etag: HeaderValue,
    pub(super) last_modified: Option<HeaderValue>,
    modified_seconds: i64,
}

impl Validators {
    /// From the time of the last change (seconds and nanoseconds since 1970) and the length in bytes.
    pub(super) fn new(seconds: i64, nanoseconds: i64, length: u64, encoding: Option<Encoding>) -> Self {
        let suffix = encoding.map_or("", Encoding::suffix);
        let etag = HeaderValue::try_from(format!("\"{seconds:x}-{nanoseconds:x}-{length:x}{suffix}\""))
            .unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        let date = Timestamp::from_second(seconds).ok();
        let date = date.and_then(|date| DateTimePrinter::new().timestamp_to_rfc9110_string(&date).ok());
        Self {
            etag,
            last_modified: date.and_then(|date| HeaderValue::try_from(date).ok()),
            modified_seconds: seconds,
        }
    }

    /// Whether the client's copy is current (RFC 9110, 13.2.2: the tag decides where there is one).
    pub(super) fn is_fresh_for(&self, headers: &HeaderMap) -> bool {
        let mut tags = headers.get_all(IF_NONE_MATCH).iter().peekable();
        if tags.peek().is_some() {
            let ours = self.etag.to_str().unwrap_or_default();
            return tags.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(
                |tag| {
                    let tag = tag.trim();
                    tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == ours
                },
            );
        }
        let since = headers.get(IF_MODIFIED_SINCE).and_then(|value| value.to_str().ok());
        let since = since.and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
        since.is_some_and(|since| self.modified_seconds <= since.as_second())
    }
}
