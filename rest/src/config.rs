//! The settings of the REST service, typed and checked.
//!
//! Answers for what can be set and how each value is spelled; where values come from (file, environment, command
//! line) is the gateway's business. Names are those of DESIGN section 4 (`rest.*`) and rest.md §4.5, without the
//! `db_` and `server_` prefixes PostgREST gives some of them.
//!
//! The surprise: an administrator may override some settings inside the database
//! (`alter role authenticator set pgrst.db_schemas = '…'`), so [`RestConfig::with_database_settings`] is applied on
//! every schema-cache load and a request sees the result, not what the gateway passed in.

mod claim_path;
mod stored;

use std::time::Duration;

use basalt_core::session::Statement;
use basalt_core::sql::Sql;

pub use claim_path::ClaimPath;
pub use stored::{DATABASE_SETTINGS, JwtSecret, Stored};

/// Everything that can be configured about the REST service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestConfig {
    /// `rest.schemas`: exposed schemas; the first is the default. Never empty.
    pub schemas: Vec<String>,
    /// `rest.extra_search_path`: schemas appended to the search path of every request.
    pub extra_search_path: Vec<String>,
    /// `rest.anon_role`: role of requests without a token; `None` turns anonymous access off (PGRST302).
    pub anon_role: Option<String>,
    /// `rest.max_rows`: cap on the rows of every level of a read; `None` is no cap.
    pub max_rows: Option<u64>,
    /// `rest.pre_request`: function called in the transaction before the main statement.
    pub pre_request: Option<FunctionName>,
    /// `rest.tx_end`: how transactions end, and whether `Prefer: tx=` may choose.
    pub tx_end: TxEnd,
    /// `rest.aggregates`: whether `sum()`, `avg()`, `count()`, `max()` and `min()` may be selected.
    pub aggregates: bool,
    /// `rest.plan_enabled`: whether `application/vnd.pgrst.plan` is answered.
    pub plan_enabled: bool,
    /// `rest.openapi_mode`: what the root document shows.
    pub openapi_mode: OpenApiMode,
    /// `rest.root_spec`: function whose result replaces the OpenAPI document.
    pub root_spec: Option<FunctionName>,
    /// `rest.openapi_server_proxy_uri`: absolute URL the OpenAPI document names as its server.
    pub openapi_server_proxy_uri: Option<String>,
    /// `rest.openapi_security_active`: whether the OpenAPI document describes the bearer token.
    pub openapi_security_active: bool,
    /// `rest.role_claim`: where in the claims the role is found; `.role` or `$.role` by default.
    pub role_claim: ClaimPath,
    /// `rest.jwt_aud`: audience that tokens naming one must name.
    pub jwt_aud: Option<String>,
    /// `pgrst.jwt_secret` of the database, with `--only rest`: takes the place of the configured keys.
    pub jwt_secret: Option<JwtSecret>,
    /// `pgrst.server_cors_allowed_origins` of the database: takes the place of `server.cors_origins`.
    pub cors_origins: Option<Vec<String>>,
    /// `rest.channel`: channel of `NOTIFY` whose messages reload schema cache and settings.
    pub channel: String,
    /// `rest.safe_update`: refuse PATCH and DELETE without filters (code 21000).
    pub safe_update: bool,
    /// `rest.hoisted_tx_settings`: settings declared on a function that apply to its whole transaction.
    pub hoisted_tx_settings: Vec<String>,
    /// `rest.request_settings`: what of a request functions and policies can read.
    pub request_settings: Vec<RequestSetting>,
    /// `rest.shape_cache`: bytes that plans and statements of request shapes may take; 0 keeps none.
    pub shape_cache_bytes: usize,
    /// `rest.app_settings`: set as `app.settings.NAME` in every transaction, in this order.
    pub app_settings: Vec<(String, String)>,
    /// `rest.pre_config`: function run before each load of the schema cache; what it sets as `pgrst.NAME` counts.
    pub pre_config: Option<FunctionName>,
    /// `rest.timing_enabled`: send `Server-Timing`.
    pub timing_enabled: bool,
    /// `rest.trace_header`: request header echoed on the response.
    pub trace_header: Option<http::HeaderName>,
    /// `rest.url_use_legacy_target_names`: allow an aliased embed to be addressed by its target name (with a warning).
    pub url_use_legacy_target_names: bool,
    /// `rest.client_error_verbosity`: whether errors carry `details` and `hint`.
    pub client_error_verbosity: ErrorVerbosity,
    /// `rest.max_body_bytes`: request bodies over this are refused with 413.
    pub max_body_bytes: usize,
    /// `rest.timeout`: total time a request may take before 504.
    pub timeout: Duration,
    /// `rest.database_settings`: whether settings stored in the database are honoured.
    pub database_settings: bool,
}

impl Default for RestConfig {
    /// The defaults of DESIGN section 4; `safe_update` is on, as for Supabase (`--only rest` turns it off).
    fn default() -> Self {
        Self {
            schemas: vec!["public".to_owned()],
            extra_search_path: vec!["public".to_owned(), "extensions".to_owned()],
            anon_role: Some("anon".to_owned()),
            max_rows: Some(1000),
            pre_request: None,
            tx_end: TxEnd::default(),
            aggregates: false,
            plan_enabled: false,
            openapi_mode: OpenApiMode::FollowPrivileges,
            root_spec: None,
            openapi_server_proxy_uri: None,
            openapi_security_active: false,
            role_claim: ClaimPath::default(),
            jwt_aud: None,
            jwt_secret: None,
            cors_origins: None,
            channel: "pgrst".to_owned(),
            safe_update: true,
            hoisted_tx_settings: vec![
                "statement_timeout".to_owned(),
                "plan_filter.statement_cost_limit".to_owned(),
                "default_transaction_isolation".to_owned(),
            ],
            request_settings: RequestSetting::ALL.to_vec(),
            shape_cache_bytes: 8 * 1024 * 1024,
            app_settings: Vec::new(),
            pre_config: None,
            timing_enabled: false,
            trace_header: None,
            url_use_legacy_target_names: true,
            client_error_verbosity: ErrorVerbosity::Verbose,
            max_body_bytes: 50 * 1024 * 1024,
            timeout: Duration::from_secs(125),
            database_settings: true,
        }
    }
}

/// What of a request is set as `request.NAME` in its transaction. The claims always are: policies read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSetting {
    /// `request.method`
    Method,
    /// `request.path`
    Path,
    /// `request.headers`
    Headers,
    /// `request.cookies`
    Cookies,
}

impl RequestSetting {
    /// All, which is what PostgREST sets.
    pub const ALL: [Self; 4] = [Self::Method, Self::Path, Self::Headers, Self::Cookies];
}

impl std::str::FromStr for RequestSetting {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "method" => Ok(Self::Method),
            "path" => Ok(Self::Path),
            "headers" => Ok(Self::Headers),
            "cookies" => Ok(Self::Cookies),
            other => Err(ConfigError::UnknownWord {
                value: other.to_owned(),
                expected: "method, path, headers, cookies",
            }),
        }
    }
}

/// A setting that was given a value it cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value is none of the words the setting knows.
    #[error("`{value}` is not one of {expected}")]
    UnknownWord {
        /// What was written.
        value: String,
        /// The words that would have been accepted.
        expected: &'static str,
    },
    /// The text is not a path into the claims.
    #[error("`{0}` is not a claim path such as `.role`, `$.role` or `.app_metadata.roles[0]`")]
    ClaimPath(String),
    /// The text is not a function name.
    #[error("`{0}` is not a function name such as `check_request` or `api.check_request`")]
    FunctionName(String),
    /// The text is no name of a header.
    #[error("`{0}` is not a header name such as `X-Request-Id`")]
    HeaderName(String),
    /// The text is no number of rows.
    #[error("`{0}` is not a number of rows")]
    Rows(String),
    /// The text is no address.
    #[error("`{0}` is not an address such as https://example.com:8443/basePath")]
    Address(String),
    /// The secret cannot verify tokens. Its text is in no message.
    #[error(transparent)]
    Secret(#[from] basalt_core::keys::KeyError),
    /// The name is known, but not for a setting of the database.
    #[error("it cannot be set in the database, only where the server is configured")]
    NotInDatabase,
}

/// How transactions end (`rest.tx_end`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxEnd {
    /// Roll back unless told otherwise.
    pub rollback: bool,
    /// Whether `Prefer: tx=commit|rollback` is honoured.
    pub allow_override: bool,
}

impl std::str::FromStr for TxEnd {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (rollback, allow_override) = match text {
            "commit" => (false, false),
            "commit-allow-override" => (false, true),
            "rollback" => (true, false),
            "rollback-allow-override" => (true, true),
            _ => {
                return Err(ConfigError::UnknownWord {
                    value: text.to_owned(),
                    expected: "commit, commit-allow-override, rollback, rollback-allow-override",
                });
            }
        };
        Ok(Self { rollback, allow_override })
    }
}

/// What the OpenAPI document at the root shows (`rest.openapi_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenApiMode {
    /// Only what the requesting role may use.
    FollowPrivileges,
    /// Everything exposed.
    IgnorePrivileges,
    /// Nothing: 404 PGRST126.
    Disabled,
}

impl std::str::FromStr for OpenApiMode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "follow-privileges" => Ok(Self::FollowPrivileges),
            "ignore-privileges" => Ok(Self::IgnorePrivileges),
            "disabled" => Ok(Self::Disabled),
            _ => Err(ConfigError::UnknownWord {
                value: text.to_owned(),
                expected: "follow-privileges, ignore-privileges, disabled",
            }),
        }
    }
}

/// Whether errors carry `details` and `hint` (`rest.client_error_verbosity`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorVerbosity {
    /// All four keys are filled.
    Verbose,
    /// `details` and `hint` are dropped.
    Minimal,
}

impl std::str::FromStr for ErrorVerbosity {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "verbose" => Ok(Self::Verbose),
            "minimal" => Ok(Self::Minimal),
            _ => Err(ConfigError::UnknownWord { value: text.to_owned(), expected: "verbose, minimal" }),
        }
    }
}

/// A function an administrator named, with or without its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionName {
    /// Schema, if it was given; else the search path decides.
    pub schema: Option<String>,
    /// Name of the function.
    pub name: String,
}

impl FunctionName {
    /// `SELECT "schema"."name"()`.
    #[must_use]
    pub fn call(&self) -> Statement {
        let name = match &self.schema {
            Some(schema) => Sql::qualified(schema, &self.name),
            None => Sql::ident(&self.name),
        };
        Sql::text("SELECT ").then(name).then(Sql::text("()")).into()
    }
}

impl std::str::FromStr for FunctionName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::FunctionName(text.to_owned());
        let mut parts = split_identifiers(text, '.').into_iter();
        let (first, second) = (parts.next().ok_or_else(wrong)?, parts.next());
        if parts.next().is_some() || first.is_empty() || second.as_deref() == Some("") {
            return Err(wrong());
        }
        Ok(match second {
            Some(name) => Self { schema: Some(first), name },
            None => Self { schema: None, name: first },
        })
    }
}

/// Whether a schema belongs to PostgreSQL itself and can never be exposed.
#[must_use]
pub fn is_system_schema(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema")
}

/// Splits a list of names; blanks around items are dropped and a name may be double-quoted.
fn split_identifiers(text: &str, separator: char) -> Vec<String> {
    let mut items = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c == separator && !quoted => items.push(std::mem::take(&mut current).trim().to_owned()),
            c => current.push(c),
        }
    }
    items.push(current.trim().to_owned());
    items.retain(|item| !item.is_empty());
    items
}
