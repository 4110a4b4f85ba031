//! Generation of signing keys, as private JWKs, and of opaque API keys.

use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsBigEndian, AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::api_key_kind::ApiKeyKind;
use super::jwk::{KeyError, thumbprint};
use crate::random;

/// Generates a signing key for `algorithm` (`ES256`, `RS256`, `EdDSA` or `HS256`) as a private JWK with `kid` and
/// `key_ops`.
///
/// # Errors
/// The algorithm is unsupported, or key generation failed.
pub fn generate(algorithm: &str) -> Result<Value, KeyError> {
    match algorithm {
        "ES256" => generate_es256(),
        "RS256" => generate_rs256(),
        "EdDSA" => generate_ed25519(),
        "HS256" => {
            let secret = URL_SAFE_NO_PAD.encode(random::bytes::<48>());
            with_kid(json!({ "kty": "oct", "alg": "HS256", "key_ops": ["sign", "verify"], "k": secret }))
        }
        other => Err(KeyError::Unsupported(other.to_owned())),
    }
}

/// Generates an ES256 signing key as a private JWK with `kid` and `key_ops`.
///
/// # Errors
/// Key generation failed.
pub fn generate_es256() -> Result<Value, KeyError> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_unspecified| failed())?;
    let private = pair.private_key().as_be_bytes().map_err(|_unspecified| failed())?;
    let point = pair.public_key().as_ref();
    let (Some(x), Some(y)) = (point.get(1..33), point.get(33..65)) else { return Err(failed()) };
    with_kid(json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "key_ops": ["sign", "verify"],
        "x": encode(x), "y": encode(y), "d": encode(private.as_ref()),
    }))
}

fn generate_ed25519() -> Result<Value, KeyError> {
    let pair = Ed25519KeyPair::generate().map_err(|_unspecified| failed())?;
    let seed = pair.seed().and_then(|seed| seed.as_be_bytes()).map_err(|_unspecified| failed())?;
    with_kid(json!({
        "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "key_ops": ["sign", "verify"],
        "x": encode(pair.public_key().as_ref()), "d": encode(seed.as_ref()),
    }))
}

fn generate_rs256() -> Result<Value, KeyError> {
    let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).map_err(|_unspecified| failed())?;
    let document = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).map_err(|_unspecified| failed())?;
    let numbers = rsa_numbers(document.as_ref()).ok_or_else(failed)?;
    let mut key = json!({ "kty": "RSA", "alg": "RS256", "key_ops": ["sign", "verify"] });
    if let Some(members) = key.as_object_mut() {
        for (name, number) in ["n", "e", "d", "p", "q", "dp", "dq", "qi"].into_iter().zip(numbers) {
            members.insert(name.to_owned(), json!(encode(number)));
        }
    }
    with_kid(key)
}

/// Extracts the eight numbers of an RSA private key from PKCS #8, the only form the library exports.
fn rsa_numbers(pkcs8: &[u8]) -> Option<[&[u8]; 8]> {
    let (info, _) = der_content(pkcs8)?;
    let (_version, rest) = der_content(info)?;
    let (_algorithm, rest) = der_content(rest)?;
    let (octets, _) = der_content(rest)?;
    let (key, _) = der_content(octets)?;
    let (_version, mut rest) = der_content(key)?;
    let mut numbers = [&[][..]; 8];
    for number in &mut numbers {
        let (content, after) = der_content(rest)?;
        // A leading zero keeps a DER integer positive; JWKs omit it.
        *number = content.strip_prefix(&[0]).unwrap_or(content);
        rest = after;
    }
    Some(numbers)
}

/// The content of the first DER element, and the bytes after it.
fn der_content(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_tag, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    rest.split_at_checked(length)
}

fn with_kid(mut key: Value) -> Result<Value, KeyError> {
    let kid = thumbprint(&key)?;
    if let Some(members) = key.as_object_mut() {
        members.insert("kid".to_owned(), json!(kid));
    }
    Ok(key)
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn failed() -> KeyError {
    KeyError::Sign("key generation failed".to_owned())
}

/// Generates `<prefix><22>_<8>`: 132 random bits and a checksum, by which secret scanners recognise a real key.
#[must_use]
pub fn opaque_key(kind: ApiKeyKind) -> String {
    const CHECKSUM_BYTES: usize = 4;
    let prefix = kind.prefix();
    let random = random::token(22);
    let checksum = digest::digest(&digest::SHA256, format!("{prefix}{random}").as_bytes());
    let (checksum, _) = checksum.as_ref().split_at(CHECKSUM_BYTES);
    format!("{prefix}{random}_{}", hex::encode(checksum))
}
