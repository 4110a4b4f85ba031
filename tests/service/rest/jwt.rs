//! JWT validation (rest.md §3.15): errors and their order, keys of every kind, the role claim.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA512,
};
use aws_lc_rs::{hmac, rsa};
use basalt_core::clock::Clock;
use basalt_testkit::{Basalt, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Method;
use serde_json::{Value, json};

use super::settings::{SECRET, alone};
use super::{anon, server};

fn part(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs tokens independently of the product's code.
enum Signer {
    Secret(Vec<u8>),
    Rsa(rsa::KeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    fn token(&self, header: &Value, claims: &Value) -> String {
        self.signed(&format!("{}.{}", part(header.to_string()), part(claims.to_string())), header)
    }

    fn signed(&self, message: &str, header: &Value) -> String {
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match self {
            Self::Secret(secret) => {
                let algorithm = match header["alg"].as_str() {
                    Some("HS384") => hmac::HMAC_SHA384,
                    Some("HS512") => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::sign(&hmac::Key::new(algorithm, secret), bytes).as_ref().to_vec()
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding = if header["alg"] == "RS512" { &RSA_PKCS1_SHA512 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &random, bytes, &mut signature).unwrap();
                signature
            }
            Self::P256(pair) | Self::P384(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
        };
        format!("{message}.{}", part(signature))
    }

    /// The public key, or the secret.
    fn jwk(&self) -> Value {
        let point = |pair: &EcdsaKeyPair, curve: &str, size: usize| {
            let point = pair.public_key().as_ref();
            json!({"kty": "EC", "crv": curve, "x": part(&point[1..=size]), "y": part(&point[size + 1..])})
        };
        match self {
            Self::Secret(secret) => json!({"kty": "oct", "k": part(secret)}),
            Self::Rsa(pair) => {
                let key = pair.public_key();
                let modulus = key.modulus().big_endian_without_leading_zero();
                let exponent = key.exponent().big_endian_without_leading_zero();
                json!({"kty": "RSA", "n": part(modulus), "e": part(exponent)})
            }
            Self::P256(pair) => point(pair, "P-256", 32),
            Self::P384(pair) => point(pair, "P-384", 48),
            Self::Ed25519(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": part(pair.public_key())}),
        }
    }
}

fn with(mut jwk: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        jwk[name] = value.clone();
    }
    jwk
}

/// One key of each kind, with its `alg`.
fn signers() -> Vec<(&'static str, Signer)> {
    let ec = |kind| EcdsaKeyPair::generate(kind).unwrap();
    vec![
        ("HS256", Signer::Secret(b"another secret, thirty-two or more".to_vec())),
        ("RS256", Signer::Rsa(rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap())),
        ("ES256", Signer::P256(ec(&ECDSA_P256_SHA256_FIXED_SIGNING))),
        ("ES384", Signer::P384(ec(&ECDSA_P384_SHA384_FIXED_SIGNING))),
        ("EdDSA", Signer::Ed25519(Ed25519KeyPair::generate().unwrap())),
    ]
}

async fn ask(server: &Basalt, path: &str, authorization: &str) -> Response {
    server.get(path).header("authorization", authorization).send().await
}

async fn ask_with(server: &Basalt, token: &str) -> Response {
    ask(server, "/rpc/current?name=role", &format!("Bearer {token}")).await
}

/// Every row of the contract's table: the token, then status, code, message and details.
fn faults(secret: &str) -> Vec<(String, u16, &'static str, &'static str, Option<&'static str>)> {
    let signer = Signer::Secret(secret.as_bytes().to_vec());
    let other = Signer::Secret(b"a secret that the server does not know!".to_vec());
    let ec = Signer::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
    let header = |alg: &str| json!({"alg": alg, "typ": "JWT"});
    let role = json!({"role": "anon"});
    let claims = |claims: &Value| signer.token(&header("HS256"), &with(role.clone(), claims));
    let text = |payload: &str| {
        signer.signed(&format!("{}.{}", part(header("HS256").to_string()), part(payload)), &header("HS256"))
    };
    let key = Some("None of the keys was able to decode the JWT");
    let now = Clock::system().unix_seconds();
    let [past, future] = [now - 40, now + 40];
    let mut rows = vec![
        (String::new(), "PGRST301", "Empty JWT is sent in Authorization header", None),
        ("a.b".to_owned(), "PGRST301", "Expected 3 parts in JWT; got 2", None),
        ("a".to_owned(), "PGRST301", "Expected 3 parts in JWT; got 1", None),
        ("a.b.c.d.e".to_owned(), "PGRST301", "Expected 3 parts in JWT; got 5", None),
        (other.token(&header("HS256"), &role), "PGRST301", "No suitable key or wrong key type", key),
        (ec.token(&header("ES256"), &role), "PGRST301", "No suitable key or wrong key type", key),
        (format!("{}x", claims(&json!({}))), "PGRST301", "No suitable key or wrong key type", key),
        (format!("!!!.{}.x", part("{}")), "PGRST301", "JWT cryptographic operation failed", None),
        (
            format!("{}.{}.x", part("no json"), part("{}")),
            "PGRST301",
            "JWT cryptographic operation failed",
            None,
        ),
        (
            format!("{}.{}.", part(r#"{"alg":"none"}"#), part(r#"{"role":"anon"}"#)),
            "PGRST301",
            "Wrong or unsupported encoding algorithm",
            Some("JWT is unsecured but expected 'alg' was not 'none'"),
        ),
        (
            signer.token(&json!({"alg": "RSA-OAEP", "enc": "A256GCM"}), &role),
            "PGRST301",
            "Unsupported token type",
            None,
        ),
        (
            format!("{}.a.b.c.d", part(r#"{"alg":"RSA-OAEP","enc":"A256GCM"}"#)),
            "PGRST301",
            "Unsupported token type",
            None,
        ),
        (text("[1]"), "PGRST303", "Parsing claims failed", None),
        (text("\"text\""), "PGRST303", "Parsing claims failed", None),
        (text("{"), "PGRST303", "Parsing claims failed", None),
        (claims(&json!({"exp": past})), "PGRST303", "JWT expired", None),
        (
            claims(&json!({"exp": past, "nbf": future, "iat": future, "aud": 1})),
            "PGRST303",
            "JWT expired",
            None,
        ),
        (claims(&json!({"nbf": future, "iat": future, "aud": 1})), "PGRST303", "JWT not yet valid", None),
        (claims(&json!({"iat": future, "aud": 1})), "PGRST303", "JWT issued at future", None),
        (claims(&json!({"aud": "other"})), "PGRST303", "JWT not in audience", None),
        (claims(&json!({"aud": ["other", "another"]})), "PGRST303", "JWT not in audience", None),
        (claims(&json!({"exp": "soon"})), "PGRST303", "The JWT 'exp' claim must be a number", None),
        (claims(&json!({"nbf": [], "iat": "x"})), "PGRST303", "The JWT 'nbf' claim must be a number", None),
        (claims(&json!({"iat": true})), "PGRST303", "The JWT 'iat' claim must be a number", None),
        (
            claims(&json!({"aud": 5})),
            "PGRST303",
            "The JWT 'aud' claim must be a string or an array of strings",
            None,
        ),
        (
            claims(&json!({"aud": ["api", 5]})),
            "PGRST303",
            "The JWT 'aud' claim must be a string or an array of strings",
            None,
        ),
    ];
    rows.push((
        signer.token(&header("HS999"), &role),
        "PGRST301",
        "Wrong or unsupported encoding algorithm",
        Some(""),
    ));
    rows.into_iter().map(|(token, code, message, details)| (token, 401, code, message, details)).collect()
}

fn check(response: &Response, row: &(String, u16, &'static str, &'static str, Option<&'static str>)) {
    let (token, status, code, message, details) = row;
    let body = response.json();
    assert_eq!((response.status.as_u16(), &body["code"]), (*status, &json!(code)), "{token}: {body}");
    assert_eq!(body["message"], *message, "{token}");
    match details {
        Some("") => assert!(body["details"].is_string(), "{token}"),
        details => assert_eq!(body["details"], json!(details), "{token}"),
    }
    assert!(body["hint"].is_null());
    assert_eq!(response.header("proxy-status"), format!("PostgREST; error={code}"));
    let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{message}\"");
    assert_eq!(response.header("www-authenticate"), challenge, "{token}");
}

#[tokio::test]
async fn invalid_tokens_get_contract_errors() {
    let (_database, builder) = alone("jwt_faults").await;
    let standalone = builder.config("rest.jwt_aud", "api").start().await;
    for row in faults(SECRET) {
        // The token is checked before the path and the schema.
        for path in ["/no/such/path", "/labels"] {
            check(&ask(&standalone, path, &format!("Bearer {}", row.0)).await, &row);
        }
    }
    let head = standalone.request(Method::HEAD, "/labels").bearer("a.b").send().await;
    assert_eq!((head.status.as_u16(), head.body.len()), (401, 0));
    let gated = server().config("rest.jwt_aud", "api").start().await;
    for row in faults(gated.jwt_secret()) {
        check(&anon(&gated, Method::GET, "/no/such/path").bearer(&row.0).send().await, &row);
    }
}

#[tokio::test]
async fn valid_tokens_are_accepted() {
    let (_database, builder) = alone("jwt_passes").await;
    let server = builder.config("rest.jwt_aud", "api").start().await;
    let signer = Signer::Secret(SECRET.as_bytes().to_vec());
    let now = Clock::system().unix_seconds();
    for claims in [
        json!({}),
        json!({"exp": now - 20, "nbf": now + 20, "iat": now + 20}),
        json!({"exp": now as f64 + 0.5, "nbf": null, "iat": null}),
        json!({"aud": "api"}),
        json!({"aud": ["other", "api"]}),
        json!({"aud": []}),
        json!({"aud": null}),
        json!({"exp": null}),
    ] {
        let token = signer.token(&json!({"alg": "HS256"}), &with(json!({"role": "authenticated"}), &claims));
        assert_eq!(ask_with(&server, &token).await.expect(200).json(), "authenticated", "{claims}");
    }
    for alg in ["HS384", "HS512"] {
        let token = signer.token(&json!({"alg": alg}), &json!({"role": "authenticated"}));
        assert_eq!(ask_with(&server, &token).await.expect(200).json(), "authenticated");
    }
    // The scheme is case-insensitive; other schemes are ignored; a token without a role is anonymous.
    let token = signer.token(&json!({"alg": "HS256"}), &json!({"role": "authenticated"}));
    for (authorization, role) in [
        (format!("bEaReR   {token}"), "authenticated"),
        (format!("Basic {token}"), "anon"),
        (token.clone(), "anon"),
        (format!("Bearer {}", signer.token(&json!({"alg": "HS256"}), &json!({"sub": "x"}))), "anon"),
    ] {
        let response = ask(&server, "/rpc/current?name=role", &authorization).await.expect(200);
        assert_eq!(response.json(), role, "{authorization}");
    }
}

#[tokio::test]
async fn non_string_role_is_reported_as_unknown() {
    let (_database, builder) = alone("jwt_no_text").await;
    let server = builder.start().await;
    let signer = Signer::Secret(SECRET.as_bytes().to_vec());
    for (role, role_text) in
        [(json!(123), "123"), (json!(["anon"]), r#"["anon"]"#), (json!(null), "null"), (json!(""), "")]
    {
        let token = signer.token(&json!({"alg": "HS256"}), &json!({"role": role}));
        let refused = ask_with(&server, &token).await;
        assert_eq!((refused.status.as_u16(), refused.header("www-authenticate")), (401, "Bearer"));
        let body = refused.json();
        assert_eq!(body["code"], "22023");
        assert_eq!(body["message"], format!("role \"{role_text}\" does not exist"));
    }
}

#[tokio::test]
async fn claims_reach_sql_unchanged() {
    let (_database, builder) = alone("jwt_claims").await;
    let server = builder.start().await;
    let signer = Signer::Secret(SECRET.as_bytes().to_vec());
    let header = json!({"alg": "HS256"});
    let signed = |claims: &str| {
        let message = format!("{}.{}", part(header.to_string()), part(claims));
        signer.signed(&message, &header)
    };
    let show = |token: String| {
        let server = &server;
        async move {
            let path = "/rpc/current?name=request.jwt.claims";
            let response = ask(server, path, &format!("Bearer {token}")).await.expect(200).json();
            response.as_str().unwrap().to_owned()
        }
    };
    let exact =
        r#"{"role":"authenticated","big":12345678901234567890123.5,"z":1,"a":{"k":[1,null]},"é":"ü"}"#;
    assert_eq!(show(signed(exact)).await, exact);
    // If the effective role differs, it is added.
    let added: Value = serde_json::from_str(&show(signed(r#"{"sub":"me"}"#)).await).unwrap();
    assert_eq!(added, json!({"sub": "me", "role": "anon"}));
    let visitor = server.get("/rpc/current?name=request.jwt.claims").send().await.json();
    assert_eq!(visitor, r#"{"role":"anon"}"#);
}

#[tokio::test]
async fn without_anon_role_a_token_with_role_is_required() {
    let (_database, builder) = alone("jwt_nobody").await;
    let server = builder.config("rest.anon_role", "").start().await;
    let signer = Signer::Secret(SECRET.as_bytes().to_vec());
    let refused = server.get("/labels").send().await;
    assert_eq!((refused.status.as_u16(), refused.header("www-authenticate")), (401, "Bearer"));
    assert_eq!(
        refused.json(),
        json!({"code": "PGRST302", "details": null, "hint": null, "message": "Anonymous access is disabled"})
    );
    let roleless = signer.token(&json!({"alg": "HS256"}), &json!({"sub": "x"}));
    assert_eq!(ask_with(&server, &roleless).await.json()["code"], "PGRST302");
    let token = signer.token(&json!({"alg": "HS256"}), &json!({"role": "anon"}));
    assert_eq!(ask_with(&server, &token).await.expect(200).json(), "anon");
}

#[tokio::test]
async fn without_a_secret_tokens_are_rejected() {
    let (_database, builder) = alone("jwt_no_secret").await;
    let server = builder.config("jwt.secret", "").start().await;
    assert_eq!(server.get("/labels").send().await.status, 200);
    let refused = ask(&server, "/labels", "Bearer a.b.c").await;
    assert_eq!(refused.status, 500);
    assert_eq!(
        refused.json(),
        json!({"code": "PGRST300", "details": null, "hint": null, "message": "Server lacks JWT secret"})
    );
    assert_eq!(
        ask(&server, "/labels", "Bearer").await.json()["code"],
        "PGRST301",
        "an empty token is checked first"
    );
}

#[tokio::test]
async fn verifies_all_key_types_and_matches_kid() {
    let signers = signers();
    let named = |(alg, signer): &(&str, Signer)| with(signer.jwk(), &json!({"kid": format!("kid of {alg}")}));
    let mut keys: Vec<Value> = signers.iter().map(named).collect();
    // One key without a kid, and one for encryption.
    let nameless = Signer::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
    keys.push(nameless.jwk());
    keys.push(json!({"kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "n": "AQAB", "e": "AQAB", "kid": "enc"}));
    let set = json!({"keys": keys}).to_string();
    let (database, builder) = alone("jwt_keys").await;
    let setting =
        format!("alter role jwt_keys in database {} set pgrst.jwt_secret = '{set}'", database.name());
    let _done = database.admin_sql(&setting).await;
    let server = builder.start().await;
    let claims = json!({"role": "authenticated"});
    for (alg, signer) in &signers {
        let kid = format!("kid of {alg}");
        for header in [json!({"alg": alg}), json!({"alg": alg, "kid": kid})] {
            let token = signer.token(&header, &claims);
            assert_eq!(ask_with(&server, &token).await.expect(200).json(), "authenticated", "{header}");
            // The second request hits the cache; a changed token does not.
            assert_eq!(ask_with(&server, &token).await.status, 200);
            assert_eq!(ask_with(&server, &format!("{token}A")).await.status, 401);
        }
        for kid in ["another", "kid of nobody", ""] {
            let refused = ask_with(&server, &signer.token(&json!({"alg": alg, "kid": kid}), &claims)).await;
            assert_eq!(refused.json()["message"], "No suitable key or wrong key type", "{alg} {kid}");
        }
    }
    assert_eq!(ask_with(&server, &nameless.token(&json!({"alg": "ES256"}), &claims)).await.status, 200);
    for kid in ["kid of ES256", "anything"] {
        let refused = ask_with(&server, &nameless.token(&json!({"alg": "ES256", "kid": kid}), &claims)).await;
        assert_eq!(refused.status, 401, "a key without a kid does not match a token with one");
    }
    // The public key of an asymmetric pair is not accepted as an HMAC secret.
    let (_, Signer::P256(pair)) = &signers[2] else { panic!("P-256 is the third") };
    let confused =
        Signer::Secret(pair.public_key().as_ref().to_vec()).token(&json!({"alg": "HS256"}), &claims);
    assert_eq!(ask_with(&server, &confused).await.status, 401);
}

#[tokio::test]
async fn plain_secret_does_not_match_a_token_with_kid() {
    let (_database, builder) = alone("jwt_kid").await;
    let server = builder.start().await;
    let signer = Signer::Secret(SECRET.as_bytes().to_vec());
    let token = signer.token(&json!({"alg": "HS256", "kid": "x"}), &json!({"role": "anon"}));
    assert_eq!(ask_with(&server, &token).await.json()["code"], "PGRST301");
}

#[tokio::test]
async fn secret_can_be_base64_or_base64url() {
    let bytes: Vec<u8> = (0..48_u8).map(|n| n.wrapping_mul(37).wrapping_add(251)).collect();
    let signer = Signer::Secret(bytes.clone());
    let token = signer.token(&json!({"alg": "HS256"}), &json!({"role": "authenticated"}));
    for (name, text) in [("jwt_base64", STANDARD.encode(&bytes)), ("jwt_base64url", part(&bytes))] {
        let (_database, builder) = alone(name).await;
        let server = builder.config("jwt.secret", &text).config("jwt.secret_is_base64", "true").start().await;
        assert_eq!(ask_with(&server, &token).await.expect(200).json(), "authenticated");
    }
}

#[tokio::test]
async fn role_claim_path_is_configurable() {
    for (name, path) in
        [("jwt_path", r#".app."the roles"[1]"#), ("jwt_path_dollar", r#"$.app."the roles"[1]"#)]
    {
        let (_database, builder) = alone(name).await;
        let server = builder.config("rest.role_claim", path).start().await;
        let signer = Signer::Secret(SECRET.as_bytes().to_vec());
        for (roles, expected) in [(json!(["x", "authenticated"]), "authenticated"), (json!(["x"]), "anon")] {
            // The default `role` claim is ignored.
            let claims = json!({"role": "service_role", "app": {"the roles": roles}});
            let response = ask_with(&server, &signer.token(&json!({"alg": "HS256"}), &claims)).await;
            assert_eq!(response.expect(200).json(), expected);
        }
        let claims = json!({"role": "service_role", "app": {"the roles": ["x", "authenticated"]}});
        let token = signer.token(&json!({"alg": "HS256"}), &claims);
        let shown = ask(&server, "/rpc/current?name=request.jwt.claims", &format!("Bearer {token}")).await;
        let shown: Value = serde_json::from_str(shown.json().as_str().unwrap()).unwrap();
        assert_eq!(shown["role"], "authenticated", "claims carry the effective role");
    }
}
