//! The claims of access tokens (auth.md §3.18). `basalt_core::keys` signs them.

use std::sync::Arc;

use basalt_core::keys::Keys;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::config::AuthConfig;
use crate::error::AuthError;
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
}

impl Granted {
    /// Loads the rest of a new session's account.
    pub(crate) async fn from_new_session(
        tx: &Tx,
        new_session: NewSession,
        now: Timestamp,
    ) -> Result<Self, AuthError> {
        let NewSession { session_id, user, amr, refresh_token } = new_session;
        let account = users::complete(tx, user).await?;
        Ok(Self { account, session_id, amr, refresh_token, now, weak_password: None, provider_tokens: None })
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

    /// Issues the access token of a granted session.
    ///
    /// # Errors
    /// It cannot be signed.
    pub(crate) fn issue(&self, granted: &Granted) -> Result<AccessToken, AuthError> {
        let user = &granted.account.user;
        let issued_at = granted.now.as_second();
        let expires_at = issued_at.saturating_add(self.lifetime_seconds);
        let claims = AccessClaims {
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
        };
        Ok(AccessToken { text: self.keys.sign(&claims)?, expires_in: self.lifetime_seconds, expires_at })
    }
}
