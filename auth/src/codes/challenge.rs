//! The PKCE challenge of a request (auth.md §3.2); [`crate::codes::flow_state`] stores it.

use aws_lc_rs::digest::{SHA256, digest};
use basalt_core::random;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::error::AuthError;
use crate::fields::text;

/// The fields of a body that begin a PKCE flow.
#[derive(Deserialize)]
pub(crate) struct ChallengeFields {
    code_challenge: Option<String>,
    code_challenge_method: Option<String>,
}

impl ChallengeFields {
    /// The challenge, if both fields are present.
    ///
    /// # Errors
    /// One is missing or invalid.
    pub(crate) fn read(&self) -> Result<Option<Challenge>, AuthError> {
        Challenge::read(text(&self.code_challenge), text(&self.code_challenge_method))
    }
}

/// A valid challenge and its method.
#[derive(Clone)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct Challenge {
    pub(crate) text: String,
    /// `s256` or `plain`, in any case.
    pub(crate) method: String,
}

impl Challenge {
    /// As [`ChallengeFields::read`], from a query.
    pub(crate) fn read(text: &str, method: &str) -> Result<Option<Self>, AuthError> {
        if text.is_empty() && method.is_empty() {
            return Ok(None);
        }
        let is_method = method.eq_ignore_ascii_case("s256") || method.eq_ignore_ascii_case("plain");
        if text.is_empty() || !is_method {
            return Err(AuthError::validation("PKCE flow requires code_challenge_method and code_challenge"));
        }
        if !(43..=128).contains(&text.len()) {
            return Err(AuthError::validation("code challenge has to be between 43 and 128 characters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
            return Err(AuthError::validation(
                "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
            ));
        }
        Ok(Some(Self { text: text.to_owned(), method: method.to_owned() }))
    }
}

/// Whether `verifier` matches `challenge`. An empty challenge matches none.
pub(crate) fn is_verifier(method: &str, challenge: &str, verifier: &str) -> bool {
    let expected = match method {
        "s256" => URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes())),
        "plain" => verifier.to_owned(),
        _ => return false,
    };
    !challenge.is_empty() && random::constant_time_eq(challenge.as_bytes(), expected.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_requires_a_valid_method() {
        let message =
            |text: &str, method: &str| Challenge::read(text, method).err().map(|error| error.to_string());
        let good = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(Challenge::read("", "").unwrap(), None);
        assert_eq!(Challenge::read(good, "S256").unwrap().unwrap().text, good);
        assert_eq!(message(good, "plain"), None);
        let both = Some("PKCE flow requires code_challenge_method and code_challenge".to_owned());
        for (text, method) in [(good, ""), ("", "s256"), (good, "md5")] {
            assert_eq!(message(text, method), both, "{text} {method}");
        }
        let length = Some("code challenge has to be between 43 and 128 characters".to_owned());
        for text in ["a".repeat(42), "a".repeat(129)] {
            assert_eq!(message(&text, "s256"), length, "{text}");
        }
        assert_eq!(message(&"a".repeat(128), "s256"), None);
        assert!(message(&format!("{good}!"), "s256").unwrap().contains("can only contain alphanumeric"));
    }

    #[test]
    fn matches_the_test_vector_of_the_contract() {
        let (challenge, verifier) =
            ("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert!(is_verifier("s256", challenge, verifier));
        assert!(!is_verifier("s256", challenge, challenge));
        assert!(!is_verifier("plain", challenge, verifier));
        assert!(is_verifier("plain", verifier, verifier));
        assert!(!is_verifier("", verifier, verifier));
        assert!(!is_verifier("plain", "", ""));
    }
}
