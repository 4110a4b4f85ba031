//! Path to the role in the claims (`rest.role_claim`, rest.md §3.15): keys and indexes, as in `.role`,
//! `."https://example.com/role".key` or `.app.roles[0]`. A leading `$` is ignored.
//!
//! A claim that is not a string still names a role, by its JSON text. Such a role is unlikely to exist, and
//! PostgreSQL then rejects it; treating the caller as anonymous would hide a broken token.

use std::borrow::Cow;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::ConfigError;

/// Path to a value in the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath {
    key: String,
    rest: Vec<Step>,
}

/// A step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Default for ClaimPath {
    fn default() -> Self {
        Self { key: "role".to_owned(), rest: Vec::new() }
    }
}

impl ClaimPath {
    /// Role named by the claims; `None` if the path does not exist.
    #[must_use]
    pub fn role<'a>(&self, claims: &'a Map<String, Value>) -> Option<Cow<'a, str>> {
        let found = self.rest.iter().try_fold(claims.get(&self.key)?, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })?;
        Some(found.as_str().map_or_else(|| Cow::Owned(found.to_string()), Cow::Borrowed))
    }
}

impl FromStr for ClaimPath {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let path = text.trim();
        steps(path.strip_prefix('$').unwrap_or(path))
            .and_then(|steps| {
                let mut steps = steps.into_iter();
                let Some(Step::Key(key)) = steps.next() else { return None };
                Some(Self { key, rest: steps.collect() })
            })
            .ok_or_else(|| ConfigError::ClaimPath(text.to_owned()))
    }
}

/// Parses a sequence of `.key`, `."any text"` and `[0]`.
fn steps(mut text: &str) -> Option<Vec<Step>> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@');
    let mut steps = Vec::new();
    while !text.is_empty() {
        let (step, rest) = if let Some(quoted) = text.strip_prefix(".\"") {
            let (key, rest) = quoted.split_once('"')?;
            (Step::Key(key.to_owned()), rest)
        } else if let Some(word) = text.strip_prefix('.') {
            let (key, rest) = word.split_at_checked(word.find(|c| !is_word(c)).unwrap_or(word.len()))?;
            (Step::Key(Some(key).filter(|key| !key.is_empty())?.to_owned()), rest)
        } else {
            let (index, rest) = text.strip_prefix('[')?.split_once(']')?;
            (Step::Index(index.parse().ok()?), rest)
        };
        steps.push(step);
        text = rest;
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(path: &str) -> Option<String> {
        let claims = json!({
            "role": "a", "$x@1": "odd", "https://x/role": {"key": "author"}, "n": 7, "nothing": null, "empty": "",
            "app": {"my roles": ["x", "y"]},
        });
        let path: ClaimPath = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        path.role(claims.as_object().unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn path_of_keys_and_indexes_finds_role() {
        for (path, found) in [
            (".role", "a"),
            ("$.role", "a"),
            (".$x@1", "odd"),
            (".\"https://x/role\".key", "author"),
            (".app.\"my roles\"[1]", "y"),
            ("$.app.\"my roles\"[0]", "x"),
        ] {
            assert_eq!(role(path).as_deref(), Some(found), "{path}");
        }
        assert_eq!(ClaimPath::default(), ".role".parse().unwrap());
    }

    #[test]
    fn non_string_claim_yields_json_text() {
        assert_eq!(role(".n").as_deref(), Some("7"));
        assert_eq!(role(".nothing").as_deref(), Some("null"));
        assert_eq!(role(".empty").as_deref(), Some(""));
        assert_eq!(role(".app.\"my roles\"").as_deref(), Some(r#"["x","y"]"#));
        assert_eq!(role(".gone"), None);
        assert_eq!(role(".role.deeper"), None);
        assert_eq!(role(".app.\"my roles\"[2]"), None);
    }

    #[test]
    fn invalid_path_is_rejected() {
        for wrong in [
            "role", "", ".", "$", ".a..b", "[0]", "$[0]", ".a[x]", ".x-y", ".a[0", ".\"a", "$$.role", ".a[*]",
        ] {
            assert!(wrong.parse::<ClaimPath>().is_err(), "{wrong}");
        }
    }
}
