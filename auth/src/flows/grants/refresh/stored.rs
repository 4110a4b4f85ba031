//! v1 refresh tokens, which are imported rows of `auth.refresh_tokens`. The first refresh upgrades the session to v2 tokens: it
//! gets a key and counter 0. Its v1 token then counts as the previous token while the counter is 0.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use super::{TokenStatus, check, granted, is_within_reuse_interval, reused};
use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::origin::Origin;
use crate::sessions::access_token::Granted;
use crate::sessions::refresh_token::SessionKey;
use crate::sessions::{self, Session, SessionDetails, StoredToken};
use crate::state::Auth;

/// Result of a refresh. Reuse commits but fails the request.
enum Outcome {
    Granted(Box<Granted>),
    Reused(Box<SessionDetails>),
}

/// Refreshes with a v1 token. Locks the session, since rows of two tables change.
pub(super) async fn refresh(
    auth: &Auth,
    origin: &Origin,
    token: &str,
    client_id: Option<Uuid>,
) -> Result<Granted, AuthError> {
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let outcome = outcome(auth, origin, &tx, token, client_id, now).await;
    match database::finish(tx, outcome).await? {
        Outcome::Granted(granted) => Ok(*granted),
        Outcome::Reused(details) => Err(reused(auth, origin, &details, now).await),
    }
}

async fn outcome(
    auth: &Auth,
    origin: &Origin,
    tx: &Tx,
    token: &str,
    client_id: Option<Uuid>,
    now: Timestamp,
) -> Result<Outcome, AuthError> {
    let unlocked = sessions::find_stored_token(tx, token).await?.ok_or(AuthError::RefreshTokenNotFound)?;
    let session_id = unlocked.session_id.ok_or(AuthError::NoValidSession)?;
    sessions::lock(tx, session_id).await?.ok_or(AuthError::NoValidSession)?;
    let stored = sessions::find_stored_token(tx, token).await?.ok_or(AuthError::RefreshTokenNotFound)?;
    let details = sessions::find_details(tx, session_id).await?.ok_or(AuthError::RefreshTokenNotFound)?;
    let key = details.session.hmac_key.as_deref().and_then(SessionKey::from_column);
    let key = key.unwrap_or_else(SessionKey::generate);
    check(auth, tx, &details, client_id, now).await?;
    let counter = match token_status(auth, &details.session, &stored, now) {
        TokenStatus::Advance(counter) => {
            let user = &details.account.user;
            sessions::retire_stored_tokens(tx, session_id, now).await?;
            tokio::try_join!(
                sessions::begin_signing(tx, &origin.client, session_id, &key, now),
                auth.audit_log(&origin.client).record(tx, user, Action::TokenRefreshed, None, now)
            )?;
            counter
        }
        TokenStatus::Current => details.session.counter,
        TokenStatus::Reused => return Ok(Outcome::Reused(Box::new(details))),
    };
    Ok(Outcome::Granted(Box::new(granted(details, &key, counter, now))))
}

fn token_status(auth: &Auth, session: &Session, stored: &StoredToken, now: Timestamp) -> TokenStatus {
    let has_moved_on = session.hmac_key.is_some();
    if !stored.is_revoked && !has_moved_on {
        return TokenStatus::Advance(0);
    }
    let is_parent_of_current = has_moved_on && session.counter == 0;
    if is_parent_of_current {
        return TokenStatus::Current;
    }
    if is_within_reuse_interval(&auth.config, stored.updated_at, now) {
        // Revoked by another server recently: upstream would issue one more child.
        return if has_moved_on { TokenStatus::Current } else { TokenStatus::Advance(0) };
    }
    TokenStatus::Reused
}
