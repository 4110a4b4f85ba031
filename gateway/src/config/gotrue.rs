//! GoTrue's own configuration, for `--only auth`: `GOTRUE_*` variables put under our names (auth.md 3.24).
//!
//! With one of them GoTrue's defaults hold instead of ours (port 8081 on every address, at the root, no key gate, empty
//! audience and role), and the few names that GoTrue also reads without its prefix count (`DATABASE_URL`, `PORT`,
//! `API_EXTERNAL_URL`). Empty means not set. A name that there is not is warned of, because GoTrue ignores it; a value
//! that cannot be read is a fault that names the variable.
//!
//! The surprising thing: a name without a line in [`NAMES`] is looked up among our own settings (`GOTRUE_SITE_URL` is
//! `auth.site_url`, `GOTRUE_JWT_EXP` is `jwt.exp`), so that a new setting of auth needs no line here.

mod manual;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::fault::{Fault, Source};
use super::keys::{self, Row};
use super::postgrest::libpq;
use super::raw::{Written, nearest};
use super::value::{Setting, Value};
pub(super) use manual::markdown;

/// What the variables start with.
const PREFIX: &str = "GOTRUE_";

/// Names that count without the prefix as well, with what they mean.
const UNPREFIXED: [(&str, &str); 3] =
    [("API_EXTERNAL_URL", "API_EXTERNAL_URL"), ("DATABASE_URL", "DB_DATABASE_URL"), ("PORT", "API_PORT")];

/// What becomes of a value.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// The same under our name.
    Same(&'static str),
    /// Where the database is.
    Database,
    /// One part of `mail.smtp_url`.
    Smtp,
    /// A JSON object of arrays: `mail.headers`.
    Headers,
    /// How much is logged.
    LogLevel,
    /// Changes no answer here, whatever it says.
    Immaterial,
    /// Nothing here reads it; the sentence says what to do instead.
    Instead(&'static str),
}

use Meaning::{Database, Headers, Immaterial, Instead, LogLevel, Same, Smtp};

/// GoTrue's names, without the prefix, that are not simply ours in upper case. One that ends with `_` stands for all
/// that start with it.
const NAMES: &[(&str, Meaning)] = &[
    ("API_EXTERNAL_URL", Same(keys::SERVER_PUBLIC_URL.row.name)),
    ("API_HOST", Same(keys::SERVER_HOST.row.name)),
    ("API_PORT", Same(keys::SERVER_PORT.row.name)),
    ("API_ENDPOINT", Immaterial),
    ("API_REQUEST_ID_HEADER", Immaterial),
    ("AUDIT_LOG_", Immaterial),
    ("COOKIE_", Immaterial),
    ("CORS_ALLOWED_HEADERS", Immaterial),
    ("DB_ADVISOR_", Immaterial),
    ("DB_CONN_MAX_IDLE_TIME", Same(keys::DATABASE_POOL_IDLE_TIMEOUT.row.name)),
    ("DB_CONN_MAX_LIFETIME", Same(keys::DATABASE_POOL_MAX_LIFETIME.row.name)),
    ("DB_CONN_PERCENTAGE", Immaterial),
    ("DB_DATABASE_URL", Database),
    ("DB_DB_NAMESPACE", Immaterial),
    ("DB_DRIVER", Immaterial),
    ("DB_HEALTH_CHECK_PERIOD", Immaterial),
    ("DB_MAX_IDLE_POOL_SIZE", Immaterial),
    ("DB_MAX_POOL_SIZE", Same(keys::DATABASE_POOL_SIZE.row.name)),
    ("DB_MIGRATIONS_PATH", Immaterial),
    ("DB_NAMESPACE", Immaterial),
    ("DISABLE_SIGNUPS", Same(keys::AUTH_DISABLE_SIGNUP.row.name)),
    ("EXPERIMENTAL_", Immaterial),
    ("EXTERNAL_IOS_BUNDLE_ID", Immaterial),
    ("INSTANCE_ID", Immaterial),
    ("JWT_VALIDMETHODS", Immaterial),
    ("JWT_VALID_METHODS", Immaterial),
    ("LOG_LEVEL", LogLevel),
    ("LOG_", Immaterial),
    ("LOGGING_LOG_LEVEL", LogLevel),
    ("LOGGING_", Immaterial),
    ("METRICS_", Immaterial),
    ("OPERATOR_TOKEN", Immaterial),
    ("PROFILER_", Immaterial),
    (
        "RATE_LIMIT_HEADER",
        Instead(
            "limits count by client address; BASALT_SERVER_TRUSTED_PROXIES names the proxies whose X-Forwarded-For is believed",
        ),
    ),
    ("SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION", Immaterial),
    ("SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE", Immaterial),
    ("SECURITY_DB_ENCRYPTION_", Immaterial),
    ("SMTP_ADMIN_EMAIL", Same(keys::MAIL_FROM.row.name)),
    ("SMTP_HEADERS", Headers),
    ("SMTP_HOST", Smtp),
    ("SMTP_LOGGING_ENABLED", Immaterial),
    ("SMTP_MAX_FREQUENCY", Same(keys::MAIL_MAX_FREQUENCY.row.name)),
    ("SMTP_PASS", Smtp),
    ("SMTP_PORT", Smtp),
    ("SMTP_SENDER_NAME", Same(keys::MAIL_SENDER_NAME.row.name)),
    ("SMTP_USER", Smtp),
    ("TRACING_", Immaterial),
];

/// Features that a later release brings, by the start of their names.
const LATER: &[(&str, &str)] = &[
    ("CUSTOM_OAUTH_", "sign-in through providers of your own"),
    ("EXTERNAL_", "sign-in through other providers"),
    ("HOOK_", "hooks"),
    ("INDEX_WORKER_", "the index worker"),
    ("MAILER_EMAIL_VALIDATION_", "extended validation of addresses"),
    ("MFA_", "second factors"),
    ("OAUTH_SERVER_", "the OAuth server"),
    ("PASSKEY_", "passkeys"),
    ("PASSWORD_HIBP_", "more settings of the check against leaked passwords"),
    ("RATE_LIMIT_", "this rate limit"),
    ("RELOADING_", "reloading of the configuration"),
    ("SAML_", "single sign-on"),
    ("SECURITY_CAPTCHA_", "captchas"),
    ("SECURITY_", "this setting"),
    ("SESSIONS_", "this limit on sessions"),
    ("SMS_", "messages to phones"),
    ("MAILER_", "this setting of mails"),
    ("WEBAUTHN_", "passkeys"),
];

/// GoTrue's defaults where ours differ.
const DEFAULTS: &[(&str, &str)] = &[
    (keys::SERVER_HOST.row.name, "*"),
    (keys::SERVER_PORT.row.name, "8081"),
    (keys::SERVER_PREFIX.row.name, ""),
    (keys::SERVER_REQUIRE_APIKEY.row.name, "false"),
    (keys::DATABASE_VERIFY_CERTIFICATE.row.name, "false"),
    (keys::JWT_AUD.row.name, ""),
    (keys::JWT_DEFAULT_GROUP_NAME.row.name, ""),
    (keys::AUTH_MAILER_AUTOCONFIRM.row.name, "false"),
];

/// Settings without which a GoTrue does not start: ours, and what to say. The secret may be keys instead.
const REQUIRED: [(&[&str], &str); 4] = [
    (
        &[keys::AUTH_SITE_URL.row.name],
        "GOTRUE_SITE_URL is required: where the app lives, such as https://app.example.org",
    ),
    (
        &[keys::SERVER_PUBLIC_URL.row.name],
        "API_EXTERNAL_URL is required: how browsers reach this server, such as https://example.org/auth/v1",
    ),
    (
        &[keys::JWT_SECRET.row.name, keys::JWT_KEYS.row.name],
        "GOTRUE_JWT_SECRET is required, or GOTRUE_JWT_KEYS with a key that signs",
    ),
    (
        &[keys::DATABASE_URL.row.name],
        "GOTRUE_DB_DATABASE_URL is required: postgresql://login:password@host:5432/database",
    ),
];

/// What GoTrue's names say, under ours.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) written: Vec<(&'static str, Written)>,
    /// To be used where nothing else is written.
    pub(super) defaults: Vec<(&'static str, Written)>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Collected {
    /// What has to be written and is not; `is_written` looks among all sources.
    pub(super) fn missing(is_written: impl Fn(&str) -> bool) -> Vec<Fault> {
        let is_missing = |names: &&(&[&str], &str)| !names.0.iter().any(|name| is_written(name));
        let fault = |(_, message): &(&[&str], &str)| Fault {
            source: Source::Default,
            message: (*message).to_owned(),
        };
        REQUIRED.iter().filter(is_missing).map(fault).collect()
    }
}

/// Reads the variables; `None` when there is none of GoTrue's own.
pub(super) fn collect(environment: &[(OsString, OsString)]) -> Option<Collected> {
    let mut collected = Collected::default();
    let mut given = BTreeMap::new();
    for (name, text) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        match text.to_str() {
            Some("") => {}
            Some(text) => {
                let meant = name.strip_prefix(PREFIX).unwrap_or(name);
                given.insert(meant.to_owned(), (text.to_owned(), name.to_owned()));
            }
            None => collected.faults.push(Fault {
                source: Source::Variable(name.to_owned()),
                message: "its value is not UTF-8 text".to_owned(),
            }),
        }
    }
    if given.is_empty() && collected.faults.is_empty() {
        return None;
    }
    for (variable, name) in UNPREFIXED {
        let found = environment.iter().find(|(known, _)| known == variable);
        let text = found.and_then(|(_, text)| text.to_str()).filter(|text| !text.is_empty());
        if let (Some(text), false) = (text, given.contains_key(name)) {
            given.insert(name.to_owned(), (text.to_owned(), variable.to_owned()));
        }
    }
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.and_then(|(_, text)| text.to_str()).map(ToOwned::to_owned)
    };
    Translation { given: &given, variable: &variable, out: &mut collected }.run();
    Some(collected)
}

/// The variables among `environment` that mean nothing without `--only auth`.
pub(super) fn stray(environment: &[(OsString, OsString)]) -> Vec<String> {
    let names = environment.iter().filter_map(|(name, _)| name.to_str());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(PREFIX)).map(ToOwned::to_owned).collect();
    names.sort_unstable();
    names
}

/// Value and variable by the name without prefix.
type Given = BTreeMap<String, (String, String)>;

struct Translation<'a> {
    given: &'a Given,
    variable: &'a dyn Fn(&str) -> Option<String>,
    out: &'a mut Collected,
}

impl Translation<'_> {
    fn run(&mut self) {
        for (key, text) in DEFAULTS {
            let written = Written { value: Value::Bare((*text).to_owned()), source: Source::Gotrue };
            self.out.defaults.push((key, written));
        }
        let mut later: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, (text, variable)) in self.given {
            let source = Source::Variable(variable.clone());
            if let Some(row) = setting(name) {
                self.write(row, text, source);
                continue;
            }
            match meaning(name) {
                Some(Same(key)) => {
                    if let Some(row) = keys::TABLE.iter().find(|row| row.name == key) {
                        self.write(row, text, source);
                    }
                }
                Some(Database) => self.database(text, source),
                Some(Headers) => self.headers(text, source),
                Some(LogLevel) => self.log_level(text, source),
                Some(Instead(sentence)) => {
                    self.out.warnings.push(format!("{variable} is not read: {sentence}"));
                }
                // SMTP is put together below.
                Some(Immaterial | Smtp) => {}
                None => match LATER.iter().find(|(start, _)| name.starts_with(start)) {
                    Some((_, feature)) if !is_off(text) => later.entry(feature).or_default().push(variable),
                    Some(_) => {}
                    None => self.warn_of_unknown(variable),
                },
            }
        }
        for (feature, variables) in later {
            self.out
                .warnings
                .push(format!("{}: not available yet ({feature}); it is ignored", variables.join(", ")));
        }
        self.smtp();
    }

    fn write(&mut self, row: &'static Row, text: &str, source: Source) {
        let value = Value::Bare(in_our_words(row, text));
        self.out.written.push((row.name, Written { value, source }));
    }

    fn fault(&mut self, source: Source, message: String) {
        self.out.faults.push(Fault { source, message });
    }

    fn database(&mut self, text: &str, source: Source) {
        let connection = match libpq::connection(&without_search_path(text.trim()), self.variable) {
            Ok(connection) => connection,
            Err(problem) => return self.fault(source, format!("the connection string {problem}")),
        };
        for warning in connection.warnings {
            self.out.warnings.push(format!("{source}: {warning}"));
        }
        if connection.verifies {
            self.write(&keys::DATABASE_VERIFY_CERTIFICATE.row, "true", source.clone());
        }
        let written = Written { value: Value::Bare(connection.text), source };
        self.out.written.push((keys::DATABASE_URL.row.name, written));
    }

    fn log_level(&mut self, text: &str, source: Source) {
        let filter = match text.to_ascii_lowercase().as_str() {
            "trace" | "debug" => "debug,basalt::access=info",
            "info" => "info,basalt::access=info",
            "warn" | "warning" => "warn,basalt::access=off",
            "error" | "fatal" | "panic" => "error,basalt::access=off",
            _ => {
                let problem = "must be one of trace, debug, info, warn, error, fatal, panic";
                return self.fault(source, problem.to_owned());
            }
        };
        self.write(&keys::SERVER_LOG.row, filter, source);
    }

    /// `{"X-Name":["value"]}`
    fn headers(&mut self, text: &str, source: Source) {
        let Ok(headers) = serde_json::from_str::<BTreeMap<String, Vec<String>>>(text) else {
            let problem = "must be a JSON object with a list of texts for each name";
            return self.fault(source, problem.to_owned());
        };
        let pairs = headers
            .into_iter()
            .flat_map(|(name, values)| {
                values.into_iter().map(move |value| (name.clone(), Value::Text(value)))
            })
            .collect();
        let written = Written { value: Value::Pairs(pairs), source };
        self.out.written.push((keys::MAIL_HEADERS.row.name, written));
    }

    /// `smtp://user:password@host:587`; port 465 speaks TLS from the first byte.
    fn smtp(&mut self) {
        let part = |name: &str| self.given.get(name).map(|(text, variable)| (text.as_str(), variable));
        let Some((host, variable)) = part("SMTP_HOST") else { return };
        let source = Source::Variable(variable.clone());
        let port = part("SMTP_PORT").map_or("587", |(port, _)| port);
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            let source = part("SMTP_PORT").map_or(source, |(_, name)| Source::Variable(name.clone()));
            return self.fault(source, "must be a port, a whole number from 1 to 65535".to_owned());
        }
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let login = match (part("SMTP_USER"), part("SMTP_PASS")) {
            (Some((user, _)), Some((password, _))) => format!("{}:{}@", escaped(user), escaped(password)),
            (Some((user, _)), None) => format!("{}@", escaped(user)),
            (None, _) => String::new(),
        };
        let scheme = if port == "465" { "smtps" } else { "smtp" };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        self.write(&keys::MAIL_SMTP_URL.row, &format!("{scheme}://{login}{host}:{port}"), source);
    }

    fn warn_of_unknown(&mut self, variable: &str) {
        let known = NAMES.iter().map(|(name, _)| (*name).to_owned()).chain(settings().map(|(name, _)| name));
        let known = known.filter(|name| !name.ends_with('_')).map(|name| format!("{PREFIX}{name}"));
        let advice =
            nearest(variable, known).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        self.out.warnings.push(format!("{variable}: GoTrue has no such setting; it is ignored{advice}"));
    }
}

/// GoTrue's name of each of our settings that has the same: `auth.site_url` is `SITE_URL`, `jwt.exp` is `JWT_EXP`.
fn settings() -> impl Iterator<Item = (String, &'static Row)> {
    keys::TABLE.iter().filter_map(|row| {
        let name = match row.name.strip_prefix("auth.") {
            Some(name) => name.to_owned(),
            None if row.name.starts_with("jwt.") => row.name.replace('.', "_"),
            None => return None,
        };
        Some((name.to_ascii_uppercase(), *row))
    })
}

fn setting(name: &str) -> Option<&'static Row> {
    // Spelled as one word there.
    let name = name.replace("_URLPATHS_", "_URL_PATHS_");
    settings().find(|(known, _)| *known == name).map(|(_, row)| row)
}

/// The whole name first, then what starts like it.
fn meaning(name: &str) -> Option<Meaning> {
    let exact = NAMES.iter().find(|(known, _)| *known == name);
    let start = || NAMES.iter().find(|(known, _)| known.ends_with('_') && name.starts_with(known));
    exact.or_else(start).map(|(_, meaning)| *meaning)
}

/// Go's way to write what is off, or none.
fn is_off(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

/// Go writes `t`, `0s` and `30.0` where we write `true`, `0` and `30`.
fn in_our_words(row: &Row, text: &str) -> String {
    let expected = (row.expected)();
    if expected == bool::expected() {
        match text {
            "t" | "T" => return "true".to_owned(),
            "f" | "F" => return "false".to_owned(),
            _ => {}
        }
    }
    if expected == std::time::Duration::expected() && matches!(text, "0s" | "0m" | "0h" | "0ms") {
        return "0".to_owned();
    }
    // A rate may have a fraction there; what is below one whole request is none.
    if expected.starts_with("a whole number")
        && let Some((whole, fraction)) = text.split_once('.')
        && !whole.is_empty()
        && fraction.bytes().all(|digit| digit.is_ascii_digit())
    {
        return whole.to_owned();
    }
    text.to_owned()
}

/// Go's driver takes settings of the session in the URL; the service sets its own search path.
fn without_search_path(url: &str) -> String {
    let Some((base, query)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("search_path=")).collect();
    if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
}
