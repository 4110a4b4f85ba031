//! Configuration: what was written (`basalt.toml`, `BASALT_*`, options) becomes one checked [`Config`], once, at the
//! start. Every mistake is reported, all together, each with its place and its remedy; nothing else in the tree reads
//! the environment. Secrets that nobody configured are [`crate::secrets`]'s.
//!
//! To add a setting, read the head of [`keys`].

pub mod fault;
mod foreign;
mod gotrue;
pub mod keys;
pub mod postgrest;
pub mod print;
mod raw;
mod reader;
mod resolve;
#[cfg(test)]
mod tests;
pub mod value;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use basalt_http::layers::heads::HeadLimits;
use basalt_mail::smtp::SmtpUrl;
use secrecy::SecretString;

pub use fault::{ConfigErrors, Fault, Source};
pub use keys::{LogFormat, Mode, StorageBackend};
pub use value::{BaseUrl, DatabaseUrl, IpRange, ListenHost};

use basalt_http::layers::api_key::SecretKeysInBrowsers;
use basalt_http::pace::Pace;
use raw::{Origin, RawConfig};

/// A service that can run without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// `/rest/v1`, as a PostgREST: creates nothing in the database.
    Rest,
    /// `/auth/v1`, as a GoTrue.
    Auth,
    /// `/storage/v1`.
    Storage,
    /// `/realtime/v1`.
    Realtime,
    /// `/functions/v1`.
    Functions,
}

impl Only {
    /// All of them, for the command line's help.
    pub const ALL: [Self; 5] = [Self::Rest, Self::Auth, Self::Storage, Self::Realtime, Self::Functions];

    /// The word for it.
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

    /// The service of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|only| only.as_str() == name)
    }
}

/// What the command line says about the configuration. Options win over variables, variables over the file.
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
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one service to run, if not all.
    pub only: Option<Only>,
    /// For this machine or for others.
    pub mode: Mode,
    /// `[server]`.
    pub server: Server,
    /// `[database]`.
    pub database: Database,
    /// `[jwt]`, as configured; what is missing comes from [`crate::secrets`].
    pub jwt: Jwt,
    /// `[rest]`.
    pub rest: basalt_rest::config::RestConfig,
    /// Whether REST listens for notifications.
    pub rest_listens: bool,
    /// `[auth]`, with its part of `[jwt]`.
    pub auth: basalt_auth::AuthConfig,
    /// `[storage]`.
    pub storage: Storage,
    /// `[functions]`.
    pub functions: Functions,
    /// `[mail]`.
    pub mail: Mail,
    /// `[stripe]`.
    pub stripe: Stripe,
    /// `[project]`.
    pub project: Project,
    /// Whether it is configured as a PostgREST, with PostgREST's defaults.
    pub is_postgrest: bool,
    /// What works but is probably not meant; one sentence each, for the log and `doctor`.
    pub warnings: Vec<String>,
    /// Every setting as it is in force, for `basalt config`.
    pub effective: Vec<Effective>,
}

/// `[server]`. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Server {
    /// What to listen on.
    pub host: ListenHost,
    /// Port of API and app; 0 is any free one.
    pub port: u16,
    /// How browsers reach it.
    pub public_url: BaseUrl,
    /// Whether the key gate is closed.
    pub require_apikey: bool,
    /// What becomes of a secret key that a browser brings.
    pub secret_keys_in_browsers: SecretKeysInBrowsers,
    /// With [`Config::only`]: the service's path, `""` for the root; `None` = its usual one.
    pub prefix: Option<String>,
    /// Proxies whose `X-Forwarded-*` count.
    pub trusted_proxies: Vec<IpRange>,
    /// Origins that may call; `None` = all, without credentials.
    pub cors_origins: Option<Vec<String>>,
    /// Second port for health and metrics.
    pub admin_port: Option<u16>,
    /// What that one listens on.
    pub admin_host: ListenHost,
    /// Socket file to listen on instead, with its permissions.
    pub unix_socket: Option<(PathBuf, u32)>,
    /// Whether others may listen on the same port.
    pub reuse_port: bool,
    /// Configured master key.
    pub master_key: Option<SecretString>,
    /// The built app; `None` = serve none.
    pub app_dir: Option<PathBuf>,
    /// Secrets, and by default data.
    pub state_dir: PathBuf,
    /// Filter of log lines, in `tracing_subscriber::EnvFilter`'s syntax.
    pub log: String,
    /// Shape of log lines.
    pub log_format: LogFormat,
    /// Whether `/metrics` answers.
    pub metrics: bool,
    /// Open connections.
    pub max_connections: usize,
    /// Requests of services in flight.
    pub max_requests: usize,
    /// Bytes of large request bodies in flight.
    pub body_memory: u64,
    /// How long a body waits for room among them.
    pub body_wait: Duration,
    /// Bytes of large answers in flight.
    pub answer_memory: u64,
    /// How slow clients may be with bodies and answers.
    pub pace: Pace,
    /// How large the head of a request may be.
    pub heads: HeadLimits,
    /// Bytes of large heads that are coming in or in flight.
    pub head_memory: u64,
    /// Requests in flight on one HTTP/2 connection.
    pub max_streams: u32,
    /// How long a connection may take to send the head of its next request.
    pub idle_timeout: Duration,
    /// Longest time to drain requests at shutdown.
    pub shutdown_timeout: Duration,
}

/// `[database]`.
#[derive(Clone, Debug)]
pub struct Database {
    /// External PostgreSQL; `None` = embedded.
    pub url: Option<DatabaseUrl>,
    /// Login for request work; `None` = derived from `url`, or embedded. Always set under `--only rest`.
    pub authenticator_url: Option<DatabaseUrl>,
    /// Replica for GET and HEAD.
    pub replica_url: Option<DatabaseUrl>,
    /// Embedded: loopback port; `None` = 54322 or the next free one.
    pub port: Option<u16>,
    /// Embedded: binaries; `None` = look for them.
    pub bin_dir: Option<PathBuf>,
    /// Embedded: data. Absolute.
    pub data_dir: PathBuf,
    /// Connections for requests.
    pub pool_size: usize,
    /// Connections of the auth service: as many as `pool_size` up to 8, and a quarter of it where that is more.
    pub auth_pool_size: usize,
    /// Connections for system work.
    pub system_pool_size: usize,
    /// Longest wait for a connection.
    pub pool_timeout: Duration,
    /// Age at which a connection is replaced.
    pub pool_max_lifetime: Duration,
    /// Time without use after which a connection is closed.
    pub pool_idle_timeout: Duration,
    /// Prepared statements of one connection.
    pub statement_cache: NonZeroUsize,
    /// Bytes of one row of an answer.
    pub max_row_bytes: usize,
    /// Whether PostgreSQL's certificate is checked.
    pub verify_certificate: bool,
}

impl Database {
    /// Connections of all pools together.
    pub(crate) const fn connections(&self) -> usize {
        self.pool_size + self.auth_pool_size + self.system_pool_size
    }
}

/// `[jwt]`: keys as configured. What goes into tokens is in [`Config::auth`].
#[derive(Clone, Debug)]
pub struct Jwt {
    /// HS256 secret, decoded if it was base64.
    pub secret: Option<secrecy::SecretSlice<u8>>,
    /// JSON array of JWKs, checked.
    pub keys: Option<SecretString>,
    /// `kid` for the secret.
    pub key_id: Option<String>,
    /// Legacy key `anon`.
    pub anon_key: Option<SecretString>,
    /// Legacy key `service_role`.
    pub service_key: Option<SecretString>,
    /// `sb_publishable_…`.
    pub publishable_key: Option<SecretString>,
    /// `sb_secret_…`.
    pub secret_key: Option<SecretString>,
}

/// `[storage]`.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Kind of store.
    pub backend: StorageBackend,
    /// Folder of objects. Absolute.
    pub dir: PathBuf,
    /// Largest upload in bytes.
    pub max_file_size: u64,
    /// `[storage.s3]`.
    pub s3: S3,
}

/// `[storage.s3]`.
#[derive(Clone, Debug)]
pub struct S3 {
    /// Address; `None` = AWS's.
    pub endpoint: Option<BaseUrl>,
    /// Region.
    pub region: String,
    /// Bucket; set when the backend is S3.
    pub bucket: Option<String>,
    /// Access key.
    pub access_key_id: Option<String>,
    /// Its secret.
    pub secret_access_key: Option<SecretString>,
    /// Bucket in the path.
    pub force_path_style: bool,
}

/// `[functions]`.
#[derive(Clone, Debug)]
pub struct Functions {
    /// TypeScript functions. Absolute.
    pub dir: PathBuf,
    /// Whether the planning app's functions are on.
    pub builtin: bool,
}

/// `[mail]`.
#[derive(Clone, Debug)]
pub struct Mail {
    /// SMTP server; `None` = the development mailbox, or no mail at all.
    pub smtp: Option<SmtpUrl>,
    /// Sender address.
    pub from: String,
    /// Sender name.
    pub sender_name: Option<String>,
    /// Further headers of each mail.
    pub headers: Vec<(String, String)>,
    /// Limit of one step of an exchange.
    pub timeout: Duration,
    /// Mails on their way at once.
    pub connections: u32,
    /// Attempts until a mail is given up.
    pub max_attempts: u32,
    /// Pause after the first failed attempt.
    pub retry_pause: Duration,
    /// How long rows about mails are kept.
    pub retention: Duration,
    /// Port of the development mailbox.
    pub mailbox_port: Option<u16>,
}

/// `[stripe]`.
#[derive(Clone, Debug)]
pub struct Stripe {
    /// API key; `None` = local double in development, nothing in production.
    pub secret_key: Option<SecretString>,
    /// Signs webhooks.
    pub webhook_secret: Option<SecretString>,
    /// API address; `None` = Stripe's.
    pub api_base: Option<BaseUrl>,
}

/// `[project]`.
#[derive(Clone, Debug)]
pub struct Project {
    /// The folder. Absolute.
    pub dir: PathBuf,
    /// Its `basalt.toml`, if there is one.
    pub file: Option<PathBuf>,
}

/// One setting as it is in force.
#[derive(Clone, Debug)]
pub struct Effective {
    /// `section.key`.
    pub name: &'static str,
    /// As TOML; `None` = not set. Secrets read `(set)`.
    pub value: Option<String>,
    /// Who set it.
    pub source: Source,
}

impl Config {
    /// Reads, checks and resolves the configuration of this process.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(command_line: &CommandLine) -> Result<Self, ConfigErrors> {
        let working_dir = std::env::current_dir().map_err(|error| {
            ConfigErrors(vec![Fault {
                source: Source::Default,
                message: format!("the working folder cannot be read ({error}): change to one that exists"),
            }])
        })?;
        Self::from_origin(command_line, std::env::vars_os().collect(), working_dir)
    }

    /// [`Config::load`] with the outside world as arguments.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn from_origin(
        command_line: &CommandLine,
        environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
        working_dir: PathBuf,
    ) -> Result<Self, ConfigErrors> {
        let options = [
            (keys::PROJECT_DIR.row.name, "--project", &command_line.project),
            (keys::SERVER_PORT.row.name, "--port", &command_line.port),
            (keys::SERVER_STATE_DIR.row.name, "--data", &command_line.data),
            (keys::DATABASE_PORT.row.name, "--db-port", &command_line.db_port),
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
        resolve::resolve(raw, command_line.only)
    }

    /// Whether PostgreSQL is ours to start.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        self.database.url.is_none() && !matches!(self.only, Some(Only::Rest))
    }

    /// Whether this is one service alone on somebody's database, with keys of its own: it neither sets passwords nor
    /// holds other servers to its secrets (docs/decisions/0012).
    #[must_use]
    pub const fn is_guest(&self) -> bool {
        matches!(self.only, Some(Only::Auth))
            && self.database.url.is_some()
            && (self.jwt.secret.is_some() || self.jwt.keys.is_some())
    }

    /// Whether this is a developer's server.
    #[must_use]
    pub fn is_development(&self) -> bool {
        self.mode == Mode::Development
    }
}
