//! The server under test, with a new data directory and the project in `tests/bench/project` or the planning app.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio_postgres::{Config, NoTls};

use crate::process::{Running, free_port};
use crate::{http, token};

const START: Duration = Duration::from_secs(60);

/// The folder for what runs leave, once there is a server to run.
pub(crate) fn work_folder(server: &Path) -> Result<&'static Path> {
    ensure!(server.is_file(), "{} is missing; run `cargo build --release -p basalt`", server.display());
    let work = Path::new("target/bench");
    std::fs::create_dir_all(work).context("cannot create target/bench; run this in the repository root")?;
    Ok(work)
}

/// A running Basalt and the way to its database.
pub(crate) struct Basalt {
    pub(crate) running: Running,
    pub(crate) port: u16,
    /// Of its metrics.
    pub(crate) admin_port: u16,
    /// Host of the database as libpq takes it: the socket's folder where we may use it, as the server does, else loopback.
    pub(crate) database_host: String,
    pub(crate) database_port: u16,
    /// `18.4` and the like.
    pub(crate) database_version: String,
    folder: PathBuf,
    project: &'static str,
    /// Further settings, as variables.
    settings: Vec<(&'static str, String)>,
}

impl Basalt {
    pub(crate) async fn start(server: &Path, work: &Path) -> Result<Self> {
        Self::start_with(server, work, &[]).await
    }

    /// With these settings.
    pub(crate) async fn start_with(
        server: &Path,
        work: &Path,
        settings: &[(&'static str, String)],
    ) -> Result<Self> {
        Self::start_project(server, work, "tests/bench/project", settings).await
    }

    /// The planning app, with these settings.
    pub(crate) async fn start_app(
        server: &Path,
        work: &Path,
        settings: &[(&'static str, String)],
    ) -> Result<Self> {
        Self::start_project(server, work, ".", settings).await
    }

    async fn start_project(
        server: &Path,
        work: &Path,
        project: &'static str,
        settings: &[(&'static str, String)],
    ) -> Result<Self> {
        let folder = work.join(format!("data-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
        let ports = Ports { api: free_port()?, admin: free_port()?, database: free_port()? };
        let mut basalt = Self {
            running: spawn(server, work, &folder, &ports, project, settings)?,
            port: ports.api,
            admin_port: ports.admin,
            database_host: "127.0.0.1".to_owned(),
            database_port: ports.database,
            database_version: String::new(),
            folder,
            project,
            settings: settings.to_vec(),
        };
        basalt.wait_until_ready(work).await?;
        basalt.ask_database().await?;
        Ok(basalt)
    }

    /// Restarts it on the same data.
    pub(crate) async fn restart(&mut self, server: &Path, work: &Path) -> Result<()> {
        self.running.stop();
        let ports = Ports { api: self.port, admin: self.admin_port, database: self.database_port };
        self.running = spawn(server, work, &self.folder, &ports, self.project, &self.settings)?;
        self.wait_until_ready(work).await
    }

    /// Raises `max_connections`, which takes a restart: the pools of all contenders and pgbench's connections are more than the usual 100.
    pub(crate) async fn allow_connections(&mut self, most: u16, server: &Path, work: &Path) -> Result<()> {
        let database = self.database().await?;
        database.batch_execute(&format!("alter system set max_connections = {most}")).await?;
        drop(database);
        self.restart(server, work).await
    }

    async fn wait_until_ready(&mut self, work: &Path) -> Result<()> {
        let deadline = Instant::now() + START;
        while http::status(self.port, "/ready").await != Some(200) {
            self.running.check().with_context(|| format!("see {}", log_file(work).display()))?;
            if Instant::now() > deadline {
                bail!("basalt was not ready after {} s; see {}", START.as_secs(), log_file(work).display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Reads its version and socket path: all three contenders connect through the socket.
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

    /// Its data directory.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A connection as the cluster's superuser, for what no contender may do.
    pub(crate) async fn database(&self) -> Result<tokio_postgres::Client> {
        let (client, connection) = self
            .login("127.0.0.1", "supabase_admin")
            .connect(NoTls)
            .await
            .context("no connection to the database")?;
        // The task ends when the client is dropped.
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

struct Ports {
    api: u16,
    admin: u16,
    database: u16,
}

fn log_file(work: &Path) -> PathBuf {
    work.join("basalt.log")
}

fn spawn(
    server: &Path,
    work: &Path,
    folder: &Path,
    ports: &Ports,
    project: &str,
    settings: &[(&'static str, String)],
) -> Result<Running> {
    let mut command = Command::new(server);
    command.args(["serve", "--project", project, "--data"]).arg(folder);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    command.args(["--port", &ports.api.to_string(), "--db-port", &ports.database.to_string()]);
    command.env("BASALT_SERVER_ADMIN_PORT", ports.admin.to_string());
    command.env("BASALT_JWT_SECRET", token::JWT_SECRET).env("BASALT_SERVER_MASTER_KEY", token::MASTER_KEY);
    // All requests come from one client.
    command.env("BASALT_AUTH_RATE_LIMIT_TOKEN_REFRESH", "0").env("BASALT_AUTH_RATE_LIMIT_OTP", "0");
    // A 1 GB upload is measured too.
    command.env("BASALT_STORAGE_MAX_FILE_SIZE", "2GiB");
    // PostgREST logs no requests by default either.
    command.env("BASALT_SERVER_LOG", "warn");
    Running::start("basalt", &mut command, &log_file(work))
}

impl Drop for Basalt {
    fn drop(&mut self) {
        // The folder goes when the server is gone; a field would be dropped after this.
        self.running.stop();
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
