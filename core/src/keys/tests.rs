use jiff::Timestamp;

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
        rotates: true,
        api_keys: ApiKeys {
            publishable: "sb_publishable_x".to_owned(),
            secret: SecretString::from("sb_secret_y"),
            ..ApiKeys::default()
        },
    }
}

/// Decodes the header of a token without verifying it.
fn peek_header(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap()
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
fn an_es256_key_verifies_its_own_signature() {
    let keys = Keys::new(material(vec![generate_es256().unwrap()])).unwrap();
    let token = keys.sign(&json!({ "sub": "a", "role": "authenticated" })).unwrap();
    assert_eq!(peek_header(&token)["alg"], "ES256");
    assert_eq!(peek_header(&token)["kid"], keys.jwks()["keys"][0]["kid"]);
    let claims = keys.verify(&token).unwrap();
    assert_eq!((claims.sub(), claims.role()), (Some("a"), Some("authenticated")));
    assert!(keys.jwks()["keys"][0].get("d").is_none(), "the published set must contain no private part");
}

#[test]
fn id_tokens_are_not_access_tokens() {
    let keys = Keys::new(material(vec![generate_es256().unwrap()])).unwrap();
    let token = keys.sign(&json!({ "sub": "a", "role": "authenticated", "basalt_token_use": "id" })).unwrap();
    assert_eq!(keys.verify(&token), Err(TokenError::IdToken));
    assert_eq!(keys.verify_id_token(&token).unwrap().sub(), Some("a"));
    assert_eq!(keys.signing_algorithm().as_deref(), Some("ES256"));
}

#[test]
fn the_secret_signs_when_no_key_does() {
    let keys = Keys::new(material(Vec::new())).unwrap();
    let token = keys.sign(&json!({ "sub": "a" })).unwrap();
    assert_eq!(peek_header(&token)["alg"], "HS256");
    assert_eq!(peek_header(&token)["kid"], secret_kid(SECRET.as_bytes()));
    assert!(keys.verify(&token).is_ok());
    assert_eq!(keys.jwks(), json!({ "keys": [] }));
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
fn broken_tokens_are_rejected_for_the_first_error() {
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
    // A complete JWE: header, key, IV, ciphertext and tag.
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
fn api_keys_are_recognised_by_kind() {
    let keys = Keys::new(material(Vec::new())).unwrap();
    let kind = |key: &str, now| keys.api_key(key, now).map(|key| key.kind);
    assert_eq!(kind("sb_publishable_x", 0), Some(ApiKeyKind::Publishable));
    assert_eq!(kind("sb_secret_y", 0), Some(ApiKeyKind::Secret));
    let legacy = legacy_key(&secret(), None, "anon", 1_000).unwrap();
    assert_eq!(kind(&legacy, 2_000), Some(ApiKeyKind::Legacy));
    assert_eq!(kind(&legacy, 1_000_000_000), None, "an expired key must be rejected");
    assert_eq!(
        kind(&hs256(SECRET, None, &json!({ "sub": "a" })), 0),
        None,
        "a key without a role must be rejected"
    );
    assert_eq!(kind("", 0), None);
}

#[test]
fn two_signers_are_an_error() {
    let both = vec![generate_es256().unwrap(), generate_es256().unwrap()];
    assert_eq!(Keys::new(material(both)).unwrap_err(), KeyError::SeveralSigners);
}

#[test]
fn keys_of_every_algorithm_verify_their_own_signatures() {
    for algorithm in ["ES256", "RS256", "EdDSA", "HS256"] {
        let key = generate(algorithm).unwrap();
        let material = KeyMaterial { secret: None, ..material(vec![key.clone()]) };
        let keys = Keys::new(material.clone()).unwrap();
        let token = keys.sign(&json!({ "sub": "a" })).unwrap();
        assert_eq!(peek_header(&token)["alg"], algorithm);
        assert_eq!(peek_header(&token)["kid"], key["kid"]);
        assert_eq!(keys.verify(&token).unwrap().sub(), Some("a"));
        assert_eq!(material.signing_keys(&StoredKeys::default()).unwrap()[0].algorithm, algorithm);
        let published = keys.jwks();
        let published = published["keys"].as_array().unwrap();
        if algorithm == "HS256" {
            assert!(published.is_empty(), "a symmetric key must not be published");
        } else {
            assert_eq!((&published[0]["kid"], &published[0]["use"]), (&key["kid"], &json!("sig")));
            for private in ["d", "p", "q", "dp", "dq", "qi", "k"] {
                assert!(published[0].get(private).is_none(), "{algorithm}: {private} is published");
            }
        }
    }
    assert!(generate("ES512").is_err());
}

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn signing_row(key: &Value, status: KeyStatus) -> StoredSigningKey {
    StoredSigningKey {
        kid: key["kid"].as_str().unwrap().to_owned(),
        algorithm: key["alg"].as_str().unwrap().to_owned(),
        status,
        jwk: Some(key.clone()),
        created_at: at(NOW),
        updated_at: at(NOW),
    }
}

fn signing(rows: Vec<StoredSigningKey>) -> StoredKeys {
    StoredKeys { api: Vec::new(), signing: rows }
}

fn published(keys: &Keys) -> Vec<String> {
    let jwks = keys.jwks();
    let mut kids: Vec<String> =
        jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect();
    kids.sort();
    kids
}

#[test]
fn a_signing_key_passes_through_its_life_cycle() {
    use KeyStatus::{InUse, PreviouslyUsed, Revoked, Standby};
    let (first, second) = (generate_es256().unwrap(), generate("EdDSA").unwrap());
    let own = material(vec![first.clone()]);
    let keys = Keys::new(own.clone()).unwrap();
    let sign = || keys.sign(&json!({ "sub": "a" })).unwrap();
    let kid_of = |token: &str| peek_header(token)["kid"].clone();
    let sorted = |names: &[&Value]| {
        let mut names: Vec<String> =
            names.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let by_first = sign();
    assert_eq!(kid_of(&by_first), first["kid"]);

    keys.update(&signing(vec![signing_row(&second, Standby)]), NOW).unwrap();
    assert_eq!(kid_of(&sign()), first["kid"], "a standby key must not sign");
    assert_eq!(published(&keys), sorted(&[&first, &second]), "a standby key must be published");

    let rotated = vec![signing_row(&first, PreviouslyUsed), signing_row(&second, InUse)];
    keys.update(&signing(rotated.clone()), NOW).unwrap();
    let by_second = sign();
    assert_eq!(kid_of(&by_second), second["kid"]);
    assert!(keys.verify(&by_first).is_ok() && keys.verify(&by_second).is_ok());
    assert_eq!(published(&keys), sorted(&[&first, &second]));
    let states: Vec<KeyStatus> =
        own.signing_keys(&signing(rotated)).unwrap().iter().map(|info| info.status).collect();
    // The second one is the secret of the legacy keys.
    assert_eq!(states, [InUse, PreviouslyUsed, PreviouslyUsed]);

    let revoked = vec![signing_row(&first, Revoked), signing_row(&second, InUse)];
    keys.update(&signing(revoked), NOW).unwrap();
    assert!(
        matches!(keys.verify(&by_first), Err(TokenError::NoKey { .. })),
        "a cached verification must not survive"
    );
    assert!(keys.verify(&by_second).is_ok());
    assert_eq!(published(&keys), sorted(&[&second]));
}

#[test]
fn a_lost_key_is_restored_from_the_database() {
    let (lost, second) = (generate_es256().unwrap(), generate_es256().unwrap());
    let by_lost = Keys::new(material(vec![lost.clone()])).unwrap().sign(&json!({ "sub": "a" })).unwrap();
    let rows = vec![signing_row(&lost, KeyStatus::PreviouslyUsed), signing_row(&second, KeyStatus::InUse)];
    let keys = Keys::new(material(vec![generate_es256().unwrap()])).unwrap();
    keys.update(&signing(rows), NOW).unwrap();
    assert!(keys.verify(&by_lost).is_ok());
    assert_eq!(peek_header(&keys.sign(&json!({})).unwrap())["kid"], second["kid"]);
}

#[test]
fn configured_keys_are_not_replaced() {
    let (own, other) = (generate_es256().unwrap(), generate_es256().unwrap());
    let keys = Keys::new(KeyMaterial { rotates: false, ..material(vec![own.clone()]) }).unwrap();
    keys.update(&signing(vec![signing_row(&other, KeyStatus::InUse)]), NOW).unwrap();
    assert_eq!(peek_header(&keys.sign(&json!({})).unwrap())["kid"], own["kid"]);
    assert_eq!(published(&keys), [own["kid"].as_str().unwrap()]);
}

#[test]
fn opaque_keys_keep_their_roles_when_the_secret_is_revoked() {
    let legacy = |role| legacy_key(&secret(), None, role, NOW).unwrap();
    let mut own = material(vec![generate_es256().unwrap()]);
    own.api_keys.anon = legacy("anon");
    own.api_keys.service = legacy("service_role").into();
    let keys = Keys::new(own).unwrap();
    let bearer = |key: &str| {
        let admitted = keys.api_key(key, NOW).unwrap();
        admitted.authorization.to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
    };
    assert_eq!(bearer("sb_publishable_x"), legacy("anon"));

    let secret_row = StoredSigningKey {
        kid: secret_kid(SECRET.as_bytes()),
        algorithm: "HS256".to_owned(),
        status: KeyStatus::Revoked,
        jwk: None,
        created_at: at(NOW),
        updated_at: at(NOW),
    };
    keys.update(&signing(vec![secret_row]), NOW).unwrap();
    assert_eq!(
        keys.api_key(&legacy("anon"), NOW),
        None,
        "tokens signed by the revoked secret must be rejected"
    );
    for (key, role) in [("sb_publishable_x", "anon"), ("sb_secret_y", "service_role")] {
        let claims = keys.verify(&bearer(key)).unwrap();
        assert_eq!(claims.role(), Some(role));
        assert_eq!(claims.seconds("exp"), Ok(Some((NOW + TEN_YEARS) as f64)));
    }
}

fn api_row(kind: ApiKeyKind, name: &str, key: &str, created_at: i64) -> StoredApiKey {
    let row = StoredApiKey::from_material(kind, &SecretString::from(key), at(created_at));
    StoredApiKey { name: name.to_owned(), ..row }
}

#[test]
fn api_keys_of_the_database_expire_and_can_be_revoked() {
    let keys = Keys::new(material(vec![generate_es256().unwrap()])).unwrap();
    let kind = |key: &str, now| keys.api_key(key, now).map(|key| key.kind);
    let expiring = StoredApiKey {
        expires_at: Some(at(NOW + 60)),
        role: "reporter".to_owned(),
        ..api_row(ApiKeyKind::Secret, "reports", "sb_secret_reports", NOW)
    };
    let mut stored = StoredKeys { api: vec![expiring], ..StoredKeys::default() };
    keys.update(&stored, NOW).unwrap();
    assert_eq!(kind("sb_secret_reports", NOW), Some(ApiKeyKind::Secret));
    assert_eq!(kind("sb_secret_reports", NOW + 60), None, "the key has expired");
    assert_eq!(kind("sb_secret_report", NOW), None);
    let admitted = keys.api_key("sb_secret_reports", NOW).unwrap();
    let bearer = admitted.authorization.to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
    assert_eq!(keys.verify(&bearer).unwrap().role(), Some("reporter"));
    assert!(admitted.authorization.is_sensitive());
    assert_eq!(keys.take_uses(), [(stored.api[0].id, NOW)]);
    assert_eq!(keys.take_uses(), [], "each use must be reported once");

    stored.api[0].revoked_at = Some(at(NOW));
    keys.update(&stored, NOW).unwrap();
    assert_eq!(kind("sb_secret_reports", NOW), None);
}

#[test]
fn a_replaced_default_key_is_no_longer_shown() {
    let keys = Keys::new(material(Vec::new())).unwrap();
    assert_eq!(keys.api_keys().publishable, "sb_publishable_x");
    let old = api_row(ApiKeyKind::Publishable, DEFAULT_NAME, "sb_publishable_x", NOW);
    let new = api_row(ApiKeyKind::Publishable, DEFAULT_NAME, "sb_publishable_new", NOW + 1);
    let other = api_row(ApiKeyKind::Publishable, "shop", "sb_publishable_shop", NOW + 2);
    let admits = |key: &str| keys.api_key(key, NOW).is_some();

    // Both are valid while apps switch to the new key.
    let ending = StoredApiKey { expires_at: Some(at(NOW + 3600)), ..old.clone() };
    keys.update(&StoredKeys { api: vec![ending, new.clone(), other.clone()], ..StoredKeys::default() }, NOW)
        .unwrap();
    assert_eq!(keys.api_keys().publishable, "sb_publishable_new");
    assert!(admits("sb_publishable_x") && admits("sb_publishable_new") && admits("sb_publishable_shop"));

    let revoked = StoredApiKey { revoked_at: Some(at(NOW)), ..old };
    keys.update(&StoredKeys { api: vec![revoked, new, other], ..StoredKeys::default() }, NOW).unwrap();
    assert_eq!(keys.api_keys().publishable, "sb_publishable_new");
    assert!(!admits("sb_publishable_x") && admits("sb_publishable_new"));
    assert_eq!(keys.api_keys().secret.expose_secret(), "sb_secret_y", "the secret key must be unchanged");
}

#[test]
fn an_unsupported_algorithm_differs_from_an_unknown_kid() {
    let keys = Keys::new(material(vec![generate_es256().unwrap()])).unwrap();
    let other = |algorithm| {
        let material = KeyMaterial { secret: None, ..material(vec![generate(algorithm).unwrap()]) };
        Keys::new(material).unwrap().sign(&json!({ "sub": "a" })).unwrap()
    };
    let is_configured = |token: &str| match keys.verify(token) {
        Err(TokenError::NoKey { is_configured, .. }) => is_configured,
        other => panic!("{other:?}"),
    };
    assert!(is_configured(&other("ES256")));
    assert!(!is_configured(&other("EdDSA")));
}
