//! Second factors: `auth.mfa_factors`, `auth.mfa_challenges` and the accepted TOTP steps (auth.md §3.15). [`mod@totp`] computes
//! codes, [`mod@recovery_codes`] stores recovery codes. Callers lock the user first, so that factors of a user change one at a time.

pub(crate) mod recovery_codes;
pub(crate) mod totp;

use std::net::IpAddr;

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use crate::codes::one_time::{code_hash, is_code};
use crate::database::column;
use crate::error::AuthError;
use crate::origin::Client;

/// How long a challenge can be answered.
const CHALLENGE_LIFE: SignedDuration = SignedDuration::from_secs(300);
/// Age at which an enrolment that was never challenged is removed.
const ENROLMENT_LIFE: SignedDuration = SignedDuration::from_secs(300);

/// Removes abandoned enrolments of all users, as upstream does at each enrolment.
pub(crate) async fn delete_abandoned(tx: &Tx, now: Timestamp) -> Result<(), AuthError> {
    const DELETE: &str = "\
delete from auth.mfa_factors
where status = 'unverified' and last_challenged_at is null and created_at < $1";
    let before = now.checked_sub(ENROLMENT_LIFE).unwrap_or(now);
    tx.execute(DELETE, &[&before]).await?;
    Ok(())
}

/// Inserts an unverified TOTP factor and returns its id.
pub(crate) async fn insert_totp(
    tx: &Tx,
    user_id: Uuid,
    friendly_name: &str,
    secret: &str,
    now: Timestamp,
) -> Result<Uuid, AuthError> {
    const INSERT: &str = "\
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, secret, created_at, updated_at)
values ($1, $2, $3, 'totp', 'unverified', $4, $5, $5)";
    let id = random::uuid();
    tx.execute(INSERT, &[&id, &user_id, &friendly_name, &secret, &now]).await?;
    Ok(id)
}

/// Inserts an unverified WebAuthn factor and returns its id.
pub(crate) async fn insert_webauthn(
    tx: &Tx,
    user_id: Uuid,
    friendly_name: &str,
    now: Timestamp,
) -> Result<Uuid, AuthError> {
    const INSERT: &str = "\
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at)
values ($1, $2, $3, 'webauthn', 'unverified', $4, $4)";
    let id = random::uuid();
    tx.execute(INSERT, &[&id, &user_id, &friendly_name, &now]).await?;
    Ok(id)
}

/// Stores the server's state of a WebAuthn challenge.
pub(crate) async fn set_webauthn_state(tx: &Tx, challenge_id: Uuid, state: &Value) -> Result<(), AuthError> {
    const SET: &str = "update auth.mfa_challenges set web_authn_session_data = $2 where id = $1";
    tx.execute(SET, &[&challenge_id, &state]).await?;
    Ok(())
}

/// The server's state of a WebAuthn challenge.
pub(crate) async fn webauthn_state(tx: &Tx, challenge_id: Uuid) -> Result<Option<Value>, AuthError> {
    const STATE: &str = "select c.web_authn_session_data from auth.mfa_challenges c where c.id = $1";
    let row = tx.query_opt(STATE, &[&challenge_id]).await.map_err(AuthError::querying)?;
    row.map_or(Ok(None), |row| column(&row, "web_authn_session_data"))
}

/// The credential of a WebAuthn factor; `None` before it is verified.
pub(crate) async fn credential(tx: &Tx, id: Uuid) -> Result<Option<Value>, AuthError> {
    const CREDENTIAL: &str = "select f.web_authn_credential from auth.mfa_factors f where f.id = $1";
    let row = tx.query_opt(CREDENTIAL, &[&id]).await.map_err(AuthError::querying)?;
    row.map_or(Err(AuthError::FactorNotFound), |row| column(&row, "web_authn_credential"))
}

/// The credentials of a user's WebAuthn factors.
pub(crate) async fn credentials(tx: &Tx, user_id: Uuid) -> Result<Vec<Value>, AuthError> {
    const CREDENTIALS: &str = "\
select f.web_authn_credential from auth.mfa_factors f where f.user_id = $1 and f.web_authn_credential is not null";
    let rows = tx.query(CREDENTIALS, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter().map(|row| column(row, "web_authn_credential")).collect()
}

/// Stores the credential of a WebAuthn factor. `aaguid` is that of a new one.
pub(crate) async fn set_credential(
    tx: &Tx,
    id: Uuid,
    credential: &Value,
    aaguid: Option<Uuid>,
    now: Timestamp,
) -> Result<(), AuthError> {
    const SET: &str = "\
update auth.mfa_factors
set web_authn_credential = $2, web_authn_aaguid = coalesce($3, web_authn_aaguid), updated_at = $4
where id = $1";
    tx.execute(SET, &[&id, &credential, &aaguid, &now]).await?;
    Ok(())
}

/// Inserts an unverified phone factor and returns its id. An unfinished enrolment of the same number is replaced.
pub(crate) async fn insert_phone(
    tx: &Tx,
    user_id: Uuid,
    friendly_name: &str,
    phone: &str,
    now: Timestamp,
) -> Result<Uuid, AuthError> {
    const DELETE: &str = "\
delete from auth.mfa_factors where user_id = $1 and phone = $2 and status = 'unverified'";
    const INSERT: &str = "\
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, phone, created_at, updated_at)
values ($1, $2, $3, 'phone', 'unverified', $4, $5, $5)";
    let id = random::uuid();
    tx.execute(DELETE, &[&user_id, &phone]).await?;
    tx.execute(INSERT, &[&id, &user_id, &friendly_name, &phone, &now]).await?;
    Ok(id)
}

/// Stores the code of a phone factor's challenge, as a hash.
pub(crate) async fn set_code(tx: &Tx, challenge_id: Uuid, code: &str) -> Result<(), AuthError> {
    const SET: &str = "update auth.mfa_challenges set otp_code = $2 where id = $1";
    tx.execute(SET, &[&challenge_id, &code_hash(&challenge_id.to_string(), code)]).await?;
    Ok(())
}

/// Whether `code` is that of the challenge.
pub(crate) async fn is_code_of(tx: &Tx, challenge_id: Uuid, code: &str) -> Result<bool, AuthError> {
    const CODE: &str =
        "select coalesce(c.otp_code, '') as otp_code from auth.mfa_challenges c where c.id = $1";
    let row = tx.query_opt(CODE, &[&challenge_id]).await.map_err(AuthError::querying)?;
    let Some(row) = row else { return Ok(false) };
    Ok(is_code(column(&row, "otp_code")?, &challenge_id.to_string(), code))
}

/// Removes a challenge whose message was not sent, so that the user can request another one at once.
pub(crate) async fn revoke_challenge(
    tx: &Tx,
    id: Uuid,
    challenged_before: Option<Timestamp>,
) -> Result<(), AuthError> {
    const REVOKE: &str = "\
with c as (delete from auth.mfa_challenges where id = $1 returning factor_id)
update auth.mfa_factors f set last_challenged_at = $2 from c where f.id = c.factor_id";
    tx.execute(REVOKE, &[&id, &challenged_before]).await?;
    Ok(())
}

/// When the factor was last challenged. Read under the user's lock.
pub(crate) async fn last_challenged_at(tx: &Tx, id: Uuid) -> Result<Option<Timestamp>, AuthError> {
    const LAST: &str = "select f.last_challenged_at from auth.mfa_factors f where f.id = $1";
    let row = tx.query_opt(LAST, &[&id]).await.map_err(AuthError::querying)?;
    row.map_or(Err(AuthError::FactorNotFound), |row| column(&row, "last_challenged_at"))
}

/// Sets the number of a phone factor.
pub(crate) async fn set_phone(tx: &Tx, id: Uuid, phone: &str, now: Timestamp) -> Result<(), AuthError> {
    const SET: &str = "update auth.mfa_factors set phone = $2, updated_at = $3 where id = $1";
    tx.execute(SET, &[&id, &phone, &now]).await?;
    Ok(())
}

/// The secret of a TOTP factor, in base32.
pub(crate) async fn secret(tx: &Tx, id: Uuid) -> Result<Option<String>, AuthError> {
    const SECRET: &str = "select f.secret from auth.mfa_factors f where f.id = $1";
    let row = tx.query_opt(SECRET, &[&id]).await.map_err(AuthError::querying)?;
    row.map_or(Ok(None), |row| column(&row, "secret"))
}

/// A new challenge.
pub(crate) struct Challenge {
    pub(crate) id: Uuid,
    pub(crate) expires_at: Timestamp,
}

/// Creates a challenge.
pub(crate) async fn challenge(
    tx: &Tx,
    client: &Client,
    factor_id: Uuid,
    now: Timestamp,
) -> Result<Challenge, AuthError> {
    const CHALLENGE: &str = "\
with challenged as (
  update auth.mfa_factors set last_challenged_at = $4 where id = $2 returning id
)
insert into auth.mfa_challenges (id, factor_id, created_at, ip_address)
select $1, challenged.id, $4, $3::text::inet from challenged";
    let id = random::uuid();
    let created = tx.execute(CHALLENGE, &[&id, &factor_id, &client.address.to_string(), &now]).await?;
    if created == 0 {
        return Err(AuthError::FactorNotFound);
    }
    Ok(Challenge { id, expires_at: now.checked_add(CHALLENGE_LIFE).unwrap_or(now) })
}

/// Checks that a challenge of the factor is pending. `address` is that of the client, if only the address that requested the
/// challenge may answer it.
///
/// # Errors
/// It does not exist, was answered, was created from another address, or has expired.
pub(crate) async fn check_challenge(
    tx: &Tx,
    address: Option<IpAddr>,
    factor_id: Uuid,
    challenge_id: Uuid,
    now: Timestamp,
) -> Result<(), AuthError> {
    const FIND: &str = "\
select c.created_at, c.verified_at is not null or coalesce(c.ip_address <> $3::text::inet, false) as is_mismatch
from auth.mfa_challenges c
where c.id = $1 and c.factor_id = $2";
    let address = address.map(|address| address.to_string());
    let row = tx
        .query_opt(FIND, &[&challenge_id, &factor_id, &address])
        .await
        .map_err(AuthError::querying)?
        .ok_or(AuthError::ChallengeNotFound)?;
    if column(&row, "is_mismatch")? {
        return Err(AuthError::ChallengeMismatch);
    }
    let created_at: Timestamp = column(&row, "created_at")?;
    if now.duration_since(created_at) >= CHALLENGE_LIFE {
        return Err(AuthError::ChallengeExpired(challenge_id));
    }
    Ok(())
}

/// Records the step of an accepted code. `false` if this code, or a later one, was accepted before.
pub(crate) async fn use_step(tx: &Tx, factor_id: Uuid, step: i64) -> Result<bool, AuthError> {
    const USE: &str = "\
insert into basalt.totp_steps as s (factor_id, step) values ($1, $2)
on conflict (factor_id) do update set step = excluded.step where s.step < excluded.step";
    Ok(tx.execute(USE, &[&factor_id, &step]).await? > 0)
}

/// Marks the challenge as answered and the factor as verified, and removes the user's other enrolments of the same type.
pub(crate) async fn mark_verified(
    tx: &Tx,
    user_id: Uuid,
    factor_id: Uuid,
    challenge_id: Uuid,
    now: Timestamp,
) -> Result<(), AuthError> {
    const ANSWER: &str = "update auth.mfa_challenges set verified_at = $2 where id = $1";
    const VERIFY: &str = "\
update auth.mfa_factors set status = 'verified', updated_at = $2 where id = $1 and status <> 'verified'";
    const DELETE_OTHERS: &str = "\
delete from auth.mfa_factors f
using auth.mfa_factors v
where v.id = $2 and f.user_id = $1 and f.id <> v.id and f.factor_type = v.factor_type and f.status = 'unverified'";
    tx.execute(ANSWER, &[&challenge_id, &now]).await?;
    tx.execute(VERIFY, &[&factor_id, &now]).await?;
    tx.execute(DELETE_OTHERS, &[&user_id, &factor_id]).await?;
    Ok(())
}

/// Removes a factor.
pub(crate) async fn delete(tx: &Tx, id: Uuid) -> Result<(), AuthError> {
    const DELETE: &str = "delete from auth.mfa_factors where id = $1";
    tx.execute(DELETE, &[&id]).await?;
    Ok(())
}

/// Renames a factor.
pub(crate) async fn rename(tx: &Tx, id: Uuid, name: &str, now: Timestamp) -> Result<(), AuthError> {
    const RENAME: &str = "update auth.mfa_factors set friendly_name = $2, updated_at = $3 where id = $1";
    tx.execute(RENAME, &[&id, &name, &now]).await?;
    Ok(())
}
