//! Secrets of functions, from the configuration and from the database, where `basalt secrets set` and built-in functions store them encrypted
//! with `server.master_key`. Secrets in the database win.
//!
//! Functions read secrets from memory. A change notifies every server, which reloads them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use basalt_core::seal::Sealer;
use basalt_pg::listen::Event;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The NOTIFY channel that announces changes.
pub const CHANNEL: &str = "basalt_secrets";

/// Limits (functions.md 3.4).
const MAX_SECRETS: usize = 100;
const NAME_BYTES: usize = 256;
const VALUE_BYTES: usize = 48 * 1024;

/// Time limit of one read or change.
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);
/// Interval of reloads without a notification.
const INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between two reloads.
const MIN_PAUSE: Duration = Duration::from_millis(50);

/// The names that [`check`] accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All valid names of environment variables.
    Any,
    /// The same, except names that the server sets itself: `SUPABASE_…`.
    Project,
}

/// Checks names and values.
///
/// # Errors
/// The problem; the message contains no value.
pub fn check<'a>(secrets: impl Iterator<Item = (&'a str, &'a str)>, names: Names) -> Result<(), String> {
    for (index, (name, value)) in secrets.enumerate() {
        let is_variable = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.len() <= NAME_BYTES;
        if !is_variable {
            return Err(format!(
                "{name:?} is not a valid name of a secret: use at most {NAME_BYTES} letters, digits and _"
            ));
        }
        if names == Names::Project && name.starts_with("SUPABASE_") {
            return Err(format!("{name} is set by the server: names that start with SUPABASE_ are reserved"));
        }
        if value.len() > VALUE_BYTES || value.contains('\0') {
            return Err(format!("the value of {name} contains NUL or exceeds {VALUE_BYTES} bytes"));
        }
        if index >= MAX_SECRETS {
            return Err(format!("there are more than {MAX_SECRETS} secrets"));
        }
    }
    Ok(())
}

/// Checks that no secret used to verify signatures is blank, because anyone could sign with it.
///
/// # Errors
/// The name of the blank secret, in a message.
pub fn check_signing<'a>(
    mut secrets: impl Iterator<Item = (&'a str, &'a str)>,
    signing: &[&str],
) -> Result<(), String> {
    match secrets.find(|(name, value)| signing.contains(name) && value.trim().is_empty()) {
        Some((name, _)) => Err(format!("the value of {name} is empty, so anyone could sign with it")),
        None => Ok(()),
    }
}

/// Why secrets were not changed.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A name or value is invalid, or there are too many secrets.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] SessionError),
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSecret {
    /// The name.
    pub name: String,
    /// When it was set.
    pub updated_at: Timestamp,
}

/// The table of secrets.
pub struct SecretStore {
    pool: ServicePool,
    sealer: Sealer,
    /// See [`check_signing`].
    signing: &'static [&'static str],
}

impl SecretStore {
    /// `pool` has the system's login, because no other login may read the table. `signing` are the names of secrets used to verify signatures.
    #[must_use]
    pub fn new(pool: ServicePool, master_key: &SecretString, signing: &'static [&'static str]) -> Self {
        Self { pool, sealer: Sealer::new(master_key, "functions secrets"), signing }
    }

    /// Lists all secrets by name.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list(&self) -> Result<Vec<ListedSecret>, SessionError> {
        const LIST: &str = "select name, updated_at from functions.runtime_secrets order by name";
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let rows = tx.query(LIST, &[]).await;
        let listed = |row: tokio_postgres::Row| {
            Some(ListedSecret { name: row.try_get(0).ok()?, updated_at: row.try_get(1).ok()? })
        };
        Ok(tx.finish(rows).await?.into_iter().filter_map(listed).collect())
    }

    /// Sets secrets, either all or none. `by` is the administrator; `None` for the operator.
    ///
    /// # Errors
    /// See [`SecretsError`].
    pub async fn set(
        &self,
        secrets: &[(String, SecretString)],
        by: Option<Uuid>,
    ) -> Result<(), SecretsError> {
        const SET: &str = "\
insert into functions.runtime_secrets (name, ciphertext, updated_by) values ($1, $2, $3)
on conflict (name) do update
set ciphertext = excluded.ciphertext, updated_by = excluded.updated_by, updated_at = now()";
        const COUNT: &str = "select count(*) from functions.runtime_secrets";
        let named = || secrets.iter().map(|(name, secret)| (name.as_str(), secret.expose_secret()));
        let checked = check(named(), Names::Project).and_then(|()| check_signing(named(), self.signing));
        checked.map_err(SecretsError::Refused)?;
        let tx = self.pool.begin(Instant::now() + STATEMENT_LIMIT).await?;
        let changed = async {
            // One writer at a time, so that the limit on the count is reliable.
            tx.execute("lock table functions.runtime_secrets in share row exclusive mode", &[]).await?;
            for (name, secret) in secrets {
                let sealed = self.sealer.seal(name, secret.expose_secret().as_bytes());
                tx.execute(SET, &[name, &sealed, &by]).await?;
            }
            let count: i64 = tx.query_one(COUNT, &[]).await?.try_get(0).unwrap_or_default();
            if usize::try_from(count).is_ok_and(|count| count > MAX_SECRETS) {
                return Err(SecretsError::Refused(format!("there would be more than {MAX_SECRETS} secrets")));
            }
            let _notified = tx.query("select pg_catalog.pg_notify($1, '')", &[&CHANNEL]).await?;
            Ok(())
        };
        let changed = changed.await;
        tx.finish(changed).await
    }

    /// Removes secrets, either all or none; the inner error lists names that do not exist.
    ///
    /// # Errors
    /// The database failed.
    pub async fn unset(&self, names: &[String]) -> Result<Result<(), Vec<String>>, SessionError> {
        const UNSET: &str = "delete from functions.runtime_secrets where name = any($1) returning name";
        let tx = self.pool.begin(Instant::now() + STATEMENT_LIMIT).await?;
        let removed = async {
            let rows = tx.query(UNSET, &[&names]).await?;
            let _notified = tx.query("select pg_catalog.pg_notify($1, '')", &[&CHANNEL]).await?;
            Ok::<Vec<String>, SessionError>(rows.iter().filter_map(|row| row.try_get(0).ok()).collect())
        };
        let removed = match removed.await {
            Ok(removed) => removed,
            Err(error) => return tx.finish(Err(error)).await,
        };
        let missing: Vec<String> = names.iter().filter(|name| !removed.contains(name)).cloned().collect();
        if missing.is_empty() {
            tx.commit().await?;
            return Ok(Ok(()));
        }
        tx.rollback().await;
        Ok(Err(missing))
    }

    async fn read(&self) -> Result<HashMap<String, SecretString>, SessionError> {
        const READ: &str = "select name, ciphertext from functions.runtime_secrets";
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let rows = tx.query(READ, &[]).await;
        let mut secrets = HashMap::new();
        for row in tx.finish(rows).await? {
            let (Ok(name), Ok(sealed)) = (row.try_get::<_, String>(0), row.try_get::<_, Vec<u8>>(1)) else {
                continue;
            };
            let opened = self.sealer.open(&name, &sealed).ok().and_then(|text| String::from_utf8(text).ok());
            match opened {
                Some(text) => drop(secrets.insert(name, SecretString::from(text))),
                None => tracing::error!(
                    name,
                    "cannot decrypt a secret because server.master_key has changed; set the secret again"
                ),
            }
        }
        Ok(secrets)
    }
}

impl std::fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretStore")
    }
}

/// The secrets of functions in memory, from the configuration and the database.
#[derive(Debug)]
pub struct Secrets {
    store: SecretStore,
    configured: HashMap<String, SecretString>,
    stored: ArcSwap<HashMap<String, SecretString>>,
    /// Marked as changed when the stored secrets differ from before.
    changes: watch::Sender<()>,
}

impl Secrets {
    /// Creates the set with the configuration's secrets; [`Secrets::refresh`] adds the database's.
    #[must_use]
    pub fn new(store: SecretStore, configured: &[(String, SecretString)]) -> Self {
        Self {
            store,
            configured: configured.iter().cloned().collect(),
            stored: ArcSwap::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// The value that functions receive.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<SecretString> {
        self.all(name).into_iter().next()
    }

    /// All values of the name: from the database, then from the configuration.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<SecretString> {
        let stored = self.stored.load();
        [stored.get(name), self.configured.get(name)].into_iter().flatten().cloned().collect()
    }

    /// All secrets by name. Those in the database win.
    #[must_use]
    pub fn every(&self) -> HashMap<String, SecretString> {
        let mut secrets = self.configured.clone();
        secrets.extend(self.stored.load().iter().map(|(name, secret)| (name.clone(), secret.clone())));
        secrets
    }

    /// Notified when a secret in the database was set, changed or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Stores a secret. This server uses it when the call returns.
    ///
    /// # Errors
    /// See [`SecretsError`].
    pub async fn set(&self, name: &str, secret: SecretString, by: Uuid) -> Result<(), SecretsError> {
        self.store.set(&[(name.to_owned(), secret)], Some(by)).await?;
        Ok(self.refresh().await?)
    }

    /// Reloads the secrets from the database.
    ///
    /// # Errors
    /// The database failed; the current secrets stay in use.
    pub async fn refresh(&self) -> Result<(), SessionError> {
        let stored = self.store.read().await?;
        let is_same = {
            let before = self.stored.load();
            let same = |(name, secret): (&String, &SecretString)| {
                before.get(name).is_some_and(|before| before.expose_secret() == secret.expose_secret())
            };
            before.len() == stored.len() && stored.iter().all(same)
        };
        if !is_same {
            self.stored.store(Arc::new(stored));
            self.changes.send_replace(());
        }
        Ok(())
    }

    /// Follows the database forever. While it is unreachable, the last known secrets stay in use.
    #[expect(clippy::infinite_loop, reason = "the shutdown token cancels the task")]
    pub async fn keep(self: Arc<Self>, mut events: Receiver<Event>) {
        loop {
            if let Err(error) = self.refresh().await {
                tracing::debug!(%error, "cannot reload the secrets of functions; keeping the current ones");
            }
            sleep(MIN_PAUSE).await;
            let notified = async {
                loop {
                    match events.recv().await {
                        Ok(Event::Notify { channel, .. }) if channel != CHANNEL => {}
                        Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => return,
                        // The listener has stopped because the server is shutting down.
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            let _elapsed = tokio::time::timeout(INTERVAL, notified).await;
        }
    }
}

/// Parses a `.env` file (functions.md 3.5): `KEY=value` lines, optionally prefixed by `export`; `#` starts a comment line; quotes are
/// removed, and `\n` and `\r` are unescaped in double quotes.
///
/// # Errors
/// The number of the first invalid line.
pub fn parse_env_file(text: &str) -> Result<Vec<(String, SecretString)>, usize> {
    let mut secrets = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(index + 1)?;
        let value = value.trim();
        let inside = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = match (inside('"'), inside('\'').or_else(|| inside('`'))) {
            (Some(text), _) => text.replace("\\n", "\n").replace("\\r", "\r"),
            (None, Some(text)) => text.to_owned(),
            (None, None) => value.to_owned(),
        };
        secrets.push((name.trim().to_owned(), SecretString::from(value)));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_names_and_values() {
        let one = |name: &str, value: &str| check([(name, value)].into_iter(), Names::Project);
        assert_eq!(one("API_KEY", "x"), Ok(()));
        for (name, value) in [
            ("", "x"),
            ("1A", "x"),
            ("A-B", "x"),
            ("SUPABASE_URL", "x"),
            ("A", "x\0"),
            ("A", &"x".repeat(VALUE_BYTES + 1)),
            (&"A".repeat(NAME_BYTES + 1), "x"),
        ] {
            assert!(one(name, value).is_err(), "{name}");
        }
        for (value, is_valid) in [("", false), (" ", false), ("x", true)] {
            let signing = check_signing([("SIGNS", value)].into_iter(), &["SIGNS"]);
            assert_eq!((signing.is_ok(), one("SIGNS", value).is_ok()), (is_valid, true), "{value:?}");
        }
        let many: Vec<String> = (0..=MAX_SECRETS).map(|number| format!("A{number}")).collect();
        assert!(check(many.iter().map(|name| (name.as_str(), "x")), Names::Any).is_err());
    }

    #[test]
    fn parses_env_file() {
        let text = "# keys\n\nA=1\nexport B = \"x\\ny\"\nC='x\\ny'\nD=`a b`\nE=a=b\nF=\n";
        let read = parse_env_file(text).unwrap();
        let read: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(read, [("A", "1"), ("B", "x\ny"), ("C", "x\\ny"), ("D", "a b"), ("E", "a=b"), ("F", "")]);
        assert_eq!(parse_env_file("A=1\nnothing").unwrap_err(), 2);
    }
}
