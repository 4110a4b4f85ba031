//! Conditional and range requests (storage.md §3.6, RFC 9110).

use std::ops::Range;

use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::fmt::strtime;
use jiff::tz::Offset;

/// Date formats that RFC 9110 requires.
const DATE_FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Properties of the stored object that conditions compare with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validators<'a> {
    /// With quotes.
    pub(crate) e_tag: Option<&'a str>,
    /// When the bytes were written; compared with a resolution of one second, like header dates.
    pub(crate) last_modified: Option<Timestamp>,
}

/// Whether the client's copy is current: 304.
pub(crate) fn is_unmodified(headers: &HeaderMap, validators: Validators<'_>) -> bool {
    let mut tags = headers.get_all(IF_NONE_MATCH).iter().peekable();
    if tags.peek().is_some() {
        // `If-None-Match` takes precedence.
        return tags.any(|tags| names_tag(tags.as_bytes(), validators.e_tag));
    }
    let since = headers.get(IF_MODIFIED_SINCE).and_then(parse_date);
    match (since, validators.last_modified) {
        (Some(since), Some(modified)) => modified.as_second() <= since.as_second(),
        _ => false,
    }
}

/// Whether a list of tags is `*` or contains this tag. Weak comparison: intermediaries may weaken tags of
/// unchanged bytes.
fn names_tag(list: &[u8], e_tag: Option<&str>) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let Some(e_tag) = e_tag else { return false };
    // Our tags contain neither commas nor quotes, except the enclosing ones.
    list.split(|byte| *byte == b',').any(|tag| {
        let tag = tag.trim_ascii();
        tag.strip_prefix(b"W/").unwrap_or(tag) == e_tag.as_bytes()
    })
}

/// The requested range does not exist or is malformed: 416.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSuchRange;

/// The requested part of `size` bytes; `None` for all of them.
///
/// # Errors
/// The range cannot be satisfied.
pub(crate) fn range(
    headers: &HeaderMap,
    size: u64,
    validators: Validators<'_>,
) -> Result<Option<Range<u64>>, NoSuchRange> {
    let mut wanted = headers.get_all(RANGE).iter();
    let Some(first) = wanted.next() else { return Ok(None) };
    if headers.get(IF_RANGE).is_some_and(|condition| !is_same(condition, validators)) {
        // The client's copy is of another version: send the complete object.
        return Ok(None);
    }
    if wanted.next().is_some() {
        return Err(NoSuchRange);
    }
    first.to_str().ok().and_then(|text| parse_range(text, size)).map(Some).ok_or(NoSuchRange)
}

/// Evaluates `If-Range`: a strong tag or an exact date.
fn is_same(condition: &HeaderValue, validators: Validators<'_>) -> bool {
    let tag = condition.as_bytes().trim_ascii();
    if tag.starts_with(b"\"") || tag.starts_with(b"W/") {
        return validators.e_tag.is_some_and(|e_tag| e_tag.as_bytes() == tag);
    }
    let date = parse_date(condition).map(Timestamp::as_second);
    date.is_some() && date == validators.last_modified.map(Timestamp::as_second)
}

/// Parses one byte range: `bytes=a-b`, `bytes=a-`, `bytes=-n`.
fn parse_range(text: &str, size: u64) -> Option<Range<u64>> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let range = match (first, last) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Some(first), None) => first..size,
        (None, Some(length)) => size.saturating_sub(length)..size,
        (Some(_), Some(_)) | (None, None) => return None,
    };
    (unit.trim().eq_ignore_ascii_case("bytes") && !range.is_empty()).then_some(range)
}

/// Parses digits; `Some(None)` if empty. Saturates at the maximum.
fn number(digits: &str) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| Some(digits.parse().unwrap_or(u64::MAX)))
}

/// Parses a header date.
fn parse_date(value: &HeaderValue) -> Option<Timestamp> {
    let text = value.to_str().ok()?.trim();
    let date: DateTime =
        DATE_FORMS.iter().find_map(|form| strtime::parse(form, text).ok()?.to_datetime().ok())?;
    Offset::UTC.to_timestamp(date).ok()
}

/// Formats a header date, truncated to seconds.
pub(crate) fn http_date(time: Timestamp) -> Option<HeaderValue> {
    let second = Timestamp::from_second(time.as_second()).ok()?;
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&second).ok()?;
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"781e5e245d69b566979b86e28d23f2c7\"";

    fn validators() -> Validators<'static> {
        let last_modified = Some("2026-11-20T09:30:55.999Z".parse().unwrap());
        Validators { e_tag: Some(TAG), last_modified }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn matching_tag_means_unmodified() {
        for (tags, is_fresh) in [
            (TAG, true),
            (&format!("W/{TAG}"), true),
            (&format!("\"a\", W/\"b\" ,{TAG}"), true),
            ("*", true),
            (" * ", true),
            ("\"a\"", false),
            ("781e5e245d69b566979b86e28d23f2c7", false),
            ("", false),
            ("\"*\"", false),
        ] {
            assert_eq!(is_unmodified(&headers(&[("if-none-match", tags)]), validators()), is_fresh, "{tags}");
        }
        let twice = headers(&[("if-none-match", "\"a\""), ("if-none-match", TAG)]);
        assert!(is_unmodified(&twice, validators()));
        let untagged = Validators { e_tag: None, ..validators() };
        assert!(!is_unmodified(&headers(&[("if-none-match", TAG)]), untagged));
        assert!(is_unmodified(&headers(&[("if-none-match", "*")]), untagged));
    }

    #[test]
    fn compares_dates_by_second_in_all_formats() {
        for (date, is_fresh) in [
            ("Fri, 20 Nov 2026 09:30:55 GMT", true),
            ("Fri, 20 Nov 2026 09:30:54 GMT", false),
            ("Friday, 20-Nov-26 09:30:55 GMT", true),
            ("Friday, 20-Nov-26 09:30:54 GMT", false),
            ("Fri Nov 20 09:30:55 2026", true),
            ("Sun Nov  6 08:49:37 1994", false),
            ("Sat, 21 Nov 2026 00:00:00 GMT", true),
            ("tomorrow", false),
            ("2026-11-21T00:00:00Z", false),
            ("", false),
        ] {
            assert_eq!(
                is_unmodified(&headers(&[("if-modified-since", date)]), validators()),
                is_fresh,
                "{date}"
            );
        }
        let undated = Validators { last_modified: None, ..validators() };
        let since = headers(&[("if-modified-since", "Sat, 21 Nov 2026 00:00:00 GMT")]);
        assert!(!is_unmodified(&since, undated));
        let both =
            headers(&[("if-modified-since", "Sat, 21 Nov 2026 00:00:00 GMT"), ("if-none-match", "\"a\"")]);
        assert!(!is_unmodified(&both, validators()), "the tag takes precedence");
        assert_eq!(http_date(validators().last_modified.unwrap()).unwrap(), "Fri, 20 Nov 2026 09:30:55 GMT");
    }

    #[test]
    fn parses_a_single_byte_range() {
        for (text, size, expected) in [
            ("bytes=0-3", 10, Some(0..4)),
            ("bytes=0-0", 10, Some(0..1)),
            ("bytes=3-", 10, Some(3..10)),
            ("bytes=-4", 10, Some(6..10)),
            ("bytes=-40", 10, Some(0..10)),
            ("bytes=2-99", 10, Some(2..10)),
            ("bytes=9-9", 10, Some(9..10)),
            ("bytes=0-18446744073709551615", 10, Some(0..10)),
            ("bytes=-99999999999999999999999", 10, Some(0..10)),
            ("Bytes=0-3", 10, Some(0..4)),
            ("bytes=10-", 10, None),
            ("bytes=10-12", 10, None),
            ("bytes=99999999999999999999999-", 10, None),
            ("bytes=4-3", 10, None),
            ("bytes=-0", 10, None),
            ("bytes=-", 10, None),
            ("bytes=", 10, None),
            ("bytes", 10, None),
            ("", 10, None),
            ("bytes=0-1,3-4", 10, None),
            ("bytes=a-b", 10, None),
            ("bytes=+1-2", 10, None),
            ("bytes=0-1-2", 10, None),
            ("items=0-3", 10, None),
            ("bytes=0-", 0, None),
            ("bytes=-1", 0, None),
        ] {
            let found = range(&headers(&[("range", text)]), size, validators());
            assert_eq!(found, expected.map(Some).ok_or(NoSuchRange), "{text} of {size}");
        }
        assert_eq!(range(&HeaderMap::new(), 10, validators()), Ok(None));
        let twice = headers(&[("range", "bytes=0-1"), ("range", "bytes=3-4")]);
        assert_eq!(range(&twice, 10, validators()), Err(NoSuchRange));
    }

    #[test]
    fn if_range_mismatch_returns_the_complete_object() {
        for (condition, is_same) in [
            (TAG, true),
            (&format!("W/{TAG}"), false),
            ("\"a\"", false),
            ("Fri, 20 Nov 2026 09:30:55 GMT", true),
            ("Fri, 20 Nov 2026 09:30:56 GMT", false),
            ("x", false),
        ] {
            let found = range(&headers(&[("range", "bytes=0-3"), ("if-range", condition)]), 10, validators());
            assert_eq!(found, Ok(is_same.then_some(0..4)), "{condition}");
        }
    }
}
