//! Settings of the REST service, parsed and validated.
//!
//! This module defines which settings exist and how their values are written; reading them from file, environment and
//! command line is the gateway's job. Names are those of DESIGN section 4 (`rest.*`) and rest.md §4.5, without the
//! `db_` and `server_` prefixes that PostgREST gives some of them.
//!
//! An administrator may override some settings inside the database (`alter role authenticator set pgrst.db_schemas =
//! '…'`). [`RestConfig::with_database_settings`] applies those on every schema cache load; requests use the result.

mod claim_path;
mod stored;

use std::path::Path;
use std::time::Duration;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, Cap, Parsed, ParsedList, Time};
use basalt_core::settings::{BaseUrl, InvalidValue, Kind, Value};
use basalt_pg::session::Statement;
use basalt_pg::sql::Sql;

pub use claim_path::ClaimPath;
pub use stored::{DATABASE_SETTINGS, JwtSecret, Stored};

settings! {
    /// Settings of the REST service. `safe_update` defaults to on, as in Supabase.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RestConfig in "rest" with r {
        /// Exposed schemas; the first is the default.
        schemas: Vec<String> as Schemas = Is("public");
        /// Schemas appended to the search path of every request.
        extra_search_path: Vec<String> as Identifiers = Is("public,extensions");
        /// Role for requests without a token; `""` disables anonymous access.
        anon_role: Option<String> = Is("anon");
        /// Maximum number of rows returned by a read, at every level; 0 for no limit.
        max_rows: Option<u64> as Cap<1_000_000_000> = Is("1000");
        /// Function called in each transaction before the main statement.
        pre_request: Option<FunctionName> as Option<Parsed> = By("none");
        /// How transactions end: `commit`, `commit-allow-override`, `rollback`, `rollback-allow-override`.
        tx_end: TxEnd as Parsed = Is("commit");
        /// Whether `select` may use `sum()`, `avg()`, `count()`, `max()` and `min()`.
        aggregates: bool = Is("false");
        /// Whether clients may request the execution plan.
        plan_enabled: bool = Is("false");
        /// Content of the root document: `follow-privileges`, `ignore-privileges`, `disabled`.
        openapi_mode: OpenApiMode as Parsed = Is("follow-privileges");
        /// Server address shown in the root document.
        openapi_server_proxy_uri: Option<String> as Option<BaseUrl> = By("`server.public_url` and the prefix");
        /// Whether the root document describes the bearer token.
        openapi_security_active: bool = Is("false");
        /// Function whose result replaces the root document.
        root_spec: Option<FunctionName> as Option<Parsed> = By("none");
        /// Path to the role within the claims of a token: `.role`, `$.app.roles[0]`.
        role_claim: ClaimPath as Parsed = Is(".role");
        /// Required audience of tokens that have an `aud` claim.
        jwt_aud: Option<String> = By("none");
        /// Reject PATCH and DELETE without filters.
        safe_update: bool = ByOr("true; false with `--only rest`", "true");
        /// Settings that, when declared on a function, apply to its entire transaction.
        hoisted_tx_settings: Vec<String> as Identifiers = Is("statement_timeout,plan_filter.statement_cost_limit,default_transaction_isolation");
        /// Request properties that functions and policies can read as `request.…`. Each costs PostgreSQL some microseconds per request: omit those you do not read. `request.jwt.claims` is always set.
        request_settings: Vec<RequestSetting> as ParsedList = Is("method,path,headers,cookies");
        /// Memory limit of the cache of plans and statements, shared by requests that differ only in their values. At most 1024 are kept; beyond either limit the least recently used are evicted. 0 disables the cache.
        shape_cache: usize as Bytes = Is("8MiB");
        /// Set as `app.settings.NAME` in every transaction.
        app_settings: Vec<(String, String)> = Is(""), secret;
        /// Function called before the settings stored in the database are read.
        pre_config: Option<FunctionName> as Option<Parsed> = By("none");
        /// Whether `ALTER ROLE authenticator SET pgrst.…` is applied.
        database_settings: bool = Is("true");
        /// `NOTIFY` channel whose messages reload the schema cache and the settings.
        channel: String = Is("pgrst");
        /// Whether to listen on that channel. Without it, signals trigger a reload: SIGUSR1 of the schema cache, SIGUSR2 of the configuration.
        channel_enabled: bool = Is("true");
        /// Send `Server-Timing`.
        timing_enabled: bool = Is("false");
        /// Request header to copy to the response.
        trace_header: Option<http::HeaderName> as Option<Parsed> = By("none");
        /// Whether an embed with an alias may also be addressed by its original name.
        url_use_legacy_target_names: bool = Is("true");
        /// `verbose`, or `minimal` to omit details and hint from errors.
        client_error_verbosity: ErrorVerbosity as Parsed = Is("verbose");
        /// Maximum request body; larger bodies get 413. CSV rows may take four times as much once converted to JSON objects that repeat the column names.
        max_body_bytes: usize as Bytes<1> = Is("50MiB");
        /// Maximum duration of a request; after that the response is 504.
        timeout: Duration as Time<1000> = Is("125");
    } also {
        /// `pgrst.jwt_secret` of the database, with `--only rest`: replaces the configured keys.
        jwt_secret: Option<JwtSecret> = None;
        /// `pgrst.server_cors_allowed_origins` of the database: replaces `server.cors_origins`.
        cors_origins: Option<Vec<String>> = None;
    }
}

/// Parses a list of names, each of which may be double-quoted.
struct Identifiers;

impl Kind<Vec<String>> for Identifiers {
    fn expected() -> String {
        <Vec<String>>::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Vec<String>, String), InvalidValue> {
        let items = value
            .text()
            .map(|text| Value::List(split_identifiers(text, ',').into_iter().map(Value::Text).collect()));
        <Vec<String>>::read(items.as_ref().unwrap_or(value), base)
    }
}

/// Parses the list of exposed schemas.
struct Schemas;

impl Kind<Vec<String>> for Schemas {
    fn expected() -> String {
        Identifiers::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Vec<String>, String), InvalidValue> {
        let (schemas, shown) = Identifiers::read(value, base)?;
        // Listing a system catalog would expose all of it.
        match schemas.iter().find(|schema| is_system_schema(schema)) {
            Some(schema) => Err(InvalidValue::Because(format!(
                "must not expose {schema}, which belongs to PostgreSQL itself: remove it"
            ))),
            None if schemas.is_empty() => {
                Err(InvalidValue::Because("must name at least one schema".to_owned()))
            }
            None => Ok((schemas, shown)),
        }
    }
}

/// A request property that is set as `request.NAME` in the transaction. The claims are always set, because policies
/// read them.
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
    /// All properties, which is what PostgREST sets.
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

/// Invalid value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value is not one of the accepted words.
    #[error("`{value}` is not one of {expected}")]
    UnknownWord {
        /// Rejected value.
        value: String,
        /// Accepted words.
        expected: &'static str,
    },
    /// The text is not a path into the claims.
    #[error("`{0}` is not a claim path such as `.role`, `$.role` or `.app_metadata.roles[0]`")]
    ClaimPath(String),
    /// The text is not a function name.
    #[error("`{0}` is not a function name such as `check_request` or `api.check_request`")]
    FunctionName(String),
    /// The text is not an address.
    #[error("`{0}` is not an address such as https://example.com:8443/basePath")]
    Address(String),
    /// The secret cannot verify tokens. No error message contains it.
    #[error(transparent)]
    Secret(#[from] basalt_core::keys::KeyError),
}

/// How transactions end (`rest.tx_end`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxEnd {
    /// Whether to roll back by default.
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

/// Content of the OpenAPI document at the root (`rest.openapi_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenApiMode {
    /// Only objects that the requesting role may access.
    FollowPrivileges,
    /// All exposed objects.
    IgnorePrivileges,
    /// None: the response is 404 PGRST126.
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
    /// `details` and `hint` are included.
    Verbose,
    /// `details` and `hint` are omitted.
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

/// Name of a function in a setting, optionally qualified by schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionName {
    /// Schema name; without it the search path applies.
    pub schema: Option<String>,
    /// Function name.
    pub name: String,
}

impl FunctionName {
    /// Statement that calls the function: `SELECT "schema"."name"()`.
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

/// Whether a schema belongs to PostgreSQL itself and must not be exposed.
fn is_system_schema(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema")
}

/// Splits a list as PostgREST does: verbatim between commas, quotes included.
#[must_use]
pub fn split_verbatim(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Splits a list of names; surrounding blanks are dropped and a name may be double-quoted.
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
