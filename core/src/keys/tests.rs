use super::*;

const SECRET: &str = "super-secret-jwt-token-with-at-least-32-characters-long";

fn secret() -> SecretSlice<u8> {
    SecretSlice::from(SECRET.as_bytes().to_vec())
}

fn material(jwks: Vec<Value>) -> KeyMaterial {
    KeyMaterial {
        jwks,
        secret: Some(secret()),
        secret_kid: None,
        strict_kid: false,
        api_keys: ApiKeys {
            publishable: "sb_publishable_x".to_owned(),
            secret: SecretString::from("sb_secret_y"),
            ..ApiKeys::default()
        },
    }
}

fn hs256(secret: &str, kid: Option<&str>, claims: &Value) -> String {
    let mut header = jsonwebtoken::Header::new(Algorithm::HS256);
    header.kid = kid.map(str::to_owned);
    jsonwebtoken::encode(&header, claims, &jsonwebtoken::EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

fn unsigned(header: &Value, claims: &str) -> String {
    format!("{}.{}.", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims))
}

#[test]
fn a_generated_es256_key_signs_what_it_verifies() {
    let keys = Keys::new(material(vec![generate_es256().unwrap()])).unwrap();
    let token = keys.sign(&json!({ "sub": "a", "role": "authenticated" })).unwrap();
    assert_eq!(peek_header(&token)["alg"], "ES256");
    assert_eq!(peek_header(&token)["kid"], keys.jwks()["keys"][0]["kid"]);
    let claims = keys.verify(&token).unwrap();
    assert_eq!((claims.sub(), claims.role()), (Some("a"), Some("authenticated")));
    assert!(keys.jwks()["keys"][0].get("d").is_none(), "the published set holds no private part");
}

#[test]
fn the_secret_signs_when_no_key_does() {
    let keys = Keys::new(material(Vec::new())).unwrap();
    let token = keys.sign(&json!({ "sub": "a" })).unwrap();
    assert_eq!(peek_header(&token)["alg"], "HS256");
    assert_eq!(peek_header(&token)["kid"], secret_kid(SECRET.as_bytes()));
    assert!(keys.verify(&token).is_ok());
    assert_eq!(keys.jwks(), &json!({ "keys": [] }));
}

#[test]
fn unknown_kid_falls_back_to_the_secret_except_when_strict() {
    let token = hs256(SECRET, Some("other"), &json!({ "role": "anon" }));
    assert!(Keys::new(material(Vec::new())).unwrap().verify(&token).is_ok());
    let strict = Keys::new(KeyMaterial { strict_kid: true, ..material(Vec::new()) }).unwrap();
    assert!(matches!(strict.verify(&token), Err(TokenError::NoKey { .. })));
    assert!(strict.verify(&hs256(SECRET, None, &json!({ "role": "anon" }))).is_ok());
}

#[test]
fn broken_tokens_are_refused_by_what_is_wrong_first() {
    let keys = Keys::new(material(Vec::new())).unwrap();
    assert_eq!(keys.verify(""), Err(TokenError::Empty));
    assert_eq!(keys.verify("a.b"), Err(TokenError::Parts(2)));
    assert_eq!(keys.verify("!.e30.x"), Err(TokenError::BadHeader));
    assert_eq!(
        keys.verify(&unsigned(&json!({ "alg": "none" }), "{}")),
        Err(TokenError::Unsupported { alg: "none".to_owned() })
    );
    assert_eq!(
        keys.verify(&unsigned(&json!({ "alg": "A256KW", "enc": "A" }), "{}")),
        Err(TokenError::Encrypted)
    );
    // As they really are: header, key, vector, text and tag.
    let jwe = unsigned(&json!({ "alg": "RSA-OAEP", "enc": "A256GCM" }), "{}") + ".vector.tag";
    assert_eq!(keys.verify(&jwe), Err(TokenError::Encrypted));
    assert_eq!(keys.verify("a.b.c.d.e"), Err(TokenError::Parts(5)));
    let forged = hs256("another-secret-that-is-long-enough-to-use", None, &json!({ "role": "service_role" }));
    assert_eq!(keys.verify(&forged), Err(TokenError::BadSignature));
    let list = hs256(SECRET, None, &json!(["role"]));
    assert_eq!(keys.verify(&list), Err(TokenError::ClaimsNotObject));
}

#[test]
fn a_public_key_cannot_be_used_as_an_hmac_secret() {
    let key = generate_es256().unwrap();
    let keys = Keys::new(KeyMaterial { secret: None, ..material(vec![key.clone()]) }).unwrap();
    let forged = hs256(key["x"].as_str().unwrap(), key["kid"].as_str(), &json!({ "role": "service_role" }));
    assert!(matches!(keys.verify(&forged), Err(TokenError::NoKey { .. })));
}

#[test]
fn api_keys_are_told_apart() {
    let keys = Keys::new(material(Vec::new())).unwrap();
    assert_eq!(keys.api_key("sb_publishable_x", 0), Some(ApiKey::Publishable));
    assert_eq!(keys.api_key("sb_secret_y", 0), Some(ApiKey::Secret));
    let legacy = legacy_key(&secret(), None, "anon", 1_000).unwrap();
    assert_eq!(keys.api_key(&legacy, 2_000), Some(ApiKey::Legacy));
    assert_eq!(keys.api_key(&legacy, 1_000_000_000), None, "an expired key is no key");
    assert_eq!(keys.api_key(&hs256(SECRET, None, &json!({ "sub": "a" })), 0), None, "a key has a role");
    assert_eq!(keys.api_key("", 0), None);
}

#[test]
fn two_signers_are_an_error() {
    let both = vec![generate_es256().unwrap(), generate_es256().unwrap()];
    assert_eq!(Keys::new(material(both)).unwrap_err(), KeyError::SeveralSigners);
}
