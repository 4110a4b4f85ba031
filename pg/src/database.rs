//! How to connect to one PostgreSQL database as one login: address, credentials, TLS. All connections are opened here
//! and used by [`crate::session`] and [`crate::pool`].

mod unverified;

use std::sync::Arc;
use std::time::Duration;

use basalt_core::error::with_cause;
use basalt_core::tls;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::pg_error::DriverError;

/// Time limit for connecting, unless the URL sets one.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A PostgreSQL login. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    config: Arc<Config>,
    tls: MakeRustlsConnect,
}

/// The connection half of `tokio_postgres`, to be polled by a task of its own.
pub type DriverConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Why a database URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseUrlError {
    /// The URL does not parse; contains the parser's reason.
    #[error("the database URL is not valid: {0}")]
    Invalid(String),
    /// The URL names no host.
    #[error("the database URL names no host; write postgresql://user:password@host:5432/database")]
    NoHost,
}

/// Sets TCP options so that a vanished peer is noticed within a minute, both while waiting for data (keepalive
/// probes) and for acknowledgements. The system defaults take a quarter of an hour, or two hours on an idle
/// connection. Options in the URL take precedence.
fn notice_dead_peers(config: &mut Config) {
    // The driver's default: the URL does not set it.
    if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
        config.keepalives_idle(Duration::from_secs(30));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(5));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(45));
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Database {
    /// Parses a `postgresql://…` URL or a key=value string. Connecting may take ten seconds, divided among the hosts,
    /// unless the URL sets a limit.
    ///
    /// # Errors
    /// The text is not a valid connection string, or names no host.
    pub fn from_url(url: &str) -> Result<Self, DatabaseUrlError> {
        let config: Config = url
            .parse()
            .map_err(|error: tokio_postgres::Error| DatabaseUrlError::Invalid(with_cause(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(DatabaseUrlError::NoHost);
        }
        Ok(Self::new(config))
    }

    /// Wraps a `tokio_postgres` configuration, filling in timeouts and TCP options.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        if config.get_connect_timeout().is_none() {
            // A request waits ten seconds for a connection, which should be enough to try each host.
            let hosts = config.get_hosts().len().max(config.get_hostaddrs().len()).clamp(1, 5);
            config.connect_timeout(CONNECT_LIMIT / u32::try_from(hosts).unwrap_or(1));
        }
        if config.get_application_name().is_none() {
            config.application_name("basalt");
        }
        notice_dead_peers(&mut config);
        if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            config.ssl_mode(SslMode::Disable);
        }
        Self { config: Arc::new(config), tls: MakeRustlsConnect::new(tls::client_config()) }
    }

    /// The same database, without verification of the server's certificate.
    #[must_use]
    pub fn without_certificate_checks(&self) -> Self {
        Self { config: Arc::clone(&self.config), tls: MakeRustlsConnect::new(unverified::tls_config()) }
    }

    /// The same server and database under another login.
    #[must_use]
    pub fn with_login(&self, user: &str, password: &str) -> Self {
        let mut config = (*self.config).clone();
        config.user(user).password(password);
        Self { config: Arc::new(config), tls: self.tls.clone() }
    }

    /// The same login, assuming `role` and the search path at the start of each session. PostgreSQL rejects the
    /// connection of a login that may not assume the role.
    #[must_use]
    pub fn acting_as(&self, role: &str, search_path: &str) -> Self {
        self.with_options(&format!("-c role={role} -c search_path={search_path}"))
    }

    /// The same login with additional server settings per session: `-c name=value`, separated by spaces.
    #[must_use]
    pub fn with_options(&self, options: &str) -> Self {
        let mut config = (*self.config).clone();
        let given = config.get_options().map(|given| format!("{given} ")).unwrap_or_default();
        config.options(format!("{given}{options}"));
        Self { config: Arc::new(config), tls: self.tls.clone() }
    }

    /// The underlying `tokio_postgres` configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Time limit for connecting and logging in to one host.
    pub(crate) fn connect_limit(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT_LIMIT)
    }

    /// `host:port/database` for messages; no credentials.
    #[must_use]
    pub fn describe(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "?".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres");
        format!("{host}:{port}/{database}")
    }

    /// Opens a connection and leaves its driver half to the caller, who polls it for notifications.
    ///
    /// # Errors
    /// The server is unreachable or rejects the login.
    pub async fn connect_raw(&self) -> Result<(Client, DriverConnection), DriverError> {
        Ok(self.config.connect(self.tls.clone()).await?)
    }

    /// Opens a connection driven by a task that holds nothing but the socket and ends when the client is dropped. No
    /// tracker waits for the task, because it lives as long as its pool.
    ///
    /// # Errors
    /// The server is unreachable or rejects the login.
    pub async fn connect(&self) -> Result<Client, DriverError> {
        let (client, connection) = self.connect_raw().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // The client's user gets the error; this line only records when it happened.
                tracing::debug!(error = with_cause(&error), "database connection ended");
            }
        });
        Ok(client)
    }

    /// The TLS connector for this database.
    pub(crate) const fn tls(&self) -> &MakeRustlsConnect {
        &self.tls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_omits_the_password() {
        let database = Database::from_url("postgresql://joe:secret@db.example:6000/app").unwrap();
        assert_eq!(database.describe(), "db.example:6000/app");
    }

    #[test]
    fn urls_without_a_valid_host_are_rejected() {
        assert!(matches!(Database::from_url("dbname=app"), Err(DatabaseUrlError::NoHost)));
        assert!(matches!(
            Database::from_url("postgresql://a:b@h:notaport/x"),
            Err(DatabaseUrlError::Invalid(_))
        ));
    }
}
