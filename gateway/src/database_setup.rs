//! Prepares databases for requests: starts or connects to PostgreSQL, creates roles and schemas, and applies the project's
//! migrations and policies. Used by `serve`, `migrate` and `user create`.

use std::path::PathBuf;
use std::time::Duration;

use basalt_core::keys::ApiKeys;
use basalt_pg::database::Database;
use basalt_pg::pg_error::DriverError;
use basalt_pg::system_migrations::{self, Layout, MigrationSettings, MissingGrant, SystemMigration};
use basalt_project::supabase::{ServerValues, SupabaseSettings};
use basalt_project::{MigrateOptions, Project, SupabaseOptions};
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Client;

use crate::backup;
use crate::built_in::built_in;
use crate::config::Config;
use crate::demo_accounts;
use crate::project_check::{self, Unserved};
use crate::secrets::{Secrets, SecretsError};
use basalt_postgres::{Embedded, EmbeddedConfig, EmbeddedError, Remote, SUPERUSER};

/// The logins that the server uses, and its embedded PostgreSQL if it has one.
pub struct Databases {
    /// The server stops it last.
    pub embedded: Option<Embedded>,
    /// For system work: `supabase_admin`, or the login of `database.url`. Never used for requests.
    pub admin: Database,
    /// For all request work.
    pub authenticator: Database,
    /// For the auth service.
    pub auth: Database,
}

/// Why the database is not ready. Each message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The embedded PostgreSQL did not start.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// `database.url` or `database.authenticator_url` is not a valid URL.
    #[error("{key}: {reason}")]
    Url {
        /// The setting.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The server does not respond, or rejects the login.
    #[error("PostgreSQL at {address} {reason}")]
    Connect {
        /// Host and port.
        address: String,
        /// What failed, and what to do.
        reason: String,
    },
    /// The login cannot switch to the auth service's role.
    #[error(
        "PostgreSQL at {address}: the login {login} cannot switch to supabase_auth_admin; as a superuser, run: \
         grant supabase_auth_admin to {login}"
    )]
    Guest {
        /// Host and port.
        address: String,
        /// The login of `database.url`.
        login: String,
    },
    /// The server's version is not supported.
    #[error("PostgreSQL at {address} is version {version}; Basalt supports 15 to 18")]
    Version {
        /// Host and port.
        address: String,
        /// Its version.
        version: String,
    },
    /// The secrets cannot be loaded, or the database belongs to a server with other secrets.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The login of `database.url` lacks rights.
    #[error(
        "the login of database.url lacks rights at {address} ({problem}): run `basalt doctor` with the same settings to see which \
         rights are missing and how to grant them"
    )]
    Rights {
        /// Host and port.
        address: String,
        /// The statement that failed, and PostgreSQL's error.
        problem: String,
    },
    /// The automatic backup before an upgrade failed.
    #[error(
        "the database was not changed, because the backup before the upgrade failed: {0}. Fix this, or start the previous release"
    )]
    Backup(#[from] basalt_backup::BackupError),
    /// A system migration failed.
    #[error(transparent)]
    System(#[from] system_migrations::MigrationError),
    /// A file of the project failed.
    #[error(transparent)]
    Project(#[from] basalt_project::ProjectError),
}

/// The login of the auth service.
const AUTH_ADMIN: &str = "supabase_auth_admin";
/// Owns schema `storage`.
pub const STORAGE_ADMIN: &str = "supabase_storage_admin";

/// Owns the project's objects.
pub const OWNER: &str = "postgres";

/// Roles with a password of their own.
pub(crate) const LOGINS: [&str; 3] = ["authenticator", AUTH_ADMIN, OWNER];

/// The password of a login: derived from the master key, except for the owner of a Supabase project in development.
pub fn login_password(config: &Config, secrets: &Secrets, role: &str) -> SecretString {
    /// What Supabase's CLI uses with `--local`.
    const LOCAL: &str = "postgres";
    if role == OWNER && config.has_local_password() {
        return LOCAL.to_owned().into();
    }
    secrets.role_password(role)
}

pub(crate) fn service_migrations() -> [&'static [SystemMigration]; 6] {
    [
        basalt_backup::MIGRATIONS,
        basalt_auth::MIGRATIONS,
        basalt_storage::MIGRATIONS,
        basalt_realtime::MIGRATIONS,
        basalt_functions::MIGRATIONS,
        built_in().map_or(&[], |built_in| built_in.migrations()),
    ]
}

/// Starts or connects to PostgreSQL and brings it up to date. Calls `progress` with a short message before each long step.
///
/// # Errors
/// The operator has to fix something first; the message says what.
pub async fn prepare(
    config: &Config,
    secrets: &Secrets,
    options: &Options,
    mut progress: impl FnMut(&str) + Send,
) -> Result<Databases, SetupError> {
    if config.is_embedded() && !Embedded::has_cluster(&config.server.state_dir, &config.database.data_dir) {
        let Unserved { problems, notes } = project_check::unserved(config).await;
        for problem in problems {
            tracing::warn!("{problem}");
        }
        for note in notes {
            progress(&note);
        }
    }
    let databases = open(config, secrets, &mut progress).await?;
    let prepared = async {
        let Some(mut client) = prepare_services(&databases, config, secrets, &mut progress).await? else {
            return Ok(());
        };
        apply_project(&mut client, config, secrets.api_keys(), options, &mut progress).await
    };
    // A separate binding, so that `databases` is free again.
    let outcome = prepared.await;
    finish(databases, outcome).await
}

/// [`prepare`] without the files of the project.
///
/// # Errors
/// The operator has to fix something first; the message says what.
pub async fn prepare_without_project(
    config: &Config,
    secrets: &Secrets,
    mut progress: impl FnMut(&str) + Send,
) -> Result<Databases, SetupError> {
    let databases = open(config, secrets, &mut progress).await?;
    let outcome = prepare_services(&databases, config, secrets, &mut progress).await.map(|_| ());
    finish(databases, outcome).await
}

/// Drops the embedded database with everything in it and creates it again, empty.
///
/// # Errors
/// PostgreSQL does not start, or another session uses the database.
pub async fn recreate(
    config: &Config,
    secrets: &Secrets,
    mut progress: impl FnMut(&str) + Send,
) -> Result<(), SetupError> {
    let databases = open(config, secrets, &mut progress).await?;
    progress("deleting the database");
    let outcome = recreate_database(&databases.admin).await;
    let databases = finish(databases, outcome).await?;
    if let Some(embedded) = &databases.embedded {
        embedded.stop().await;
    }
    Ok(())
}

async fn recreate_database(admin: &Database) -> Result<(), SetupError> {
    // A subscription of realtime would keep the database from being dropped.
    const SLOTS: &str = "select pg_catalog.pg_drop_replication_slot(slot_name)
        from pg_catalog.pg_replication_slots where database = 'postgres'";
    let mut other = admin.config().clone();
    other.dbname("template1");
    let client = connect(&Database::new(other)).await?;
    for statement in [SLOTS, "drop database postgres with (force)", "create database postgres"] {
        client.batch_execute(statement).await.map_err(system_migrations::MigrationError::from)?;
    }
    Ok(())
}

/// Connects to an empty database and creates the services' schemas there, without changing logins.
///
/// # Errors
/// The database cannot be reached, or a system migration failed.
pub async fn prepare_shadow(shadow: &Database, config: &Config) -> Result<Client, SetupError> {
    let mut client = connect(shadow).await?;
    let settings =
        MigrationSettings { passwords: Vec::new(), layout: layout(config.project.supabase.as_ref()) };
    system_migrations::apply(&mut client, &service_migrations(), &settings).await?;
    Ok(client)
}

async fn finish(databases: Databases, outcome: Result<(), SetupError>) -> Result<Databases, SetupError> {
    match outcome {
        Ok(()) => Ok(databases),
        Err(error) => {
            // The caller has no handle to stop PostgreSQL with.
            if let Some(embedded) = &databases.embedded {
                embedded.stop().await;
            }
            Err(error)
        }
    }
}

/// Starts PostgreSQL and updates the services' schemas without checking the secrets.
///
/// # Errors
/// The operator has to fix something first; the message says what.
pub async fn prepare_for_reset(
    config: &Config,
    secrets: &Secrets,
    mut progress: impl FnMut(&str) + Send,
) -> Result<(Databases, Client), SetupError> {
    let databases = open(config, secrets, &mut progress).await?;
    match apply_system_migrations(&databases, config, secrets, &mut progress).await {
        Ok(client) => Ok((databases, client)),
        Err(error) => {
            if let Some(embedded) = &databases.embedded {
                embedded.stop().await;
            }
            Err(error)
        }
    }
}

/// Options of [`prepare`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// When to run the project's seed.
    pub seed: Seed,
    /// Whether to record migrations as applied that another tool has applied.
    pub adopt: bool,
}

/// When to run the project's seed. It never runs twice on one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// Not in this run.
    No,
    /// In development, on a database that has none of the project's migrations yet.
    NewDatabase,
    /// On any database that has not been seeded yet, at the operator's request.
    Asked,
}

async fn open(
    config: &Config,
    secrets: &Secrets,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<Databases, SetupError> {
    let (embedded, admin) = match &config.database.url {
        Some(url) => (None, external("database.url", url.expose_secret(), config)?),
        None => {
            let embedded = Embedded::start(embedded_config(config, secrets), progress).await?;
            let admin = Database::new(embedded.connect_config());
            (Some(embedded), admin)
        }
    };
    let login = |role: &str| admin.with_login(role, secrets.role_password(role).expose_secret());
    let authenticator = match &config.database.authenticator_url {
        Some(url) => external("database.authenticator_url", url.expose_secret(), config)?,
        None => login("authenticator"),
    };
    let auth = if config.is_guest() {
        // The role's password derives from the master key of the servers that own the database.
        admin.acting_as(AUTH_ADMIN, "auth")
    } else {
        login(AUTH_ADMIN)
    };
    Ok(Databases { authenticator, auth, embedded, admin })
}

/// The settings of the embedded PostgreSQL that do not depend on secrets; enough to find its programs and its data.
#[must_use]
pub fn paths_of_programs(config: &Config) -> EmbeddedConfig {
    EmbeddedConfig {
        data_dir: config.database.data_dir.clone(),
        project_dir: config.project.dir.clone(),
        bin_dir: config.database.bin_dir.clone(),
        port: config.database.port,
        ..EmbeddedConfig::new(&config.server.state_dir, SecretString::default())
    }
}

/// A client program of PostgreSQL, such as `pg_dump`, of at least the major version `oldest`.
///
/// # Errors
/// None was found; the message names the searched locations.
pub async fn client_program(config: &Config, name: &str, oldest: u32) -> Result<PathBuf, EmbeddedError> {
    Embedded::client_program(&paths_of_programs(config), name, oldest).await
}

/// The settings of the embedded PostgreSQL.
#[must_use]
pub fn embedded_config(config: &Config, secrets: &Secrets) -> EmbeddedConfig {
    let mut embedded = paths_of_programs(config);
    embedded.password = secrets.role_password(SUPERUSER);
    embedded.vault_key = Some(secrets.vault_key());
    let database = &config.database;
    if let (Some(address), Some(certificate), Some(key)) =
        (database.listen, &database.tls_certificate, &database.tls_key)
    {
        embedded.remote = Some(Remote { address, certificate: certificate.clone(), key: key.clone() });
    }
    if config.backup.archives() {
        let limit = format!("{}MB", config.backup.max_kept_log >> 20);
        embedded.settings.push(("max_slot_wal_keep_size".to_owned(), limit));
    }
    embedded
}

/// Parses the URL of an external database.
///
/// # Errors
/// The URL is invalid.
pub fn external(key: &'static str, url: &str, config: &Config) -> Result<Database, SetupError> {
    let database =
        Database::from_url(url).map_err(|error| SetupError::Url { key, reason: error.to_string() })?;
    Ok(if config.database.verify_certificate { database } else { database.without_certificate_checks() })
}

/// Brings roles and the services' schemas up to date. Returns the connection, unless another server owns the project.
async fn prepare_services(
    databases: &Databases,
    config: &Config,
    secrets: &Secrets,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<Option<Client>, SetupError> {
    let client = apply_system_migrations(databases, config, secrets, progress).await?;
    if config.is_guest() {
        check_guest(&client, databases).await?;
        return Ok(None);
    }
    if databases.embedded.is_some() {
        secrets.check_embedded(config, &client).await?;
    } else {
        secrets.check_instance(&client).await?;
    }
    if !config.is_development() {
        warn_of_demo_accounts(&client, config).await?;
    }
    Ok(Some(client))
}

/// Applies the files of the project that the database lacks.
///
/// # Errors
/// A file failed, the connection broke, or another server holds the lock.
pub async fn apply_project(
    client: &mut Client,
    config: &Config,
    api_keys: &ApiKeys,
    options: &Options,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<(), SetupError> {
    let project = Project::open(&config.project.dir)?;
    let seed = match options.seed {
        Seed::No => false,
        Seed::NewDatabase => config.is_development(),
        Seed::Asked => true,
    };
    let seed_existing = options.seed == Seed::Asked;
    let Some(settings) = &config.project.supabase else {
        let options = MigrateOptions { seed, seed_existing, adopt: options.adopt };
        project.migrate(client, &options, |line| progress(line)).await?;
        return Ok(());
    };
    let options = SupabaseOptions {
        settings: settings.clone(),
        strict: config.project.is_strict,
        seed,
        seed_existing,
        server: Some(ServerValues {
            url: config.server.public_url.to_string().trim_end_matches('/').to_owned(),
            anon_key: api_keys.anon.clone().into(),
            service_key: api_keys.service.clone(),
        }),
    };
    let report = project.apply_supabase(client, &options, |line| progress(line)).await?;
    for failure in &report.failed {
        tracing::warn!("{failure}");
    }
    for line in report.lines() {
        progress(&line);
    }
    let granted = system_migrations::restore_grants(client).await?;
    if let Some(MissingGrant { object, grant, .. }) = granted.first() {
        let count = granted.len();
        progress(&format!(
            "restored {count} grants on the services' objects that the files revoke, the first: {grant} on {object}"
        ));
    }
    Ok(())
}

/// The default privileges of the project's objects.
const fn layout(settings: Option<&SupabaseSettings>) -> Layout {
    match settings {
        None => Layout::Basalt,
        Some(SupabaseSettings { exposes_new_tables: true, .. }) => Layout::Supabase,
        Some(SupabaseSettings { exposes_new_tables: false, .. }) => Layout::SupabaseUnexposed,
    }
}

/// Brings roles and the services' schemas up to date.
async fn apply_system_migrations(
    databases: &Databases,
    config: &Config,
    secrets: &Secrets,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<Client, SetupError> {
    let mut client = connect(&databases.admin).await?;
    if databases.embedded.as_ref().is_some_and(|embedded| !embedded.is_new()) {
        let missing = system_migrations::missing_migrations(&client, &service_migrations()).await?;
        if !missing.is_empty() {
            Box::pin(backup::before_upgrade(config, secrets, &databases.admin, progress)).await?;
        }
    }
    let settings = if config.is_guest() {
        MigrationSettings { passwords: Vec::new(), layout: Layout::Untouched }
    } else {
        MigrationSettings {
            passwords: LOGINS.iter().map(|role| (*role, login_password(config, secrets, role))).collect(),
            layout: layout(config.project.supabase.as_ref()),
        }
    };
    if databases.embedded.as_ref().is_some_and(Embedded::is_new) {
        progress("creating roles and schemas");
    }
    let report = system_migrations::apply(&mut client, &service_migrations(), &settings)
        .await
        .map_err(|error| into_setup_error(error, databases))?;
    for limit in &report.limits {
        tracing::warn!("{}: {}. To fix this, run as a superuser: {}", limit.what, limit.cost, limit.remedy);
    }
    for table in &report.returned {
        tracing::warn!(
            "the table {table} of a service belonged to another role; its owner has been restored"
        );
    }
    for table in &report.protected {
        tracing::warn!(
            "row-level security was disabled on {table}, so every granted row was readable; it has been enabled again"
        );
    }
    for MissingGrant { object, grant, .. } in &report.granted {
        tracing::warn!("{object} lacked a grant of its service ({grant}); it has been restored");
    }
    Ok(client)
}

/// Converts a permission error into its own variant; the embedded PostgreSQL's superuser cannot get one.
fn into_setup_error(error: system_migrations::MigrationError, databases: &Databases) -> SetupError {
    const INSUFFICIENT_PRIVILEGE: &str = "42501";
    if databases.embedded.is_none() && error.code() == Some(INSUFFICIENT_PRIVILEGE) {
        SetupError::Rights { address: databases.admin.describe(), problem: error.to_string() }
    } else {
        error.into()
    }
}

/// Checks that the login can switch to the owner of schema `auth`.
async fn check_guest(client: &Client, databases: &Databases) -> Result<(), SetupError> {
    // PostgreSQL 16 separates membership from the right to SET ROLE.
    const MAY: &str = "
        select pg_catalog.pg_has_role(current_user, 'supabase_auth_admin',
          case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end),
          current_user::text";
    let row = client.query_one(MAY, &[]).await.map_err(system_migrations::MigrationError::from)?;
    let may: bool = row.try_get(0).map_err(system_migrations::MigrationError::from)?;
    let login: String = row.try_get(1).map_err(system_migrations::MigrationError::from)?;
    if may { Ok(()) } else { Err(SetupError::Guest { address: databases.admin.describe(), login }) }
}

/// Warns about accounts on a production server whose passwords are public in the seed (DESIGN §12).
async fn warn_of_demo_accounts(client: &Client, config: &Config) -> Result<(), SetupError> {
    let accounts = demo_accounts::find(client, &config.project.dir);
    let accounts = accounts.await.map_err(system_migrations::MigrationError::from)?;
    if !accounts.is_empty() {
        let names = accounts.join(", ");
        tracing::warn!(
            "the seed's demo accounts still exist and their passwords are public: {names}; delete them"
        );
    }
    Ok(())
}

/// Connects; an error explains the cause and the remedy.
///
/// # Errors
/// The server does not respond, has an unsupported version, or rejects the login.
pub async fn connect(database: &Database) -> Result<Client, SetupError> {
    let address = database.describe();
    let client = connect_with_retry(database)
        .await
        .map_err(|error| SetupError::Connect { address: address.clone(), reason: explain(&error) })?;
    let row = client
        .query_one("show server_version", &[])
        .await
        .map_err(system_migrations::MigrationError::from)?;
    let version: String = row.try_get(0).map_err(system_migrations::MigrationError::from)?;
    let major = version.split(['.', ' ']).next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(15..=18) => Ok(client),
        _ => Err(SetupError::Version { address, version }),
    }
}

/// Retries while the database is starting up (57P03) or has no free connection (53300): a server that is just stopping
/// may still hold them.
async fn connect_with_retry(database: &Database) -> Result<Client, DriverError> {
    const PAUSE: Duration = Duration::from_millis(200);
    let mut tries = 50;
    loop {
        match database.connect().await {
            Err(DriverError::Postgres(error))
                if matches!(error.code.as_str(), "57P03" | "53300") && tries > 0 =>
            {
                tries -= 1;
                tokio::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}

/// Describes the error and its remedy; the text follows the server's address.
pub(crate) fn explain(error: &DriverError) -> String {
    match error {
        DriverError::Postgres(error) => match error.code.as_str() {
            "28P01" | "28000" => {
                let remedy = error.login_remedy().filter(|_| error.code == "28000");
                let remedy = remedy.unwrap_or("check the user and password in the URL");
                format!("rejects the login ({}); {remedy}", error.message)
            }
            "3D000" => format!("has no such database ({}); create it or correct the URL", error.message),
            "53300" => "has no free connection; raise max_connections or lower database.pool_size".to_owned(),
            _ => format!("rejects the connection: {}", error.message),
        },
        DriverError::Connection(text) if text.contains("password missing") => {
            "requires a password, and the URL has none; use postgresql://user:password@host:5432/database"
                .to_owned()
        }
        DriverError::Connection(text) => {
            format!("does not respond ({text}); check host and port, and that PostgreSQL is running")
        }
    }
}

/// The embedded PostgreSQL that another process has started on this configuration's data folder, if it is running.
#[must_use]
pub fn running(config: &Config, secrets: &Secrets) -> Option<Database> {
    if config.database.url.is_some() {
        return None;
    }
    Embedded::running(&embedded_config(config, secrets)).map(Database::new)
}

/// A `psql` URL for the running embedded PostgreSQL, as the owner of the project's objects, on its loopback port.
#[must_use]
pub fn running_url(config: &Config, secrets: &Secrets) -> Option<String> {
    let database = running(config, secrets)?;
    let port = database.config().get_ports().first()?;
    // The password is base64url and needs no escaping.
    let password = login_password(config, secrets, OWNER);
    Some(format!("postgresql://{OWNER}:{}@127.0.0.1:{port}/postgres", password.expose_secret()))
}
