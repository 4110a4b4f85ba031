//! `auth.webauthn_challenges`: ceremonies of passkeys that wait for the authenticator. Each can be answered once, also wrongly.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use crate::database::{column, json_column};
use crate::error::AuthError;

/// The kind of a ceremony.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Registration,
    Authentication,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Registration => "registration",
            Self::Authentication => "authentication",
        }
    }
}

/// A new challenge.
pub(crate) struct Challenge {
    pub(crate) id: Uuid,
    pub(crate) expires_at: Timestamp,
}

/// Stores the state of a ceremony. A user has at most one registration.
pub(crate) async fn insert(
    tx: &Tx,
    kind: Kind,
    user_id: Option<Uuid>,
    state: &Value,
    lifetime_seconds: u64,
    now: Timestamp,
) -> Result<Challenge, AuthError> {
    const REPLACE: &str = "\
delete from auth.webauthn_challenges where user_id = $1 and challenge_type = 'registration'";
    const INSERT: &str = "\
insert into auth.webauthn_challenges (id, user_id, challenge_type, session_data, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6)";
    let lifetime = SignedDuration::from_secs(i64::try_from(lifetime_seconds).unwrap_or(i64::MAX));
    let challenge =
        Challenge { id: random::uuid(), expires_at: now.checked_add(lifetime).unwrap_or(Timestamp::MAX) };
    if user_id.is_some() {
        tx.execute(REPLACE, &[&user_id]).await?;
    }
    tx.execute(INSERT, &[&challenge.id, &user_id, &kind.as_str(), &state, &now, &challenge.expires_at])
        .await?;
    Ok(challenge)
}

/// Takes the state of a ceremony. Of concurrent responses one gets it.
///
/// # Errors
/// The challenge is unknown, was answered, belongs to another user, or has expired.
pub(crate) async fn take(
    tx: &Tx,
    kind: Kind,
    id: Uuid,
    user_id: Option<Uuid>,
    now: Timestamp,
) -> Result<Value, AuthError> {
    const TAKE: &str = "\
delete from auth.webauthn_challenges c
where c.id = $1 and c.challenge_type = $2 and c.user_id is not distinct from $3
returning c.session_data, c.expires_at";
    let row = tx.query_opt(TAKE, &[&id, &kind.as_str(), &user_id]).await?;
    let row = row.ok_or(AuthError::WebAuthnChallengeNotFound)?;
    let expires_at: Timestamp = column(&row, "expires_at")?;
    if now >= expires_at {
        return Err(AuthError::WebAuthnChallengeExpired);
    }
    json_column(&row, "session_data")
}
