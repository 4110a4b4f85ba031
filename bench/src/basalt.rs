//! The server under test, with a fresh data folder and the project in `bench/project`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio_postgres::{Config, NoTls};

use crate::process::{Running, free_port};
use crate::{http, token};

const START: Duration = Duration::from_secs(60);

/// A running Basalt and the way to its database.
pub(crate) struct Basalt {
    pub(crate) running: Running,
    pub(crate) port: u16,
    /// Host of the database as libpq takes it: the socket's folder where we may use it, as the server does, else loopback.
    pub(crate) database_host: String,
    pub(crate) database_port: u16,
    /// `18.4` and the like.
    pub(crate) database_version: String,
    folder: PathBuf,
}

impl Basalt {
    pub(crate) async fn start(server: &Path, work: &Path) -> Result<Self> {
        let folder = work.join(format!("data-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
        let (port, database_port) = (free_port()?, free_port()?);
        let mut command = Command::new(server);
        command.args(["serve", "--project", "bench/project", "--data"]).arg(&folder);
        command.args(["--port", &port.to_string(), "--db-port", &database_port.to_string()]);
        command
            .env("BASALT_JWT_SECRET", token::JWT_SECRET)
            .env("BASALT_SERVER_MASTER_KEY", token::MASTER_KEY);
        // PostgREST logs no requests by default either.
        command.env("BASALT_SERVER_LOG", "warn");
        let log = work.join("basalt.log");
        let running = Running::start("basalt", &mut command, &log)?;
        let mut basalt = Self {
            running,
            port,
            database_host: "127.0.0.1".to_owned(),
            database_port,
            database_version: String::new(),
            folder,
        };
        let deadline = Instant::now() + START;
        while http::status(port, "/ready").await != Some(200) {
            basalt.running.check().with_context(|| format!("see {}", log.display()))?;
            if Instant::now() > deadline {
                bail!("basalt was not ready after {} s; see {}", START.as_secs(), log.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        basalt.ask_database().await?;
        Ok(basalt)
    }

    /// Finds out its version, and where its socket lies: all three contenders take the same way to it.
    async fn ask_database(&mut self) -> Result<()> {
        let (client, connection) = self
            .login("127.0.0.1", "supabase_admin")
            .connect(NoTls)
            .await
            .context("no connection to the database")?;
        let driver = tokio::spawn(connection);
        let row = client
            .query_one(
                "select current_setting('unix_socket_directories'), current_setting('server_version')",
                &[],
            )
            .await
            .context("the database does not answer")?;
        let (sockets, version): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        self.database_version = version;
        drop(client);
        driver.await??;
        let socket = sockets.split(',').next().unwrap_or_default().trim().to_owned();
        if !socket.is_empty()
            && let Ok((client, connection)) = self.login(&socket, "authenticator").connect(NoTls).await
        {
            let driver = tokio::spawn(connection);
            drop(client);
            driver.await??;
            self.database_host = socket;
        }
        Ok(())
    }

    /// A connection as the cluster's superuser, for what no contender may do.
    pub(crate) async fn database(&self) -> Result<tokio_postgres::Client> {
        let (client, connection) = self
            .login("127.0.0.1", "supabase_admin")
            .connect(NoTls)
            .await
            .context("no connection to the database")?;
        // It ends when the client is dropped.
        tokio::spawn(connection);
        Ok(client)
    }

    fn login(&self, host: &str, role: &str) -> Config {
        let mut config = Config::new();
        config.host(host).port(self.database_port).dbname("postgres");
        config.user(role).password(token::role_password(role));
        config
    }
}

impl Drop for Basalt {
    fn drop(&mut self) {
        // The folder goes when the server is gone; a field would be dropped after this.
        self.running.stop();
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
