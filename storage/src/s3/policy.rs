//! The policy of a POST form: a signed list of conditions that cover every field of the form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

/// Fields that need no condition.
const UNCOVERED_FIELDS: [&str; 4] = ["policy", "x-amz-signature", "file", "awsaccesskeyid"];

/// Why a form is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    /// The policy is not base64-encoded JSON of the expected form.
    #[error("Invalid Policy: {0}")]
    Malformed(String),
    /// The policy has expired.
    #[error("Invalid according to Policy: Policy expired.")]
    Expired,
    /// A field violates a condition.
    #[error("Invalid according to Policy: Policy Condition failed: {0}")]
    Failed(String),
    /// A field is not covered by a condition.
    #[error("Invalid according to Policy: Extra input fields: {0}")]
    Extra(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Equals(String, String),
    StartsWith(String, String),
}

impl Condition {
    fn field(&self) -> &str {
        match self {
            Self::Equals(field, _) | Self::StartsWith(field, _) => field,
        }
    }
}

/// A parsed policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    expires_at: Timestamp,
    conditions: Vec<Condition>,
    /// Minimum and maximum size of the file.
    pub(crate) length: Option<(u64, u64)>,
}

impl Policy {
    /// Parses a base64-encoded policy document.
    ///
    /// # Errors
    /// The document is malformed.
    pub(crate) fn parse(base64: &str) -> Result<Self, PolicyError> {
        let malformed = |why: &str| PolicyError::Malformed(why.to_owned());
        let json = STANDARD.decode(base64).map_err(|_| malformed("not base64"))?;
        let document: Value = serde_json::from_slice(&json).map_err(|_| malformed("not JSON"))?;
        let expires_at = document
            .get("expiration")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| malformed("expiration must be a date"))?;
        let listed = document.get("conditions").and_then(Value::as_array);
        let mut policy = Self { expires_at, conditions: Vec::new(), length: None };
        for condition in listed.ok_or_else(|| malformed("conditions must be a list"))? {
            policy.add(condition).ok_or_else(|| PolicyError::Malformed(format!("condition {condition}")))?;
        }
        Ok(policy)
    }

    fn add(&mut self, condition: &Value) -> Option<()> {
        match condition {
            Value::Object(pairs) => {
                for (field, value) in pairs {
                    let value = value.as_str()?.to_owned();
                    self.conditions.push(Condition::Equals(field.to_ascii_lowercase(), value));
                }
            }
            Value::Array(parts) => {
                let [operator, first, second] = parts.as_slice() else { return None };
                let operator = operator.as_str()?.to_ascii_lowercase();
                if operator == "content-length-range" {
                    self.length = Some((length(first)?, length(second)?));
                    return Some(());
                }
                let field = first.as_str()?.strip_prefix('$')?.to_ascii_lowercase();
                let value = second.as_str()?.to_owned();
                self.conditions.push(match operator.as_str() {
                    "eq" => Condition::Equals(field, value),
                    "starts-with" => Condition::StartsWith(field, value),
                    _ => return None,
                });
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        }
        Some(())
    }

    /// Checks a form's fields, with lower-case names, against the policy. `bucket` is the bucket in the
    /// path.
    ///
    /// # Errors
    /// A condition is violated, or the policy has expired.
    pub(crate) fn check(
        &self,
        fields: &[(String, String)],
        bucket: &str,
        now: Timestamp,
    ) -> Result<(), PolicyError> {
        if now >= self.expires_at {
            return Err(PolicyError::Expired);
        }
        let value_of = |name: &str| match name {
            "bucket" => Some(bucket),
            _ => fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str()),
        };
        for condition in &self.conditions {
            let (holds, shown) = match condition {
                Condition::Equals(field, expected) => (
                    value_of(field).unwrap_or_default() == expected,
                    format!("[\"eq\", \"${field}\", \"{expected}\"]"),
                ),
                Condition::StartsWith(field, start) => (
                    value_of(field).unwrap_or_default().starts_with(start.as_str()),
                    format!("[\"starts-with\", \"${field}\", \"{start}\"]"),
                ),
            };
            if !holds {
                return Err(PolicyError::Failed(shown));
            }
        }
        let is_covered = |name: &str| {
            UNCOVERED_FIELDS.contains(&name)
                || name.starts_with("x-ignore-")
                || self.conditions.iter().any(|condition| condition.field() == name)
        };
        match fields.iter().find(|(name, _)| !is_covered(name)) {
            Some((name, _)) => Err(PolicyError::Extra(name.clone())),
            None => Ok(()),
        }
    }
}

fn length(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Result<Policy, PolicyError> {
        Policy::parse(&STANDARD.encode(json))
    }

    fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn every_field_must_be_covered() {
        let policy = policy(
            r#"{"expiration":"2026-01-01T00:00:01.000Z","conditions":[{"bucket":"b"},["starts-with","$key","user/"],
               ["eq","$Content-Type","text/plain"],["content-length-range",1,"10"],["starts-with","$x-amz-meta-a",""]]}"#,
        )
        .unwrap();
        assert_eq!(policy.length, Some((1, 10)));
        let good = fields(&[
            ("key", "user/a"),
            ("content-type", "text/plain"),
            ("x-amz-meta-a", "anything"),
            ("policy", "p"),
            ("x-amz-signature", "s"),
            ("x-ignore-this", "i"),
        ]);
        let check = |fields: &[(String, String)], bucket: &str, now: &str| {
            policy.check(fields, bucket, now.parse().unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(check(&good, "b", NOW), Ok(()));
        let failed = |text: &str| Err(format!("Invalid according to Policy: {text}"));
        assert_eq!(check(&good, "b", "2026-01-01T00:00:01Z"), failed("Policy expired."));
        assert_eq!(check(&good, "c", NOW), failed(r#"Policy Condition failed: ["eq", "$bucket", "b"]"#));
        let other = |name: &str, value: &str| {
            let mut fields = good.clone();
            fields.retain(|(found, _)| found != name);
            fields.push((name.to_owned(), value.to_owned()));
            fields
        };
        let expected = failed(r#"Policy Condition failed: ["starts-with", "$key", "user/"]"#);
        assert_eq!(check(&other("key", "other/a"), "b", NOW), expected);
        let expected = failed(r#"Policy Condition failed: ["eq", "$content-type", "text/plain"]"#);
        assert_eq!(check(&other("content-type", "text/html"), "b", NOW), expected);
        assert_eq!(check(&other("acl", "public-read"), "b", NOW), failed("Extra input fields: acl"));
    }

    #[test]
    fn malformed_policy_reports_the_reason() {
        assert_eq!(Policy::parse("%").unwrap_err().to_string(), "Invalid Policy: not base64");
        for (json, why) in [
            ("{", "not JSON"),
            ("{}", "expiration must be a date"),
            (r#"{"expiration":"soon","conditions":[]}"#, "expiration must be a date"),
            (r#"{"expiration":"2026-01-01T00:00:00Z"}"#, "conditions must be a list"),
            (r#"{"expiration":"2026-01-01T00:00:00Z","conditions":[1]}"#, "condition 1"),
            (
                r#"{"expiration":"2026-01-01T00:00:00Z","conditions":[["ends-with","$key",""]]}"#,
                r#"condition ["ends-with","$key",""]"#,
            ),
        ] {
            assert_eq!(policy(json).unwrap_err().to_string(), format!("Invalid Policy: {why}"), "{json}");
        }
    }
}
