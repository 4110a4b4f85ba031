//! The settings of the REST service, typed and checked.
//!
//! Answers for what can be set and how each value is spelled; where values come from (file, environment, command
//! line) is the gateway's business. Names are those of DESIGN section 4 (`rest.*`) and rest.md §4.5, without the
//! `db_` and `server_` prefixes PostgREST gives some of them.
//!
//! An administrator may override some settings inside the database (`alter role authenticator set pgrst.db_schemas =
//! '…'`). [`RestConfig::with_database_settings`] applies those on every load of the schema cache, and a request sees the
//! result, not what the gateway passed in.

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
    /// Everything that can be configured about the REST service; `safe_update` is on, as for Supabase.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RestConfig in "rest" with r {
        /// Exposed schemas; the first is the default.
        schemas: Vec<String> as Schemas = Is("public");
        /// Schemas at the end of every request's search path.
        extra_search_path: Vec<String> as Identifiers = Is("public,extensions");
        /// Role of requests without a token; `""` turns anonymous access off.
        anon_role: Option<String> = Is("anon");
        /// Most rows a read returns, on every level; 0 for no cap.
        max_rows: Option<u64> as Cap<1_000_000_000> = Is("1000");
        /// Function called in each transaction before the main statement.
        pre_request: Option<FunctionName> as Option<Parsed> = By("none");
        /// How transactions end: `commit`, `commit-allow-override`, `rollback`, `rollback-allow-override`.
        tx_end: TxEnd as Parsed = Is("commit");
        /// Whether `sum()`, `avg()`, `count()`, `max()`, `min()` may be selected.
        aggregates: bool = Is("false");
        /// Whether clients may ask for the execution plan.
        plan_enabled: bool = Is("false");
        /// What the root document shows: `follow-privileges`, `ignore-privileges`, `disabled`.
        openapi_mode: OpenApiMode as Parsed = Is("follow-privileges");
        /// Address that the root document names as its server.
        openapi_server_proxy_uri: Option<String> as Option<BaseUrl> = By("`server.public_url` and the prefix");
        /// Whether the root document describes the bearer token.
        openapi_security_active: bool = Is("false");
        /// Function whose result replaces the root document.
        root_spec: Option<FunctionName> as Option<Parsed> = By("none");
        /// Where the role is found in a token: `.role`, `$.app.roles[0]`.
        role_claim: ClaimPath as Parsed = Is(".role");
        /// Audience that tokens naming one must name.
        jwt_aud: Option<String> = By("none");
        /// Refuse PATCH and DELETE without filters.
        safe_update: bool = ByOr("true; false with `--only rest`", "true");
        /// Settings declared on a function that hold for its whole transaction.
        hoisted_tx_settings: Vec<String> as Identifiers = Is("statement_timeout,plan_filter.statement_cost_limit,default_transaction_isolation");
        /// What of a request functions and policies can read as `request.…`. Each costs PostgreSQL some microseconds in every request: leave out what nothing reads. `request.jwt.claims` is always there.
        request_settings: Vec<RequestSetting> as ParsedList = Is("method,path,headers,cookies");
        /// Bytes that plans and statements of requests that differ in their values only may take, 1024 of them at most; beyond that the least recently used go. 0 makes them anew for each request.
        shape_cache: usize as Bytes = Is("8MiB");
        /// Set as `app.settings.NAME` in every transaction.
        app_settings: Vec<(String, String)> = Is(""), secret;
        /// Function run before the settings stored in the database are read.
        pre_config: Option<FunctionName> as Option<Parsed> = By("none");
        /// Whether `ALTER ROLE authenticator SET pgrst.…` is honoured.
        database_settings: bool = Is("true");
        /// Channel of `NOTIFY` whose messages reload schema cache and settings.
        channel: String = Is("pgrst");
        /// Whether that channel is listened to. Without it, signals reload: SIGUSR1 the schema, SIGUSR2 the configuration.
        channel_enabled: bool = Is("true");
        /// Send `Server-Timing`.
        timing_enabled: bool = Is("false");
        /// Request header that is echoed on the response.
        trace_header: Option<http::HeaderName> as Option<Parsed> = By("none");
        /// Whether an embed with an alias may also be addressed by its own name.
        url_use_legacy_target_names: bool = Is("true");
        /// `verbose`, or `minimal` for errors without details and hint.
        client_error_verbosity: ErrorVerbosity as Parsed = Is("verbose");
        /// Largest request body; a larger one gets 413. Rows of CSV may take four times as much when each names its columns, as JSON.
        max_body_bytes: usize as Bytes<1> = Is("50MiB");
        /// Longest time a request may take before 504.
        timeout: Duration as Time<1000> = Is("125");
    } also {
        /// `pgrst.jwt_secret` of the database, with `--only rest`: takes the place of the configured keys.
        jwt_secret: Option<JwtSecret> = None;
        /// `pgrst.server_cors_allowed_origins` of the database: takes the place of `server.cors_origins`.
        cors_origins: Option<Vec<String>> = None;
    }
}

/// A list of names, of which each may be double-quoted.
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

/// Schemas to expose.
struct Schemas;

impl Kind<Vec<String>> for Schemas {
    fn expected() -> String {
        Identifiers::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Vec<String>, String), InvalidValue> {
        let (schemas, shown) = Identifiers::read(value, base)?;
        // A list that names the system catalogs would expose them whole.
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
    /// The text is no address.
    #[error("`{0}` is not an address such as https://example.com:8443/basePath")]
    Address(String),
    /// The secret cannot verify tokens. Its text is in no message.
    #[error(transparent)]
    Secret(#[from] basalt_core::keys::KeyError),
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
fn is_system_schema(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema")
}

/// Names as PostgREST reads its lists: verbatim between commas, quotes included.
#[must_use]
pub fn names_between_commas(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
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
