//! Rows of `basalt.api_keys` and `basalt.signing_keys`. Keys are stored sealed, each bound to its row's id or kid. A
//! key that was sealed with another master key is read as `None`.

use basalt_core::keys::{
    ApiKeyKind, KeyMaterial, KeyStatus, StoredApiKey, StoredKeys, StoredSigningKey, algorithm_of,
};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::{KeyStore, KeyStoreError};
use crate::pool::Tx;

const API_KEYS: &str = "
select id, kind, name, description, role, hash, ciphertext, created_at, expires_at, last_used_at, revoked_at
from basalt.api_keys
order by created_at, id";

const SIGNING_KEYS: &str = "
select kid, algorithm, status, ciphertext, created_at, updated_at
from basalt.signing_keys
order by created_at, kid";

const INSERT_API_KEY: &str = "
insert into basalt.api_keys
  (id, kind, name, description, role, hash, ciphertext, created_at, expires_at, revoked_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const UPSERT_SIGNING_KEY: &str = "
insert into basalt.signing_keys (kid, algorithm, status, ciphertext, created_at, updated_at)
values ($1, $2, $3, $4, $5, $5)
on conflict (kid) do update set status = excluded.status, updated_at = excluded.updated_at";

impl KeyStore {
    /// Reads both tables within `tx`.
    pub(super) async fn read_in(&self, tx: &Tx) -> Result<StoredKeys, KeyStoreError> {
        let (api, signing) = (tx.query(API_KEYS, &[]).await?, tx.query(SIGNING_KEYS, &[]).await?);
        Ok(StoredKeys {
            api: api.iter().map(|row| self.api_key(row)).collect::<Result<_, _>>()?,
            signing: signing.iter().map(|row| self.signing_key(row)).collect::<Result<_, _>>()?,
        })
    }

    fn api_key(&self, row: &Row) -> Result<StoredApiKey, KeyStoreError> {
        const TABLE: &str = "api_keys";
        let kind: String = column(row, TABLE, "kind")?;
        let id: Uuid = column(row, TABLE, "id")?;
        let sealed: Vec<u8> = column(row, TABLE, "ciphertext")?;
        let key = self.api.open(&id.to_string(), &sealed).ok();
        let bad_kind = || KeyStoreError::Row { table: TABLE, problem: format!("kind {kind}") };
        Ok(StoredApiKey {
            id,
            kind: ApiKeyKind::from_name(&kind).ok_or_else(bad_kind)?,
            name: column(row, TABLE, "name")?,
            description: column(row, TABLE, "description")?,
            role: column(row, TABLE, "role")?,
            hash: column(row, TABLE, "hash")?,
            key: key.and_then(|bytes| String::from_utf8(bytes).ok()).map(SecretString::from),
            created_at: column(row, TABLE, "created_at")?,
            expires_at: column(row, TABLE, "expires_at")?,
            last_used_at: column(row, TABLE, "last_used_at")?,
            revoked_at: column(row, TABLE, "revoked_at")?,
        })
    }

    fn signing_key(&self, row: &Row) -> Result<StoredSigningKey, KeyStoreError> {
        const TABLE: &str = "signing_keys";
        let kid: String = column(row, TABLE, "kid")?;
        let status: String = column(row, TABLE, "status")?;
        let sealed: Vec<u8> = column(row, TABLE, "ciphertext")?;
        let jwk = self.signing.open(&kid, &sealed).ok();
        let bad_status = || KeyStoreError::Row { table: TABLE, problem: format!("status {status}") };
        Ok(StoredSigningKey {
            status: KeyStatus::from_name(&status).ok_or_else(bad_status)?,
            algorithm: column(row, TABLE, "algorithm")?,
            jwk: jwk.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
            created_at: column(row, TABLE, "created_at")?,
            updated_at: column(row, TABLE, "updated_at")?,
            kid,
        })
    }

    pub(super) async fn insert_api_key(&self, tx: &Tx, key: &StoredApiKey) -> Result<(), KeyStoreError> {
        let text = key.key.as_ref().map(|key| key.expose_secret().as_bytes()).unwrap_or_default();
        let sealed = self.api.seal(&key.id.to_string(), text);
        tx.execute(
            INSERT_API_KEY,
            &[
                &key.id,
                &key.kind.as_str(),
                &key.name,
                &key.description,
                &key.role,
                &key.hash,
                &sealed,
                &key.created_at,
                &key.expires_at,
                &key.revoked_at,
            ],
        )
        .await?;
        Ok(())
    }

    /// Ends a key at `ends`, or now. A configured key has no row yet and gets one.
    pub(super) async fn end_api_key(
        &self,
        tx: &Tx,
        key: &StoredApiKey,
        now: Timestamp,
        ends: Option<Timestamp>,
    ) -> Result<(), KeyStoreError> {
        const END: &str = "
            update basalt.api_keys
            set expires_at = coalesce($2, expires_at), revoked_at = coalesce(revoked_at, $3)
            where hash = $1";
        let revoked_at = ends.is_none().then_some(now);
        if tx.execute(END, &[&key.hash, &ends, &revoked_at]).await? == 0 {
            let row = StoredApiKey { expires_at: ends, revoked_at, ..key.clone() };
            self.insert_api_key(tx, &row).await?;
        }
        Ok(())
    }

    /// Changes the status of a key. A configured key gets a row that contains the key itself, because other servers
    /// verify with it.
    pub(super) async fn set_status(
        &self,
        tx: &Tx,
        material: &KeyMaterial,
        stored: &StoredKeys,
        kid: &str,
        status: KeyStatus,
        now: Timestamp,
    ) -> Result<(), KeyStoreError> {
        const SET: &str = "update basalt.signing_keys set status = $2, updated_at = $3 where kid = $1";
        if stored.signing.iter().any(|row| row.kid == kid) {
            tx.execute(SET, &[&kid, &status.as_str(), &now]).await?;
        } else if let Some((kid, jwk, _)) = material.own_keys()?.into_iter().find(|(own, _, _)| own == kid) {
            self.put_signing_key(tx, &kid, &jwk, status, now).await?;
        }
        Ok(())
    }

    /// Inserts a signing key; if it has a row already, only its status changes.
    pub(super) async fn put_signing_key(
        &self,
        tx: &Tx,
        kid: &str,
        jwk: &Value,
        status: KeyStatus,
        now: Timestamp,
    ) -> Result<(), KeyStoreError> {
        let sealed = self.signing.seal(kid, jwk.to_string().as_bytes());
        let algorithm = algorithm_of(jwk)?;
        tx.execute(UPSERT_SIGNING_KEY, &[&kid, &algorithm, &status.as_str(), &sealed, &now]).await?;
        Ok(())
    }
}

/// Reads one column of a row.
///
/// # Errors
/// The column is missing or has an unexpected type.
pub(super) fn column<'a, T: FromSql<'a>>(
    row: &'a Row,
    table: &'static str,
    name: &str,
) -> Result<T, KeyStoreError> {
    row.try_get(name).map_err(|error| KeyStoreError::Row { table, problem: error.to_string() })
}
