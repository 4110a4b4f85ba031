//! PostgREST's own configuration, for `--only rest`: `PGRST_*` variables and a `postgrest.conf`, put under our names.
//!
//! With either of them PostgREST's defaults hold instead of ours (port 3000 on every IPv4 address, at the root, no key
//! gate, nobody anonymous, no cap). A variable wins over the file, and a name over its older alias, as they do there;
//! settings in the database win over both and are the REST service's business. Empty means not set. A name that there
//! is not is only warned of, because PostgREST ignores it; a value that cannot be read is a fault.
//!
//! To add one of PostgREST's settings, add its line to `NAMES`.

mod file;
pub(super) mod libpq;
mod manual;
mod print;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::fault::{Fault, Source};
use super::keys;
use super::raw::{Written, nearest};
use super::value::Value;
use file::Entry;
pub(super) use manual::markdown;
pub use print::print;

/// What their variables start with.
pub(super) const PREFIX: &str = "PGRST_";
const APP_SETTINGS: &str = "app.settings.";
const APP_SETTINGS_VARIABLE: &str = "PGRST_APP_SETTINGS_";

/// What becomes of a value.
#[derive(Clone, Copy, Debug)]
enum Meaning {
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
struct Name {
    /// As a file spells it.
    name: &'static str,
    /// Older spellings.
    aliases: &'static [&'static str],
    meaning: Meaning,
}

const fn name(name: &'static str, meaning: Meaning) -> Name {
    Name { name, aliases: &[], meaning }
}

const fn aliased(name: &'static str, aliases: &'static [&'static str], meaning: Meaning) -> Name {
    Name { name, aliases, meaning }
}

use Meaning::{AlwaysOn, Database, Flag, Immaterial, List, LogLevel, LogQuery, Same, Secret};

/// Every setting of PostgREST's that its manual lists, from release 9 to today.
const NAMES: &[Name] = &[
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
const DEFAULTS: [(&str, &str); 11] = [
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

/// Where to look.
pub(super) struct Origin<'a> {
    /// The file named on the command line.
    pub(super) file: Option<&'a Path>,
    /// The environment, whole.
    pub(super) environment: &'a [(OsString, OsString)],
    /// Relative paths start here.
    pub(super) working_dir: &'a Path,
}

/// What PostgREST's names say, under ours.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) written: Vec<(&'static str, Written)>,
    /// To be used where nothing else is written.
    pub(super) defaults: Vec<(&'static str, Written)>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

/// Reads file and variables; `None` when there is neither.
pub(super) fn collect(origin: &Origin<'_>) -> Option<Collected> {
    let variable = |name: &str| {
        let found = origin.environment.iter().find(|(known, _)| known == name);
        found.and_then(|(_, text)| text.to_str()).map(ToOwned::to_owned)
    };
    let mut collected = Collected::default();
    let (mut entries, named) = (Vec::new(), origin.file.is_some());
    if let Some(file) = origin.file {
        let shown = |path: &Path| path.strip_prefix(origin.working_dir).unwrap_or(path).to_path_buf();
        (entries, collected.faults) = file::read(&origin.working_dir.join(file), &shown, &variable);
    }
    let variables = variables(origin, &mut collected);
    if !named && variables.is_empty() && collected.faults.is_empty() {
        return None;
    }
    let given = Given { entries, variables };
    given.warn_of_unknown(&mut collected.warnings);
    Translation { given: &given, origin, variable: &variable, out: &mut collected }.run();
    Some(collected)
}

/// Their variables that are not empty, in the order of their names.
fn variables(origin: &Origin<'_>, collected: &mut Collected) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, text) in origin.environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        match text.to_str() {
            Some("") => {}
            Some(text) => found.push((name.to_owned(), text.to_owned())),
            None => collected.faults.push(Fault {
                source: Source::Variable(name.to_owned()),
                message: "its value is not UTF-8 text".to_owned(),
            }),
        }
    }
    found.sort();
    found
}

/// `db-uri` → `PGRST_DB_URI`
fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

fn spellings() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|name| std::iter::once(name.name).chain(name.aliases.iter().copied()))
}

/// What was written, as it was written.
struct Given {
    entries: Vec<Entry>,
    variables: Vec<(String, String)>,
}

impl Given {
    /// The value in force: a variable before the file, a name before its aliases.
    fn get(&self, name: &Name) -> Option<(&str, Source)> {
        let spellings = std::iter::once(name.name).chain(name.aliases.iter().copied());
        spellings.into_iter().find_map(|spelling| {
            let variable = variable_of(spelling);
            let set = self.variables.iter().find(|(known, _)| *known == variable);
            if let Some((_, text)) = set {
                return Some((text.as_str(), Source::Variable(variable)));
            }
            // An empty list is something to say.
            let counts = |entry: &&Entry| !entry.value.is_empty() || matches!(name.meaning, List(_));
            let entry = self.entries.iter().rev().find(|entry| entry.name == spelling);
            entry.filter(counts).map(|entry| (entry.value.as_str(), entry.source.clone()))
        })
    }

    fn warn_of_unknown(&self, warnings: &mut Vec<String>) {
        let advice = |near: Option<String>| {
            near.map_or_else(
                || "it is ignored".to_owned(),
                |near| format!("it is ignored; did you mean {near}?"),
            )
        };
        for (variable, _) in &self.variables {
            let is_known = variable.starts_with(APP_SETTINGS_VARIABLE)
                || spellings().any(|name| variable_of(name) == *variable);
            if !is_known {
                let near = nearest(variable, spellings().map(variable_of));
                warnings.push(format!("{variable}: PostgREST has no such setting; {}", advice(near)));
            }
        }
        for entry in &self.entries {
            if !entry.name.starts_with(APP_SETTINGS) && !spellings().any(|name| name == entry.name) {
                let near = nearest(&entry.name, spellings().map(ToOwned::to_owned));
                warnings.push(format!(
                    "{}: PostgREST has no setting {}; {}",
                    entry.source,
                    entry.name,
                    advice(near)
                ));
            }
        }
    }
}

struct Translation<'a> {
    given: &'a Given,
    origin: &'a Origin<'a>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    out: &'a mut Collected,
}

impl Translation<'_> {
    fn run(&mut self) {
        for (key, text) in DEFAULTS {
            let written = Written { value: Value::Bare(text.to_owned()), source: Source::Postgrest };
            self.out.defaults.push((key, written));
        }
        let (mut level, mut logs_queries) = (None, None);
        for name in NAMES {
            let given = self.given.get(name).map(|(text, source)| (text.to_owned(), source));
            match (name.meaning, given) {
                (Database, given) => self.database(given),
                (_, None) | (Immaterial, Some(_)) => {}
                (Same(key) | List(key), Some((text, source))) => self.write(key, text, source),
                (Flag(key), Some((text, source))) => self.write(key, flag(&text), source),
                (Meaning::Path(key), Some((text, source))) => {
                    self.write(key, self.path(&text).display().to_string(), source);
                }
                (Secret, Some((text, source))) => self.secret(&text, source),
                (LogLevel, Some(given)) => level = Some(given),
                (LogQuery, Some(given)) => logs_queries = Some(given),
                (AlwaysOn(sentence), Some((text, source))) => {
                    if flag(&text) != "true" {
                        self.out.warnings.push(format!("{source}: {sentence}"));
                    }
                }
            }
        }
        self.log(level.as_ref(), logs_queries.as_ref());
        self.app_settings();
    }

    fn write(&mut self, key: &'static str, text: String, source: Source) {
        self.out.written.push((key, Written { value: Value::Bare(text), source }));
    }

    fn path(&self, text: &str) -> PathBuf {
        self.origin.working_dir.join(text)
    }

    fn fault(&mut self, source: Source, message: String) {
        self.out.faults.push(Fault { source, message });
    }

    /// `@file` is what the file holds, without the line's end.
    fn contents(&mut self, text: &str, source: &Source) -> Option<String> {
        let Some(file) = text.strip_prefix('@') else { return Some(text.to_owned()) };
        match std::fs::read_to_string(self.path(file)) {
            Ok(contents) => Some(contents.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => {
                let problem = format!("{file} cannot be read ({error}): check the path and who may read it");
                self.fault(source.clone(), problem);
                None
            }
        }
    }

    fn database(&mut self, given: Option<(String, Source)>) {
        let is_given = given.is_some();
        let (text, source) = given.unwrap_or_else(|| ("postgresql://".to_owned(), Source::Postgrest));
        let Some(text) = self.contents(&text, &source) else { return };
        let connection = match libpq::connection(text.trim(), self.variable) {
            Ok(connection) => connection,
            // Our own names may say where the database is.
            Err(_) if !is_given => return,
            Err(problem) => return self.fault(source, format!("the connection string {problem}")),
        };
        for warning in connection.warnings {
            self.out.warnings.push(format!("{source}: {warning}"));
        }
        if connection.verifies {
            self.write(keys::DATABASE_VERIFY_CERTIFICATE.row.name, "true".to_owned(), source.clone());
        }
        let url = (
            keys::DATABASE_AUTHENTICATOR_URL.row.name,
            Written { value: Value::Bare(connection.text), source },
        );
        if is_given { self.out.written.push(url) } else { self.out.defaults.push(url) }
    }

    fn secret(&mut self, text: &str, source: Source) {
        let Some(text) = self.contents(text, &source) else { return };
        let json = serde_json::from_str::<serde_json::Value>(&text).ok();
        match json.as_ref().and_then(serde_json::Value::as_object) {
            Some(key) if key.contains_key("kty") => {
                self.write(keys::JWT_KEYS.row.name, format!("[{text}]"), source)
            }
            Some(set) if set.contains_key("keys") => self.write(keys::JWT_KEYS.row.name, text, source),
            Some(_) | None => self.write(keys::JWT_SECRET.row.name, text, source),
        }
    }

    /// Their levels say which answers are logged; ours, how much.
    fn log(&mut self, level: Option<&(String, Source)>, queries: Option<&(String, Source)>) {
        let logs_queries = queries.is_some_and(|(text, _)| {
            !matches!(text.to_ascii_lowercase().as_str(), "disabled" | "false" | "no" | "off" | "0")
        });
        let source = level.or(queries).map(|(_, source)| source.clone());
        let Some(source) = source else { return };
        let filter = match level.map_or("", |(level, _)| level.as_str()) {
            "" => "info,basalt::access=off",
            "crit" => "error,basalt::access=off",
            "error" => "warn,basalt::access=off",
            "warn" => "info,basalt::access=off",
            "info" => "info,basalt::access=info",
            "debug" => "debug,basalt::access=info,basalt::query=off",
            other => {
                let problem =
                    format!("log-level must be one of crit, error, warn, info, debug, not {other:?}");
                return self.fault(source, problem);
            }
        };
        let filter = if logs_queries { format!("{filter},basalt::query=debug") } else { filter.to_owned() };
        self.write(keys::SERVER_LOG.row.name, filter, source);
    }

    fn app_settings(&mut self) {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        let mut source = None;
        let mut set = |name: &str, text: &str, from: Source| {
            // Names of settings have no case in PostgreSQL.
            pairs.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            pairs.push((name.to_owned(), Value::Text(text.to_owned())));
            source = Some(from);
        };
        for entry in &self.given.entries {
            if let Some(name) = entry.name.strip_prefix(APP_SETTINGS) {
                set(name, &entry.value, entry.source.clone());
            }
        }
        for (variable, text) in &self.given.variables {
            if let Some(name) = variable.strip_prefix(APP_SETTINGS_VARIABLE) {
                set(&name.to_ascii_lowercase(), text, Source::Variable(variable.clone()));
            }
        }
        if let Some(source) = source {
            let written = Written { value: Value::Pairs(pairs), source };
            self.out.written.push((keys::REST_APP_SETTINGS.row.name, written));
        }
    }
}

/// Any number but zero is true there.
fn flag(text: &str) -> String {
    match text.trim().parse::<f64>() {
        Ok(number) => (number != 0.0).to_string(),
        Err(_) => text.to_ascii_lowercase(),
    }
}

/// The variables among `environment` that mean nothing without `--only rest`.
pub(super) fn stray(environment: &[(OsString, OsString)]) -> Vec<String> {
    let names = environment.iter().filter_map(|(name, _)| name.to_str());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(PREFIX)).map(ToOwned::to_owned).collect();
    names.sort_unstable();
    names
}
