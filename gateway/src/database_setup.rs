//! From configuration to databases that are ready for requests: PostgreSQL started or reached, roles and schemas in
//! place, the project's migrations and policies applied. Used by `serve`, `migrate` and `user create`.

use std::time::Duration;

use basalt_pg::database::Database;
use basalt_pg::pg_error::DriverError;
use basalt_pg::system_migrations::{self, Layout, MigrationSettings, SystemMigration};
use basalt_project::{MigrateOptions, Project};
use secrecy::ExposeSecret;
use tokio_postgres::Client;

use crate::built_in::built_in;
use crate::config::Config;
use crate::demo_accounts;
use crate::secrets::{Secrets, SecretsError};
use basalt_postgres::{Embedded, EmbeddedConfig, EmbeddedError, SUPERUSER};

/// The logins the server uses, and the PostgreSQL it owns, if it does.
pub struct Databases {
    /// Ours to stop, last of all.
    pub embedded: Option<Embedded>,
    /// System work: `supabase_admin`, or the login of `database.url`. Never a request.
    pub admin: Database,
    /// All request work.
    pub authenticator: Database,
    /// The auth service.
    pub auth: Database,
}

/// Why the database is not ready; each text is a sentence with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Ours did not start.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// `database.url` or `database.authenticator_url` is no URL.
    #[error("{key}: {reason}")]
    Url {
        /// The setting.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The server does not answer, or refuses the login.
    #[error("PostgreSQL at {address} {reason}")]
    Connect {
        /// Where.
        address: String,
        /// What it said and what to do.
        reason: String,
    },
    /// The login cannot do auth's work.
    #[error(
        "PostgreSQL at {address}: the login {login} may not act as supabase_auth_admin; let a superuser run: \
         grant supabase_auth_admin to {login}"
    )]
    Guest {
        /// Where.
        address: String,
        /// The login of `database.url`.
        login: String,
    },
    /// Too old or too new.
    #[error("PostgreSQL at {address} is version {version}; Basalt works with 15 to 18")]
    Version {
        /// Where.
        address: String,
        /// Its version.
        version: String,
    },
    /// The secrets folder, or a database that belongs to a server with other secrets.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The login of `database.url` lacks rights.
    #[error(
        "the login of database.url lacks rights at {address} ({problem}): `basalt doctor` with the same settings lists what \
         it lacks and how to grant it"
    )]
    Rights {
        /// Where.
        address: String,
        /// What PostgreSQL said, and to what.
        problem: String,
    },
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

/// Roles whose passwords derive from the master key.
const LOGINS: [&str; 3] = ["authenticator", AUTH_ADMIN, "postgres"];

pub(crate) fn service_migrations() -> [&'static [SystemMigration]; 5] {
    [
        basalt_auth::MIGRATIONS,
        basalt_storage::MIGRATIONS,
        basalt_realtime::MIGRATIONS,
        basalt_functions::MIGRATIONS,
        built_in().map_or(&[], |built_in| built_in.migrations()),
    ]
}

/// Starts or reaches PostgreSQL and brings it up to date. `progress` hears a short sentence before each long step.
///
/// # Errors
/// What a person has to mend.
pub async fn prepare(
    config: &Config,
    secrets: &Secrets,
    options: &Options,
    mut progress: impl FnMut(&str) + Send,
) -> Result<Databases, SetupError> {
    let databases = open(config, secrets, &mut progress).await?;
    match bring_up_to_date(&databases, config, secrets, options, &mut progress).await {
        Ok(()) => Ok(databases),
        Err(error) => {
            // The caller has nothing to stop yet; leave no PostgreSQL behind.
            if let Some(embedded) = &databases.embedded {
                embedded.stop().await;
            }
            Err(error)
        }
    }
}

/// Starts PostgreSQL and brings the services' schemas up to date, whatever secrets the database was set up with.
///
/// # Errors
/// What a person has to mend.
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

/// What [`prepare`] does beyond starting.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// When the project's seed runs.
    pub seed: Seed,
    /// Whether migrations that another tool has applied are recorded as applied.
    pub adopt: bool,
}

/// When the project's seed runs; never twice on one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// Not now.
    No,
    /// On a database that the project meets for the first time, in development.
    NewDatabase,
    /// On any database that has not had it: the operator asked for it.
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
        // Its password belongs to the servers whose master key it derives from.
        admin.acting_as(AUTH_ADMIN, "auth")
    } else {
        login(AUTH_ADMIN)
    };
    Ok(Databases { authenticator, auth, embedded, admin })
}

/// What the embedded PostgreSQL is started with.
#[must_use]
pub fn embedded_config(config: &Config, secrets: &Secrets) -> EmbeddedConfig {
    let mut embedded = EmbeddedConfig::new(&config.server.state_dir, secrets.role_password(SUPERUSER));
    embedded.data_dir.clone_from(&config.database.data_dir);
    embedded.project_dir.clone_from(&config.project.dir);
    embedded.bin_dir.clone_from(&config.database.bin_dir);
    embedded.port = config.database.port;
    embedded
}

/// An external database, by URL.
///
/// # Errors
/// The URL cannot be used.
pub fn external(key: &'static str, url: &str, config: &Config) -> Result<Database, SetupError> {
    let database =
        Database::from_url(url).map_err(|error| SetupError::Url { key, reason: error.to_string() })?;
    Ok(if config.database.verify_certificate { database } else { database.without_certificate_checks() })
}

async fn bring_up_to_date(
    databases: &Databases,
    config: &Config,
    secrets: &Secrets,
    options: &Options,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<(), SetupError> {
    let mut client = apply_system_migrations(databases, config, secrets, progress).await?;
    if config.is_guest() {
        check_guest(&client, databases).await?;
        // The project is another server's.
        return Ok(());
    }
    if databases.embedded.is_some() {
        secrets.check_embedded(config, &client).await?;
    } else {
        secrets.check_instance(&client).await?;
    }
    if !config.is_development() {
        warn_of_demo_accounts(&client, config).await?;
    }
    let project = Project::open(&config.project.dir)?;
    let seeding = MigrateOptions {
        seed: match options.seed {
            Seed::No => false,
            Seed::NewDatabase => config.is_development(),
            Seed::Asked => true,
        },
        seed_existing: options.seed == Seed::Asked,
        adopt: options.adopt,
    };
    project.migrate(&mut client, &seeding, |line| progress(line)).await?;
    Ok(())
}

/// Brings roles and the services' schemas up to date.
async fn apply_system_migrations(
    databases: &Databases,
    config: &Config,
    secrets: &Secrets,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<Client, SetupError> {
    let mut client = connect(&databases.admin).await?;
    let settings = if config.is_guest() {
        MigrationSettings { passwords: Vec::new(), layout: Layout::Untouched }
    } else {
        MigrationSettings {
            passwords: LOGINS.iter().map(|role| (*role, secrets.role_password(role))).collect(),
            layout: Layout::Basalt,
        }
    };
    if databases.embedded.as_ref().is_some_and(Embedded::is_new) {
        progress("creating roles and schemas");
    }
    let report = system_migrations::apply(&mut client, &service_migrations(), &settings)
        .await
        .map_err(|error| lacking_rights(error, databases))?;
    for limit in &report.limits {
        tracing::warn!("{}: {}. To mend it, let a superuser run: {}", limit.what, limit.cost, limit.remedy);
    }
    for table in &report.protected {
        tracing::warn!(
            "row-level security was off on {table}, so every granted row was readable; it is on again"
        );
    }
    Ok(client)
}

/// A lack of rights has its own error; our own superuser lacks none.
fn lacking_rights(error: system_migrations::MigrationError, databases: &Databases) -> SetupError {
    const INSUFFICIENT_PRIVILEGE: &str = "42501";
    if databases.embedded.is_none() && error.code() == Some(INSUFFICIENT_PRIVILEGE) {
        SetupError::Rights { address: databases.admin.describe(), problem: error.to_string() }
    } else {
        error.into()
    }
}

/// A guest acts as the owner of schema `auth` by its own login.
async fn check_guest(client: &Client, databases: &Databases) -> Result<(), SetupError> {
    // PostgreSQL 16 tells membership from the right to become the role.
    const MAY: &str = "
        select pg_catalog.pg_has_role(current_user, 'supabase_auth_admin',
          case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end),
          current_user::text";
    let row = client.query_one(MAY, &[]).await.map_err(system_migrations::MigrationError::from)?;
    let may: bool = row.try_get(0).map_err(system_migrations::MigrationError::from)?;
    let login: String = row.try_get(1).map_err(system_migrations::MigrationError::from)?;
    if may { Ok(()) } else { Err(SetupError::Guest { address: databases.admin.describe(), login }) }
}

/// A production server warns of accounts whose passwords are public in the seed (DESIGN §12).
async fn warn_of_demo_accounts(client: &Client, config: &Config) -> Result<(), SetupError> {
    let accounts = demo_accounts::find(client, &config.project.dir);
    let accounts = accounts.await.map_err(system_migrations::MigrationError::from)?;
    if !accounts.is_empty() {
        let names = accounts.join(", ");
        tracing::warn!(
            "the seed's demo accounts are still here, with passwords that are public: {names}; delete them"
        );
    }
    Ok(())
}

/// Connects, with the reason and the remedy in words when it does not work.
///
/// # Errors
/// The server is away, too old, or refuses the login.
pub async fn connect(database: &Database) -> Result<Client, SetupError> {
    let address = database.describe();
    let client = connect_patiently(database)
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

/// Waits for a database that is starting up (57P03), and for one without a free connection (53300): our own predecessor
/// may still hold them.
async fn connect_patiently(database: &Database) -> Result<Client, DriverError> {
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

/// The driver's error and its remedy, to follow the server's address.
pub(crate) fn explain(error: &DriverError) -> String {
    match error {
        DriverError::Postgres(error) => match error.code.as_str() {
            "28P01" | "28000" => {
                let remedy = error.login_remedy().filter(|_| error.code == "28000");
                let remedy = remedy.unwrap_or("check user and password in the URL");
                format!("refuses the login ({}); {remedy}", error.message)
            }
            "3D000" => format!("has no such database ({}); create it or correct the URL", error.message),
            "53300" => "has no free connection; raise max_connections or lower database.pool_size".to_owned(),
            _ => format!("refuses the connection: {}", error.message),
        },
        DriverError::Connection(text) if text.contains("password missing") => {
            "asks for a password and the URL has none; write postgresql://user:password@host:5432/database"
                .to_owned()
        }
        DriverError::Connection(text) => {
            format!("does not answer ({text}); check host and port, and that PostgreSQL is running there")
        }
    }
}

/// The embedded PostgreSQL of another server that runs on this configuration's data, if there is one.
#[must_use]
pub fn running(config: &Config, secrets: &Secrets) -> Option<Database> {
    if config.database.url.is_some() {
        return None;
    }
    Embedded::running(&embedded_config(config, secrets)).map(Database::new)
}

/// A URL for `psql` to that PostgreSQL, as the owner of the project's objects, over its loopback port.
#[must_use]
pub fn running_url(config: &Config, secrets: &Secrets) -> Option<String> {
    const OWNER: &str = "postgres";
    let database = running(config, secrets)?;
    let port = database.config().get_ports().first()?;
    // The password is base64url: nothing in it needs escaping.
    let password = secrets.role_password(OWNER);
    Some(format!("postgresql://{OWNER}:{}@127.0.0.1:{port}/postgres", password.expose_secret()))
}
