//! PostgREST's names and what each means here. To add one, add its line to [`NAMES`].

use crate::config::keys;

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

use Meaning::{AlwaysOn, Database, Flag, Immaterial, List, LogLevel, LogQuery, Same, Secret};

/// Every setting of PostgREST's that its manual lists, from release 9 to today.
pub(super) const NAMES: &[Name] = &[
    name("admin-server-host", Same(keys::SERVER_ADMIN_HOST.row.name)),
    name("admin-server-port", Same(keys::SERVER_ADMIN_PORT.row.name)),
    name("client-error-verbosity", Same(keys::REST_CLIENT_ERROR_VERBOSITY.row.name)),
    name("db-aggregates-enabled", Flag(keys::REST_AGGREGATES.row.name)),
    name("db-anon-role", Same(keys::REST_ANON_ROLE.row.name)),
    name("db-channel", Same(keys::REST_CHANNEL.row.name)),
    name("db-channel-enabled", Flag(keys::REST_CHANNEL_ENABLED.row.name)),
    name("db-config", Flag(keys::REST_DATABASE_SETTINGS.row.name)),
    name("db-extra-search-path", List(keys::REST_EXTRA_SEARCH_PATH.row.name)),
    name("db-hoisted-tx-settings", List(keys::REST_HOISTED_TX_SETTINGS.row.name)),
    aliased("db-max-rows", &["max-rows"], Same(keys::REST_MAX_ROWS.row.name)),
    name("db-plan-enabled", Flag(keys::REST_PLAN_ENABLED.row.name)),
    name("db-pool", Same(keys::DATABASE_POOL_SIZE.row.name)),
    name("db-pool-acquisition-timeout", Same(keys::DATABASE_POOL_TIMEOUT.row.name)),
    name(
        "db-pool-automatic-recovery",
        AlwaysOn(
            "a lost connection to the database is always opened again, and the server goes on meanwhile",
        ),
    ),
    aliased("db-pool-max-idletime", &["db-pool-timeout"], Same(keys::DATABASE_POOL_IDLE_TIMEOUT.row.name)),
    name("db-pool-max-lifetime", Same(keys::DATABASE_POOL_MAX_LIFETIME.row.name)),
    name("db-pre-config", Same(keys::REST_PRE_CONFIG.row.name)),
    aliased("db-pre-request", &["pre-request"], Same(keys::REST_PRE_REQUEST.row.name)),
    name(
        "db-prepared-statements",
        AlwaysOn("statements are always prepared: connect directly, or through a pooler in session mode"),
    ),
    aliased("db-root-spec", &["root-spec"], Same(keys::REST_ROOT_SPEC.row.name)),
    aliased("db-schemas", &["db-schema"], Same(keys::REST_SCHEMAS.row.name)),
    name("db-timezone-enabled", Immaterial),
    name("db-tx-end", Same(keys::REST_TX_END.row.name)),
    name("db-uri", Database),
    name("jwt-aud", Same(keys::REST_JWT_AUD.row.name)),
    name("jwt-cache-max-entries", Immaterial),
    name("jwt-cache-max-lifetime", Immaterial),
    aliased("jwt-role-claim-key", &["role-claim-key"], Same(keys::REST_ROLE_CLAIM.row.name)),
    name("jwt-secret", Secret),
    aliased("jwt-secret-is-base64", &["secret-is-base64"], Flag(keys::JWT_SECRET_IS_BASE64.row.name)),
    name("log-level", LogLevel),
    name("log-query", LogQuery),
    name("openapi-mode", Same(keys::REST_OPENAPI_MODE.row.name)),
    name("openapi-security-active", Flag(keys::REST_OPENAPI_SECURITY_ACTIVE.row.name)),
    aliased(
        "openapi-server-proxy-uri",
        &["server-proxy-uri"],
        Same(keys::REST_OPENAPI_SERVER_PROXY_URI.row.name),
    ),
    name("server-cors-allowed-origins", Same(keys::SERVER_CORS_ORIGINS.row.name)),
    name("server-host", Same(keys::SERVER_HOST.row.name)),
    name("server-port", Same(keys::SERVER_PORT.row.name)),
    name("server-reuseport", Flag(keys::SERVER_REUSE_PORT.row.name)),
    name("server-timing-enabled", Flag(keys::REST_TIMING_ENABLED.row.name)),
    name("server-trace-header", Same(keys::REST_TRACE_HEADER.row.name)),
    name("server-unix-socket", Meaning::Path(keys::SERVER_UNIX_SOCKET.row.name)),
    name("server-unix-socket-mode", Same(keys::SERVER_UNIX_SOCKET_MODE.row.name)),
    name("url-use-legacy-target-names", Flag(keys::REST_URL_USE_LEGACY_TARGET_NAMES.row.name)),
];

/// What holds where neither PostgREST's names nor ours say something else.
pub(super) const DEFAULTS: [(&str, &str); 11] = [
    (keys::SERVER_HOST.row.name, "!4"),
    (keys::SERVER_PORT.row.name, "3000"),
    (keys::SERVER_PREFIX.row.name, ""),
    (keys::SERVER_REQUIRE_APIKEY.row.name, "false"),
    (keys::DATABASE_POOL_SIZE.row.name, "10"),
    (keys::DATABASE_POOL_IDLE_TIMEOUT.row.name, "30"),
    (keys::DATABASE_VERIFY_CERTIFICATE.row.name, "false"),
    (keys::REST_SCHEMAS.row.name, "public"),
    (keys::REST_EXTRA_SEARCH_PATH.row.name, "public"),
    (keys::REST_ANON_ROLE.row.name, ""),
    (keys::REST_MAX_ROWS.row.name, "0"),
];

/// `db-uri` → `PGRST_DB_URI`
pub(super) fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

pub(super) fn spellings() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|name| std::iter::once(name.name).chain(name.aliases.iter().copied()))
}
