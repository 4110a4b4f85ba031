//! Prints the effective configuration in PostgREST's format, for `basalt config --postgrest` and the admin port's `/config`.
//! Secrets are never shown.

use std::fmt::{Display, Write as _};

use basalt_rest::config::{ErrorVerbosity, FunctionName, OpenApiMode, RestConfig};

use crate::config::{Config, Effective};

/// Shown in place of a secret.
const HIDDEN: &str = "(set)";

/// Formats the configuration as a `postgrest.conf`. `rest` has the effective settings, which the database may have changed.
#[must_use]
pub fn print(config: &Config, rest: &RestConfig) -> String {
    let mut text = String::new();
    let mut plain = |name: &str, value: &dyn Display| {
        let _ = writeln!(text, "{name} = {value}");
    };
    let list = |items: &[String]| quoted(&items.join(","));
    let function =
        |name: &Option<FunctionName>| quoted(&name.as_ref().map(function_name).unwrap_or_default());
    let optional = |value: Option<&dyn Display>| value.map_or_else(|| "\"\"".to_owned(), ToString::to_string);
    let shown = |key: &str| shown(config, key);
    let server = &config.server;
    let database = &config.database;

    plain("admin-server-host", &quoted(&server.admin_host.to_string()));
    plain("admin-server-port", &optional(server.admin_port.as_ref().map(|port| port as &dyn Display)));
    plain(
        "client-error-verbosity",
        &quoted(match rest.client_error_verbosity {
            ErrorVerbosity::Verbose => "verbose",
            ErrorVerbosity::Minimal => "minimal",
        }),
    );
    plain("db-aggregates-enabled", &rest.aggregates);
    plain("db-anon-role", &quoted(rest.anon_role.as_deref().unwrap_or_default()));
    plain("db-channel", &quoted(&rest.channel));
    plain("db-channel-enabled", &rest.channel_enabled);
    plain("db-config", &rest.database_settings);
    plain("db-extra-search-path", &list(&rest.extra_search_path));
    plain("db-hoisted-tx-settings", &list(&rest.hoisted_tx_settings));
    plain("db-max-rows", &optional(rest.max_rows.as_ref().map(|rows| rows as &dyn Display)));
    plain("db-plan-enabled", &rest.plan_enabled);
    plain("db-pool", &database.pool_size);
    plain("db-pool-acquisition-timeout", &database.pool_timeout.as_secs());
    plain("db-pool-automatic-recovery", &true);
    plain("db-pool-max-idletime", &database.pool_idle_timeout.as_secs());
    plain("db-pool-max-lifetime", &database.pool_max_lifetime.as_secs());
    plain("db-pre-config", &function(&rest.pre_config));
    plain("db-pre-request", &function(&rest.pre_request));
    plain("db-prepared-statements", &(database.statement_cache > 0));
    plain("db-root-spec", &function(&rest.root_spec));
    plain("db-schemas", &list(&rest.schemas));
    plain(
        "db-tx-end",
        &quoted(match (rest.tx_end.rollback, rest.tx_end.allow_override) {
            (false, false) => "commit",
            (false, true) => "commit-allow-override",
            (true, false) => "rollback",
            (true, true) => "rollback-allow-override",
        }),
    );
    // Shown without its password.
    plain(
        "db-uri",
        &shown("database.authenticator_url").or_else(|| shown("database.url")).unwrap_or_else(|| quoted("")),
    );
    plain("jwt-aud", &quoted(rest.jwt_aud.as_deref().unwrap_or_default()));
    plain("jwt-role-claim-key", &shown("rest.role_claim").unwrap_or_else(|| quoted("$$.role")));
    let has_secret = config.jwt.secret.is_some() || config.jwt.keys.is_some() || rest.jwt_secret.is_some();
    plain("jwt-secret", &quoted(if has_secret { HIDDEN } else { "" }));
    plain("jwt-secret-is-base64", &shown("jwt.secret_is_base64").unwrap_or_else(|| "false".to_owned()));
    plain("log-level", &quoted(log_level(&server.log)));
    plain("log-query", &server.log.contains("basalt::query=debug"));
    plain(
        "openapi-mode",
        &quoted(match rest.openapi_mode {
            OpenApiMode::FollowPrivileges => "follow-privileges",
            OpenApiMode::IgnorePrivileges => "ignore-privileges",
            OpenApiMode::Disabled => "disabled",
        }),
    );
    plain("openapi-security-active", &rest.openapi_security_active);
    plain("openapi-server-proxy-uri", &quoted(rest.openapi_server_proxy_uri.as_deref().unwrap_or_default()));
    let origins = rest.cors_origins.as_ref().or(server.cors_origins.as_ref());
    plain("server-cors-allowed-origins", &list(origins.map(Vec::as_slice).unwrap_or_default()));
    plain("server-host", &quoted(&server.host.to_string()));
    plain("server-port", &server.port);
    plain("server-reuseport", &server.reuse_port);
    plain("server-timing-enabled", &rest.timing_enabled);
    plain("server-trace-header", &quoted(rest.trace_header.as_ref().map_or("", |name| name.as_str())));
    let socket = server.unix_socket.as_ref().map(|path| path.display().to_string());
    plain("server-unix-socket", &quoted(&socket.unwrap_or_default()));
    plain("server-unix-socket-mode", &shown("server.unix_socket_mode").unwrap_or_else(|| quoted("660")));
    plain("url-use-legacy-target-names", &rest.url_use_legacy_target_names);
    for (name, _) in &rest.app_settings {
        plain(&format!("app.settings.{name}"), &quoted(HIDDEN));
    }
    text
}

/// The value as `basalt config` shows it, which never contains a secret.
fn shown(config: &Config, key: &str) -> Option<String> {
    let found: &Effective = config.effective.iter().find(|setting| setting.setting.key == key)?;
    let shown = found.value.as_ref()?;
    // TOML has string forms that this format lacks.
    let value = format!("shown = {shown}").parse::<toml::Table>().ok()?.remove("shown")?;
    Some(value.as_str().map_or_else(|| value.to_string(), quoted))
}

/// A double-quoted string with special characters escaped.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('$', "$$"))
}

fn function_name(name: &FunctionName) -> String {
    name.schema.as_ref().map_or_else(|| name.name.clone(), |schema| format!("{schema}.{}", name.name))
}

fn log_level(filter: &str) -> &'static str {
    match filter.split(',').next().unwrap_or_default() {
        "error" => "crit",
        "warn" => "error",
        "debug" | "trace" => "debug",
        _ if filter.contains("basalt::access=info") => "info",
        _ => "warn",
    }
}
