//! `basalt.api_keys` and `basalt.signing_keys`: read by every server, changed by `basalt keys`. Each change is one
//! transaction that ends with a notification, so that servers hear of it the moment it holds.
//!
//! The connection is of the system's login: nobody else may read these tables.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::generate::{generate, opaque_key};
use super::jwk::{self, KeyError};
use super::ring::hash_of;
use super::stored::{ApiKeyKind, KeyStatus, StoredApiKey, StoredKeys, StoredSigningKey};
use super::{KeyMaterial, SigningKeyInfo};
use crate::pool::{ServicePool, Tx};
use crate::random;
use crate::seal::Sealer;
use crate::session::SessionError;

/// The channel of `NOTIFY` on which changes are told.
pub const CHANNEL: &str = "basalt_keys";

/// How long one read or change may take.
const LIMIT: Duration = Duration::from_secs(10);

const API_KEYS: &str = "
select id, kind, name, description, role, hash, ciphertext, created_at, expires_at, last_used_at, revoked_at
from basalt.api_keys
order by created_at, id";

const SIGNING_KEYS: &str = "
select kid, algorithm, status, ciphertext, created_at, updated_at
from basalt.signing_keys
order by created_at, kid";

/// One writer at a time, so that what it read still holds when it writes. Readers do not wait.
const LOCK: &str = "lock table basalt.api_keys, basalt.signing_keys in share row exclusive mode";

const INSERT_API_KEY: &str = "
insert into basalt.api_keys
  (id, kind, name, description, role, hash, ciphertext, created_at, expires_at, revoked_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const UPSERT_SIGNING_KEY: &str = "
insert into basalt.signing_keys (kid, algorithm, status, ciphertext, created_at, updated_at)
values ($1, $2, $3, $4, $5, $5)
on conflict (kid) do update set status = excluded.status, updated_at = excluded.updated_at";

/// Why keys were not read or changed. The texts are for the person at the command line.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The database does not answer, or refuses.
    #[error("the database failed: {0}")]
    Database(#[from] SessionError),
    /// Key material that cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An active key has the name.
    #[error(
        "there is a {kind} key with the name {name} already: choose another with --name, or replace it with `basalt keys rotate`"
    )]
    NameTaken {
        /// Publishable or secret.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The role cannot be what requests act as.
    #[error(
        "the role {0} does not exist, or the login authenticator may not take it: create it, and grant it to authenticator"
    )]
    NoSuchRole(String),
    /// A change that the key's state does not allow.
    #[error("the signing key {kid} is {status}: {remedy}")]
    Status {
        /// Its name.
        kid: String,
        /// Its status in words.
        status: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// `jwt.keys` is the whole truth.
    #[error(
        "the signing keys are configured (jwt.keys): change them there. Add the new key to verify only, start every server with it, \
         then move \"sign\" to it, and take the old one out when its tokens have expired"
    )]
    Configured,
    /// A row is not what we wrote.
    #[error("a row of basalt.{table} cannot be read ({problem})")]
    Row {
        /// Which table.
        table: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// A key to make.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Publishable or secret.
    pub kind: ApiKeyKind,
    /// What people call it; one active key of a kind has it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The role that its requests have.
    pub role: String,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

/// Both tables, and the means to open what is sealed in them.
pub struct KeyStore {
    pool: ServicePool,
    api: Sealer,
    signing: Sealer,
}

impl KeyStore {
    /// `pool` is of the login that owns schema `basalt`.
    #[must_use]
    pub fn new(pool: ServicePool, master_key: &SecretString) -> Self {
        Self {
            pool,
            api: Sealer::new(master_key, "api keys"),
            signing: Sealer::new(master_key, "signing keys"),
        }
    }

    /// Everything that is kept.
    ///
    /// # Errors
    /// The database failed, or a row is not ours.
    pub async fn read(&self) -> Result<StoredKeys, KeyStoreError> {
        let tx = self.begin().await?;
        let read = self.read_in(&tx).await;
        finish(tx, read).await
    }

    /// Makes a key. It is in the row's [`StoredApiKey::key`].
    ///
    /// # Errors
    /// The name is taken, the role cannot be used, or the database failed.
    pub async fn create_api_key(
        &self,
        new: &NewApiKey,
        now: Timestamp,
    ) -> Result<StoredApiKey, KeyStoreError> {
        let tx = self.begin().await?;
        let created = async {
            tx.execute(LOCK, &[]).await?;
            let stored = self.read_in(&tx).await?;
            let is_taken =
                |key: &&StoredApiKey| key.kind == new.kind && key.name == new.name && key.is_active(now);
            if stored.api.iter().any(|key| is_taken(&key)) {
                return Err(KeyStoreError::NameTaken { kind: new.kind.as_str(), name: new.name.clone() });
            }
            check_role(&tx, &new.role).await?;
            let key = new_row(new, now);
            self.insert_api_key(&tx, &key).await?;
            notify(&tx).await?;
            Ok(key)
        };
        let created = created.await;
        finish(tx, created).await
    }

    /// Revokes keys: rows by id, and keys of the material, which have no row yet and get one.
    ///
    /// # Errors
    /// The database failed.
    pub async fn revoke_api_key(&self, key: &StoredApiKey, now: Timestamp) -> Result<(), KeyStoreError> {
        let tx = self.begin().await?;
        let revoked = async {
            tx.execute(LOCK, &[]).await?;
            self.end_api_key(&tx, key, now, None).await?;
            notify(&tx).await
        };
        let revoked = revoked.await;
        finish(tx, revoked).await
    }

    /// Makes a key of the same kind, name, role and description, and lets the old one hold until `old_ends`; `None`
    /// revokes it at once.
    ///
    /// # Errors
    /// The database failed.
    pub async fn rotate_api_key(
        &self,
        old: &StoredApiKey,
        old_ends: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<StoredApiKey, KeyStoreError> {
        let new = NewApiKey {
            kind: old.kind,
            name: old.name.clone(),
            description: old.description.clone(),
            role: old.role.clone(),
            expires_at: None,
        };
        let key = new_row(&new, now);
        let tx = self.begin().await?;
        let rotated = async {
            tx.execute(LOCK, &[]).await?;
            self.end_api_key(&tx, old, now, old_ends).await?;
            self.insert_api_key(&tx, &key).await?;
            notify(&tx).await
        };
        let rotated = rotated.await;
        finish(tx, rotated).await?;
        Ok(key)
    }

    /// Keeps when keys were last used; `uses` are ids with seconds since 1970.
    ///
    /// # Errors
    /// The database failed.
    pub async fn note_uses(&self, uses: &[(Uuid, i64)]) -> Result<(), KeyStoreError> {
        const STATEMENT: &str = "
            update basalt.api_keys as key set last_used_at = greatest(key.last_used_at, used.at)
            from unnest($1::uuid[], $2::timestamptz[]) as used (id, at)
            where key.id = used.id";
        let (ids, times): (Vec<Uuid>, Vec<Timestamp>) =
            uses.iter().filter_map(|(id, at)| Some((*id, Timestamp::from_second(*at).ok()?))).unzip();
        let tx = self.begin().await?;
        let noted = tx.execute(STATEMENT, &[&ids, &times]).await.map(drop).map_err(KeyStoreError::from);
        finish(tx, noted).await
    }

    /// Makes a signing key that waits: it is published and signs nothing yet.
    ///
    /// # Errors
    /// The material's keys are configured, the algorithm is none of ours, or the database failed.
    pub async fn create_signing_key(
        &self,
        material: &KeyMaterial,
        algorithm: &str,
        now: Timestamp,
    ) -> Result<SigningKeyInfo, KeyStoreError> {
        if !material.rotates {
            return Err(KeyStoreError::Configured);
        }
        let key = generate(algorithm)?;
        let kid = jwk::kid_of(&key)?;
        let tx = self.begin().await?;
        let created = async {
            self.put_signing_key(&tx, &kid, &key, KeyStatus::Standby, now).await?;
            notify(&tx).await
        };
        let created = created.await;
        finish(tx, created).await?;
        Ok(SigningKeyInfo {
            kid,
            algorithm: algorithm.to_owned(),
            status: KeyStatus::Standby,
            created_at: Some(now),
            updated_at: Some(now),
        })
    }

    /// Lets the key on standby `kid` sign; the one that signed until now goes on verifying.
    ///
    /// # Errors
    /// `kid` is not on standby, or the database failed.
    pub async fn use_signing_key(
        &self,
        material: &KeyMaterial,
        kid: &str,
        now: Timestamp,
    ) -> Result<(), KeyStoreError> {
        let tx = self.begin().await?;
        let changed = async {
            tx.execute(LOCK, &[]).await?;
            let stored = self.read_in(&tx).await?;
            let infos = material.signing_keys(&stored)?;
            expect_status(&infos, kid, &[KeyStatus::Standby], "only a key on standby can be taken into use")?;
            let used: Vec<&SigningKeyInfo> =
                infos.iter().filter(|info| info.status == KeyStatus::InUse).collect();
            for old in used {
                self.set_status(&tx, material, &stored, &old.kid, KeyStatus::PreviouslyUsed, now).await?;
            }
            self.set_status(&tx, material, &stored, kid, KeyStatus::InUse, now).await?;
            notify(&tx).await
        };
        let changed = changed.await;
        finish(tx, changed).await
    }

    /// Refuses everything that `kid` signed, from now on.
    ///
    /// # Errors
    /// The key is in use or revoked already, the keys are configured, or the database failed.
    pub async fn revoke_signing_key(
        &self,
        material: &KeyMaterial,
        kid: &str,
        now: Timestamp,
    ) -> Result<(), KeyStoreError> {
        if !material.rotates {
            return Err(KeyStoreError::Configured);
        }
        let tx = self.begin().await?;
        let revoked = async {
            tx.execute(LOCK, &[]).await?;
            let stored = self.read_in(&tx).await?;
            let infos = material.signing_keys(&stored)?;
            let allowed = [KeyStatus::Standby, KeyStatus::PreviouslyUsed];
            expect_status(&infos, kid, &allowed, "replace it first, with `basalt keys rotate signing`")?;
            self.set_status(&tx, material, &stored, kid, KeyStatus::Revoked, now).await?;
            notify(&tx).await
        };
        let revoked = revoked.await;
        finish(tx, revoked).await
    }

    async fn begin(&self) -> Result<Tx, KeyStoreError> {
        Ok(self.pool.begin(Instant::now() + LIMIT).await?)
    }

    async fn read_in(&self, tx: &Tx) -> Result<StoredKeys, KeyStoreError> {
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

    async fn insert_api_key(&self, tx: &Tx, key: &StoredApiKey) -> Result<(), KeyStoreError> {
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

    /// Ends a key at `ends`, or now. A key of the material has no row yet.
    async fn end_api_key(
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

    /// Changes the row of a key; a key of the material gets one, with itself in it: other servers verify with it.
    async fn set_status(
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

    async fn put_signing_key(
        &self,
        tx: &Tx,
        kid: &str,
        jwk: &Value,
        status: KeyStatus,
        now: Timestamp,
    ) -> Result<(), KeyStoreError> {
        let sealed = self.signing.seal(kid, jwk.to_string().as_bytes());
        let algorithm = jwk::algorithm_of(jwk)?;
        tx.execute(UPSERT_SIGNING_KEY, &[&kid, &algorithm, &status.as_str(), &sealed, &now]).await?;
        Ok(())
    }
}

impl StoredApiKey {
    /// A key of the material as if it had a row, for those who list or end it.
    #[must_use]
    pub fn of_material(kind: ApiKeyKind, key: &SecretString, made_at: Timestamp) -> Self {
        Self {
            id: random::uuid(),
            kind,
            name: super::DEFAULT_NAME.to_owned(),
            description: String::new(),
            role: kind.role().to_owned(),
            hash: hash_of(key.expose_secret()),
            key: Some(key.clone()),
            created_at: made_at,
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        }
    }
}

fn new_row(new: &NewApiKey, now: Timestamp) -> StoredApiKey {
    let key = opaque_key(new.kind);
    StoredApiKey {
        id: random::uuid(),
        kind: new.kind,
        name: new.name.clone(),
        description: new.description.clone(),
        role: new.role.clone(),
        hash: hash_of(&key),
        key: Some(key.into()),
        created_at: now,
        expires_at: new.expires_at,
        last_used_at: None,
        revoked_at: None,
    }
}

/// A key of a role that no request can take would be a riddle to its user.
async fn check_role(tx: &Tx, role: &str) -> Result<(), KeyStoreError> {
    const USABLE: &str = "
        select exists (
          select from pg_catalog.pg_roles role
          where role.rolname = $1 and not role.rolsuper
            and pg_catalog.pg_has_role('authenticator', role.oid, 'member')
        ) as is_usable";
    let row = tx.query_one(USABLE, &[&role]).await?;
    if column(&row, "api_keys", "is_usable")? {
        Ok(())
    } else {
        Err(KeyStoreError::NoSuchRole(role.to_owned()))
    }
}

fn expect_status(
    infos: &[SigningKeyInfo],
    kid: &str,
    allowed: &[KeyStatus],
    remedy: &'static str,
) -> Result<(), KeyStoreError> {
    let status = infos.iter().find(|info| info.kid == kid).map(|info| info.status);
    match status {
        Some(status) if allowed.contains(&status) => Ok(()),
        Some(KeyStatus::Revoked) => Err(KeyStoreError::Status {
            kid: kid.to_owned(),
            status: "revoked",
            remedy: "nothing is left to do",
        }),
        Some(KeyStatus::InUse) => {
            Err(KeyStoreError::Status { kid: kid.to_owned(), status: "in use", remedy })
        }
        Some(KeyStatus::PreviouslyUsed) => {
            Err(KeyStoreError::Status { kid: kid.to_owned(), status: "previously used", remedy })
        }
        Some(KeyStatus::Standby) => {
            Err(KeyStoreError::Status { kid: kid.to_owned(), status: "on standby", remedy })
        }
        None => Err(KeyStoreError::Status {
            kid: kid.to_owned(),
            status: "unknown",
            remedy: "`basalt keys list` shows those there are",
        }),
    }
}

async fn notify(tx: &Tx) -> Result<(), KeyStoreError> {
    tx.execute("select pg_catalog.pg_notify($1, '')", &[&CHANNEL]).await?;
    Ok(())
}

/// [`Tx::finish`] with the error that `?` makes here.
async fn finish<T>(tx: Tx, result: Result<T, KeyStoreError>) -> Result<T, KeyStoreError> {
    tx.finish(result).await
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, table: &'static str, name: &str) -> Result<T, KeyStoreError> {
    row.try_get(name).map_err(|error| KeyStoreError::Row { table, problem: error.to_string() })
}
