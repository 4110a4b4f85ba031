//! API keys and signing keys in the database: every server reads them, `basalt keys` changes them. Each change is one
//! transaction that ends with a NOTIFY, so that servers pick it up at once. `rows` maps the columns.
//!
//! The connection belongs to the system login: no other role may read these tables.

mod error;
mod rows;

use std::time::Duration;

use basalt_core::keys::{
    KeyMaterial, KeyStatus, NewApiKey, SigningKeyInfo, StoredApiKey, StoredKeys, generate, kid_of,
};
use basalt_core::seal::Sealer;
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::time::Instant;
use uuid::Uuid;

use crate::pool::{ServicePool, Tx};
pub use error::KeyStoreError;
use rows::column;

/// The `NOTIFY` channel on which changes are announced.
pub const CHANNEL: &str = "basalt_keys";

/// Time limit of one read or change.
const LIMIT: Duration = Duration::from_secs(10);

/// Serialises writers, so that what one has read is still valid when it writes. Readers are not blocked.
const LOCK: &str = "lock table basalt.api_keys, basalt.signing_keys in share row exclusive mode";

/// Access to both tables, and the keys that unseal their contents.
pub struct KeyStore {
    pool: ServicePool,
    api: Sealer,
    signing: Sealer,
}

impl KeyStore {
    /// `pool` must belong to the login that owns schema `basalt`.
    #[must_use]
    pub fn new(pool: ServicePool, master_key: &SecretString) -> Self {
        Self {
            pool,
            api: Sealer::new(master_key, "api keys"),
            signing: Sealer::new(master_key, "signing keys"),
        }
    }

    /// Reads both tables.
    ///
    /// # Errors
    /// The database failed, or a row cannot be decoded.
    pub async fn read(&self) -> Result<StoredKeys, KeyStoreError> {
        let tx = self.begin().await?;
        let read = self.read_in(&tx).await;
        finish(tx, read).await
    }

    /// Creates an API key. The key itself is in the returned row's [`StoredApiKey::key`].
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
            let key = StoredApiKey::generate(new, now);
            self.insert_api_key(&tx, &key).await?;
            notify(&tx).await?;
            Ok(key)
        };
        let created = created.await;
        finish(tx, created).await
    }

    /// Revokes an API key. A configured key has no row yet and gets one.
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

    /// Creates a key with the kind, name, role and description of `old`, which stays valid until `old_ends`; `None`
    /// revokes it immediately.
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
        let key = StoredApiKey::generate(&new, now);
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

    /// Records when keys were last used; `uses` are ids with seconds since the Unix epoch.
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

    /// Creates a signing key in standby: it is published but signs nothing yet.
    ///
    /// # Errors
    /// The signing keys are configured, the algorithm is unsupported, or the database failed.
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
        let kid = kid_of(&key)?;
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

    /// Makes the standby key `kid` the signing key. The previous one continues to verify.
    ///
    /// # Errors
    /// `kid` is not in standby, or the database failed.
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
            expect_status(
                &infos,
                kid,
                &[KeyStatus::Standby],
                "only a standby key can become the signing key",
            )?;
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

    /// Revokes `kid`: tokens it signed are rejected from now on.
    ///
    /// # Errors
    /// The key is in use or already revoked, the signing keys are configured, or the database failed.
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
            expect_status(&infos, kid, &allowed, "replace it first with `basalt keys rotate signing`")?;
            self.set_status(&tx, material, &stored, kid, KeyStatus::Revoked, now).await?;
            notify(&tx).await
        };
        let revoked = revoked.await;
        finish(tx, revoked).await
    }

    async fn begin(&self) -> Result<Tx, KeyStoreError> {
        Ok(self.pool.begin(Instant::now() + LIMIT).await?)
    }
}

/// Rejects a role that `authenticator` cannot assume: every request with such a key would fail.
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

/// Checks that `kid` has one of the `allowed` statuses; `remedy` is the advice if it does not.
fn expect_status(
    infos: &[SigningKeyInfo],
    kid: &str,
    allowed: &[KeyStatus],
    remedy: &'static str,
) -> Result<(), KeyStoreError> {
    let (status, remedy) = match infos.iter().find(|info| info.kid == kid).map(|info| info.status) {
        Some(status) if allowed.contains(&status) => return Ok(()),
        Some(KeyStatus::Revoked) => ("revoked", "no action is needed"),
        Some(KeyStatus::InUse) => ("in use", remedy),
        Some(KeyStatus::PreviouslyUsed) => ("previously used", remedy),
        Some(KeyStatus::Standby) => ("in standby", remedy),
        None => ("unknown", "run `basalt keys list` to see the existing keys"),
    };
    Err(KeyStoreError::Status { kid: kid.to_owned(), status, remedy })
}

async fn notify(tx: &Tx) -> Result<(), KeyStoreError> {
    tx.execute("select pg_catalog.pg_notify($1, '')", &[&CHANNEL]).await?;
    Ok(())
}

/// Like [`Tx::finish`], fixed to this module's error type.
fn finish<T>(tx: Tx, result: Result<T, KeyStoreError>) -> impl Future<Output = Result<T, KeyStoreError>> {
    tx.finish(result)
}
