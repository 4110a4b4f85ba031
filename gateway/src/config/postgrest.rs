//! PostgREST's own configuration, for `--only rest`: maps `PGRST_*` variables and `postgrest.conf` to our settings.
//!
//! With either of them, PostgREST's defaults apply instead of ours (port 3000 on every IPv4 address, at the root, no API
//! keys, no anonymous access, no row limit). As in PostgREST, a variable wins over the file, and a name over its older
//! alias. Settings in the database win over both; the REST service handles those.

mod file;
mod print;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use basalt_core::settings::{Source, Value, Written};
use basalt_rest::config::split_verbatim;

use super::foreign::{self, Collected, Form, Meaning, Name, describe, flag};
use super::libpq;
use Meaning::{AlwaysOn, As, Ignored, List, Names, Same, Special};
pub use print::print;

const APP_SETTINGS: &str = "app.settings.";

/// Every setting in PostgREST's manual, from release 9 on.
pub(super) fn form() -> Form {
    let is_flag = |key| As(key, flag);
    Form {
        server: "PostgREST",
        prefix: "PGRST_",
        names: vec![
            Name::new("admin-server-host", Same("server.admin_host")),
            Name::new("admin-server-port", Same("server.admin_port")),
            Name::new("client-error-verbosity", Same("rest.client_error_verbosity")),
            Name::new("db-aggregates-enabled", is_flag("rest.aggregates")),
            Name::new("db-anon-role", Same("rest.anon_role")),
            Name::new("db-channel", Same("rest.channel")),
            Name::new("db-channel-enabled", is_flag("rest.channel_enabled")),
            Name::new("db-config", is_flag("rest.database_settings")),
            Name::new(
                "db-extra-search-path",
                Names { key: "rest.extra_search_path", read: split_verbatim, may_be_empty: true },
            ),
            Name::new("db-hoisted-tx-settings", List("rest.hoisted_tx_settings")),
            Name::new("db-max-rows", Same("rest.max_rows")).with_aliases(&["max-rows"]),
            Name::new("db-plan-enabled", is_flag("rest.plan_enabled")),
            Name::new("db-pool", Same("database.pool_size")),
            Name::new("db-pool-acquisition-timeout", Same("database.pool_timeout")),
            Name::new(
                "db-pool-automatic-recovery",
                AlwaysOn("the server always reconnects to the database and keeps running meanwhile"),
            ),
            Name::new("db-pool-max-idletime", Same("database.pool_idle_timeout"))
                .with_aliases(&["db-pool-timeout"]),
            Name::new("db-pool-max-lifetime", Same("database.pool_max_lifetime")),
            Name::new("db-pre-config", Same("rest.pre_config")),
            Name::new("db-pre-request", Same("rest.pre_request")).with_aliases(&["pre-request"]),
            Name::new("db-prepared-statements", Special("`false` sets `database.statement_cache` to 0")),
            Name::new("db-root-spec", Same("rest.root_spec")).with_aliases(&["root-spec"]),
            Name::new("db-schemas", Names { key: "rest.schemas", read: split_verbatim, may_be_empty: false })
                .with_aliases(&["db-schema"]),
            Name::new("db-timezone-enabled", Ignored),
            Name::new("db-tx-end", Same("rest.tx_end")),
            Name::new("db-uri", Special("`database.authenticator_url` and `database.verify_certificate`")),
            Name::new("jwt-aud", Same("rest.jwt_aud")),
            Name::new("jwt-cache-max-entries", Ignored),
            Name::new("jwt-cache-max-lifetime", Ignored),
            Name::new("jwt-role-claim-key", Same("rest.role_claim")).with_aliases(&["role-claim-key"]),
            Name::new("jwt-secret", Special("`jwt.secret`, or `jwt.keys` for a JWK or a JWK set")),
            Name::new("jwt-secret-is-base64", is_flag("jwt.secret_is_base64"))
                .with_aliases(&["secret-is-base64"]),
            Name::new(
                "log-level",
                Special(
                    "`server.log`: `crit` and `error` log problems only, `warn` also what the server does, `info` every request, `debug` everything",
                ),
            ),
            Name::new(
                "log-query",
                Special("`server.log` with `basalt::query=debug`: texts of statements, never values"),
            ),
            Name::new("openapi-mode", Same("rest.openapi_mode")),
            Name::new("openapi-security-active", is_flag("rest.openapi_security_active")),
            Name::new("openapi-server-proxy-uri", Same("rest.openapi_server_proxy_uri"))
                .with_aliases(&["server-proxy-uri"]),
            Name::new("server-cors-allowed-origins", Same("server.cors_origins")),
            Name::new("server-host", Same("server.host")),
            Name::new("server-port", Same("server.port")),
            Name::new("server-reuseport", is_flag("server.reuse_port")),
            Name::new("server-timing-enabled", is_flag("rest.timing_enabled")),
            Name::new("server-trace-header", Same("rest.trace_header")),
            Name::new("server-unix-socket", Special("`server.unix_socket`")),
            Name::new("server-unix-socket-mode", Same("server.unix_socket_mode")),
            Name::new("url-use-legacy-target-names", is_flag("rest.url_use_legacy_target_names")),
            Name::new(APP_SETTINGS, Special("`rest.app_settings`")),
        ],
        defaults: &[
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
        ],
    }
}

/// Collects the file from the command line and the variables; `None` if there is neither.
pub(super) fn collect(
    file: Option<&Path>,
    environment: &[(OsString, OsString)],
    working_dir: &Path,
) -> Option<Collected> {
    let form = form();
    let lookup = |name: &str| foreign::variable(environment, name);
    let mut out = Collected::default();
    if let Some(file) = file {
        let shown = |path: &Path| path.strip_prefix(working_dir).unwrap_or(path).to_path_buf();
        (out.entries, out.faults) = file::read(&working_dir.join(file), &shown, &lookup);
    }
    form.variables(environment, spelled, &mut out);
    if file.is_none() && out.entries.is_empty() && out.faults.is_empty() {
        return None;
    }
    form.warn_about_unknown(&mut out);
    form.translate(&mut out);
    database(&mut out, working_dir, &lookup);
    if let Some((text, source)) = out.get_spelled("jwt-secret", false) {
        secret(&text, source, working_dir, &mut out);
    }
    if let Some((text, source)) = out.get_spelled("db-prepared-statements", false)
        && flag(&text) == Ok("false".to_owned())
    {
        out.write("database.statement_cache", "0", source);
    }
    if let Some((text, source)) = out.get_spelled("server-unix-socket", false) {
        out.write("server.unix_socket", &working_dir.join(text).to_string_lossy(), source);
    }
    log(&mut out);
    app_settings(&mut out);
    Some(out)
}

/// `DB_URI` → `db-uri`, `APP_SETTINGS_A_B` → `app.settings.a_b`
fn spelled(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_prefix("app_settings_")
        .map_or_else(|| name.replace('_', "-"), |own| format!("{APP_SETTINGS}{own}"))
}

/// Replaces `@file` by the file's content, without the final newline.
fn contents(text: &str, source: &Source, working_dir: &Path, out: &mut Collected) -> Option<String> {
    let Some(file) = text.strip_prefix('@') else { return Some(text.to_owned()) };
    match std::fs::read_to_string(working_dir.join(file)) {
        Ok(contents) => Some(contents.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => {
            let problem = format!("cannot read {file} ({error}): check the path and the file's permissions");
            out.fault(source.clone(), problem);
            None
        }
    }
}

fn database(out: &mut Collected, working_dir: &Path, variable: &dyn Fn(&str) -> Option<String>) {
    let given = out.get_spelled("db-uri", false);
    let is_given = given.is_some();
    let (text, source) =
        given.unwrap_or_else(|| ("postgresql://".to_owned(), Source::DefaultOf("PostgREST")));
    let Some(text) = contents(&text, &source, working_dir, out) else { return };
    let connection = match libpq::connection(text.trim(), variable) {
        Ok(connection) => connection,
        // Our own settings may name the database.
        Err(_) if !is_given => return,
        Err(problem) => return out.fault(source, format!("the connection string {problem}")),
    };
    let url = ("database.authenticator_url", out.database_url(connection, source));
    if is_given { out.written.push(url) } else { out.defaults.push(url) }
}

/// Parses a secret, a JWK or a JWK set.
fn secret(text: &str, source: Source, working_dir: &Path, out: &mut Collected) {
    let Some(text) = contents(text, &source, working_dir, out) else { return };
    let json = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    if json.get("kty").is_some() {
        out.write("jwt.keys", &format!("[{text}]"), source);
    } else if json.get("keys").is_some() {
        out.write("jwt.keys", &text, source);
    } else {
        out.write("jwt.secret", &text, source);
    }
}

/// Maps PostgREST's log levels, which select logged responses, to our log filter.
fn log(out: &mut Collected) {
    let (level, queries) = (out.get_spelled("log-level", false), out.get_spelled("log-query", false));
    let Some(source) = level.as_ref().or(queries.as_ref()).map(|(_, source)| source.clone()) else { return };
    let filter = match level.as_ref().map_or("", |(level, _)| level.as_str()) {
        "crit" => "error,basalt::access=off",
        "error" => "warn,basalt::access=off",
        "" | "warn" => "info,basalt::access=off",
        "info" => "info,basalt::access=info",
        "debug" => "debug,basalt::access=info,basalt::query=off",
        other => {
            let problem = format!("log-level must be one of crit, error, warn, info, debug, not {other:?}");
            return out.fault(source, problem);
        }
    };
    let logs_queries = queries.is_some_and(|(text, _)| {
        !matches!(text.to_ascii_lowercase().as_str(), "disabled" | "false" | "no" | "off" | "0")
    });
    let queries = if logs_queries { ",basalt::query=debug" } else { "" };
    out.write("server.log", &format!("{filter}{queries}"), source);
}

fn app_settings(out: &mut Collected) {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    let mut last = None;
    for entry in &out.entries {
        let Some(name) = entry.name.strip_prefix(APP_SETTINGS) else { continue };
        // PostgreSQL's setting names are case-insensitive.
        pairs.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        pairs.push((name.to_owned(), Value::Text(entry.value.clone())));
        last = Some(entry.source.clone());
    }
    if let Some(source) = last {
        out.written.push(("rest.app_settings", Written { value: Value::Pairs(pairs), source }));
    }
}

/// The section of docs/CONFIG.md about PostgREST's names.
pub(super) fn markdown() -> String {
    let form = form();
    let mut text = form.markdown(include_str!("postgrest.md"));
    for name in &form.names {
        let aliases = name.aliases.iter().map(|alias| format!(", `{alias}`")).collect::<String>();
        let all = if name.is_prefix() { "*" } else { "" };
        let (name, variable, here) = (&name.name, form.variable_of(&name.name), describe(name.meaning));
        let _ = writeln!(text, "| `{name}{all}`{aliases} | `{variable}{all}` | {here} |");
    }
    text
}
