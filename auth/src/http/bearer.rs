//! Authentication of the caller: token, user and session, checked in the contract's order (auth.md §3.1).
//!
//! The gateway has already replaced API keys by tokens, so a token without `sub` is common: an API key on a route that
//! requires a user.

use std::sync::Arc;

use basalt_core::bearer::bearer_token;
use basalt_core::claims::Claims;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::error::AuthError;
use crate::http::request::RequestContext;
use crate::sessions::{self, Session};
use crate::state::Auth;
use crate::users::{self, Account, User};

/// A token whose signature and times are valid.
pub(crate) struct Bearer {
    claims: Arc<Claims>,
}

/// An existing, unbanned user, with the token's session if it names one.
pub(crate) struct Caller {
    pub(crate) account: Account,
    pub(crate) session: Option<Session>,
}

impl Caller {
    /// The OAuth client that acts for the user.
    pub(crate) fn client_id(&self) -> Option<Uuid> {
        self.session.as_ref()?.oauth_client_id
    }
}

impl Bearer {
    /// Reads and verifies the bearer of a request.
    ///
    /// # Errors
    /// The token is missing, invalid or expired.
    pub(crate) fn read(auth: &Auth, request: &RequestContext) -> Result<Self, AuthError> {
        let token = bearer_token(&request.headers)
            .filter(|token| !token.is_empty() && !token.contains(char::is_whitespace))
            .ok_or(AuthError::NoBearer)?;
        let claims = auth.keys.verify(token)?;
        check_times(&claims, auth.clock.now())?;
        Ok(Self { claims })
    }

    /// The audience of the request (auth.md §3.1): `X-JWT-AUD`, else that of a non-admin token, else the configured one.
    pub(crate) fn audience<'a>(&'a self, auth: &'a Auth, request: &'a RequestContext) -> &'a str {
        let own = self.own_audience().filter(|own| !own.is_empty() && !self.is_admin(auth));
        request.origin.audience.as_deref().or(own).unwrap_or(&auth.config.jwt.aud)
    }

    /// Whether the token was issued for `audience`. A token without one belongs to the configured audience.
    pub(crate) fn is_for(&self, auth: &Auth, audience: &str) -> bool {
        self.own_audience().unwrap_or(&auth.config.jwt.aud) == audience
    }

    /// Whether the token's role is an admin role.
    pub(crate) fn is_admin(&self, auth: &Auth) -> bool {
        self.claims.role().is_some_and(|role| auth.config.is_admin_role(role))
    }

    /// The user and session of the token, for routes that read or change the account.
    ///
    /// # Errors
    /// Those of [`Self::caller_or_client`], or the session belongs to an OAuth client.
    pub(crate) async fn caller(&self, auth: &Auth, tx: &Tx) -> Result<Caller, AuthError> {
        let caller = self.caller_or_client(auth, tx).await?;
        if caller.client_id().is_some() { Err(AuthError::ClientSessionRefused) } else { Ok(caller) }
    }

    /// The user and session of the token. The session may belong to an OAuth client that acts for the user.
    ///
    /// # Errors
    /// The token names no user, or the user or session does not exist.
    pub(crate) async fn caller_or_client(&self, auth: &Auth, tx: &Tx) -> Result<Caller, AuthError> {
        let sub = self.claims.sub().filter(|sub| !sub.is_empty()).ok_or(AuthError::NoSub)?;
        let user_id = Uuid::try_parse(sub).map_err(|_error| AuthError::SubNotUuid)?;
        let session_id = self.session_id()?;
        let session = async {
            match session_id {
                Some(id) => sessions::find(tx, id, user_id).await,
                None => Ok(None),
            }
        };
        let (account, session) = tokio::try_join!(users::account(tx, user_id), session)?;
        let account = account.ok_or(AuthError::NoSuchSub)?;
        if session_id.is_some() && session.is_none() {
            return Err(AuthError::NoSuchSession);
        }
        if account.user.is_banned(auth.clock.now()) {
            return Err(AuthError::BannedBearer);
        }
        Ok(Caller { account, session })
    }

    /// The token's user and session, if both are UUIDs. Admin tokens may contain other values.
    pub(crate) fn named_session(&self) -> Option<(Uuid, Uuid)> {
        let user_id = Uuid::try_parse(self.claims.sub()?).ok()?;
        Some((user_id, self.session_id().ok()??))
    }

    /// The audit log's actor for a token of a role without a user.
    pub(crate) fn role_actor(&self, auth: &Auth) -> User {
        let role = self.claims.role().unwrap_or_default().to_owned();
        User { role: role.clone(), email: role, ..User::blank(Uuid::nil(), auth.now()) }
    }

    /// `None` for a token without a session, which may also contain the nil UUID.
    fn session_id(&self) -> Result<Option<Uuid>, AuthError> {
        match self.claims.get("session_id") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => match Uuid::try_parse(text) {
                Ok(id) => Ok(Some(id).filter(|id| !id.is_nil())),
                Err(_error) => Err(AuthError::SessionIdNotUuid),
            },
            Some(_) => Err(AuthError::SessionIdNotUuid),
        }
    }

    /// `aud` may be an array; its first entry counts, as upstream.
    fn own_audience(&self) -> Option<&str> {
        match self.claims.get("aud")? {
            Value::String(audience) => Some(audience),
            Value::Array(audiences) => audiences.first().and_then(Value::as_str),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        }
    }
}

/// Checks `exp` and `nbf` without leeway. `exp` is optional: admin tokens often have none.
fn check_times(claims: &Claims, now: Timestamp) -> Result<(), AuthError> {
    let now = now.as_duration().as_secs_f64();
    let seconds = |name: &str| {
        claims
            .seconds(name)
            .map_err(|_error| AuthError::BadJwt("token is malformed: could not JSON decode claim".to_owned()))
    };
    if seconds("exp")?.is_some_and(|exp| now >= exp) {
        return Err(AuthError::BadJwt("token has invalid claims: token is expired".to_owned()));
    }
    if seconds("nbf")?.is_some_and(|nbf| now < nbf) {
        return Err(AuthError::BadJwt("token has invalid claims: token is not valid yet".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(claims: Value) -> Result<(), String> {
        let Value::Object(claims) = claims else { unreachable!() };
        check_times(&Claims::new(claims), Timestamp::from_second(1000).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn exp_is_optional_and_has_no_leeway() {
        assert_eq!(checked(json!({})), Ok(()));
        assert_eq!(checked(json!({"exp": 1001})), Ok(()));
        assert_eq!(
            checked(json!({"exp": 1000})).unwrap_err(),
            "invalid JWT: unable to parse or verify signature, token has invalid claims: token is expired"
        );
        assert!(checked(json!({"nbf": 1001})).unwrap_err().ends_with("token is not valid yet"));
        assert!(checked(json!({"exp": "soon"})).is_err());
    }
}
