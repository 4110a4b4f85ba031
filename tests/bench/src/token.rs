//! Keys and tokens generated here, so that Basalt and PostgREST verify the same ones.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The signing secret of both servers.
pub(crate) const JWT_SECRET: &str = "a public secret for measurements, 32+ bytes";

/// The key that the passwords of Basalt's login roles derive from.
pub(crate) const MASTER_KEY: &str = "a master key for measurements, known to everybody";

/// The id of person `number`, as the project's rows have it.
pub(crate) fn person_id(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// What a signed-in person sends: all the claims a real token carries, since their size counts.
pub(crate) fn claims(person: &str) -> Value {
    let now = Timestamp::now().as_second();
    json!({
        "iss": "http://localhost:8000/auth/v1", "sub": person, "aud": "authenticated", "exp": now + 86_400, "iat": now,
        "email": "person@example.org", "phone": "", "app_metadata": {"provider": "email", "providers": ["email"]},
        "user_metadata": {"email": "person@example.org", "email_verified": true, "organization_name": "Acme", "sub": person},
        "role": "authenticated", "aal": "aal1", "amr": [{"method": "password", "timestamp": now}],
        "session_id": "3f0c8b1e-4a53-4d0c-9c39-0f8a1f2e7d11", "is_anonymous": false
    })
}

/// The project's anon key.
pub(crate) fn anon_key() -> String {
    let now = Timestamp::now().as_second();
    sign(&json!({"iss": "supabase", "role": "anon", "iat": now, "exp": now + 86_400}))
}

/// A JWT signed with HS256.
pub(crate) fn sign(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, JWT_SECRET.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, head.as_bytes()).as_ref());
    format!("{head}.{signature}")
}

/// The password Basalt gives to a login role under [`MASTER_KEY`]; the same derivation as `basalt::secrets`.
pub(crate) fn role_password(role: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, MASTER_KEY.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, format!("basalt login role: {role}").as_bytes()).as_ref())
}
