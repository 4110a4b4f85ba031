//! Conversion of JSON Web Keys to the forms that the crypto library needs, and the derivation of key ids (`kid`).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's enums are non-exhaustive; unknown variants are rejected"
)]

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use serde_json::{Value, json};

use crate::settings::kinds::LongSecret;

/// Why key material cannot be used. The messages contain no part of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a JWK, or parts are missing; contains the reason.
    #[error("a key of jwt.keys is not a valid JWK: {0}")]
    Invalid(String),
    /// The key type, curve or algorithm is unsupported; contains its name.
    #[error("a key of jwt.keys has an unsupported type ({0}); use HS, RS, ES256, ES384 or Ed25519")]
    Unsupported(String),
    /// More than one key is marked for signing.
    #[error("several keys of jwt.keys have \"sign\" in key_ops; exactly one may have it")]
    SeveralSigners,
    /// The shared secret is short enough to be guessed.
    #[error("a JWT secret must have at least 32 bytes")]
    ShortSecret,
    /// No key can sign.
    #[error("no key can sign: set jwt.secret, or give one key of jwt.keys the operation \"sign\"")]
    NoSigner,
    /// Signing failed; contains the reason.
    #[error("signing failed: {0}")]
    Sign(String),
}

/// A parsed JWK.
pub(super) struct ReadKey {
    pub(super) kid: String,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
    pub(super) signer: Option<(Header, EncodingKey)>,
    /// The JWK for the published set; `None` for symmetric keys.
    pub(super) public: Option<Value>,
}

/// Parses a JWK, private or public. If `signs`, it must be private, whatever its `key_ops`.
pub(super) fn read(source: &Value, signs: bool) -> Result<ReadKey, KeyError> {
    let parsed = parse(source)?;
    let decoding = DecodingKey::from_jwk(&parsed).map_err(|error| KeyError::Invalid(error.to_string()))?;
    let algorithms = usable_algorithms(source, &parsed)?;
    if let AlgorithmParameters::OctetKey(_) = parsed.algorithm
        && bytes(source, "k")?.len() < LongSecret::LEAST
    {
        return Err(KeyError::ShortSecret);
    }
    let kid = kid_of(source)?;
    let signer = match (signs, algorithms.first()) {
        (true, Some(algorithm)) => {
            let mut header = Header::new(*algorithm);
            header.kid = Some(kid.clone());
            Some((header, encoding_key(source, *algorithm)?))
        }
        _ => None,
    };
    let public = public_part(source, &kid, algorithms.first().copied());
    Ok(ReadKey { kid, algorithms, decoding, signer, public })
}

fn parse(source: &Value) -> Result<Jwk, KeyError> {
    serde_json::from_value(source.clone()).map_err(|error| KeyError::Invalid(error.to_string()))
}

/// The key's `kid`, or its thumbprint if it has none.
///
/// # Errors
/// The key has no `kid` and is not a valid JWK.
pub fn kid_of(source: &Value) -> Result<String, KeyError> {
    match source.get("kid").and_then(Value::as_str) {
        Some(kid) => Ok(kid.to_owned()),
        None => thumbprint(source),
    }
}

/// Whether the key's `key_ops` include `sign`.
#[must_use]
pub fn signs(source: &Value) -> bool {
    let operations = source.get("key_ops").and_then(Value::as_array);
    operations.is_some_and(|operations| operations.iter().any(|operation| operation == "sign"))
}

/// The JWS algorithm that the key signs with.
///
/// # Errors
/// The key is invalid or its type is unsupported.
pub fn algorithm_of(source: &Value) -> Result<String, KeyError> {
    let algorithms = usable_algorithms(source, &parse(source)?)?;
    let name = algorithms.first().and_then(|algorithm| json!(algorithm).as_str().map(ToOwned::to_owned));
    name.ok_or_else(|| KeyError::Unsupported("alg".to_owned()))
}

/// The key's `alg`, or all algorithms that its type supports.
fn usable_algorithms(source: &Value, parsed: &Jwk) -> Result<Vec<Algorithm>, KeyError> {
    let possible = algorithms(parsed)?;
    match source.get("alg").and_then(Value::as_str) {
        None => Ok(possible),
        Some("Ed25519") => Ok(vec![Algorithm::EdDSA]),
        Some(name) => accepted_algorithm(name)
            .filter(|algorithm| possible.contains(algorithm))
            .map(|algorithm| vec![algorithm])
            .ok_or_else(|| KeyError::Unsupported(name.to_owned())),
    }
}

fn algorithms(key: &Jwk) -> Result<Vec<Algorithm>, KeyError> {
    Ok(match &key.algorithm {
        AlgorithmParameters::OctetKey(_) => vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
        AlgorithmParameters::RSA(_) => vec![Algorithm::RS256, Algorithm::RS384, Algorithm::RS512],
        AlgorithmParameters::EllipticCurve(parameters) => match parameters.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            ref other => return Err(KeyError::Unsupported(format!("{other:?}"))),
        },
        AlgorithmParameters::OctetKeyPair(parameters) => match parameters.curve {
            EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
            ref other => return Err(KeyError::Unsupported(format!("{other:?}"))),
        },
        _ => return Err(KeyError::Unsupported("kty".to_owned())),
    })
}

fn encoding_key(source: &Value, algorithm: Algorithm) -> Result<EncodingKey, KeyError> {
    let invalid = |what: &str| KeyError::Invalid(format!("{what} does not match its public part"));
    match algorithm {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => {
            Ok(EncodingKey::from_secret(&bytes(source, "k")?))
        }
        Algorithm::ES256 | Algorithm::ES384 => {
            let signing = if algorithm == Algorithm::ES256 {
                &ECDSA_P256_SHA256_FIXED_SIGNING
            } else {
                &ECDSA_P384_SHA384_FIXED_SIGNING
            };
            let point = [vec![4], bytes(source, "x")?, bytes(source, "y")?].concat();
            let pair = EcdsaKeyPair::from_private_key_and_public_key(signing, &bytes(source, "d")?, &point)
                .map_err(|_rejected| invalid("the EC private key"))?;
            let document = pair.to_pkcs8v1().map_err(|_unspecified| invalid("the EC private key"))?;
            Ok(EncodingKey::from_ec_der(document.as_ref()))
        }
        Algorithm::EdDSA => {
            let pair = aws_lc_rs::signature::Ed25519KeyPair::from_seed_and_public_key(
                &bytes(source, "d")?,
                &bytes(source, "x")?,
            )
            .map_err(|_rejected| invalid("the Ed25519 private key"))?;
            let document = pair.to_pkcs8().map_err(|_unspecified| invalid("the Ed25519 private key"))?;
            Ok(EncodingKey::from_ed_der(document.as_ref()))
        }
        Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => {
            let mut content = der_integer(&[0]);
            for member in ["n", "e", "d", "p", "q", "dp", "dq", "qi"] {
                content.extend(der_integer(&bytes(source, member)?));
            }
            Ok(EncodingKey::from_rsa_der(&der(0x30, &content)))
        }
        other => Err(KeyError::Unsupported(format!("{other:?}"))),
    }
}

fn bytes(source: &Value, member: &str) -> Result<Vec<u8>, KeyError> {
    let text = source
        .get(member)
        .and_then(Value::as_str)
        .ok_or_else(|| KeyError::Invalid(format!("a key that signs lacks \"{member}\"")))?;
    URL_SAFE_NO_PAD
        .decode(text)
        .or_else(|_padded| URL_SAFE.decode(text))
        .map_err(|_| KeyError::Invalid(format!("\"{member}\" is not base64url")))
}

/// Encodes an unsigned big-endian number as a DER INTEGER.
fn der_integer(number: &[u8]) -> Vec<u8> {
    let significant: Vec<u8> = number.iter().copied().skip_while(|byte| *byte == 0).collect();
    let mut content = Vec::with_capacity(significant.len() + 1);
    if significant.first().is_none_or(|first| *first >= 0x80) {
        content.push(0);
    }
    content.extend(significant);
    der(0x02, &content)
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length.iter().copied().skip_while(|byte| *byte == 0).collect();
    match significant.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

fn public_part(source: &Value, kid: &str, algorithm: Option<Algorithm>) -> Option<Value> {
    let members: &[&str] = match source.get("kty").and_then(Value::as_str)? {
        "EC" => &["kty", "crv", "x", "y"],
        "RSA" => &["kty", "n", "e"],
        "OKP" => &["kty", "crv", "x"],
        _ => return None,
    };
    let mut public = serde_json::Map::new();
    for member in members {
        public.insert((*member).to_owned(), source.get(*member)?.clone());
    }
    public.insert("kid".to_owned(), json!(kid));
    public.insert(
        "alg".to_owned(),
        json!(source.get("alg").cloned().or(algorithm.map(|algorithm| json!(algorithm)))),
    );
    public.insert("use".to_owned(), json!("sig"));
    public.insert("key_ops".to_owned(), json!(["verify"]));
    Some(Value::Object(public))
}

/// The RFC 7638 thumbprint (SHA-256, base64url) of a key, used as its `kid` if it has none. For a shared secret see
/// [`secret_kid`].
///
/// # Errors
/// The key is not a valid JWK.
pub fn thumbprint(source: &Value) -> Result<String, KeyError> {
    let parsed = parse(source)?;
    if let AlgorithmParameters::OctetKey(_) = parsed.algorithm {
        return Ok(secret_kid(&bytes(source, "k")?));
    }
    parsed.thumbprint(ThumbprintHash::SHA256).map_err(|error| KeyError::Invalid(error.to_string()))
}

/// The `kid` of a shared secret: the first 16 bytes of `HMAC-SHA256(secret, "kid")`, base64url. A thumbprint would
/// help an attacker guess the secret (DESIGN §12).
#[must_use]
pub fn secret_kid(secret: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"kid");
    URL_SAFE_NO_PAD.encode(tag.as_ref().get(..16).unwrap_or_default())
}

/// The supported algorithms: HS and RS with 256, 384 and 512, ES256, ES384 and Ed25519 (DESIGN §12, "one verifier").
pub(super) fn accepted_algorithm(name: &str) -> Option<Algorithm> {
    const ACCEPTED: [(&str, Algorithm); 9] = [
        ("HS256", Algorithm::HS256),
        ("HS384", Algorithm::HS384),
        ("HS512", Algorithm::HS512),
        ("RS256", Algorithm::RS256),
        ("RS384", Algorithm::RS384),
        ("RS512", Algorithm::RS512),
        ("ES256", Algorithm::ES256),
        ("ES384", Algorithm::ES384),
        ("EdDSA", Algorithm::EdDSA),
    ];
    ACCEPTED.iter().find(|(accepted, _)| *accepted == name).map(|(_, algorithm)| *algorithm)
}
