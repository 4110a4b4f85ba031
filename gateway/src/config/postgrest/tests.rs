use std::ffi::OsString;

use super::form;
use crate::config::foreign::Meaning;
use crate::config::{CommandLine, Config, ConfigErrors, Only};

fn load_with(
    file: Option<&str>,
    variables: &[(&str, &str)],
    only: Option<Only>,
) -> (tempfile::TempDir, Result<Config, ConfigErrors>) {
    let dir = tempfile::tempdir().unwrap();
    let postgrest_file = file.map(|text| {
        std::fs::write(dir.path().join("postgrest.conf"), text).unwrap();
        "postgrest.conf".into()
    });
    std::fs::write(dir.path().join("secret"), "a secret from a file, of enough length\n").unwrap();
    let environment =
        variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))).collect();
    let command_line = CommandLine { only, postgrest_file, ..CommandLine::default() };
    let config = Config::from_origin(&command_line, environment, dir.path().to_path_buf());
    (dir, config)
}

const URI: (&str, &str) = ("PGRST_DB_URI", "postgres://login:hidden@h:6000/d");

/// Loads these variables, with a database URL unless they include one.
fn with(variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let uri = Some(URI).filter(|(uri, _)| variables.iter().all(|(name, _)| name != uri));
    let variables: Vec<_> = uri.into_iter().chain(variables.iter().copied()).collect();
    load_with(None, &variables, Some(Only::Rest)).1
}

fn in_file(text: &str) -> Result<Config, ConfigErrors> {
    load_with(Some(text), &[URI], Some(Only::Rest)).1
}

fn effective(config: &Config, name: &str) -> String {
    let found = config.effective.iter().find(|setting| setting.setting.key == name).unwrap();
    found.value.clone().unwrap_or_default()
}

fn faults(result: Result<Config, ConfigErrors>) -> Vec<String> {
    let faults = result.unwrap_err().0;
    faults.into_iter().map(|fault| format!("{}: {}", fault.source, fault.message)).collect()
}

#[test]
fn postgrest_names_enable_postgrest_defaults() {
    let config = with(&[]).unwrap();
    assert!(config.is_postgrest);
    assert_eq!(config.warnings, Vec::<String>::new());
    let server = &config.server;
    assert_eq!((server.host.to_string(), server.port), ("0.0.0.0".to_owned(), 3000));
    assert_eq!((server.prefix.as_deref(), server.require_apikey), (Some(""), false));
    assert_eq!((server.admin_port, &server.unix_socket, &server.cors_origins), (None, &None, &None));
    let database = &config.database;
    assert_eq!((database.pool_size, database.pool_timeout.as_secs()), (10, 10));
    assert_eq!((database.pool_idle_timeout.as_secs(), database.pool_max_lifetime.as_secs()), (30, 1800));
    assert!(!database.verify_certificate && config.rest.channel_enabled);
    let ours = basalt_rest::config::RestConfig::default();
    let expected = basalt_rest::config::RestConfig {
        extra_search_path: vec!["public".to_owned()],
        anon_role: None,
        max_rows: None,
        safe_update: false,
        ..ours
    };
    assert_eq!(config.rest, expected);
    assert!(config.jwt.secret.is_none() && config.jwt.keys.is_none());
}

#[test]
fn without_postgrest_names_our_defaults_apply() {
    let variables =
        [("BASALT_DATABASE_URL", "postgresql://u@h/d"), ("PGUSER", "somebody"), ("PGRST_DB_POOL", "")];
    let config = load_with(None, &variables, Some(Only::Rest)).1.unwrap();
    assert_eq!((config.is_postgrest, config.server.port), (false, 8000));
    assert_eq!(config.rest.anon_role.as_deref(), Some("anon"));
    // With another service these variables have no effect, and a warning says so.
    let variables = [("PGRST_DB_SCHEMAS", "api"), ("PGRST_DB_POOL", "1")];
    let config = load_with(None, &variables, None).1.unwrap();
    assert_eq!(config.rest.schemas, ["public"]);
    assert!(config.warnings[0].starts_with("PGRST_DB_POOL and similar variables"), "{:?}", config.warnings);
    let (_dir, refused) = load_with(Some("db-pool = 1"), &[], None);
    assert!(faults(refused)[0].contains("requires --only rest"));
}

/// PostgREST's name, its value, our setting, and how `basalt config` shows it; one line per name with a single meaning.
const VALUES: &[(&str, &str, &str, &str)] = &[
    ("admin-server-host", "127.0.0.9", "server.admin_host", "\"127.0.0.9\""),
    ("admin-server-port", "3001", "server.admin_port", "3001"),
    ("client-error-verbosity", "minimal", "rest.client_error_verbosity", "\"minimal\""),
    ("db-aggregates-enabled", "true", "rest.aggregates", "true"),
    ("db-anon-role", "web_anon", "rest.anon_role", "\"web_anon\""),
    ("db-channel", "reloads", "rest.channel", "\"reloads\""),
    ("db-channel-enabled", "false", "rest.channel_enabled", "false"),
    ("db-config", "false", "rest.database_settings", "false"),
    ("db-extra-search-path", "public, extensions", "rest.extra_search_path", "[\"public\", \"extensions\"]"),
    (
        "db-hoisted-tx-settings",
        "work_mem,statement_timeout",
        "rest.hoisted_tx_settings",
        "[\"work_mem\", \"statement_timeout\"]",
    ),
    ("db-max-rows", "7", "rest.max_rows", "7"),
    ("db-plan-enabled", "1", "rest.plan_enabled", "true"),
    ("db-pool", "3", "database.pool_size", "3"),
    ("db-pool-acquisition-timeout", "4", "database.pool_timeout", "\"4s\""),
    ("db-pool-max-idletime", "5", "database.pool_idle_timeout", "\"5s\""),
    ("db-pool-max-lifetime", "6", "database.pool_max_lifetime", "\"6s\""),
    ("db-pre-config", "conf.before", "rest.pre_config", "\"conf.before\""),
    ("db-pre-request", "api.check", "rest.pre_request", "\"api.check\""),
    ("db-prepared-statements", "false", "database.statement_cache", "0"),
    ("db-root-spec", "api.root", "rest.root_spec", "\"api.root\""),
    ("db-schemas", "v1, v2", "rest.schemas", "[\"v1\", \"v2\"]"),
    ("db-tx-end", "rollback-allow-override", "rest.tx_end", "\"rollback-allow-override\""),
    ("db-uri", "postgres://a:b@c/d", "database.authenticator_url", "\"postgresql://a:(set)@c:5432/d\""),
    ("jwt-aud", "an audience", "rest.jwt_aud", "\"an audience\""),
    ("jwt-role-claim-key", ".app.roles[0]", "rest.role_claim", "\".app.roles[0]\""),
    ("jwt-secret", "a secret of at least thirty-two bytes", "jwt.secret", "(set)"),
    ("jwt-secret", "@secret", "jwt.secret", "(set)"),
    ("jwt-secret-is-base64", "true", "jwt.secret_is_base64", "true"),
    ("log-level", "info", "server.log", "\"info,basalt::access=info\""),
    ("log-query", "main-query", "server.log", "\"info,basalt::access=off,basalt::query=debug\""),
    ("openapi-mode", "ignore-privileges", "rest.openapi_mode", "\"ignore-privileges\""),
    ("openapi-security-active", "yes", "rest.openapi_security_active", "true"),
    (
        "openapi-server-proxy-uri",
        "https://a.example/base",
        "rest.openapi_server_proxy_uri",
        "\"https://a.example/base\"",
    ),
    (
        "server-cors-allowed-origins",
        "https://a.example, https://b.example",
        "server.cors_origins",
        "[\"https://a.example\", \"https://b.example\"]",
    ),
    ("server-host", "*6", "server.host", "\"*\""),
    ("server-host", "!6", "server.host", "\"!6\""),
    ("server-host", "*4", "server.host", "\"*\""),
    ("server-host", "!4", "server.host", "\"0.0.0.0\""),
    ("server-host", "localhost", "server.host", "\"127.0.0.1\""),
    ("server-host", "rest.internal", "server.host", "\"rest.internal\""),
    ("server-port", "0", "server.port", "0"),
    ("server-reuseport", "true", "server.reuse_port", "true"),
    ("server-timing-enabled", "on", "rest.timing_enabled", "true"),
    ("server-trace-header", "X-Trace", "rest.trace_header", "\"X-Trace\""),
    ("server-unix-socket-mode", "777", "server.unix_socket_mode", "\"777\""),
    ("url-use-legacy-target-names", "false", "rest.url_use_legacy_target_names", "false"),
];

#[test]
fn reads_every_setting_by_all_its_names() {
    let form = form();
    for (name, text, key, shown) in VALUES {
        let known = form.names.iter().find(|known| known.name == *name).unwrap();
        for spelling in known.spellings() {
            let config = with(&[(&form.variable_of(spelling), text)])
                .unwrap_or_else(|error| panic!("{spelling}: {error}"));
            assert_eq!(effective(&config, key), *shown, "{spelling}");
            if *name == "db-uri" {
                continue;
            }
            let line = format!("{spelling} = \"{text}\"");
            let config = in_file(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(effective(&config, key), *shown, "{line}");
        }
    }
    // Names with special handling are accepted as well.
    for name in form.names.iter().filter(|name| !VALUES.iter().any(|(known, ..)| *known == name.name)) {
        let config = with(&[(&form.variable_of(&name.name), "1")])
            .unwrap_or_else(|error| panic!("{}: {error}", name.name));
        assert_eq!(config.warnings, Vec::<String>::new(), "{}", name.name);
    }
}

#[test]
fn tables_have_unique_names_and_existing_keys() {
    for form in [form(), crate::config::gotrue::form()] {
        let is_key = |key: &str| crate::config::settings().any(|setting| setting.key == key);
        for name in &form.names {
            assert_eq!(form.names.iter().filter(|other| other.name == name.name).count(), 1, "{}", name.name);
            if let Meaning::Same(key)
            | Meaning::List(key)
            | Meaning::Names { key, .. }
            | Meaning::As(key, _) = name.meaning
            {
                assert!(is_key(key), "{}: {key}", name.name);
            }
        }
        for (key, _) in form.defaults {
            assert!(is_key(key), "{key}");
        }
    }
}

#[test]
fn sources_override_each_other_in_order() {
    let file = "db-schemas = \"file\"\ndb-schema = \"alias\"\nmax-rows = 1\ndb-pool = 2\ndb-pool = 3\n";
    let variables = [
        URI,
        ("PGRST_DB_SCHEMA", "variable-alias"),
        ("PGRST_DB_POOL", "4"),
        ("BASALT_DATABASE_POOL_SIZE", "5"),
    ];
    let (_dir, config) = load_with(Some(file), &variables, Some(Only::Rest));
    let config = config.unwrap();
    // A name wins over its alias, wherever they are set; our variables win over PostgREST's, and those over the file.
    assert_eq!(config.rest.schemas, ["file"]);
    assert_eq!((config.rest.max_rows, config.database.pool_size), (Some(1), 5));
    let source = |name: &str| {
        config.effective.iter().find(|setting| setting.setting.key == name).unwrap().source.to_string()
    };
    assert_eq!(source("rest.schemas"), "postgrest.conf:1");
    assert_eq!(source("database.authenticator_url"), "PGRST_DB_URI");
    assert_eq!(source("server.port"), "PostgREST's default");
    // The file wins over basalt.toml, which still provides the settings that only it can set.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("basalt.toml"),
        "[server]\nport = 1\nshutdown_timeout = 3\n[rest]\nmax_rows = 9\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("p.conf"), "db-uri = \"postgres://a@b/c\"\nserver-port = 2\n").unwrap();
    let command_line = CommandLine {
        only: Some(Only::Rest),
        postgrest_file: Some("p.conf".into()),
        ..CommandLine::default()
    };
    let config = Config::from_origin(&command_line, Vec::new(), dir.path().to_path_buf()).unwrap();
    assert_eq!((config.server.port, config.rest.max_rows), (2, Some(9)));
    assert_eq!(config.server.shutdown_timeout.as_secs(), 3);
    let command_line = CommandLine { port: Some("4".to_owned()), ..command_line };
    let config = Config::from_origin(&command_line, Vec::new(), dir.path().to_path_buf()).unwrap();
    assert_eq!(config.server.port, 4);
}

#[test]
fn empty_counts_as_unset_except_for_lists() {
    let config = with(&[
        ("PGRST_DB_MAX_ROWS", ""),
        ("PGRST_MAX_ROWS", "3"),
        ("PGRST_DB_ANON_ROLE", ""),
        ("PGRST_JWT_SECRET", ""),
        ("PGRST_SERVER_PORT", ""),
        ("PGRST_SERVER_CORS_ALLOWED_ORIGINS", ""),
        ("PGRST_DB_SCHEMAS", ""),
        ("PGRST_DB_EXTRA_SEARCH_PATH", ""),
    ])
    .unwrap();
    assert_eq!(config.rest.schemas, ["public"]);
    assert_eq!(config.rest.extra_search_path, Vec::<String>::new());
    assert_eq!((config.rest.max_rows, config.server.port), (Some(3), 3000));
    assert_eq!((config.rest.anon_role, config.server.cors_origins), (None, None));
    let config = in_file("db-extra-search-path = \"\"\ndb-anon-role = \"\"\ndb-max-rows = \"\"\n").unwrap();
    assert_eq!(config.rest.extra_search_path, Vec::<String>::new());
    assert_eq!(config.rest.max_rows, None);
}

#[test]
fn schema_names_are_verbatim_between_commas() {
    let names = r#"v1, SPECIAL "@/\#~_-,"v 2""#;
    let config = with(&[("PGRST_DB_SCHEMAS", names), ("PGRST_DB_EXTRA_SEARCH_PATH", names)]).unwrap();
    let expected = ["v1", r#"SPECIAL "@/\#~_-"#, r#""v 2""#];
    assert_eq!(config.rest.schemas, expected);
    assert_eq!(config.rest.extra_search_path, expected);
}

#[test]
fn secret_may_be_jwk_or_jwk_set() {
    let key = r#"{"kty":"oct","k":"YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw"}"#;
    for text in [key.to_owned(), format!(r#"{{"keys":[{key}]}}"#)] {
        let config = with(&[("PGRST_JWT_SECRET", &text)]).unwrap();
        assert!(config.jwt.keys.is_some() && config.jwt.secret.is_none());
        let secrets = crate::secrets::Secrets::load(&config).unwrap();
        assert!(basalt_core::keys::Keys::new(secrets.key_material()).unwrap().can_verify());
    }
    let base64 = [
        ("PGRST_JWT_SECRET", "YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw=="),
        ("PGRST_SECRET_IS_BASE64", "true"),
    ];
    let secret = with(&base64).unwrap().jwt.decoded_secret.unwrap();
    assert_eq!(secrecy::ExposeSecret::expose_secret(&secret), b"a secret of at least thirty-two bytes");
    // A start without a secret neither generates nor stores one.
    let (dir, config) = load_with(None, &[URI], Some(Only::Rest));
    let secrets = crate::secrets::Secrets::load(&config.unwrap()).unwrap();
    assert!(!basalt_core::keys::Keys::new(secrets.key_material()).unwrap().can_verify());
    assert!(!dir.path().join(".basalt").exists());
}

#[test]
fn reads_app_settings() {
    let file = "app.settings.one = \"1\"\napp.settings.Two = 2\n";
    let (_dir, config) = load_with(
        Some(file),
        &[URI, ("PGRST_APP_SETTINGS_TWO", "deux"), ("PGRST_APP_SETTINGS_A_B", "c")],
        Some(Only::Rest),
    );
    let settings = config.unwrap().rest.app_settings;
    let expected =
        [("one", "1"), ("a_b", "c"), ("two", "deux")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(settings, expected);
}

#[test]
fn faults_name_their_line_and_unknown_names_warn() {
    let config = load_with(
        Some("db-shemas = \"x\"\nnothing-like-it-at-all = 1\n"),
        &[URI, ("PGRST_DB_SHEMAS", "x"), ("PGRST_DB_POOL_AUTOMATIC_RECOVERY", "false")],
        Some(Only::Rest),
    )
    .1
    .unwrap();
    assert_eq!(
        config.warnings,
        [
            "postgrest.conf:1: PostgREST has no setting db-shemas; ignored; did you mean db-schemas?",
            "postgrest.conf:2: PostgREST has no setting nothing-like-it-at-all; ignored",
            "PGRST_DB_SHEMAS: PostgREST has no such setting; ignored; did you mean PGRST_DB_SCHEMAS?",
            "PGRST_DB_POOL_AUTOMATIC_RECOVERY: the server always reconnects to the database and keeps running meanwhile",
        ]
    );
    let found = faults(in_file(
        "db-pool = \"many\"\ndb-schemas = \"pg_catalog\"\njwt-secret = \"short\"\nlog-level = \"loud\"\n\
         jwt-role-claim-key = \"role\"\nserver-unix-socket-mode = \"999\"\ndb-tx-end = perhaps\nopenapi-server-proxy-uri = \"nonsense\"\n\
         server-port = 70000\ndb-plan-enabled = \"maybe\"\n",
    ));
    let lines: Vec<usize> = found
        .iter()
        .filter_map(|fault| fault.strip_prefix("postgrest.conf:")?.split(':').next()?.parse().ok())
        .collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "{found:#?}");
    let found = faults(with(&[("PGRST_JWT_SECRET", "@nowhere"), ("PGRST_DB_URI", "nonsense")]));
    assert!(
        found.iter().any(|fault| fault.starts_with("PGRST_JWT_SECRET: cannot read nowhere")),
        "{found:?}"
    );
    assert!(
        found.iter().any(|fault| fault.starts_with("PGRST_DB_URI: the connection string is neither")),
        "{found:?}"
    );
    let (_dir, missing) = load_with(None, &[URI], Some(Only::Rest));
    drop(missing);
    let command_line = CommandLine {
        only: Some(Only::Rest),
        postgrest_file: Some("missing.conf".into()),
        ..CommandLine::default()
    };
    let missing = Config::from_origin(&command_line, Vec::new(), std::env::temp_dir());
    assert!(faults(missing)[0].contains("cannot read missing.conf"));
}

#[test]
fn database_may_come_from_libpq_variables() {
    let variables = [
        ("PGRST_DB_ANON_ROLE", "web"),
        ("PGHOST", "db.internal"),
        ("PGUSER", "authenticator"),
        ("PGPASSWORD", "hidden"),
        ("PGDATABASE", "app"),
        ("PGSSLMODE", "verify-full"),
    ];
    let config = load_with(None, &variables, Some(Only::Rest)).1.unwrap();
    let shown = effective(&config, "database.authenticator_url");
    assert_eq!(shown, "\"postgresql://authenticator:(set)@db.internal:5432/app\"");
    assert!(config.database.verify_certificate);
    // Our own URL wins over libpq's defaults.
    let ours = ("BASALT_DATABASE_URL", "postgresql://mine@elsewhere/d");
    let config = load_with(None, &[&variables[..], &[ours]].concat(), Some(Only::Rest)).1.unwrap();
    assert_eq!(config.database.authenticator_url.unwrap().expose_secret(), ours.1);
}

#[test]
fn printed_configuration_loads_again_without_secrets() {
    let marked = "hunter2-marked-secret";
    let variables = [
        ("PGRST_DB_URI", "postgres://login:hunter2-marked-secret@h:6000/d"),
        ("PGRST_JWT_SECRET", "hunter2-marked-secret of at least 32"),
        ("PGRST_APP_SETTINGS_KEY", marked),
        ("PGRST_DB_SCHEMAS", "v1,v2"),
        ("PGRST_JWT_ROLE_CLAIM_KEY", "$.a.\"b c\""),
        ("PGRST_DB_PRE_REQUEST", "api.check"),
        ("PGRST_ADMIN_SERVER_PORT", "3001"),
        ("PGRST_LOG_LEVEL", "info"),
        ("PGRST_SERVER_UNIX_SOCKET", "p.sock"),
    ];
    let (dir, config) = load_with(None, &variables, Some(Only::Rest));
    let config = config.unwrap();
    assert_eq!(
        (config.server.unix_socket.clone(), config.server.unix_socket_mode),
        (Some(dir.path().join("p.sock")), 0o660)
    );
    let listing = super::print(&config, &config.rest);
    assert!(!listing.contains(marked) && listing.contains("app.settings.key = \"(set)\""), "{listing}");
    for line in [
        "db-schemas = \"v1,v2\"",
        "admin-server-port = 3001",
        "db-max-rows = \"\"",
        "log-level = \"info\"",
        "db-pre-request = \"api.check\"",
    ] {
        assert!(listing.lines().any(|found| found == line), "{line} in {listing}");
    }
    let names = form().names;
    let listed = names.iter().filter(|name| listing.contains(&format!("{} = ", name.name))).count();
    // All names except those without any effect, and the prefix of app.settings.
    assert_eq!(listed, names.len() - 4, "{listing}");
    let usable = listing.replace("jwt-secret = \"(set)\"", "").replace(":(set)@", ":x@");
    let (_dir, again) = load_with(Some(&usable), &[], Some(Only::Rest));
    let again = again.unwrap_or_else(|error| panic!("{error}\n{usable}"));
    assert_eq!(again.warnings, Vec::<String>::new());
    assert_eq!((again.rest.schemas, again.rest.role_claim), (config.rest.schemas, config.rest.role_claim));
}
