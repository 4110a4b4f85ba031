//! The database that a command uses: the running server's, the configured one, or the embedded one, started for the duration
//! of the command.

use std::time::Duration;

use basalt_core::keys::KeyMaterial;
use basalt_pg::database::Database;
use basalt_pg::key_store::KeyStore;
use basalt_pg::pool::{PoolConfig, ServicePool};
use basalt_pg::system_migrations::check_release;

use crate::banner::Console;
use crate::config::Config;
use crate::database_setup::{self, Options, Seed};
use crate::secrets::Secrets;
use basalt_postgres::Embedded;
use tokio_util::task::TaskTracker;

/// An open database, and what has to be stopped after its use.
pub(super) struct CommandDatabase {
    /// The secrets of this machine.
    pub(super) secrets: Secrets,
    admin: Database,
    /// Set if this command started PostgreSQL and must stop it.
    embedded: Option<Embedded>,
    pools: Vec<ServicePool>,
}

impl CommandDatabase {
    /// Opens the database. An external one must already be prepared: a command that only reads must not create roles.
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        Self::open_with(config, Some(&Options { seed: Seed::No, adopt: false })).await
    }

    /// [`Self::open`] without applying the project's files.
    pub(super) async fn open_as_it_is(config: &Config) -> anyhow::Result<Self> {
        Self::open_with(config, None).await
    }

    async fn open_with(config: &Config, project: Option<&Options>) -> anyhow::Result<Self> {
        let secrets = Secrets::load(config)?;
        if let Some(admin) = database_setup::running(config, &secrets) {
            return Ok(Self { secrets, admin, embedded: None, pools: Vec::new() });
        }
        if let Some(url) = &config.database.url {
            let admin = database_setup::external("database.url", url.expose_secret(), config)?;
            let client = database_setup::connect(&admin).await?;
            check_release(&client, &database_setup::service_migrations()).await?;
            check_prepared(&client).await?;
            secrets.check_instance(&client).await?;
            return Ok(Self { secrets, admin, embedded: None, pools: Vec::new() });
        }
        let console = Console::new(false);
        let progress = |line: &str| console.progress(line);
        let databases = match project {
            Some(options) => database_setup::prepare(config, &secrets, options, progress).await?,
            None => database_setup::prepare_without_project(config, &secrets, progress).await?,
        };
        Ok(Self { secrets, admin: databases.admin, embedded: databases.embedded, pools: Vec::new() })
    }

    /// Like [`Self::open`], but returns `None` instead of starting PostgreSQL or waiting long; for commands that only read.
    pub(super) async fn if_running(config: &Config) -> Option<Self> {
        const TIMEOUT: Duration = Duration::from_secs(3);
        let secrets = Secrets::load(config).ok()?;
        if config.database.url.is_none() && database_setup::running(config, &secrets).is_none() {
            return None;
        }
        tokio::time::timeout(TIMEOUT, Self::open(config)).await.ok()?.ok()
    }

    /// The system's login.
    pub(super) const fn admin(&self) -> &Database {
        &self.admin
    }

    /// A connection of the system's login, outside any pool.
    pub(super) async fn connect(&self) -> anyhow::Result<tokio_postgres::Client> {
        Ok(database_setup::connect(&self.admin).await?)
    }

    /// A pool of the system's login.
    pub(super) fn system_pool(&mut self) -> ServicePool {
        self.pool(self.admin.clone())
    }

    /// A pool that acts as the owner of schema `auth`.
    pub(super) fn auth_pool(&mut self) -> ServicePool {
        self.pool(self.admin.acting_as("supabase_auth_admin", "auth"))
    }

    /// A pool that acts as the owner of schema `storage`.
    pub(super) fn storage_pool(&mut self) -> ServicePool {
        self.pool(self.admin.acting_as(database_setup::STORAGE_ADMIN, "storage"))
    }

    /// A pool that acts as `service_role`, like the pool of functions.
    pub(super) fn functions_pool(&mut self) -> ServicePool {
        self.pool(self.admin.acting_as("service_role", "public"))
    }

    /// The keys stored in the database.
    pub(super) fn key_store(&mut self) -> KeyStore {
        let pool = self.system_pool();
        KeyStore::new(pool, self.secrets.master_key())
    }

    /// The keys of this machine.
    pub(super) fn material(&self) -> KeyMaterial {
        self.secrets.key_material()
    }

    /// Closes the pools, and stops PostgreSQL if this command started it.
    pub(super) async fn close(self) {
        for pool in self.pools {
            pool.close();
        }
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }

    fn pool(&mut self, database: Database) -> ServicePool {
        let pool = ServicePool::new(database, PoolConfig::new("cli", 1), TaskTracker::new());
        self.pools.push(pool.clone());
        pool
    }
}

async fn check_prepared(client: &tokio_postgres::Client) -> anyhow::Result<()> {
    const IS_PREPARED: &str = "
        select to_regclass('auth.users') is not null and to_regclass('basalt.signing_keys') is not null";
    let row = client.query_one(IS_PREPARED, &[]).await?;
    if row.try_get(0)? {
        Ok(())
    } else {
        anyhow::bail!(
            "the database of database.url has not been prepared by this release: run `basalt migrate`, or start the server"
        )
    }
}
