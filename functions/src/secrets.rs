//! Secrets of functions: from the configuration, and from the database, where `basalt secrets set` and built-in functions store them, sealed
//! under `server.master_key`. Those of the database win.
//!
//! Functions read them from memory. A change notifies every server, which reads them again.

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
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The channel that announces changes with `NOTIFY`.
pub const CHANNEL: &str = "basalt_secrets";

/// functions.md 3.4.
const MOST: usize = 100;
const NAME_BYTES: usize = 256;
const VALUE_BYTES: usize = 48 * 1024;

/// How long one read or change may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How old a change may get that no notification told.
const INTERVAL: Duration = Duration::from_secs(30);
/// From one read to the next.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Which names are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All that are variables.
    Any,
    /// Not those that the server sets itself: `SUPABASE_…`.
    OfProject,
}

/// Checks names and values.
///
/// # Errors
/// What is wrong, in a sentence that names no value.
pub fn check<'a>(secrets: impl Iterator<Item = (&'a str, &'a str)>, names: Names) -> Result<(), String> {
    for (index, (name, value)) in secrets.enumerate() {
        let is_variable = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.len() <= NAME_BYTES;
        if !is_variable {
            return Err(format!(
                "{name:?} is no name of a secret: letters, digits and _, {NAME_BYTES} at most"
            ));
        }
        if names == Names::OfProject && name.starts_with("SUPABASE_") {
            return Err(format!("{name} is set by the server: names that begin with SUPABASE_ are its own"));
        }
        if value.len() > VALUE_BYTES || value.contains('\0') {
            return Err(format!(
                "the value of {name} is too long, or holds a NUL: {VALUE_BYTES} bytes at most"
            ));
        }
        if index >= MOST {
            return Err(format!("there are more than {MOST} secrets"));
        }
    }
    Ok(())
}

/// Checks that no secret that verifies signatures is blank: anyone could sign with it.
///
/// # Errors
/// Which is, in a sentence.
pub fn check_signing<'a>(
    mut secrets: impl Iterator<Item = (&'a str, &'a str)>,
    signing: &[&str],
) -> Result<(), String> {
    match secrets.find(|(name, value)| signing.contains(name) && value.trim().is_empty()) {
        Some((name, _)) => Err(format!("the value of {name} is empty: anyone could sign with it")),
        None => Ok(()),
    }
}

/// Why secrets were not changed.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A name or value is not accepted, or there are too many.
    #[error("{0}")]
    Refused(String),
    /// The database fails.
    #[error(transparent)]
    Database(#[from] SessionError),
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSecret {
    /// Its name.
    pub name: String,
    /// When it was set.
    pub updated_at: Timestamp,
}

/// The table.
pub struct SecretStore {
    pool: ServicePool,
    sealer: Sealer,
    /// See [`check_signing`].
    signing: &'static [&'static str],
}

impl SecretStore {
    /// `pool` has the system's login: no other may read the table. `signing` are the names of secrets that verify signatures.
    #[must_use]
    pub fn new(pool: ServicePool, master_key: &SecretString, signing: &'static [&'static str]) -> Self {
        Self { pool, sealer: Sealer::new(master_key, "functions secrets"), signing }
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// The database fails.
    pub async fn list(&self) -> Result<Vec<ListedSecret>, SessionError> {
        const LIST: &str = "select name, updated_at from functions.runtime_secrets order by name";
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let rows = tx.query(LIST, &[]).await;
        let listed = |row: tokio_postgres::Row| {
            Some(ListedSecret { name: row.try_get(0).ok()?, updated_at: row.try_get(1).ok()? })
        };
        Ok(tx.finish(rows).await?.into_iter().filter_map(listed).collect())
    }

    /// Sets secrets, all or none. `by` is the administrator who asks for it; the operator has no id.
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
        let checked = check(named(), Names::OfProject).and_then(|()| check_signing(named(), self.signing));
        checked.map_err(SecretsError::Refused)?;
        let tx = self.pool.begin(Instant::now() + LIMIT).await?;
        let changed = async {
            // One writer at a time, so that the count holds.
            tx.execute("lock table functions.runtime_secrets in share row exclusive mode", &[]).await?;
            for (name, secret) in secrets {
                let sealed = self.sealer.seal(name, secret.expose_secret().as_bytes());
                tx.execute(SET, &[name, &sealed, &by]).await?;
            }
            let count: i64 = tx.query_one(COUNT, &[]).await?.try_get(0).unwrap_or_default();
            if usize::try_from(count).is_ok_and(|count| count > MOST) {
                return Err(SecretsError::Refused(format!("there would be more than {MOST} secrets")));
            }
            let _notified = tx.query("select pg_catalog.pg_notify($1, '')", &[&CHANNEL]).await?;
            Ok(())
        };
        let changed = changed.await;
        tx.finish(changed).await
    }

    /// Removes secrets, all or none; the names that there were not are the error inside.
    ///
    /// # Errors
    /// The database fails.
    pub async fn unset(&self, names: &[String]) -> Result<Result<(), Vec<String>>, SessionError> {
        const UNSET: &str = "delete from functions.runtime_secrets where name = any($1) returning name";
        let tx = self.pool.begin(Instant::now() + LIMIT).await?;
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
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
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
                    "a secret cannot be opened: server.master_key is another. Set it again"
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

/// The secrets of functions, in memory: those of the configuration and those of the database.
#[derive(Debug)]
pub struct Secrets {
    store: SecretStore,
    configured: HashMap<String, SecretString>,
    stored: ArcSwap<HashMap<String, SecretString>>,
}

impl Secrets {
    /// The secrets of the configuration; [`Secrets::refresh`] reads those of the database.
    #[must_use]
    pub fn new(store: SecretStore, configured: &[(String, SecretString)]) -> Self {
        Self { store, configured: configured.iter().cloned().collect(), stored: ArcSwap::default() }
    }

    /// The value that functions see.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<SecretString> {
        self.all(name).into_iter().next()
    }

    /// The value in the database and the value in the configuration.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<SecretString> {
        let stored = self.stored.load();
        [stored.get(name), self.configured.get(name)].into_iter().flatten().cloned().collect()
    }

    /// Stores a secret, which is in force on this server when this returns.
    ///
    /// # Errors
    /// See [`SecretsError`].
    pub async fn set(&self, name: &str, secret: SecretString, by: Uuid) -> Result<(), SecretsError> {
        self.store.set(&[(name.to_owned(), secret)], Some(by)).await?;
        Ok(self.refresh().await?)
    }

    /// Reads the secrets of the database.
    ///
    /// # Errors
    /// The database fails; the known secrets stay in force.
    pub async fn refresh(&self) -> Result<(), SessionError> {
        self.stored.store(Arc::new(self.store.read().await?));
        Ok(())
    }

    /// Follows the database without end. While it cannot be reached, the last known secrets stay in force.
    #[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
    pub async fn keep(self: Arc<Self>, mut events: Receiver<Event>) {
        loop {
            if let Err(error) = self.refresh().await {
                tracing::debug!(%error, "the secrets of functions cannot be read; those known hold");
            }
            sleep(LEAST_PAUSE).await;
            let heard = async {
                loop {
                    match events.recv().await {
                        Ok(Event::Notify { channel, .. }) if channel != CHANNEL => {}
                        Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => return,
                        // The listener has ended: the server is about to stop.
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            let _by_time = tokio::time::timeout(INTERVAL, heard).await;
        }
    }
}

/// Reads the lines of a `.env` file (functions.md 3.5): `KEY=value`, with `export` before it or not; `#` begins a comment
/// line; quotes are stripped, and `\n` and `\r` are read between double quotes.
///
/// # Errors
/// The number of the first line that is none of these.
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
    fn names_and_values_are_bounded() {
        let one = |name: &str, value: &str| check([(name, value)].into_iter(), Names::OfProject);
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
        for (value, is_fine) in [("", false), (" ", false), ("x", true)] {
            let signing = check_signing([("SIGNS", value)].into_iter(), &["SIGNS"]);
            assert_eq!((signing.is_ok(), one("SIGNS", value).is_ok()), (is_fine, true), "{value:?}");
        }
        let many: Vec<String> = (0..=MOST).map(|number| format!("A{number}")).collect();
        assert!(check(many.iter().map(|name| (name.as_str(), "x")), Names::Any).is_err());
    }

    #[test]
    fn an_env_file_is_read_line_by_line() {
        let text = "# keys\n\nA=1\nexport B = \"x\\ny\"\nC='x\\ny'\nD=`a b`\nE=a=b\nF=\n";
        let read = parse_env_file(text).unwrap();
        let read: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(read, [("A", "1"), ("B", "x\ny"), ("C", "x\\ny"), ("D", "a b"), ("E", "a=b"), ("F", "")]);
        assert_eq!(parse_env_file("A=1\nnothing").unwrap_err(), 2);
    }
}
