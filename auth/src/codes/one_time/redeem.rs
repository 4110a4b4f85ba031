//! Redeeming codes. The user's row is locked before a code is compared and until the result is written. So of concurrent
//! requests with the correct code one succeeds, and of concurrent guesses at most [`MAX_FAILURES`] are compared.
//!
//! A wrong code counts against every pending code it could have matched, in a table that the API does not expose. Callers of
//! [`note_failure`] must commit the count although the request fails.

use basalt_core::convert::saturating;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use super::{CodeSettings, TokenType, clear, is_code};
use crate::database::column;
use crate::error::AuthError;
use crate::users::{self, User};

/// Wrong codes after which a pending one is deleted (auth.md §3.19; not in upstream).
const MAX_FAILURES: i16 = 5;

/// A row of `auth.one_time_tokens`.
pub(crate) struct PendingCode {
    id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) token_type: TokenType,
    hash: String,
    /// The address that the code was sent to.
    pub(crate) relates_to: String,
}

impl PendingCode {
    /// Whether `code` is the code that was sent.
    pub(crate) fn matches(&self, code: &str) -> bool {
        is_code(&self.hash, &self.relates_to, code)
    }

    /// Whether the code has not expired and was sent to the user's current address. A link sent to a former address must not
    /// confirm the current one.
    pub(crate) fn is_valid(&self, settings: CodeSettings, user: &User, now: Timestamp) -> bool {
        let life = settings.for_address(&self.relates_to).life_seconds;
        let sent_at = match self.token_type {
            TokenType::Confirmation => user.confirmation_sent_at,
            TokenType::Recovery => user.recovery_sent_at,
            TokenType::EmailChangeCurrent | TokenType::EmailChangeNew => user.email_change_sent_at,
            TokenType::Reauthentication => user.reauthentication_sent_at,
            TokenType::PhoneChange => user.phone_change_sent_at,
        };
        let is_address =
            |address: &str| !address.is_empty() && address.eq_ignore_ascii_case(&self.relates_to);
        let is_of_user = match self.token_type {
            TokenType::Confirmation | TokenType::Recovery | TokenType::Reauthentication => {
                is_address(&user.email) || is_address(&user.phone)
            }
            TokenType::EmailChangeCurrent => is_address(&user.email) && !user.email_change.is_empty(),
            TokenType::EmailChangeNew => is_address(&user.email_change),
            TokenType::PhoneChange => is_address(&user.phone_change),
        };
        let life = saturating::<i64>(life);
        is_of_user && sent_at.is_some_and(|sent| now.as_second().saturating_sub(sent.as_second()) < life)
    }
}

/// Locks the user with pending codes of these types at `address` (lower case, or digits) and returns the codes. The statements
/// are the same for an unknown address.
///
/// # Errors
/// The database's.
pub(crate) async fn find_by_address(
    tx: &Tx,
    address: &str,
    types: &[TokenType],
    audience: &str,
) -> Result<Vec<PendingCode>, AuthError> {
    const LOCK: &str = "\
select u.id
from auth.users u
where u.id in (select t.user_id from auth.one_time_tokens t where t.relates_to = $1 and t.token_type::text = any($2))
  and u.is_sso_user = false and coalesce(u.aud, '') = $3
order by u.id
for no key update";
    // A separate statement, so that its snapshot is taken under the lock.
    const READ: &str = "\
select t.id, t.user_id, t.token_type::text as token_type, t.token_hash, t.relates_to
from auth.one_time_tokens t
where t.user_id = any($1) and t.relates_to = $2 and t.token_type::text = any($3)
order by t.user_id, t.token_type";
    let types: Vec<&str> = types.iter().map(|token_type| token_type.as_str()).collect();
    let rows = tx.query(LOCK, &[&address, &types, &audience]).await.map_err(AuthError::querying)?;
    let users: Vec<Uuid> = rows.iter().map(|row| column(row, "id")).collect::<Result<_, _>>()?;
    let rows = tx.query(READ, &[&users, &address, &types]).await.map_err(AuthError::querying)?;
    rows.iter().map(pending).collect()
}

/// Locks the user whose pending code has this hash and returns the code.
///
/// # Errors
/// The database's.
pub(crate) async fn find_by_hash(
    tx: &Tx,
    hash: &str,
    types: &[TokenType],
) -> Result<Option<PendingCode>, AuthError> {
    const LOCK: &str = "\
select u.id
from auth.users u
where u.id in (select t.user_id from auth.one_time_tokens t where t.token_hash = $1 and t.token_type::text = any($2))
order by u.id
for no key update";
    const READ: &str = "\
select t.id, t.user_id, t.token_type::text as token_type, t.token_hash, t.relates_to
from auth.one_time_tokens t
where t.user_id = any($1) and t.token_hash = $2 and t.token_type::text = any($3)
limit 1";
    let types: Vec<&str> = types.iter().map(|token_type| token_type.as_str()).collect();
    let rows = tx.query(LOCK, &[&hash, &types]).await.map_err(AuthError::querying)?;
    let users: Vec<Uuid> = rows.iter().map(|row| column(row, "id")).collect::<Result<_, _>>()?;
    let row = tx.query_opt(READ, &[&users, &hash, &types]).await.map_err(AuthError::querying)?;
    row.as_ref().map(pending).transpose()
}

fn pending(row: &tokio_postgres::Row) -> Result<PendingCode, AuthError> {
    let label: &str = column(row, "token_type")?;
    Ok(PendingCode {
        id: column(row, "id")?,
        user_id: column(row, "user_id")?,
        token_type: TokenType::from_label(label)
            .ok_or_else(|| AuthError::Internal(format!("unknown type of one-time token: {label}")))?,
        hash: column(row, "token_hash")?,
        relates_to: column(row, "relates_to")?,
    })
}

/// Deletes a redeemed code. `false` if a concurrent request has.
///
/// # Errors
/// The database's.
pub(crate) async fn consume(tx: &Tx, pending: &PendingCode) -> Result<bool, AuthError> {
    const DELETE: &str = "\
with t as (
  delete from auth.one_time_tokens where id = $1 and token_hash = $2 returning user_id, token_type
), a as (
  delete from basalt.one_time_attempts a using t where a.user_id = t.user_id and a.token_type = t.token_type::text
)
select user_id from t";
    let row = tx.query_opt(DELETE, &[&pending.id, &pending.hash]).await.map_err(AuthError::updating)?;
    if row.is_none() {
        return Ok(false);
    }
    clear(tx, pending.user_id, pending.token_type).await?;
    Ok(true)
}

/// Counts a wrong code against each of these and deletes those over the limit. Runs the same statements if `pending` is empty.
///
/// # Errors
/// The database's.
pub(crate) async fn note_failure(tx: &Tx, pending: &[PendingCode]) -> Result<(), AuthError> {
    const COUNT: &str = "\
insert into basalt.one_time_attempts as a (user_id, token_type, token_id, failures)
select t.user_id, t.token_type::text, t.id, 1
from auth.one_time_tokens t
where t.id = any($1)
on conflict (user_id, token_type) do update
set failures = case when a.token_id = excluded.token_id then a.failures + 1 else 1 end, token_id = excluded.token_id
returning a.token_id, a.failures";
    let ids: Vec<Uuid> = pending.iter().map(|pending| pending.id).collect();
    for row in tx.query(COUNT, &[&ids]).await? {
        let (id, failures): (Uuid, i16) = (column(&row, "token_id")?, column(&row, "failures")?);
        if let Some(dead) = pending.iter().find(|pending| pending.id == id && failures >= MAX_FAILURES) {
            clear(tx, dead.user_id, dead.token_type).await?;
            crate::metrics::code_invalidated();
        }
    }
    Ok(())
}

/// Whether `nonce` is the one that was mailed to this user for a password change. It stays pending, so that a change
/// rejected for another reason can be retried; [`use_nonce`] uses it up. Commit `tx` in either case: a wrong nonce is
/// counted.
pub(crate) async fn check_nonce(
    tx: &Tx,
    settings: CodeSettings,
    user_id: Uuid,
    nonce: &str,
    now: Timestamp,
) -> Result<bool, AuthError> {
    // Read again under the lock that protects the count.
    let Some(user) = users::lock(tx, user_id).await? else { return Ok(false) };
    let pending = nonce_of(tx, user.id).await?;
    let is_valid = |pending: &PendingCode| pending.matches(nonce) && pending.is_valid(settings, &user, now);
    if pending.as_ref().is_some_and(is_valid) {
        return Ok(true);
    }
    note_failure(tx, pending.as_slice()).await?;
    Ok(false)
}

/// Deletes the nonce that [`check_nonce`] accepted, in the transaction of the change. `false` if a concurrent change has.
///
/// # Errors
/// The database's.
pub(crate) async fn use_nonce(tx: &Tx, user_id: Uuid) -> Result<bool, AuthError> {
    match nonce_of(tx, user_id).await? {
        Some(pending) => consume(tx, &pending).await,
        None => Ok(false),
    }
}

async fn nonce_of(tx: &Tx, user_id: Uuid) -> Result<Option<PendingCode>, AuthError> {
    const READ: &str = "\
select t.id, t.user_id, t.token_type::text as token_type, t.token_hash, t.relates_to
from auth.one_time_tokens t
where t.user_id = $1 and t.token_type = 'reauthentication_token'";
    let row = tx.query_opt(READ, &[&user_id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(pending).transpose()
}
