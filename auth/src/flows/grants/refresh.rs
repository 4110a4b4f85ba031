//! Grant `refresh_token` (auth.md §3.5): rotation, the reuse interval, reuse detection.
//!
//! A refresh can be repeated: the previous token always returns the current one, so a lost response or two tabs do not end the
//! session. An older token outside the interval means that another client has it: the session ends, which is committed
//! although the request fails.
//!
//! There are no locks. One statement reads the session, another advances it if it is unchanged. A concurrent request reads
//! again and finds that its token is now the previous one.
//!
//! v1 tokens are accepted from imported rows and upgraded to v2: [`mod@stored`].

mod stored;

use std::time::Duration;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::audit::Action;
use crate::config::AuthConfig;
use crate::database;
use crate::error::AuthError;
use crate::fields::text;
use crate::origin::Origin;
use crate::sessions::access_token::{ClientGrant, Granted};
use crate::sessions::refresh_token::{RefreshToken, SessionKey, SignedCounter};
use crate::sessions::{self, Scope, Session, SessionDetails, SessionLimits};
use crate::state::Auth;

/// Attempts after a concurrent refresh. The second one usually finds the token already used and succeeds.
const ATTEMPTS: u32 = 4;

#[derive(Deserialize)]
pub(crate) struct RefreshGrant {
    refresh_token: Option<String>,
}

/// Status of a presented token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenStatus {
    /// The newest: the session advances to this counter.
    Advance(i64),
    /// An acceptable older one: the session does not change.
    Current,
    /// Too old: it may be stolen.
    Reused,
}

impl RefreshGrant {
    pub(crate) const fn new(refresh_token: Option<String>) -> Self {
        Self { refresh_token }
    }

    /// Refreshes a session of the user, or of the OAuth client that asks for it.
    pub(crate) async fn run(
        &self,
        auth: &Auth,
        origin: &Origin,
        client_id: Option<Uuid>,
    ) -> Result<Granted, AuthError> {
        let text = text(&self.refresh_token);
        let token = RefreshToken::parse(text).ok_or(AuthError::validation("Refresh token is not valid"))?;
        match &token {
            // A v1 token does not contain its session's id, so all of them share a queue.
            RefreshToken::V1(text) => {
                let _turn = auth.refresh_locks.take(Uuid::nil()).await?;
                stored::refresh(auth, origin, text, client_id).await
            }
            RefreshToken::V2(token) => {
                let _turn = auth.refresh_locks.take(token.session_id).await?;
                refresh(auth, origin, token, client_id).await
            }
        }
    }
}

async fn refresh(
    auth: &Auth,
    origin: &Origin,
    token: &SignedCounter,
    client_id: Option<Uuid>,
) -> Result<Granted, AuthError> {
    for round in 1..=ATTEMPTS {
        let tx = auth.autocommit(origin).await?;
        let granted = Box::pin(attempt(auth, origin, &tx, token, client_id)).await;
        match database::finish(tx, granted).await {
            Ok(Some(granted)) => return Ok(granted),
            Ok(None) => {}
            // The connection died while idle. A refresh can be repeated.
            Err(error) if round == 1 && error.is_lost_connection() => {}
            Err(error) => return Err(error),
        }
    }
    Err(AuthError::Overloaded)
}

/// `None` if a concurrent request advanced the session.
async fn attempt(
    auth: &Auth,
    origin: &Origin,
    tx: &Tx,
    token: &SignedCounter,
    client_id: Option<Uuid>,
) -> Result<Option<Granted>, AuthError> {
    let now = auth.now();
    let details =
        sessions::find_details(tx, token.session_id).await?.ok_or(AuthError::RefreshTokenNotFound)?;
    let key = details.session.hmac_key.as_deref().and_then(SessionKey::from_column);
    let key = key.filter(|key| token.is_signed_by(key)).ok_or(AuthError::RefreshTokenNotFound)?;
    check(auth, tx, &details, client_id, now).await?;
    let counter = match token_status(auth, &details.session, token, now)? {
        TokenStatus::Advance(counter) => {
            let audit_log = auth.audit_log(&origin.client);
            if !sessions::advance(tx, audit_log, &origin.client, &details, now).await? {
                return Ok(None);
            }
            counter
        }
        TokenStatus::Current => details.session.counter,
        TokenStatus::Reused => return Err(reused(auth, origin, &details, now).await),
    };
    Ok(Some(granted(details, &key, counter, now)))
}

fn granted(details: SessionDetails, key: &SessionKey, counter: i64, now: Timestamp) -> Granted {
    let SessionDetails { session, account, amr } = details;
    let refresh_token = key.token(session.id, counter);
    let client = session
        .oauth_client_id
        .map(|client_id| ClientGrant { client_id, scope: session.scopes.unwrap_or_default() });
    Granted {
        account,
        session_id: session.id,
        amr,
        refresh_token,
        now,
        weak_password: None,
        provider_tokens: None,
        client,
        is_refresh: true,
    }
}

/// Ends the session of a reused token and returns the error.
async fn reused(auth: &Auth, origin: &Origin, details: &SessionDetails, now: Timestamp) -> AuthError {
    if auth.config.security_refresh_token_rotation_enabled {
        let ended = async {
            let tx = auth.begin(origin).await?;
            let ended = async {
                sessions::end(&tx, details.session.user_id, Scope::Local(details.session.id)).await?;
                let user = &details.account.user;
                auth.audit_log(&origin.client).record(&tx, user, Action::TokenRevoked, None, now).await
            }
            .await;
            database::finish(tx, ended).await
        };
        if let Err(error) = ended.await {
            return error;
        }
    }
    crate::metrics::reuse_detected();
    AuthError::RefreshTokenAlreadyUsed
}

/// Checks that do not depend on the token.
async fn check(
    auth: &Auth,
    tx: &Tx,
    details: &SessionDetails,
    client_id: Option<Uuid>,
    now: Timestamp,
) -> Result<(), AuthError> {
    let SessionDetails { session, account, amr } = details;
    if account.user.is_banned(now) {
        return Err(AuthError::RefreshBanned);
    }
    if session.oauth_client_id != client_id {
        return Err(AuthError::OAuthClientSession);
    }
    let limits = SessionLimits::new(&auth.config);
    session.check_life(limits, account.has_verified_factor(), amr, now)?;
    if sessions::is_superseded(tx, limits, session).await? {
        return Err(AuthError::SessionExpired(" (Revoked by Newer Login)"));
    }
    Ok(())
}

fn token_status(
    auth: &Auth,
    session: &Session,
    token: &SignedCounter,
    now: Timestamp,
) -> Result<TokenStatus, AuthError> {
    match session.counter.saturating_sub(token.counter) {
        ..0 => Err(AuthError::validation("Invalid Refresh Token: Not Issued By This Server")),
        0 => Ok(TokenStatus::Advance(session.counter.saturating_add(1))),
        1 => Ok(TokenStatus::Current),
        _ if is_within_reuse_interval(&auth.config, session.last_refresh(), now) => Ok(TokenStatus::Current),
        _ => Ok(TokenStatus::Reused),
    }
}

/// Whether a token that was replaced at `then` is still accepted.
fn is_within_reuse_interval(config: &AuthConfig, then: Option<Timestamp>, now: Timestamp) -> bool {
    let interval = Duration::from_secs(config.security_refresh_token_reuse_interval);
    config.security_refresh_token_allow_reuse
        || then.is_some_and(|then| {
            Duration::try_from(now.duration_since(then)).is_ok_and(|passed| passed < interval)
        })
}
