//! GoTrue's names and what each means here. To add one, add its line to [`NAMES`]; a setting of ours that only has
//! GoTrue's name in upper case needs none ([`settings`]).

use crate::config::Setting;

/// What the variables start with.
pub(super) const PREFIX: &str = "GOTRUE_";

/// Names that count without the prefix as well, with what they mean.
pub(super) const UNPREFIXED: [(&str, &str); 3] =
    [("API_EXTERNAL_URL", "API_EXTERNAL_URL"), ("DATABASE_URL", "DB_DATABASE_URL"), ("PORT", "API_PORT")];

/// What becomes of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
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
pub(super) const NAMES: &[(&str, Meaning)] = &[
    ("API_EXTERNAL_URL", Same("server.public_url")),
    ("API_HOST", Same("server.host")),
    ("API_PORT", Same("server.port")),
    ("API_ENDPOINT", Immaterial),
    ("API_REQUEST_ID_HEADER", Immaterial),
    ("AUDIT_LOG_", Immaterial),
    ("COOKIE_", Immaterial),
    ("CORS_ALLOWED_HEADERS", Immaterial),
    ("DB_ADVISOR_", Immaterial),
    ("DB_CONN_MAX_IDLE_TIME", Same("database.pool_idle_timeout")),
    ("DB_CONN_MAX_LIFETIME", Same("database.pool_max_lifetime")),
    ("DB_CONN_PERCENTAGE", Immaterial),
    ("DB_DATABASE_URL", Database),
    ("DB_DB_NAMESPACE", Immaterial),
    ("DB_DRIVER", Immaterial),
    ("DB_HEALTH_CHECK_PERIOD", Immaterial),
    ("DB_MAX_IDLE_POOL_SIZE", Immaterial),
    ("DB_MAX_POOL_SIZE", Same("database.pool_size")),
    ("DB_MIGRATIONS_PATH", Immaterial),
    ("DB_NAMESPACE", Immaterial),
    ("DISABLE_SIGNUPS", Same("auth.disable_signup")),
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
    ("SMTP_ADMIN_EMAIL", Same("mail.from")),
    ("SMTP_HEADERS", Headers),
    ("SMTP_HOST", Smtp),
    ("SMTP_LOGGING_ENABLED", Immaterial),
    ("SMTP_MAX_FREQUENCY", Same("mail.max_frequency")),
    ("SMTP_PASS", Smtp),
    ("SMTP_PORT", Smtp),
    ("SMTP_SENDER_NAME", Same("mail.sender_name")),
    ("SMTP_USER", Smtp),
    ("TRACING_", Immaterial),
];

/// Features that a later release brings, by the start of their names.
pub(super) const LATER: &[(&str, &str)] = &[
    ("CUSTOM_OAUTH_", "sign-in through providers of your own"),
    ("EXTERNAL_", "sign-in through other providers"),
    ("HOOK_", "hooks"),
    ("INDEX_WORKER_", "the index worker"),
    ("MAILER_EMAIL_VALIDATION_", "a service that validates addresses"),
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
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("server.host", "*"),
    ("server.port", "8081"),
    ("server.prefix", ""),
    ("server.require_apikey", "false"),
    ("database.verify_certificate", "false"),
    ("jwt.aud", ""),
    ("jwt.default_group_name", ""),
    ("auth.mailer_autoconfirm", "false"),
];

/// Settings without which a GoTrue does not start: ours, and what to say. The secret may be keys instead.
pub(super) const REQUIRED: [(&[&str], &str); 4] = [
    (&["auth.site_url"], "GOTRUE_SITE_URL is required: where the app lives, such as https://app.example.org"),
    (
        &["server.public_url"],
        "API_EXTERNAL_URL is required: how browsers reach this server, such as https://example.org/auth/v1",
    ),
    (&["jwt.secret", "jwt.keys"], "GOTRUE_JWT_SECRET is required, or GOTRUE_JWT_KEYS with a key that signs"),
    (&["database.url"], "GOTRUE_DB_DATABASE_URL is required: postgresql://login:password@host:5432/database"),
];

/// GoTrue's name of each of our settings that has the same: `auth.site_url` is `SITE_URL`, `jwt.exp` is `JWT_EXP`.
pub(super) fn settings() -> impl Iterator<Item = (String, &'static Setting)> {
    crate::config::settings().filter_map(|row| {
        let name = match row.key.strip_prefix("auth.") {
            Some(name) => name.to_owned(),
            None if row.key.starts_with("jwt.") => row.key.replace('.', "_"),
            None => return None,
        };
        Some((name.to_ascii_uppercase(), row))
    })
}

pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    // Spelled as one word there.
    let name = name.replace("_URLPATHS_", "_URL_PATHS_");
    settings().find(|(known, _)| *known == name).map(|(_, row)| row)
}

/// The whole name first, then what starts like it.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let exact = NAMES.iter().find(|(known, _)| *known == name);
    let start = || NAMES.iter().find(|(known, _)| known.ends_with('_') && name.starts_with(known));
    exact.or_else(start).map(|(_, meaning)| *meaning)
}
