//! The claims of a verified token: what `auth.jwt()` shows to policies, unchanged (rest.md §3.15).

use serde_json::{Map, Value};

/// Claims of a token whose signature was checked. Time claims were **not** judged: each service does that with its
/// own leeway (DESIGN §12).
#[derive(Debug, Clone, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Wraps claims that the caller vouches for.
    #[must_use]
    pub const fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// One claim.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// One claim, when it is a string.
    #[must_use]
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
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
        &self.0
    }

    /// A time claim in seconds since 1970: `Ok(None)` when absent.
    ///
    /// # Errors
    /// The claim is there and is no number.
    pub fn seconds(&self, name: &str) -> Result<Option<f64>, NotANumber> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(NotANumber),
        }
    }
}

/// A time claim that is no JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANumber;
