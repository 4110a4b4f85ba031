use std::ffi::OsString;

use crate::config::{CommandLine, Config, ConfigErrors, Only, Source};
use basalt_core::settings::Value;

const REQUIRED: [(&str, &str); 4] = [
    ("GOTRUE_SITE_URL", "http://localhost:3000"),
    ("API_EXTERNAL_URL", "https://example.org/auth/v1"),
    ("GOTRUE_JWT_SECRET", "37c304f8-51aa-419a-a1af-06154e63707a"),
    ("DATABASE_URL", "postgres://postgres:root@db:5432/postgres?search_path=auth&sslmode=disable"),
];

fn load(own: &[(&str, &str)], only: Option<Only>) -> Result<Config, ConfigErrors> {
    let environment = REQUIRED
        .iter()
        .filter(|(name, _)| !own.iter().any(|(own, _)| own == name))
        .chain(own)
        .map(|(name, text)| (OsString::from(name), OsString::from(text)))
        .collect();
    let command_line = CommandLine { only, ..CommandLine::default() };
    Config::from_origin(&command_line, environment, std::env::temp_dir())
}

fn gotrue(own: &[(&str, &str)]) -> Config {
    load(own, Some(Only::Auth)).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn gotrue_names_enable_gotrue_defaults() {
    let config = gotrue(&[]);
    assert_eq!(config.server.host.to_string(), "*");
    assert_eq!(config.server.port, 8081);
    assert_eq!(config.server.prefix.as_deref(), Some(""));
    assert!(!config.server.require_apikey);
    assert_eq!((config.auth.jwt.aud.as_str(), config.auth.jwt.default_group_name.as_str()), ("", ""));
    assert!(!config.auth.mailer_autoconfirm);
    assert_eq!(config.auth.external_url, "https://example.org/auth/v1", "the path is kept");
    assert_eq!(config.auth.site_url, "http://localhost:3000");
    assert!(config.is_guest());
    let url = config.database.url.unwrap();
    assert!(url.expose_secret().contains("host='db'") && !url.expose_secret().contains("search_path"));
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn variables_keep_their_meaning() {
    let config = gotrue(&[
        ("GOTRUE_API_HOST", "0.0.0.0"),
        ("GOTRUE_API_PORT", "9999"),
        ("PORT", "1"),
        ("GOTRUE_JWT_EXP", "1800"),
        ("GOTRUE_JWT_AUD", "authenticated"),
        ("GOTRUE_JWT_ADMIN_ROLES", "service_role,supabase_admin,boss"),
        ("GOTRUE_DISABLE_SIGNUP", "t"),
        ("GOTRUE_MAILER_OTP_EXP", "3600"),
        ("GOTRUE_SMTP_MAX_FREQUENCY", "0s"),
        ("GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL", "5"),
        ("GOTRUE_RATE_LIMIT_OTP", "30.5"),
        ("GOTRUE_RATE_LIMIT_VERIFY", "100"),
        ("GOTRUE_SESSIONS_TIMEBOX", "24h"),
        ("GOTRUE_URI_ALLOW_LIST", "https://a.example.org/**,https://b.example.org"),
        ("GOTRUE_DB_MAX_POOL_SIZE", "7"),
        ("GOTRUE_LOG_LEVEL", "ERROR"),
        ("GOTRUE_MAILER_SUBJECTS_CONFIRMATION", "Please confirm"),
        ("GOTRUE_MAILER_URLPATHS_CONFIRMATION", "/auth/v1/verify"),
        ("GOTRUE_SMTP_HEADERS", r#"{"X-Kind":["$messageType"]}"#),
    ]);
    assert_eq!(config.mail.headers, [("X-Kind".to_owned(), "$messageType".to_owned())]);
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(config.server.port, 9999, "the prefixed name wins");
    assert_eq!((config.auth.jwt.exp, config.auth.jwt.aud.as_str()), (1800, "authenticated"));
    assert_eq!(config.auth.jwt.admin_roles.len(), 3);
    assert!(config.auth.disable_signup);
    assert_eq!((config.auth.mailer_otp_exp, config.auth.mailer_max_frequency), (3600, 0));
    assert_eq!(config.auth.security_refresh_token_reuse_interval, 5);
    assert_eq!((config.auth.rate_limit_otp, config.auth.rate_limit_verify), (30, 100));
    assert_eq!(config.auth.sessions_timebox, 86_400);
    assert_eq!(config.auth.uri_allow_list.len(), 2);
    assert_eq!(config.database.auth_pool_size, 7);
    assert_eq!(config.server.log, "error,basalt::access=off");
}

#[test]
fn smtp_url_is_built_from_its_parts() {
    let smtp = |own: &[(&str, &str)]| {
        let sender =
            [("GOTRUE_SMTP_ADMIN_EMAIL", "admin@example.org"), ("GOTRUE_SMTP_HOST", "mail.example.org")];
        let given = [&sender[..], own].concat();
        let config = gotrue(&given);
        assert_eq!(config.mail.from, "admin@example.org");
        assert!(config.mail.smtp_url.is_some());
        let environment: Vec<(OsString, OsString)> =
            given.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))).collect();
        let collected = super::collect(&environment).unwrap();
        let url = collected.written.into_iter().find(|(name, _)| *name == "mail.smtp_url").unwrap().1;
        let Value::Bare(text) = url.value else { panic!("the URL is not a bare value") };
        text
    };
    assert_eq!(smtp(&[]), "smtp://mail.example.org:587");
    assert_eq!(
        smtp(&[("GOTRUE_SMTP_PORT", "465"), ("GOTRUE_SMTP_USER", "a@b"), ("GOTRUE_SMTP_PASS", "p:/@ ss")]),
        "smtps://a%40b:p%3A%2F%40%20ss@mail.example.org:465"
    );
}

#[test]
fn unsupported_settings_warn_by_name() {
    let warnings = gotrue(&[
        ("GOTRUE_EXTERNAL_SNAPCHAT_ENABLED", "true"),
        ("GOTRUE_EXTERNAL_TWITTER_ENABLED", "false"),
        ("GOTRUE_SAML_ENABLED", "true"),
        ("GOTRUE_SITE_URI", "http://localhost:3000"),
        ("GOTRUE_OPERATOR_TOKEN", "unused"),
        ("GOTRUE_RATE_LIMIT_HEADER", "X-Forwarded-For"),
    ])
    .warnings;
    let has = |text: &str| warnings.iter().filter(|warning| warning.contains(text)).count();
    assert_eq!(has("GOTRUE_EXTERNAL_SNAPCHAT_ENABLED: not available yet (sign-in with this provider)"), 1);
    assert_eq!(has("GOTRUE_EXTERNAL_TWITTER_ENABLED"), 0, "a disabled feature does not warn");
    assert_eq!(has("GOTRUE_SAML_ENABLED: not available yet (single sign-on)"), 1);
    assert_eq!(has("GOTRUE_SITE_URI: GoTrue has no such setting; ignored; did you mean GOTRUE_SITE_URL?"), 1);
    assert_eq!(has("GOTRUE_OPERATOR_TOKEN"), 0);
    assert_eq!(has("BASALT_SERVER_TRUSTED_PROXIES"), 1);
}

#[test]
fn faults_name_the_variable() {
    let wrong = [("GOTRUE_JWT_EXP", "soon"), ("GOTRUE_MAILER_OTP_LENGTH", "4"), ("PORT", "many")];
    let faults = load(&wrong, Some(Only::Auth)).unwrap_err().0;
    for name in ["GOTRUE_JWT_EXP", "GOTRUE_MAILER_OTP_LENGTH", "PORT"] {
        let named = |source: &Source| *source == Source::Variable(name.to_owned());
        assert!(faults.iter().any(|fault| named(&fault.source)), "{name}: {faults:?}");
    }
}

#[test]
fn ignored_without_only_auth() {
    let config = load(&[("GOTRUE_JWT_EXP", "soon")], None).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.server.port, 8000);
    assert!(config.database.url.is_none(), "DATABASE_URL is not ours then");
    assert!(config.warnings.iter().any(|warning| warning.contains("--only auth")), "{:?}", config.warnings);
}

#[test]
fn without_gotrue_variables_our_defaults_apply() {
    let environment = vec![(OsString::from("PORT"), OsString::from("9"))];
    let command_line = CommandLine { only: Some(Only::Auth), ..CommandLine::default() };
    let config = Config::from_origin(&command_line, environment, std::env::temp_dir()).unwrap();
    assert_eq!((config.server.port, config.server.prefix.as_deref()), (8000, None));
    assert!(!config.is_guest());
}
