//! Size limits of buckets: numbers, or strings with a unit (storage.md §3.3).

use crate::error::StorageError;
use crate::json_body::{Fields, as_integer, as_string};

const MEMBER: &str = "file_size_limit";
const PATTERN: &str = r"^[0-9]+(\.[0-9]+)?(gb|mb|kb|b)$";

/// The member `file_size_limit` in bytes. `None` if missing; `Some(None)` if null, which removes the limit.
///
/// # Errors
/// The value is not a size, or exceeds `max`, the server's limit.
pub(super) fn read(fields: &Fields<'_>, max: u64) -> Result<Option<Option<u64>>, StorageError> {
    let Some(value) = fields.value(MEMBER) else { return Ok(None) };
    if value.is_null() || value.as_str() == Some("") {
        return Ok(Some(None));
    }
    let number = as_integer(value);
    let bytes = match number.map(u64::try_from) {
        Some(Ok(bytes)) => bytes,
        not_bytes => {
            let text = as_string(value);
            let Some(bytes) = text.as_deref().and_then(with_unit) else {
                let first = if not_bytes.is_some() { "must be >= 0" } else { "must be integer" };
                let second = match text {
                    Some(_) => format!("must match pattern \"{PATTERN}\""),
                    None => "must be string".to_owned(),
                };
                let at = format!("body/{MEMBER}");
                return Err(StorageError::invalid_request(format!(
                    "{at} {first}, {at} {second}, {at} must match a schema in anyOf"
                )));
            };
            bytes
        }
    };
    if bytes > max { Err(StorageError::entity_too_large()) } else { Ok(Some(Some(bytes))) }
}

/// Parses sizes like `1.5MB`: units are powers of 1000, rounded to three significant digits.
fn with_unit(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let units = [("gb", 1e9), ("mb", 1e6), ("kb", 1e3), ("b", 1.0)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = match number.split_once('.') {
        Some((integer, fraction)) => is_digits(integer) && is_digits(fraction),
        None => is_digits(number),
    };
    if !is_number {
        return None;
    }
    // At this precision the text is the number's exact value, which distinguishes a tie from a near-tie.
    let number = number.parse::<f64>().ok().filter(|number| number.is_finite()).unwrap_or(f64::MAX);
    let exact = format!("{number:.60e}");
    let (digits, exponent) = exact.split_once('e')?;
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    let [first, second, third, fourth, ..] = digits.as_slice() else { return None };
    let three = f64::from(*first) * 100.0 + f64::from(*second) * 10.0 + f64::from(*third);
    let rounded = if *fourth >= 5 { three + 1.0 } else { three };
    let exponent: i32 = exponent.parse().ok()?;
    let bytes = (rounded * 10f64.powi(exponent - 2) * factor).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; float casts saturate"
    )]
    Some(bytes as u64)
}

/// Maximum size of an object: the minimum of the limits of server, bucket and protocol.
pub(crate) fn effective(server: u64, bucket: Option<u64>, protocol: Option<u64>) -> u64 {
    server.min(bucket.unwrap_or(u64::MAX)).min(protocol.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::{CONTENT_TYPE, HeaderValue};
    use serde_json::{Value, json};

    use super::*;
    use crate::json_body::{EmptyBody, JsonBody};

    const MAX: u64 = 50_000_000_000;

    fn limit(value: &Value) -> Result<Option<Option<u64>>, String> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let body = json!({ MEMBER: value }).to_string();
        let body = JsonBody::parse(&headers, body.as_bytes(), EmptyBody::Refused).unwrap();
        read(&body.fields().unwrap(), MAX).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn parses_numbers_and_units() {
        for (value, bytes) in [
            (json!(0), 0),
            (json!(1000), 1000),
            (json!(5.0), 5),
            (json!("1000"), 1000),
            (json!("10b"), 10),
            (json!("20KB"), 20_000),
            (json!("20mb"), 20_000_000),
            (json!("1.5Gb"), 1_500_000_000),
            (json!("1.23456MB"), 1_230_000),
            (json!("1.125MB"), 1_130_000),
            (json!("1.005MB"), 1_000_000),
            (json!("9.999kb"), 10_000),
            (json!("12345b"), 12_300),
            (json!("0b"), 0),
            (json!("0.0005kb"), 1),
            (json!(true), 1),
            (json!([7]), 7),
        ] {
            assert_eq!(limit(&value), Ok(Some(Some(bytes))), "{value}");
        }
        assert_eq!(limit(&json!(null)), Ok(Some(None)));
        assert_eq!(limit(&json!("")), Ok(Some(None)));
    }

    #[test]
    fn rejects_invalid_sizes() {
        let pattern = format!("must match pattern \"{PATTERN}\"");
        for (value, first, second) in [
            (json!("abc"), "must be integer", pattern.as_str()),
            (json!("10 MB"), "must be integer", &pattern),
            (json!("1e3MB"), "must be integer", &pattern),
            (json!(".5MB"), "must be integer", &pattern),
            (json!("5.MB"), "must be integer", &pattern),
            (json!("10MB\n"), "must be integer", &pattern),
            (json!("-1MB"), "must be integer", &pattern),
            (json!("MB"), "must be integer", &pattern),
            (json!(1.5), "must be integer", &pattern),
            (json!(-1), "must be >= 0", &pattern),
            (json!("-1"), "must be >= 0", &pattern),
            (json!({}), "must be integer", "must be string"),
            (json!([1, 2]), "must be integer", "must be string"),
        ] {
            let at = "body/file_size_limit";
            let expected = format!("{at} {first}, {at} {second}, {at} must match a schema in anyOf");
            assert_eq!(limit(&value), Err(expected), "{value}");
        }
    }

    #[test]
    fn rejects_limits_above_the_servers() {
        assert_eq!(limit(&json!(MAX)), Ok(Some(Some(MAX))));
        let nines = "9".repeat(400) + "GB";
        for value in [json!(MAX + 1), json!("51GB"), json!(1e300), json!(nines)] {
            assert_eq!(limit(&value), Err("The object exceeded the maximum allowed size".to_owned()));
        }
    }

    #[test]
    fn effective_limit_is_the_minimum() {
        assert_eq!(effective(10, None, None), 10);
        assert_eq!(effective(10, Some(20), Some(5)), 5);
        assert_eq!(effective(10, Some(0), None), 0);
    }
}
