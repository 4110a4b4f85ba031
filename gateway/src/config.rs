//! Configuration: `basalt.toml`, `BASALT_*` variables and options become one checked [`Config`] at startup. All mistakes are
//! reported together, each with its location and remedy. No other module reads the environment. [`crate::secrets`]
//! generates secrets that are not configured.
//!
//! A setting is one line in the table of its section: the services' tables are in their crates, the others in `server`,
//! `database` and `sections`.

mod database;
mod foreign;
mod gotrue;
mod libpq;
mod nearest;
pub mod postgrest;
pub mod print;
mod raw;
mod resolve;
mod sections;
mod server;
mod supabase;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use basalt_functions::built_in::ConfiguredBuiltIn;

pub use basalt_core::settings::{BaseUrl, Fault, Setting, Source};

pub use basalt_http::address::ListenHost;
pub use database::{Database, DatabaseUrl};
use raw::{Origin, RawConfig};
pub use sections::{Jwt, Mail, Project, settings};
pub use server::{LogFormat, Mode, Server};

/// A service that can run on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// `/rest/v1`, like PostgREST; it creates nothing in the database.
    Rest,
    /// `/auth/v1`, like GoTrue.
    Auth,
    /// `/storage/v1`.
    Storage,
    /// `/realtime/v1`.
    Realtime,
    /// `/functions/v1`.
    Functions,
}

impl Only {
    /// All services.
    pub const ALL: [Self; 5] = [Self::Rest, Self::Auth, Self::Storage, Self::Realtime, Self::Functions];

    /// The service's name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Auth => "auth",
            Self::Storage => "storage",
            Self::Realtime => "realtime",
            Self::Functions => "functions",
        }
    }

    /// The service with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|only| only.as_str() == name)
    }
}

/// The command-line options about the configuration. Options override variables, variables override the file.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// `--only`.
    pub only: Option<Only>,
    /// `--project`.
    pub project: Option<String>,
    /// `--port`.
    pub port: Option<String>,
    /// `--data`.
    pub data: Option<String>,
    /// `--db-port`.
    pub db_port: Option<String>,
    /// A `postgrest.conf`, for `--only rest`.
    pub postgrest_file: Option<PathBuf>,
    /// `--strict`.
    pub is_strict: bool,
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The only service to run, or `None` for all.
    pub only: Option<Only>,
    /// Development or production.
    pub mode: Mode,
    /// `[server]`.
    pub server: Server,
    /// `[database]`.
    pub database: Database,
    /// The `[jwt]` keys as configured; [`crate::secrets`] provides missing ones.
    pub jwt: Jwt,
    /// `[rest]`.
    pub rest: basalt_rest::config::RestConfig,
    /// `[auth]`, with its part of `[jwt]`.
    pub auth: basalt_auth::AuthConfig,
    /// `[storage]`.
    pub storage: basalt_storage::StorageConfig,
    /// `[realtime]`.
    pub realtime: basalt_realtime::RealtimeConfig,
    /// `[functions]`.
    pub functions: basalt_functions::FunctionsConfig,
    /// `[extensions]`.
    pub extensions: basalt_extensions::ExtensionsConfig,
    /// The `[backup]` settings.
    pub backup: basalt_backup::BackupConfig,
    /// `[mail]`.
    pub mail: Mail,
    /// The functions compiled into this program, with their own settings.
    pub built_in: Option<Arc<dyn ConfiguredBuiltIn>>,
    /// `[project]`.
    pub project: Project,
    /// Whether PostgREST's names configure this server, so that PostgREST's defaults apply.
    pub is_postgrest: bool,
    /// Probable mistakes that do not prevent the start, for the log and `doctor`.
    pub warnings: Vec<String>,
    /// Facts about the configuration without a remedy, such as keys of `supabase/config.toml` that have no effect.
    pub notes: Vec<String>,
    /// Every setting with its effective value, for `basalt config`.
    pub effective: Vec<Effective>,
}

/// The effective value of one setting.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The setting.
    pub setting: &'static Setting,
    /// The value as TOML, or `None` if not set. Secrets are shown as `(set)`.
    pub value: Option<String>,
    /// Where the value was set.
    pub source: Source,
}

/// All configuration mistakes, in one report.
#[derive(Clone, Debug)]
pub struct ConfigErrors(pub Vec<Fault>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        writeln!(f, "The configuration has {count} {}:", if count == 1 { "fault" } else { "faults" })?;
        for Fault { source, message } in &self.0 {
            if source.is_default() {
                writeln!(f, "  - {message}")?;
            } else {
                writeln!(f, "  - {source}: {message}")?;
            }
        }
        f.write_str("docs/CONFIG.md of the Basalt repository lists every setting; `basalt config` shows the effective configuration once these are fixed.")
    }
}

impl std::error::Error for ConfigErrors {}

impl Config {
    /// Reads, checks and resolves the configuration of this process.
    ///
    /// # Errors
    /// All mistakes.
    pub fn load(command_line: &CommandLine) -> Result<Self, ConfigErrors> {
        let working_dir = std::env::current_dir().map_err(|error| {
            ConfigErrors(vec![Fault {
                source: Source::Default,
                message: format!(
                    "cannot determine the working directory ({error}): change to an existing folder"
                ),
            }])
        })?;
        Self::from_origin(command_line, std::env::vars_os().collect(), working_dir)
    }

    /// [`Config::load`] with the environment as arguments.
    ///
    /// # Errors
    /// All mistakes.
    pub fn from_origin(
        command_line: &CommandLine,
        environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
        working_dir: PathBuf,
    ) -> Result<Self, ConfigErrors> {
        let options = [
            ("project.dir", "--project", &command_line.project),
            ("server.port", "--port", &command_line.port),
            ("server.state_dir", "--data", &command_line.data),
            ("database.port", "--db-port", &command_line.db_port),
        ]
        .into_iter()
        .filter_map(|(name, flag, text)| text.clone().map(|text| (name, flag, text)))
        .collect();
        let raw = RawConfig::collect(&Origin {
            options,
            environment,
            working_dir,
            only: command_line.only,
            postgrest_file: command_line.postgrest_file.clone(),
        });
        let mut config = resolve::resolve(raw, command_line.only)?;
        config.project.is_strict = command_line.is_strict;
        Ok(config)
    }

    /// Whether this process starts the embedded PostgreSQL.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        self.database.url.is_none() && !matches!(self.only, Some(Only::Rest))
    }

    /// Whether the database port accepts role `postgres` with the password that Supabase's CLI uses for a local stack (decision 0176).
    #[must_use]
    pub fn has_local_password(&self) -> bool {
        self.is_development()
            && self.is_embedded()
            && self.project.supabase.is_some()
            && self.database.listen.is_none()
    }

    /// Whether this is auth alone, with configured keys, on a database that other servers own. It then sets no passwords and
    /// does not compare its secrets with theirs (docs/decisions/0012).
    #[must_use]
    pub const fn is_guest(&self) -> bool {
        matches!(self.only, Some(Only::Auth))
            && self.database.url.is_some()
            && (self.jwt.secret.is_some() || self.jwt.keys.is_some())
    }

    /// The built-in functions, if the project enables them and this process runs functions.
    #[must_use]
    pub fn built_in_functions(&self) -> Option<&Arc<dyn ConfiguredBuiltIn>> {
        let runs_functions = matches!(self.only, None | Some(Only::Functions));
        self.built_in.as_ref().filter(|_| self.functions.builtin && runs_functions)
    }

    /// Whether the server runs in development mode.
    #[must_use]
    pub fn is_development(&self) -> bool {
        self.mode == Mode::Development
    }
}
