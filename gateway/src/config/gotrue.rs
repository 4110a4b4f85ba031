//! GoTrue's own configuration, for `--only auth`: maps `GOTRUE_*` variables to our settings (auth.md 3.24).
//!
//! With one of them, GoTrue's defaults apply instead of ours (port 8081 on every address, at the root, no API keys, empty
//! audience and role), and so do the few names that GoTrue reads without its prefix (`DATABASE_URL`, `PORT`,
//! `API_EXTERNAL_URL`). Settings whose name is GoTrue's in lower case (`GOTRUE_SITE_URL` is `auth.site_url`, `GOTRUE_JWT_EXP` is
//! `jwt.exp`) need no entry here.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use basalt_core::settings::{Fault, Source, Value, Written};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::foreign::{self, Collected, Entry, Form, Meaning, Name, describe};
use super::libpq;
use super::sections::settings;
use Meaning::{As, Ignored, Instead, Later, Same, Special};

/// GoTrue's names, without the prefix, that are not our setting names in upper case.
const NAMES: &[(&str, Meaning)] = &[
    ("API_EXTERNAL_URL", Same("server.public_url")),
    ("API_HOST", Same("server.host")),
    ("API_PORT", Same("server.port")),
    ("API_ENDPOINT", Ignored),
    ("API_REQUEST_ID_HEADER", Ignored),
    ("AUDIT_LOG_", Ignored),
    ("COOKIE_", Ignored),
    ("CORS_ALLOWED_HEADERS", Ignored),
    ("DB_ADVISOR_", Ignored),
    ("DB_CONN_MAX_IDLE_TIME", Same("database.pool_idle_timeout")),
    ("DB_CONN_MAX_LIFETIME", Same("database.pool_max_lifetime")),
    ("DB_CONN_PERCENTAGE", Ignored),
    ("DB_DATABASE_URL", Special("`database.url` and `database.verify_certificate`")),
    ("DB_DB_NAMESPACE", Ignored),
    ("DB_DRIVER", Ignored),
    ("DB_HEALTH_CHECK_PERIOD", Ignored),
    ("DB_MAX_IDLE_POOL_SIZE", Ignored),
    ("DB_MAX_POOL_SIZE", Same("database.pool_size")),
    ("DB_MIGRATIONS_PATH", Ignored),
    ("DB_NAMESPACE", Ignored),
    ("DISABLE_SIGNUPS", Same("auth.disable_signup")),
    ("EXPERIMENTAL_", Ignored),
    ("EXTERNAL_IOS_BUNDLE_ID", Ignored),
    ("INSTANCE_ID", Ignored),
    ("JWT_VALIDMETHODS", Ignored),
    ("JWT_VALID_METHODS", Ignored),
    ("LOG_LEVEL", As("server.log", log_filter)),
    ("LOG_", Ignored),
    ("LOGGING_LOG_LEVEL", As("server.log", log_filter)),
    ("LOGGING_", Ignored),
    ("METRICS_", Ignored),
    ("OPERATOR_TOKEN", Ignored),
    ("PROFILER_", Ignored),
    (
        "RATE_LIMIT_HEADER",
        Instead(
            "rate limits use the client address; BASALT_SERVER_TRUSTED_PROXIES lists the proxies whose X-Forwarded-For is trusted",
        ),
    ),
    ("SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION", Ignored),
    ("SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE", Ignored),
    ("SECURITY_DB_ENCRYPTION_", Ignored),
    ("SMTP_ADMIN_EMAIL", Same("mail.from")),
    ("SMTP_HEADERS", Special("`mail.headers`")),
    ("SMTP_HOST", Special("a part of `mail.smtp_url`")),
    ("SMTP_LOGGING_ENABLED", Ignored),
    ("SMTP_MAX_FREQUENCY", Same("mail.max_frequency")),
    ("SMTP_PASS", Special("a part of `mail.smtp_url`")),
    ("SMTP_PORT", Special("a part of `mail.smtp_url`")),
    ("SMTP_SENDER_NAME", Same("mail.sender_name")),
    ("SMTP_USER", Special("a part of `mail.smtp_url`")),
    ("TRACING_", Ignored),
    // Prefixes of features that are not available yet.
    ("CUSTOM_OAUTH_", Later("sign-in through custom providers")),
    ("EXTERNAL_", Later("sign-in with this provider")),
    ("HOOK_", Later("this hook")),
    ("INDEX_WORKER_", Later("the index worker")),
    ("MAILER_EMAIL_VALIDATION_", Later("a service that validates addresses")),
    ("MFA_", Later("this kind of second factor")),
    ("OAUTH_SERVER_", Later("the OAuth server")),
    ("PASSKEY_", Later("this setting of passkeys")),
    ("PASSWORD_HIBP_", Later("further settings of the leaked password check")),
    ("RATE_LIMIT_", Later("this rate limit")),
    ("RELOADING_", Later("reloading of the configuration")),
    ("SAML_", Later("single sign-on")),
    ("SECURITY_", Later("this setting")),
    ("SESSIONS_", Later("this limit on sessions")),
    ("SMS_", Later("this provider of text messages")),
    ("MAILER_", Later("this mail setting")),
    ("WEBAUTHN_", Later("this setting of passkeys")),
];

/// Names that are also read without the prefix, and their table entry.
const UNPREFIXED: [(&str, &str); 3] =
    [("API_EXTERNAL_URL", "API_EXTERNAL_URL"), ("DATABASE_URL", "DB_DATABASE_URL"), ("PORT", "API_PORT")];

/// Settings that GoTrue requires at startup: our keys, any one of which suffices, and the error.
const REQUIRED: [(&[&str], &str); 4] = [
    (
        &["auth.site_url"],
        "GOTRUE_SITE_URL is required: the address of the app, such as https://app.example.org",
    ),
    (
        &["server.public_url"],
        "API_EXTERNAL_URL is required: the public address of this server, such as https://example.org/auth/v1",
    ),
    (&["jwt.secret", "jwt.keys"], "GOTRUE_JWT_SECRET is required, or GOTRUE_JWT_KEYS with a signing key"),
    (&["database.url"], "GOTRUE_DB_DATABASE_URL is required: postgresql://login:password@host:5432/database"),
];

/// Prefixes of our settings that GoTrue does not have; docs/CONFIG.md does not list them under GoTrue's names.
const OURS_ALONE: [&str; 7] = [
    "jwt.anon_key",
    "jwt.service_key",
    "jwt.publishable_key",
    "jwt.secret_key",
    "jwt.secret_is_base64",
    "auth.password_argon2_",
    "auth.password_hash_",
];

pub(super) fn form() -> Form {
    let same = settings().filter_map(|setting| {
        let name = match setting.key.strip_prefix("auth.") {
            Some(name) => name.to_owned(),
            None if setting.key.starts_with("jwt.") => setting.key.replace('.', "_"),
            None => return None,
        };
        // GoTrue spells this as one word.
        let name = name.to_ascii_uppercase().replace("_URL_PATHS_", "_URLPATHS_");
        let is_rate = setting.key.starts_with("auth.rate_limit_");
        let meaning = match setting.key {
            "auth.sms_test_otp" => As(setting.key, pairs),
            key if is_rate => As(key, whole_rate),
            key => Same(key),
        };
        Some(Name { name: name.into(), aliases: &[], meaning })
    });
    Form {
        server: "GoTrue",
        prefix: "GOTRUE_",
        names: same.chain(NAMES.iter().map(|(name, meaning)| Name::new(name, *meaning))).collect(),
        defaults: &[
            ("server.host", "*"),
            ("server.port", "8081"),
            ("server.prefix", ""),
            ("server.require_apikey", "false"),
            ("database.verify_certificate", "false"),
            ("jwt.aud", ""),
            ("jwt.default_group_name", ""),
            ("auth.mailer_autoconfirm", "false"),
        ],
    }
}

/// Required settings that are not written in any source.
pub(super) fn missing(is_written: impl Fn(&str) -> bool) -> Vec<Fault> {
    let missing = REQUIRED.iter().filter(|(keys, _)| !keys.iter().any(|key| is_written(key)));
    missing.map(|(_, message)| Fault { source: Source::Default, message: (*message).to_owned() }).collect()
}

/// Collects the variables; `None` if no `GOTRUE_*` variable is set.
pub(super) fn collect(environment: &[(OsString, OsString)]) -> Option<Collected> {
    let form = form();
    let lookup = |name: &str| foreign::variable(environment, name);
    let mut out = Collected::default();
    form.variables(environment, str::to_owned, &mut out);
    if out.entries.is_empty() && out.faults.is_empty() {
        return None;
    }
    for (variable, name) in UNPREFIXED {
        let value = lookup(variable).filter(|text| !text.is_empty());
        if let (Some(value), None) = (value, out.get_spelled(name, false)) {
            let source = Source::Variable(variable.to_owned());
            out.entries.push(Entry { name: name.to_owned(), value, source });
        }
    }
    form.warn_about_unknown(&mut out);
    form.translate(&mut out);
    if let Some((text, source)) = out.get_spelled("DB_DATABASE_URL", false) {
        match libpq::connection(text.trim(), &lookup) {
            Ok(connection) => {
                let url = out.database_url(connection, source);
                out.written.push(("database.url", url));
            }
            Err(problem) => out.fault(source, format!("the connection string {problem}")),
        }
    }
    headers(&mut out);
    smtp(&mut out);
    Some(out)
}

fn log_filter(text: &str) -> Result<String, String> {
    let filter = match text.to_ascii_lowercase().as_str() {
        "trace" | "debug" => "debug,basalt::access=info",
        "info" => "info,basalt::access=info",
        "warn" | "warning" => "warn,basalt::access=off",
        "error" | "fatal" | "panic" => "error,basalt::access=off",
        _ => return Err("must be one of trace, debug, info, warn, error, fatal, panic".to_owned()),
    };
    Ok(filter.to_owned())
}

/// GoTrue separates name and value by a colon or an equals sign.
fn pairs(text: &str) -> Result<String, String> {
    Ok(text.replace(':', "="))
}

/// GoTrue's rates may have a fraction; round it down.
fn whole_rate(text: &str) -> Result<String, String> {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    Ok(match text.split_once('.') {
        Some((whole, fraction)) if is_number(whole) && is_number(fraction) => whole.to_owned(),
        _ => text.to_owned(),
    })
}

/// `{"X-Name":["value"]}`
fn headers(out: &mut Collected) {
    let Some((text, source)) = out.get_spelled("SMTP_HEADERS", false) else { return };
    let Ok(headers) = serde_json::from_str::<BTreeMap<String, Vec<String>>>(&text) else {
        return out.fault(source, "must be a JSON object with a list of strings for each name".to_owned());
    };
    let pairs = headers
        .into_iter()
        .flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), Value::Text(value))));
    out.written.push(("mail.headers", Written { value: Value::Pairs(pairs.collect()), source }));
}

/// Builds `smtp://user:password@host:587`; port 465 uses implicit TLS.
fn smtp(out: &mut Collected) {
    let part = |name: &str| out.get_spelled(name, false);
    let Some((host, source)) = part("SMTP_HOST") else { return };
    let (port, port_source) = part("SMTP_PORT").unwrap_or_else(|| ("587".to_owned(), source.clone()));
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return out.fault(port_source, "must be a port, a whole number from 1 to 65535".to_owned());
    }
    let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let login = match (part("SMTP_USER"), part("SMTP_PASS")) {
        (Some((user, _)), Some((password, _))) => format!("{}:{}@", escaped(&user), escaped(&password)),
        (Some((user, _)), None) => format!("{}@", escaped(&user)),
        (None, _) => String::new(),
    };
    let scheme = if port == "465" { "smtps" } else { "smtp" };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    out.write("mail.smtp_url", &format!("{scheme}://{login}{host}:{port}"), source);
}

/// The section of docs/CONFIG.md about GoTrue's names.
pub(super) fn markdown() -> String {
    let form = form();
    let required: String = REQUIRED.iter().map(|(_, sentence)| format!("- {sentence}\n")).collect();
    let mut text = form.markdown(include_str!("gotrue.md")).replace("{required}\n", &required);
    let is_ours_alone = |meaning| {
        let Same(key) = meaning else { return false };
        OURS_ALONE.iter().any(|start| key.starts_with(start))
    };
    for name in form.names.iter().filter(|name| !is_ours_alone(name.meaning)) {
        let all = if name.is_prefix() { "*" } else { "" };
        let others = if matches!(name.meaning, Later(_)) { ", others" } else { "" };
        let _ = writeln!(text, "| `GOTRUE_{}{all}`{others} | {} |", name.name, describe(name.meaning));
    }
    text
}
