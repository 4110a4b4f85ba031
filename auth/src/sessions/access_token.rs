//! Access tokens (auth.md §3.18): what their claims say. Signing is `basalt_core::keys`.

use basalt_core::pool::Tx;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::Auth;
use crate::error::AuthError;
use crate::http::wire::{TokenBody, UserBody, WeakPasswordBody};
use crate::sessions::{Amr, Begun, aal};
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

/// What a grant ends with; [`Granted::body`] is the answer.
pub(crate) struct Granted {
    pub(crate) account: Account,
    pub(crate) session_id: Uuid,
    pub(crate) amr: Vec<Amr>,
    pub(crate) refresh_token: String,
    /// When the tokens are issued.
    pub(crate) now: Timestamp,
    /// Of the password grant: `Some(None)` for a password that is good today.
    pub(crate) weak_password: Option<Option<WeakPasswordBody>>,
}

impl Granted {
    /// A session that just began, with the rest of its account.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn of(tx: &Tx, begun: Begun, now: Timestamp) -> Result<Self, AuthError> {
        let Begun { session_id, user, amr, refresh_token } = begun;
        let account = users::complete(tx, user).await?;
        Ok(Self { account, session_id, amr, refresh_token, now, weak_password: None })
    }

    /// The answer that hands the session's tokens to the client.
    ///
    /// # Errors
    /// The access token cannot be signed.
    pub(crate) fn body(&self, auth: &Auth) -> Result<TokenBody<'_>, AuthError> {
        let user = &self.account.user;
        let expires_in = i64::from(auth.config.jwt.exp);
        let issued_at = self.now.as_second();
        let claims = AccessClaims {
            iss: auth.config.issuer(),
            sub: user.id,
            aud: &user.aud,
            exp: issued_at.saturating_add(expires_in),
            iat: issued_at,
            email: &user.email,
            phone: &user.phone,
            app_metadata: &user.app_metadata,
            user_metadata: &user.user_metadata,
            // A row without a role would make a token that no policy knows.
            role: if user.role.is_empty() { auth.config.default_role() } else { &user.role },
            aal: aal(&self.amr),
            amr: &self.amr,
            session_id: self.session_id,
            is_anonymous: user.is_anonymous,
        };
        Ok(TokenBody {
            access_token: auth.keys.sign(&claims)?,
            token_type: "bearer",
            expires_in,
            expires_at: claims.exp,
            refresh_token: &self.refresh_token,
            user: UserBody::from(&self.account),
            weak_password: self.weak_password.as_ref().map(Option::as_ref),
        })
    }
}
