//! `auth.webauthn_credentials`: the passkeys of users.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{StoredCredential, Use};
use crate::database::{column, json_column};
use crate::error::AuthError;

/// A passkey in a list.
pub(crate) struct PasskeyEntry {
    pub(crate) id: Uuid,
    pub(crate) friendly_name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
}

impl PasskeyEntry {
    fn from_row(row: &Row) -> Result<Self, AuthError> {
        Ok(Self {
            id: column(row, "id")?,
            friendly_name: column(row, "friendly_name")?,
            created_at: column(row, "created_at")?,
            last_used_at: column(row, "last_used_at")?,
        })
    }
}

/// Stores a passkey.
///
/// # Errors
/// The credential is registered already, for this user or another.
pub(crate) async fn insert(
    tx: &Tx,
    user_id: Uuid,
    credential: &StoredCredential,
    now: Timestamp,
) -> Result<PasskeyEntry, AuthError> {
    const INSERT: &str = "\
insert into auth.webauthn_credentials (id, user_id, credential_id, public_key, attestation_type, aaguid, sign_count, transports,
  backup_eligible, backed_up, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)
on conflict (credential_id) do nothing
returning id, friendly_name, created_at, last_used_at";
    let row = tx
        .query_opt(
            INSERT,
            &[
                &random::uuid(),
                &user_id,
                &credential.id,
                &credential.public_key,
                &credential.attestation_type,
                &credential.aaguid,
                &credential.sign_count,
                &credential.transports,
                &credential.is_backup_eligible,
                &credential.is_backed_up,
                &now,
            ],
        )
        .await?;
    PasskeyEntry::from_row(&row.ok_or(AuthError::WebAuthnCredentialExists)?)
}

/// Finds and locks the passkey of a user by its credential id.
pub(crate) async fn lock(
    tx: &Tx,
    user_id: Uuid,
    credential_id: &[u8],
) -> Result<Option<(Uuid, StoredCredential)>, AuthError> {
    const LOCK: &str = "\
select c.id, c.credential_id, c.public_key, c.aaguid, c.attestation_type, c.sign_count, c.transports, c.backup_eligible,
  c.backed_up
from auth.webauthn_credentials c
where c.user_id = $1 and c.credential_id = $2
for update";
    let row = tx.query_opt(LOCK, &[&user_id, &credential_id]).await.map_err(AuthError::querying)?;
    row.map(|row| {
        let credential = StoredCredential {
            id: column(&row, "credential_id")?,
            public_key: column(&row, "public_key")?,
            aaguid: column(&row, "aaguid")?,
            attestation_type: column(&row, "attestation_type")?,
            sign_count: column(&row, "sign_count")?,
            transports: json_column(&row, "transports")?,
            is_backup_eligible: column(&row, "backup_eligible")?,
            is_backed_up: column(&row, "backed_up")?,
        };
        Ok((column(&row, "id")?, credential))
    })
    .transpose()
}

/// Records a sign-in with a passkey.
pub(crate) async fn record_use(tx: &Tx, id: Uuid, used: &Use, now: Timestamp) -> Result<(), AuthError> {
    const RECORD: &str = "\
update auth.webauthn_credentials
set sign_count = $2, backed_up = $3, last_used_at = $4, updated_at = $4
where id = $1";
    tx.execute(RECORD, &[&id, &used.sign_count, &used.is_backed_up, &now]).await?;
    Ok(())
}

/// The passkeys of a user, oldest first.
pub(crate) async fn list(tx: &Tx, user_id: Uuid) -> Result<Vec<PasskeyEntry>, AuthError> {
    const LIST: &str = "\
select c.id, c.friendly_name, c.created_at, c.last_used_at
from auth.webauthn_credentials c
where c.user_id = $1
order by c.created_at, c.id
limit 1000";
    let rows = tx.query(LIST, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter().map(PasskeyEntry::from_row).collect()
}

/// The credential ids of a user's passkeys.
pub(crate) async fn credential_ids(tx: &Tx, user_id: Uuid) -> Result<Vec<Vec<u8>>, AuthError> {
    const LIST: &str = "\
select c.credential_id from auth.webauthn_credentials c where c.user_id = $1 limit 1000";
    let rows = tx.query(LIST, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter().map(|row| column(row, "credential_id")).collect()
}

/// Renames a passkey of a user; `None` if there is none.
pub(crate) async fn rename(
    tx: &Tx,
    user_id: Uuid,
    id: Uuid,
    name: &str,
    now: Timestamp,
) -> Result<Option<PasskeyEntry>, AuthError> {
    const RENAME: &str = "\
update auth.webauthn_credentials
set friendly_name = $3, updated_at = $4
where user_id = $1 and id = $2
returning id, friendly_name, created_at, last_used_at";
    let row = tx.query_opt(RENAME, &[&user_id, &id, &name, &now]).await?;
    row.as_ref().map(PasskeyEntry::from_row).transpose()
}

/// Deletes a passkey of a user; `false` if there is none.
pub(crate) async fn delete(tx: &Tx, user_id: Uuid, id: Uuid) -> Result<bool, AuthError> {
    const DELETE: &str = "delete from auth.webauthn_credentials where user_id = $1 and id = $2";
    Ok(tx.execute(DELETE, &[&user_id, &id]).await? > 0)
}
