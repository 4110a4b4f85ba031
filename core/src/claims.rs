//! The claims of a verified token: what `auth.jwt()` shows to policies, unchanged (rest.md §3.15).

use serde_json::{Map, Value};

/// Claims of a token whose signature was checked. Time claims were **not** judged: each service does that with its
/// own leeway (DESIGN §12).
///
/// The text is kept beside what it means: numbers that no `f64` holds, and members that come twice, reach SQL as they
/// were signed.
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

    /// Reads the payload of a token that the caller vouches for; `None` if it is no JSON object.
    #[must_use]
    pub fn parse(payload: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(payload).ok()?;
        Some(Self { members: serde_json::from_str(&text).ok()?, text })
    }

    /// All claims as JSON, to the byte as they were signed.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// One claim.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// One claim, when it is a string.
    #[must_use]
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// `sub`, when it is a string.
    #[must_use]
    pub fn sub(&self) -> Option<&str> {
        self.get_str("sub")
    }

    /// `role`, when it is a string.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.get_str("role")
    }

    /// All claims.
    #[must_use]
    pub const fn as_map(&self) -> &Map<String, Value> {
        &self.members
    }

    /// A time claim in seconds since 1970: `Ok(None)` when absent.
    ///
    /// # Errors
    /// The claim is there and is no number.
    pub fn seconds(&self, name: &str) -> Result<Option<f64>, NotANumber> {
        match self.members.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(NotANumber),
        }
    }
}

/// A time claim that is no JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANumber;
