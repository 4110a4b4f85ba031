//! PostgREST's names and what each means here. To add one, add its line to [`NAMES`].

/// What their variables start with.
pub(super) const PREFIX: &str = "PGRST_";
pub(super) const APP_SETTINGS: &str = "app.settings.";
pub(super) const APP_SETTINGS_VARIABLE: &str = "PGRST_APP_SETTINGS_";

/// What becomes of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// The same text under our name.
    Same(&'static str),
    /// A list; an empty one is one, too.
    List(&'static str),
    /// `true`, `false`, or a number that is not zero.
    Flag(&'static str),
    /// `db-uri`
    Database,
    /// `jwt-secret`: a secret, a JWK, a JWK set, or `@file` with one of them.
    Secret,
    /// `log-level`
    LogLevel,
    /// `log-query`
    LogQuery,
    /// `db-prepared-statements`
    PreparedStatements,
    /// A path, from where the program was started.
    Path(&'static str),
    /// Changes no answer here, whatever it says.
    Immaterial,
    /// Only `true` is done; the sentence says so to those who write `false`.
    AlwaysOn(&'static str),
}

/// One of PostgREST's settings.
pub(super) struct Name {
    /// As a file spells it.
    pub(super) name: &'static str,
    /// Older spellings.
    pub(super) aliases: &'static [&'static str],
    pub(super) meaning: Meaning,
}

const fn name(name: &'static str, meaning: Meaning) -> Name {
    Name { name, aliases: &[], meaning }
}

const fn aliased(name: &'static str, aliases: &'static [&'static str], meaning: Meaning) -> Name {
    Name { name, aliases, meaning }
}

use Meaning::{
    AlwaysOn, Database, Flag, Immaterial, List, LogLevel, LogQuery, PreparedStatements, Same, Secret,
};

/// Every setting of PostgREST's that its manual lists, from release 9 to today.
pub(super) const NAMES: &[Name] = &[
    name("admin-server-host", Same("server.admin_host")),
    name("admin-server-port", Same("server.admin_port")),
    name("client-error-verbosity", Same("rest.client_error_verbosity")),
    name("db-aggregates-enabled", Flag("rest.aggregates")),
    name("db-anon-role", Same("rest.anon_role")),
    name("db-channel", Same("rest.channel")),
    name("db-channel-enabled", Flag("rest.channel_enabled")),
    name("db-config", Flag("rest.database_settings")),
    name("db-extra-search-path", List("rest.extra_search_path")),
    name("db-hoisted-tx-settings", List("rest.hoisted_tx_settings")),
    aliased("db-max-rows", &["max-rows"], Same("rest.max_rows")),
    name("db-plan-enabled", Flag("rest.plan_enabled")),
    name("db-pool", Same("database.pool_size")),
    name("db-pool-acquisition-timeout", Same("database.pool_timeout")),
    name(
        "db-pool-automatic-recovery",
        AlwaysOn(
            "a lost connection to the database is always opened again, and the server goes on meanwhile",
        ),
    ),
    aliased("db-pool-max-idletime", &["db-pool-timeout"], Same("database.pool_idle_timeout")),
    name("db-pool-max-lifetime", Same("database.pool_max_lifetime")),
    name("db-pre-config", Same("rest.pre_config")),
    aliased("db-pre-request", &["pre-request"], Same("rest.pre_request")),
    name("db-prepared-statements", PreparedStatements),
    aliased("db-root-spec", &["root-spec"], Same("rest.root_spec")),
    aliased("db-schemas", &["db-schema"], Same("rest.schemas")),
    name("db-timezone-enabled", Immaterial),
    name("db-tx-end", Same("rest.tx_end")),
    name("db-uri", Database),
    name("jwt-aud", Same("rest.jwt_aud")),
    name("jwt-cache-max-entries", Immaterial),
    name("jwt-cache-max-lifetime", Immaterial),
    aliased("jwt-role-claim-key", &["role-claim-key"], Same("rest.role_claim")),
    name("jwt-secret", Secret),
    aliased("jwt-secret-is-base64", &["secret-is-base64"], Flag("jwt.secret_is_base64")),
    name("log-level", LogLevel),
    name("log-query", LogQuery),
    name("openapi-mode", Same("rest.openapi_mode")),
    name("openapi-security-active", Flag("rest.openapi_security_active")),
    aliased("openapi-server-proxy-uri", &["server-proxy-uri"], Same("rest.openapi_server_proxy_uri")),
    name("server-cors-allowed-origins", Same("server.cors_origins")),
    name("server-host", Same("server.host")),
    name("server-port", Same("server.port")),
    name("server-reuseport", Flag("server.reuse_port")),
    name("server-timing-enabled", Flag("rest.timing_enabled")),
    name("server-trace-header", Same("rest.trace_header")),
    name("server-unix-socket", Meaning::Path("server.unix_socket")),
    name("server-unix-socket-mode", Same("server.unix_socket_mode")),
    name("url-use-legacy-target-names", Flag("rest.url_use_legacy_target_names")),
];

/// What holds where neither PostgREST's names nor ours say something else.
pub(super) const DEFAULTS: [(&str, &str); 11] = [
    ("server.host", "!4"),
    ("server.port", "3000"),
    ("server.prefix", ""),
    ("server.require_apikey", "false"),
    ("database.pool_size", "10"),
    ("database.pool_idle_timeout", "30"),
    ("database.verify_certificate", "false"),
    ("rest.schemas", "public"),
    ("rest.extra_search_path", "public"),
    ("rest.anon_role", ""),
    ("rest.max_rows", "0"),
];

/// `db-uri` → `PGRST_DB_URI`
pub(super) fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

pub(super) fn spellings() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|name| std::iter::once(name.name).chain(name.aliases.iter().copied()))
}
