//! Users and their tokens.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::http::Request;
use crate::server::Basalt;

/// A signed-up account with its session.
#[derive(Clone, Debug)]
pub struct User {
    /// Its id, `auth.uid()`.
    pub id: String,
    /// As given.
    pub email: String,
    /// As given.
    pub password: String,
    /// The access token of the sign-up session.
    pub access_token: String,
    /// Its refresh token.
    pub refresh_token: String,
}

impl Basalt {
    /// Signs up a user through the API; in development the server autoconfirms.
    ///
    /// # Panics
    /// If the server rejects the sign-up.
    pub async fn sign_up(&self, email: &str) -> User {
        let password = "correct horse 7";
        let body = json!({ "email": email, "password": password });
        let session =
            self.post("/auth/v1/signup").apikey(self.anon_key()).json(&body).send().await.expect(200).json();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let user = User {
            id: text(session.pointer("/user/id")),
            email: email.to_owned(),
            password: password.to_owned(),
            access_token: text(session.get("access_token")),
            refresh_token: text(session.get("refresh_token")),
        };
        assert!(!user.id.is_empty() && !user.access_token.is_empty(), "no session in {session}");
        user
    }

    /// A token with exactly these claims, signed with the server's HS256 secret.
    ///
    /// # Panics
    /// If the claims cannot be encoded.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        let key = EncodingKey::from_secret(self.jwt_secret().as_bytes());
        encode(&Header::new(Algorithm::HS256), claims, &key).expect("claims can be encoded")
    }

    /// A long-lived token for `role`.
    #[must_use]
    pub fn token_of(&self, role: &str) -> String {
        self.token(&json!({ "role": role, "exp": 4_102_444_800_u32 }))
    }
}

impl Request {
    /// Authenticates as this user, with the anon key.
    pub fn by(self, server: &Basalt, user: &User) -> Self {
        self.apikey(server.anon_key()).bearer(&user.access_token)
    }
}
