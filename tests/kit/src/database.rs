//! A database of the cluster, dropped with its value.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Config, SimpleQueryMessage};

use crate::cluster::{Cluster, connect};
use crate::runtime::{block_on, on_runtime};

/// Rows as text; `None` is NULL.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// A database used by one test.
#[derive(Debug)]
pub struct TestDatabase {
    cluster: &'static Cluster,
    name: String,
    /// The role that statements of [`sql`](Self::sql) run as; `None` is the superuser.
    owner: Option<&'static str>,
}

impl TestDatabase {
    pub(crate) fn new(cluster: &'static Cluster, name: String, owner: Option<&'static str>) -> Self {
        Self { cluster, name, owner }
    }

    /// An empty database in this process's cluster.
    pub async fn create() -> Self {
        Cluster::get().await.empty_database().await
    }

    /// Its name in the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its cluster.
    #[must_use]
    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// The superuser's URL over TCP.
    #[must_use]
    pub fn url(&self) -> String {
        Cluster::url("supabase_admin", self.cluster.port(), &self.name)
    }

    /// Configuration of a superuser connection over the socket.
    #[must_use]
    pub fn config(&self) -> Config {
        self.cluster.config(&self.name)
    }

    /// Runs statements as `postgres`, the owner of a project's objects (in an empty database as superuser), and returns the
    /// rows of the last statement as text.
    ///
    /// # Panics
    /// If a statement fails.
    pub async fn sql(&self, statements: &str) -> Rows {
        let (config, owner) = (self.config(), self.owner);
        let statements = statements.to_owned();
        on_runtime(async move {
            let connection = Connection::open(config).await;
            if let Some(owner) = owner {
                connection.run(&format!("set session authorization {owner}")).await;
            }
            connection.run(&statements).await
        })
        .await
    }

    /// As [`sql`](Self::sql), but as superuser.
    ///
    /// # Panics
    /// If a statement fails.
    pub async fn admin_sql(&self, statements: &str) -> Rows {
        let config = self.config();
        let statements = statements.to_owned();
        on_runtime(async move { Connection::open(config).await.run(&statements).await }).await
    }

    /// The first column of the first row, as superuser.
    ///
    /// # Panics
    /// If the statement fails, or returns no row or NULL.
    pub async fn value(&self, statement: &str) -> String {
        let rows = self.admin_sql(statement).await;
        let first = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        first.unwrap_or_else(|| panic!("no value from {statement}"))
    }

    /// The number of rows in a table.
    ///
    /// # Panics
    /// If the table does not exist.
    pub async fn count(&self, table: &str) -> i64 {
        self.value(&format!("select count(*) from {table}")).await.parse().expect("a count is a number")
    }

    /// The number of running statements like `pattern`, without this query.
    pub async fn running(&self, pattern: &str) -> i64 {
        let pattern = pattern.replace('\'', "''");
        let statement = format!(
            "select count(*) from pg_stat_activity where datname = '{}' and state = 'active'
             and query like '{pattern}' and pid <> pg_backend_pid()",
            self.name
        );
        self.value(&statement).await.parse().expect("a count is a number")
    }

    /// Runs `statements` as superuser on a connection that stays open, so that their locks are held until the value is dropped.
    /// A test controls with such a lock how long an `/rpc` function takes.
    ///
    /// # Panics
    /// If a statement fails.
    pub async fn hold(&self, statements: &str) -> Held {
        let config = self.config();
        let statements = statements.to_owned();
        on_runtime(async move {
            let connection = Connection::open(config).await;
            connection.run(&statements).await;
            Held { _connection: connection }
        })
        .await
    }

    /// Waits until a statement like `pattern` is in `pg_sleep`.
    ///
    /// # Panics
    /// If none is within a minute.
    pub async fn until_asleep(&self, pattern: &str) {
        let statement = format!(
            "select count(*) from pg_stat_activity where datname = '{}' and wait_event = 'PgSleep'
             and query like '{}'",
            self.name,
            pattern.replace('\'', "''")
        );
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.value(&statement).await == "0" {
            assert!(Instant::now() < deadline, "no sleeping statement like {pattern}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Connections to this database, without the kit's own.
    pub(crate) async fn connections(&self) -> Vec<String> {
        let statement = format!(
            "select coalesce(usename, '') || ' ' || coalesce(state, '') || ' ' || query from pg_stat_activity
             where datname = '{}' and application_name <> 'testkit' and backend_type = 'client backend'",
            self.name
        );
        let rows = self.cluster.run(statement).await.unwrap_or_else(|error| panic!("{error}"));
        rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!("drop database if exists {} with (force)", self.name);
        // The cluster is removed soon anyway; an error here must not hide the test's own.
        if let Err(error) = block_on(self.cluster.run(statement)) {
            eprintln_line(&error);
        }
    }
}

/// Writes to the test's output.
#[expect(clippy::print_stderr, reason = "part of the test's output")]
pub(crate) fn eprintln_line(line: &str) {
    eprintln!("{line}");
}

/// Locks held until this is dropped; see [`TestDatabase::hold`].
#[derive(Debug)]
#[must_use = "dropping it releases the locks"]
pub struct Held {
    _connection: Connection,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection(Client);

impl Connection {
    pub(crate) async fn open(config: Config) -> Self {
        Self(connect(config).await)
    }

    /// Whether the connection is open.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.is_closed()
    }

    /// Runs statements and returns the rows of the last one.
    pub(crate) async fn run(&self, statements: &str) -> Rows {
        self.try_run(statements).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`run`](Self::run); errors contain the statements.
    pub(crate) async fn try_run(&self, statements: &str) -> Result<Rows, String> {
        let messages = self.0.simple_query(statements).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            format!("{error}: {cause}\nin: {statements}")
        })?;
        let mut rows = Vec::new();
        for message in messages {
            if matches!(message, SimpleQueryMessage::RowDescription(_)) {
                rows.clear();
            }
            if let SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
            }
        }
        Ok(rows)
    }
}
