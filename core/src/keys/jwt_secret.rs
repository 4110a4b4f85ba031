//! Parsing of configured keys: PostgREST's `jwt-secret`, a text that may be a plain secret, a base64 secret, a JWK or
//! a JWK set; and lists of JWKs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::SecretSlice;
use serde_json::Value;

use super::{ApiKeys, KeyError, KeyMaterial, Keys};
use crate::settings::kinds::LongSecret;

impl KeyMaterial {
    /// Parses keys that only verify; a token with a `kid` is verified by the key of that name only (rest.md §3.15).
    ///
    /// # Errors
    /// The secret is too short or not base64, or a key's type is unsupported.
    pub fn from_jwt_secret(text: &str, is_base64: bool) -> Result<Self, KeyError> {
        let material = match jwks(text) {
            Some(jwks) => verifying(jwks, None),
            None => {
                let bytes = if is_base64 { decode_secret(text)? } else { text.as_bytes().to_vec() };
                if bytes.len() < LongSecret::LEAST {
                    return Err(KeyError::ShortSecret);
                }
                verifying(Vec::new(), Some(bytes.into()))
            }
        };
        let _usable = Keys::new(material.clone())?;
        Ok(material)
    }
}

fn verifying(jwks: Vec<Value>, secret: Option<SecretSlice<u8>>) -> KeyMaterial {
    let api_keys = ApiKeys::default();
    KeyMaterial { jwks, secret, secret_kid: None, strict_kid: true, rotates: false, api_keys }
}

/// Parses `jwt.keys`: an array of JWKs, or a JWK set. The error contains no part of a key.
///
/// # Errors
/// What is wrong, to follow `jwt.keys`.
pub fn read_jwks(json: &str) -> Result<Vec<Value>, String> {
    let mut value: Value = serde_json::from_str(json)
        .map_err(|error| format!("is not JSON (line {}, column {})", error.line(), error.column()))?;
    if let Some(keys) = value.get_mut("keys") {
        value = keys.take();
    }
    let Value::Array(jwks) = value else { return Err("must be a JSON array of JWKs".to_owned()) };
    Keys::new(verifying(jwks.clone(), None)).map_err(|error| format!("cannot be used: {error}"))?;
    Ok(jwks)
}

/// The keys of a JWK set, or the single JWK; `None` if the text is a secret.
fn jwks(text: &str) -> Option<Vec<Value>> {
    let Ok(Value::Object(mut members)) = serde_json::from_str(text) else { return None };
    match members.remove("keys") {
        Some(Value::Array(keys)) => Some(keys),
        _ => members.contains_key("kty").then(|| vec![Value::Object(members)]),
    }
}

/// Decodes a base64 secret in either alphabet, with or without padding, as PostgREST does.
///
/// # Errors
/// The text is not base64.
pub fn decode_secret(text: &str) -> Result<Vec<u8>, KeyError> {
    let text = text.trim().replace('-', "+").replace('_', "/").replace('.', "=");
    let decoded = STANDARD_NO_PAD.decode(text.trim_end_matches('='));
    decoded.map_err(|_| KeyError::Invalid("the secret is not base64".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jwt_secret_accepts_all_four_notations() {
        let plain = "a secret of at least thirty-two bytes";
        let bytes = |text: &str, is_base64| {
            let material = KeyMaterial::from_jwt_secret(text, is_base64).unwrap();
            secrecy::ExposeSecret::expose_secret(&material.secret.unwrap()).to_vec()
        };
        assert_eq!(bytes(plain, false), plain.as_bytes());
        assert_eq!(bytes("YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw", true), plain.as_bytes());
        let key = r#"{"kty":"oct","k":"YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw"}"#;
        for text in [key.to_owned(), format!(r#"{{"keys":[{key},{key}]}}"#)] {
            let material = KeyMaterial::from_jwt_secret(&text, false).unwrap();
            assert!(material.secret.is_none() && !material.jwks.is_empty());
        }
        for (wrong, is_base64) in [
            ("short", false),
            ("!!!", true),
            (r#"{"keys":[{"kty":"?"}]}"#, false),
            (r#"{"kty":"oct","k":""}"#, false),
            (r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#, false),
        ] {
            assert!(KeyMaterial::from_jwt_secret(wrong, is_base64).is_err(), "{wrong}");
        }
    }

    #[test]
    fn jwks_errors_contain_no_key_material() {
        let key = crate::keys::generate_es256().unwrap();
        assert_eq!(read_jwks(&json!([key]).to_string()).unwrap().len(), 1);
        assert_eq!(read_jwks(&json!({ "keys": [key] }).to_string()).unwrap().len(), 1);
        for wrong in ["{", "7", "{}", "[7]", &json!([key, key]).to_string()] {
            let problem = read_jwks(wrong).unwrap_err();
            assert!(!problem.contains(key["d"].as_str().unwrap()), "{problem}");
        }
        assert!(crate::keys::signs(&key) && !crate::keys::signs(&json!({ "kty": "EC" })));
    }
}
