//! `X-Robots-Tag` of an upload, which downloads repeat (storage.md §3.5).

use http::HeaderMap;

use crate::error::StorageError;

const HEADER: &str = "x-robots-tag";

/// Reads and validates the header.
///
/// # Errors
/// A rule or its value is unknown.
pub(super) fn from_headers(headers: &HeaderMap) -> Result<Option<String>, StorageError> {
    let Some(header) = headers.get(HEADER) else { return Ok(None) };
    let Ok(text) = header.to_str() else {
        return Err(StorageError::invalid_robots_tag("it is no text"));
    };
    let mut rules = text.split(',').peekable();
    while let Some(rule) = rules.next() {
        let known = check(rule.trim(), true)?;
        // A date may contain a comma: `Wed, 25 Jun 2025 15:00:00 GMT`.
        let is_rest = |rest: &&str| rest.trim().starts_with(|first: char| first.is_ascii_digit());
        if known == Rule::Date && rules.peek().is_some_and(is_rest) {
            let _rest = rules.next();
        }
    }
    Ok(Some(text.to_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Date,
    Other,
}

/// Validates one rule, optionally preceded by the name of a robot.
fn check(rule: &str, may_have_robot: bool) -> Result<Rule, StorageError> {
    let unknown = || StorageError::invalid_robots_tag(&format!("unknown rule \"{rule}\""));
    let Some((name, value)) = rule.split_once(':') else {
        return match rule.to_ascii_lowercase().as_str() {
            "all" | "noindex" | "nofollow" | "none" | "nosnippet" | "indexifembedded" | "notranslate"
            | "noimageindex" => Ok(Rule::Other),
            _ => Err(unknown()),
        };
    };
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let is_valid = match name.as_str() {
        "max-snippet" | "max-video-preview" => value.parse::<i64>().is_ok(),
        "max-image-preview" => matches!(value.to_ascii_lowercase().as_str(), "none" | "standard" | "large"),
        "unavailable_after" if value.is_empty() => false,
        "unavailable_after" => return Ok(Rule::Date),
        robot if may_have_robot && is_robot(robot) => return check(value, false),
        _ => return Err(unknown()),
    };
    if is_valid {
        return Ok(Rule::Other);
    }
    Err(StorageError::invalid_robots_tag(&format!("\"{value}\" is no value of {name}")))
}

fn is_robot(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn read(header: &'static str) -> Result<Option<String>, StorageError> {
        let header = HeaderValue::from_static(header);
        from_headers(&HeaderMap::from_iter([(HeaderName::from_static(HEADER), header)]))
    }

    #[test]
    fn accepts_known_rules() {
        for header in [
            "all",
            "noindex, nofollow",
            "NoIndex",
            "max-snippet:10,max-snippet: -1",
            "max-image-preview: large, max-video-preview:0",
            "unavailable_after: 25 Jun 2030 15:00:00 PST",
            "unavailable_after: Wed, 25 Jun 2030 15:00:00 GMT, noindex",
            "googlebot: noindex, otherbot: max-snippet:5",
        ] {
            assert_eq!(read(header), Ok(Some(header.to_owned())), "{header}");
        }
        assert_eq!(from_headers(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn rejects_unknown_rules() {
        for header in [
            "",
            "index",
            "noindex,",
            "max-snippet",
            "max-snippet:many",
            "max-image-preview:huge",
            "unavailable_after:",
            "a: b: noindex",
            ": noindex",
            "bot: unknown",
        ] {
            let error = read(header).unwrap_err();
            assert!(error.message().starts_with("Invalid X-Robots-Tag header: "), "{header}: {error:?}");
        }
    }
}
