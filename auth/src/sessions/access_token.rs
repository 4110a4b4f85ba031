//! The claims of access tokens (auth.md §3.18). `basalt_core::keys` signs them.

use std::sync::Arc;

use basalt_core::keys::{ID_TOKEN_USE, Keys};
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::hook_types::HookKind;
use crate::hooks::Hooks;
use crate::origin::Origin;
use crate::passwords::policy::Weakness;
use crate::providers::ProviderTokens;
use crate::sessions::{Amr, NewSession, aal};
use crate::users::{self, Account, Object};

#[derive(Serialize)]
struct AccessClaims<'a> {
    iss: &'a str,
    sub: Uuid,
    aud: &'a str,
    exp: i64,
    iat: i64,
    email: &'a str,
    phone: &'a str,
    app_metadata: &'a Object,
    user_metadata: &'a Object,
    role: &'a str,
    aal: &'static str,
    amr: &'a [Amr],
    session_id: Uuid,
    is_anonymous: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

/// The OAuth client that a session belongs to.
pub(crate) struct ClientGrant {
    pub(crate) client_id: Uuid,
    pub(crate) scope: String,
}

/// Result of a grant. [`AccessTokens`] issues its access token.
pub(crate) struct Granted {
    pub(crate) account: Account,
    pub(crate) session_id: Uuid,
    pub(crate) amr: Vec<Amr>,
    pub(crate) refresh_token: String,
    /// Time of issue.
    pub(crate) now: Timestamp,
    /// Only for the password grant: `Some(None)` if the password satisfies the policy.
    pub(crate) weak_password: Option<Option<Weakness>>,
    /// The tokens of the external provider, at the sign-in with it.
    pub(crate) provider_tokens: Option<ProviderTokens>,
    /// `None` for the user's own sessions.
    pub(crate) client: Option<ClientGrant>,
    /// Whether the session existed before.
    pub(crate) is_refresh: bool,
}

impl Granted {
    /// How the token was obtained, for hooks.
    fn method(&self) -> &str {
        if self.is_refresh {
            return "token_refresh";
        }
        self.amr.first().map(|entry| entry.method.as_str()).unwrap_or_default()
    }

    /// Loads the rest of a new session's account.
    pub(crate) async fn from_new_session(
        tx: &Tx,
        new_session: NewSession,
        now: Timestamp,
    ) -> Result<Self, AuthError> {
        let NewSession { session_id, user, amr, refresh_token } = new_session;
        let account = users::complete(tx, user).await?;
        Ok(Self {
            account,
            session_id,
            amr,
            refresh_token,
            now,
            weak_password: None,
            provider_tokens: None,
            client: None,
            is_refresh: false,
        })
    }
}

/// A signed access token.
pub(crate) struct AccessToken {
    pub(crate) text: String,
    /// Lifetime in seconds.
    pub(crate) expires_in: i64,
    /// Seconds since 1970.
    pub(crate) expires_at: i64,
}

/// Issues access tokens.
pub(crate) struct AccessTokens {
    keys: Arc<Keys>,
    issuer: String,
    default_role: String,
    lifetime_seconds: i64,
}

impl AccessTokens {
    pub(crate) fn new(config: &AuthConfig, keys: Arc<Keys>) -> Self {
        Self {
            keys,
            issuer: config.issuer().to_owned(),
            default_role: config.default_role().to_owned(),
            lifetime_seconds: i64::from(config.jwt.exp),
        }
    }

    /// Issues the access token of a granted session. A hook may change its claims.
    ///
    /// # Errors
    /// The hook fails, or the token cannot be signed.
    pub(crate) async fn issue(
        &self,
        hooks: &Hooks,
        origin: &Origin,
        granted: &Granted,
    ) -> Result<AccessToken, AuthError> {
        let claims = self.claims(granted);
        let (iat, exp) = (claims.iat, claims.exp);
        if !hooks.is_enabled(HookKind::CustomAccessToken) {
            return Ok(AccessToken {
                text: self.keys.sign(&claims)?,
                expires_in: exp - iat,
                expires_at: exp,
            });
        }
        let Ok(Value::Object(claims)) = serde_json::to_value(&claims) else {
            return Err(AuthError::Internal("claims are not a JSON object".to_owned()));
        };
        let (user_id, method) = (granted.account.user.id, granted.method());
        let mut claims = hooks.custom_access_token(origin, granted.now, user_id, method, claims).await?;
        if let Some(client) = &granted.client {
            // A token of an OAuth client must never become one of the user's own.
            claims.insert("client_id".to_owned(), client.client_id.to_string().into());
            claims.insert("scope".to_owned(), client.scope.as_str().into());
        }
        let seconds = |name: &str, default| claims.get(name).and_then(Value::as_i64).unwrap_or(default);
        let (iat, exp) = (seconds("iat", iat), seconds("exp", exp));
        Ok(AccessToken {
            text: self.keys.sign(&claims)?,
            expires_in: exp.saturating_sub(iat),
            expires_at: exp,
        })
    }

    fn claims<'a>(&'a self, granted: &'a Granted) -> AccessClaims<'a> {
        let user = &granted.account.user;
        let issued_at = granted.now.as_second();
        let expires_at = issued_at.saturating_add(self.lifetime_seconds);
        AccessClaims {
            iss: &self.issuer,
            sub: user.id,
            aud: &user.aud,
            exp: expires_at,
            iat: issued_at,
            email: &user.email,
            phone: &user.phone,
            app_metadata: &user.app_metadata,
            user_metadata: &user.user_metadata,
            // A row without a role would produce a token that matches no policy.
            role: if user.role.is_empty() { &self.default_role } else { &user.role },
            aal: aal(&granted.amr),
            amr: &granted.amr,
            session_id: granted.session_id,
            is_anonymous: user.is_anonymous,
            client_id: granted.client.as_ref().map(|client| client.client_id),
            scope: granted.client.as_ref().map(|client| client.scope.as_str()),
        }
    }

    /// Issues an ID token, which tells the OAuth client of a session who the user is. `claims` are those of the granted scopes.
    ///
    /// # Errors
    /// It cannot be signed.
    pub(crate) fn issue_id_token(
        &self,
        granted: &Granted,
        client_id: Uuid,
        mut claims: Object,
        nonce: Option<&str>,
    ) -> Result<String, AuthError> {
        let issued_at = granted.now.as_second();
        let (name, id) = ID_TOKEN_USE;
        let fixed: [(&str, Value); 6] = [
            ("iss", self.issuer.as_str().into()),
            ("sub", granted.account.user.id.to_string().into()),
            ("aud", client_id.to_string().into()),
            ("iat", issued_at.into()),
            ("exp", issued_at.saturating_add(self.lifetime_seconds).into()),
            (name, id.into()),
        ];
        claims.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
        if let Some(nonce) = nonce {
            claims.insert("nonce".to_owned(), nonce.into());
        }
        Ok(self.keys.sign(&claims)?)
    }
}
