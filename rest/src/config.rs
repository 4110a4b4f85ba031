//! The settings of the REST service, typed and checked.
//!
//! Answers for what can be set and how each value is spelled; where values come from (file, environment, command
//! line) is the gateway's business. Names are those of DESIGN section 4 (`rest.*`) and rest.md §4.5, without the
//! `db_` and `server_` prefixes PostgREST gives some of them.
//!
//! The surprise: an administrator may override some settings inside the database
//! (`alter role authenticator set pgrst.db_schemas = '…'`), so [`RestConfig::with_database_settings`] is applied on
//! every schema-cache load and a request sees the result, not what the gateway passed in.

use std::time::Duration;

use basalt_core::session::Statement;
use basalt_core::sql::Sql;

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
    /// `rest.safe_update`: refuse PATCH and DELETE without filters (code 21000).
    pub safe_update: bool,
    /// `rest.hoisted_tx_settings`: settings declared on a function that apply to its whole transaction.
    pub hoisted_tx_settings: Vec<String>,
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
            safe_update: true,
            hoisted_tx_settings: vec![
                "statement_timeout".to_owned(),
                "plan_filter.statement_cost_limit".to_owned(),
                "default_transaction_isolation".to_owned(),
            ],
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

/// Where a value is found in the claims: keys and array positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath(Vec<ClaimStep>);

/// One step of a [`ClaimPath`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClaimStep {
    Key(String),
    Index(usize),
}

impl Default for ClaimPath {
    fn default() -> Self {
        Self(vec![ClaimStep::Key("role".to_owned())])
    }
}

impl ClaimPath {
    /// Follows the path from the top-level claims; `None` where a step leads nowhere.
    #[must_use]
    pub fn find<'a>(
        &self,
        claims: &'a serde_json::Map<String, serde_json::Value>,
    ) -> Option<&'a serde_json::Value> {
        let mut steps = self.0.iter();
        let Some(ClaimStep::Key(first)) = steps.next() else { return None };
        let mut value = claims.get(first)?;
        for step in steps {
            value = match step {
                ClaimStep::Key(key) => value.get(key)?,
                ClaimStep::Index(index) => value.get(index)?,
            };
        }
        Some(value)
    }
}

impl std::str::FromStr for ClaimPath {
    type Err = ConfigError;

    /// Reads the JSPath form (`.a.b[0]`) and the JSONPath form (`$.a.b[0]`); keys may be double-quoted.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::ClaimPath(text.to_owned());
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(".\"") {
                let (key, tail) = after.split_once('"').ok_or_else(wrong)?;
                steps.push(ClaimStep::Key(key.to_owned()));
                rest = tail;
            } else if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, tail) = after.split_at(end);
                if key.is_empty() {
                    return Err(wrong());
                }
                steps.push(ClaimStep::Key(key.to_owned()));
                rest = tail;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (inside, tail) = after.split_once(']').ok_or_else(wrong)?;
                let quoted =
                    inside.strip_prefix(['"', '\'']).and_then(|inner| inner.strip_suffix(['"', '\'']));
                steps.push(match quoted {
                    Some(key) => ClaimStep::Key(key.to_owned()),
                    None => ClaimStep::Index(inside.parse().map_err(|_| wrong())?),
                });
                rest = tail;
            } else {
                return Err(wrong());
            }
        }
        match steps.first() {
            Some(ClaimStep::Key(_)) => Ok(Self(steps)),
            Some(ClaimStep::Index(_)) | None => Err(wrong()),
        }
    }
}

impl RestConfig {
    /// The configuration with the settings stored in the database laid over it.
    ///
    /// `settings` are name and value pairs without the `pgrst.` prefix. Names we do not know and values that do not
    /// parse are returned as messages for the log; the setting then keeps its configured value, because a typo in
    /// `ALTER ROLE` must not take the service down.
    #[must_use]
    pub fn with_database_settings(&self, settings: &[(String, String)]) -> (Self, Vec<String>) {
        let mut config = self.clone();
        let mut complaints = Vec::new();
        for (name, value) in settings {
            if let Err(problem) = config.set(name, value) {
                complaints.push(format!("pgrst.{name} in the database: {problem}"));
            }
        }
        (config, complaints)
    }

    /// Sets one value under the name rest.md §4.5 gives it.
    fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let optional = || (!value.is_empty()).then(|| value.to_owned());
        match name {
            "db_schemas" | "db_schema" => {
                let schemas = split_identifiers(value, ',');
                // A schema list naming the system catalogs would expose them whole.
                if schemas.is_empty() || schemas.iter().any(|s| is_system_schema(s)) {
                    return Err(ConfigError::UnknownWord {
                        value: value.to_owned(),
                        expected: "a list of schemas other than pg_catalog and information_schema",
                    });
                }
                self.schemas = schemas;
            }
            "db_extra_search_path" => self.extra_search_path = split_identifiers(value, ','),
            "db_max_rows" | "max_rows" => self.max_rows = value.parse().ok(),
            "db_anon_role" => self.anon_role = optional(),
            "db_pre_request" | "pre_request" => {
                self.pre_request = optional().map(|v| v.parse()).transpose()?
            }
            "db_root_spec" | "root_spec" => self.root_spec = optional().map(|v| v.parse()).transpose()?,
            "db_aggregates_enabled" => self.aggregates = parse_bool(value)?,
            "db_plan_enabled" => self.plan_enabled = parse_bool(value)?,
            "db_tx_end" => self.tx_end = value.parse()?,
            "db_hoisted_tx_settings" => self.hoisted_tx_settings = split_identifiers(value, ','),
            "jwt_aud" => self.jwt_aud = optional(),
            "jwt_role_claim_key" | "role_claim_key" => self.role_claim = value.parse()?,
            "server_timing_enabled" => self.timing_enabled = parse_bool(value)?,
            "server_trace_header" => self.trace_header = value.parse().ok(),
            "openapi_mode" => self.openapi_mode = value.parse()?,
            "openapi_server_proxy_uri" => self.openapi_server_proxy_uri = optional(),
            "openapi_security_active" => self.openapi_security_active = parse_bool(value)?,
            "url_use_legacy_target_names" => self.url_use_legacy_target_names = parse_bool(value)?,
            "client_error_verbosity" => self.client_error_verbosity = value.parse()?,
            other => {
                let Some(app_setting) = other.strip_prefix("app.settings.") else {
                    return Err(ConfigError::UnknownWord {
                        value: name.to_owned(),
                        expected: "the settings of protocols/rest.md section 4.5",
                    });
                };
                self.app_settings.retain(|(known, _)| known != app_setting);
                self.app_settings.push((app_setting.to_owned(), value.to_owned()));
            }
        }
        Ok(())
    }
}

/// Settings that a pre-config function may set as `pgrst.NAME`.
pub const DATABASE_SETTINGS: [&str; 19] = [
    "db_schemas",
    "db_extra_search_path",
    "db_max_rows",
    "db_anon_role",
    "db_pre_request",
    "db_root_spec",
    "db_aggregates_enabled",
    "db_plan_enabled",
    "db_tx_end",
    "db_hoisted_tx_settings",
    "jwt_aud",
    "jwt_role_claim_key",
    "server_timing_enabled",
    "server_trace_header",
    "openapi_mode",
    "openapi_server_proxy_uri",
    "openapi_security_active",
    "url_use_legacy_target_names",
    "client_error_verbosity",
];

/// Whether a schema belongs to PostgreSQL itself and can never be exposed.
#[must_use]
pub fn is_system_schema(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema")
}

/// PostgREST accepts the usual spellings of a boolean.
fn parse_bool(text: &str) -> Result<bool, ConfigError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(ConfigError::UnknownWord { value: text.to_owned(), expected: "true, false" }),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_paths_come_in_two_spellings() {
        let claims = serde_json::json!({"role": "a", "app": {"my roles": ["x", "y"]}});
        let claims = claims.as_object().unwrap();
        for (path, found) in
            [(".role", "a"), ("$.role", "a"), (".app.\"my roles\"[1]", "y"), ("$.app['my roles'][0]", "x")]
        {
            let path: ClaimPath = path.parse().unwrap();
            assert_eq!(path.find(claims).and_then(|v| v.as_str()), Some(found));
        }
        for wrong in ["role", "", ".", "$", ".a..b", "[0]", ".a[x]"] {
            assert!(wrong.parse::<ClaimPath>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_in_the_database_override_and_typos_do_not() {
        let settings = [
            ("db_schemas", "api, \"My Schema\""),
            ("db_max_rows", "5"),
            ("db_tx_end", "perhaps"),
            ("db_schema_s", "x"),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()));
        let (config, complaints) = RestConfig::default().with_database_settings(&settings);
        assert_eq!(config.schemas, ["api", "My Schema"]);
        assert_eq!(config.max_rows, Some(5));
        assert_eq!(config.tx_end, TxEnd::default());
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }
}
