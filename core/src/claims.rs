//! The claims of a verified token, which `auth.jwt()` exposes to policies unchanged (rest.md §3.15).

use serde_json::{Map, Value};

/// Claims of a token whose signature has been verified. Time claims have **not** been checked: each service does so
/// with its own leeway (DESIGN §12).
///
/// The original text is kept next to the parsed members: numbers that do not fit an `f64` and duplicate members reach
/// SQL exactly as they were signed.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    members: Map<String, Value>,
    text: String,
}

impl Claims {
    /// Wraps claims that the caller vouches for.
    #[must_use]
    pub fn new(members: Map<String, Value>) -> Self {
        let text = Value::Object(members.clone()).to_string();
        Self { members, text }
    }

    /// Parses the payload of a token that the caller vouches for. `None` if it is not a JSON object.
    #[must_use]
    pub fn parse(payload: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(payload).ok()?;
        Some(Self { members: serde_json::from_str(&text).ok()?, text })
    }

    /// All claims as JSON, byte for byte as they were signed.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// The claim `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// The claim `name`, if it is a string.
    #[must_use]
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// The claim `sub`, if it is a string.
    #[must_use]
    pub fn sub(&self) -> Option<&str> {
        self.get_str("sub")
    }

    /// The claim `role`, if it is a string.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.get_str("role")
    }

    /// All claims, parsed.
    #[must_use]
    pub const fn as_map(&self) -> &Map<String, Value> {
        &self.members
    }

    /// A time claim in seconds since the Unix epoch; `Ok(None)` if absent.
    ///
    /// # Errors
    /// The claim is not a number.
    pub fn seconds(&self, name: &str) -> Result<Option<f64>, NotANumber> {
        match self.members.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(NotANumber),
        }
    }
}

/// A time claim is not a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANumber;
