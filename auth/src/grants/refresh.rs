//! Grant `refresh_token` (auth.md §3.5): rotation, the reuse interval, reuse detection.
//!
//! A refresh is safe to repeat: the token before the current one always answers the current one, so a lost answer or
//! two tabs at once sign nobody out. A still older one, outside the interval, means that somebody else has the
//! token: the session ends, and that is committed although the request fails.
//!
//! v1 tokens are accepted from imported rows and turned into v2 on the spot: the session gets a key and counter 0.
//! From then on a v1 token of that session is "the one before the current" for as long as the counter stands at 0.

use basalt_core::pool::Tx;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::Auth;
use crate::access_token::Granted;
use crate::audit::{self, Action};
use crate::error::AuthError;
use crate::refresh_token::{RefreshToken, SessionKey, SignedCounter};
use crate::request::RequestContext;
use crate::sessions::{self, Amr, Scope, Session, StoredToken};
use crate::users::{self, Account};

#[derive(Debug, Deserialize)]
pub(crate) struct RefreshGrant {
    refresh_token: Option<String>,
}

/// What a presented token is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// The newest: the session moves on to this counter.
    Advance(i64),
    /// An older one that may be answered: the session stays where it is.
    Current,
    /// Too old: somebody else may hold it.
    Reused,
}

/// How a refresh ended. Reuse is a success of the transaction and a failure of the request.
enum Outcome {
    Granted(Box<Granted>),
    Reused,
}

impl RefreshGrant {
    /// Refreshes.
    pub(crate) async fn run(&self, auth: &Auth, request: &RequestContext) -> Result<Granted, AuthError> {
        let text = self.refresh_token.as_deref().unwrap_or_default();
        let token = RefreshToken::parse(text).ok_or(AuthError::validation("Refresh token is not valid"))?;
        // A v1 token does not name its session: its queue is that of the nil id.
        let turn = match &token {
            RefreshToken::V1(_) => Uuid::nil(),
            RefreshToken::V2(counter) => counter.session_id,
        };
        let _turn = auth.turns.take(turn).await?;
        let tx = auth.begin(request).await?;
        let outcome = refresh(auth, request, &tx, &token).await;
        match crate::finish(tx, outcome).await? {
            Outcome::Granted(granted) => Ok(*granted),
            Outcome::Reused => {
                crate::metrics::reuse_detected();
                Err(AuthError::RefreshTokenAlreadyUsed)
            }
        }
    }
}

async fn refresh(
    auth: &Auth,
    request: &RequestContext,
    tx: &Tx,
    token: &RefreshToken,
) -> Result<Outcome, AuthError> {
    let now = auth.now();
    let (session, stored) = lock(tx, token).await?;
    let session_key = session.hmac_key.as_deref().and_then(SessionKey::from_column);
    let key = match (token, session_key) {
        (RefreshToken::V2(counter), Some(key)) if counter.is_signed_by(&key) => key,
        (RefreshToken::V2(_), _) => return Err(AuthError::RefreshTokenNotFound),
        (RefreshToken::V1(_), key) => key.unwrap_or_else(SessionKey::generate),
    };
    let (account, amr) =
        tokio::try_join!(users::account(tx, session.user_id), sessions::amr(tx, session.id))?;
    let account = account.ok_or(AuthError::RefreshTokenNotFound)?;
    check(auth, tx, &session, &account, &amr, now).await?;
    let worth = match (token, &stored) {
        (RefreshToken::V2(counter), _) => worth(auth, &session, counter, now)?,
        (RefreshToken::V1(_), Some(stored)) => worth_of_stored(auth, &session, stored, now),
        (RefreshToken::V1(_), None) => return Err(AuthError::RefreshTokenNotFound),
    };
    let counter = match worth {
        Worth::Advance(counter) => {
            advance(auth, request, tx, &session, &key, counter, &account, stored.is_some(), now).await?;
            counter
        }
        Worth::Current => session.counter,
        Worth::Reused => {
            if auth.config.security_refresh_token_rotation_enabled {
                sessions::end(tx, session.user_id, Scope::Local(session.id)).await?;
                let user = &account.user;
                audit::record(tx, &auth.config, request, user, Action::TokenRevoked, None, now).await?;
            }
            return Ok(Outcome::Reused);
        }
    };
    let refresh_token = key.token(session.id, counter);
    let granted = Granted { account, session_id: session.id, amr, refresh_token, now, weak_password: None };
    Ok(Outcome::Granted(Box::new(granted)))
}

/// The token's session, locked, and the row of a v1 token, read under that lock.
async fn lock(tx: &Tx, token: &RefreshToken) -> Result<(Session, Option<StoredToken>), AuthError> {
    match token {
        RefreshToken::V2(counter) => {
            let session = sessions::lock(tx, counter.session_id).await?;
            Ok((session.ok_or(AuthError::RefreshTokenNotFound)?, None))
        }
        RefreshToken::V1(text) => {
            let unlocked =
                sessions::find_stored_token(tx, text).await?.ok_or(AuthError::RefreshTokenNotFound)?;
            let session_id = unlocked.session_id.ok_or(AuthError::NoValidSession)?;
            let session = sessions::lock(tx, session_id).await?.ok_or(AuthError::NoValidSession)?;
            let stored = sessions::find_stored_token(tx, text).await?;
            Ok((session, stored))
        }
    }
}

/// What ends a refresh whatever the token is worth.
async fn check(
    auth: &Auth,
    tx: &Tx,
    session: &Session,
    account: &Account,
    amr: &[Amr],
    now: Timestamp,
) -> Result<(), AuthError> {
    if account.user.is_banned(now) {
        return Err(AuthError::RefreshBanned);
    }
    if session.oauth_client_id.is_some() {
        return Err(AuthError::OAuthClientSession);
    }
    session.check_life(&auth.config, account.has_verified_factor(), amr, now)?;
    if auth.config.sessions_single_per_user && sessions::is_superseded(tx, session).await? {
        return Err(AuthError::SessionExpired(" (Revoked by Newer Login)"));
    }
    Ok(())
}

fn worth(auth: &Auth, session: &Session, token: &SignedCounter, now: Timestamp) -> Result<Worth, AuthError> {
    match session.counter.saturating_sub(token.counter) {
        ..0 => Err(AuthError::validation("Invalid Refresh Token: Not Issued By This Server")),
        0 => Ok(Worth::Advance(session.counter.saturating_add(1))),
        1 => Ok(Worth::Current),
        _ if auth.is_within_reuse_interval(session.last_refresh(), now) => Ok(Worth::Current),
        _ => Ok(Worth::Reused),
    }
}

fn worth_of_stored(auth: &Auth, session: &Session, stored: &StoredToken, now: Timestamp) -> Worth {
    let has_moved_on = session.hmac_key.is_some();
    if !stored.is_revoked && !has_moved_on {
        return Worth::Advance(0);
    }
    let is_parent_of_current = has_moved_on && session.counter == 0;
    if is_parent_of_current {
        return Worth::Current;
    }
    if auth.is_within_reuse_interval(stored.updated_at, now) {
        // Revoked by another server a moment ago: upstream would hand out one more child.
        return if has_moved_on { Worth::Current } else { Worth::Advance(0) };
    }
    Worth::Reused
}

#[expect(clippy::too_many_arguments, reason = "one write that concerns all of them")]
async fn advance(
    auth: &Auth,
    request: &RequestContext,
    tx: &Tx,
    session: &Session,
    key: &SessionKey,
    counter: i64,
    account: &Account,
    is_v1: bool,
    now: Timestamp,
) -> Result<(), AuthError> {
    if is_v1 {
        sessions::retire_stored_tokens(tx, session.id, now).await?;
    }
    tokio::try_join!(
        sessions::advance(tx, request, session.id, key, counter, now),
        audit::record(tx, &auth.config, request, &account.user, Action::TokenRefreshed, None, now)
    )?;
    Ok(())
}
