//! What PostgREST calls `jwt-secret`: one text that may be a plain secret, a base64 one, a JWK or a JWK set.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

use super::{ApiKeys, KeyError, KeyMaterial, Keys};

/// Shorter secrets can be guessed (RFC 7518 §3.2).
const SHORTEST_SECRET: usize = 32;

impl KeyMaterial {
    /// Keys that only verify, each token by the key that it names (rest.md §3.15).
    ///
    /// # Errors
    /// The secret is too short or not base64, or a key is of a kind that we do not have.
    pub fn of_jwt_secret(text: &str, is_base64: bool) -> Result<Self, KeyError> {
        let mut material = Self {
            jwks: Vec::new(),
            secret: None,
            secret_kid: None,
            strict_kid: true,
            rotates: false,
            api_keys: ApiKeys::default(),
        };
        match jwks(text) {
            Some(jwks) => material.jwks = jwks,
            None => {
                let bytes = if is_base64 { decoded(text)? } else { text.as_bytes().to_vec() };
                if bytes.len() < SHORTEST_SECRET {
                    return Err(KeyError::ShortSecret);
                }
                material.secret = Some(bytes.into());
            }
        }
        let _usable = Keys::new(material.clone())?;
        Ok(material)
    }
}

/// The keys of a set, or the one key; `None` is a secret.
fn jwks(text: &str) -> Option<Vec<Value>> {
    let Ok(Value::Object(mut members)) = serde_json::from_str(text) else { return None };
    match members.remove("keys") {
        Some(Value::Array(keys)) => Some(keys),
        _ => members.contains_key("kty").then(|| vec![Value::Object(members)]),
    }
}

/// Both alphabets, with and without padding, as PostgREST takes them.
fn decoded(text: &str) -> Result<Vec<u8>, KeyError> {
    let text = text.trim().replace('-', "+").replace('_', "/").replace('.', "=");
    let decoded = STANDARD_NO_PAD.decode(text.trim_end_matches('='));
    decoded.map_err(|_| KeyError::Invalid("the secret is not base64".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_of_four_kinds() {
        let plain = "a secret of at least thirty-two bytes";
        let bytes = |text: &str, is_base64| {
            let material = KeyMaterial::of_jwt_secret(text, is_base64).unwrap();
            secrecy::ExposeSecret::expose_secret(&material.secret.unwrap()).to_vec()
        };
        assert_eq!(bytes(plain, false), plain.as_bytes());
        assert_eq!(bytes("YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw", true), plain.as_bytes());
        let key = r#"{"kty":"oct","k":"YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw"}"#;
        for text in [key.to_owned(), format!(r#"{{"keys":[{key},{key}]}}"#)] {
            let material = KeyMaterial::of_jwt_secret(&text, false).unwrap();
            assert!(material.secret.is_none() && !material.jwks.is_empty());
        }
        for (wrong, is_base64) in [("short", false), ("!!!", true), (r#"{"keys":[{"kty":"?"}]}"#, false)] {
            assert!(KeyMaterial::of_jwt_secret(wrong, is_base64).is_err(), "{wrong}");
        }
    }
}
