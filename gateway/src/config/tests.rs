use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use basalt_core::settings::kinds::{Bytes, Time};
use basalt_core::settings::{Fallback, Kind, Reader, Value};

use super::sections::{sections, setting};
use super::*;

/// Creates a project folder with this `basalt.toml`.
fn folder(file: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("basalt.toml"), file).unwrap();
    dir
}

fn load_in(
    dir: &Path,
    variables: &[(&str, &str)],
    command_line: &CommandLine,
) -> Result<Config, ConfigErrors> {
    let environment =
        variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))).collect();
    Config::from_origin(command_line, environment, dir.to_path_buf())
}

fn load(file: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    load_in(folder(file).path(), variables, &CommandLine::default())
}

/// The lines of the report, without its first and last line.
fn faults(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load(file, variables)
        .unwrap_err()
        .0
        .iter()
        .map(|fault| format!("{}: {}", fault.source, fault.message))
        .collect()
}

#[test]
fn default_configuration_needs_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = load_in(dir.path(), &[], &CommandLine::default()).unwrap();
    assert_eq!(config.mode, Mode::Development);
    assert_eq!((config.server.port, config.server.public_url.as_str()), (8000, "http://localhost:8000"));
    assert_eq!(config.server.state_dir, dir.path().join(".basalt"));
    assert_eq!(config.database.data_dir, dir.path().join(".basalt/postgres"));
    assert_eq!(config.server.app_dir, Some(dir.path().join("app/dist")));
    assert!(config.is_embedded() && config.auth.mailer_autoconfirm && config.rest.safe_update);
    assert!(config.database.pool_size >= 15);
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn service_defaults_apply() {
    let config = load("", &[]).unwrap();
    let rest = basalt_rest::config::RestConfig {
        openapi_server_proxy_uri: Some("http://localhost:8000/rest/v1".to_owned()),
        ..Default::default()
    };
    assert_eq!(config.rest, rest);
    let auth = basalt_auth::AuthConfig {
        mailer_autoconfirm: true,
        jwt: basalt_auth::JwtConfig {
            issuer: "http://localhost:8000/auth/v1".to_owned(),
            ..Default::default()
        },
        ..Default::default()
    };
    assert_eq!(config.auth, auth);
}

#[test]
fn each_fault_names_its_place_and_remedy() {
    let file = "[server]\nprot = 1\nport = \"eighty\"\n\n[rest]\nmax_rows = -1\n";
    assert_eq!(
        faults(file, &[]),
        [
            "basalt.toml:2: unknown setting server.prot. Did you mean server.port?",
            "basalt.toml:3: server.port must be a port, a whole number from 1 to 65535 (0: any free port), not the text \"eighty\"",
            "basalt.toml:6: rest.max_rows must be a whole number from 0 to 1000000000, not the number -1",
        ]
    );
}

#[test]
fn variables_override_file_and_options_override_both() {
    let dir = folder("[server]\nport = 1001\nhost = \"127.0.0.2\"\n");
    let variables = [("BASALT_SERVER_PORT", "1002")];
    let config = load_in(dir.path(), &variables, &CommandLine::default()).unwrap();
    assert_eq!(config.server.port, 1002);
    let options = CommandLine { port: Some("1003".to_owned()), ..CommandLine::default() };
    let config = load_in(dir.path(), &variables, &options).unwrap();
    let sources: Vec<_> = ["server.port", "server.host", "server.log"]
        .map(|name| {
            config.effective.iter().find(|setting| setting.setting.key == name).unwrap().source.to_string()
        })
        .into();
    assert_eq!(sources, ["--port", "basalt.toml:3", "default"]);
    assert_eq!(config.server.public_url.as_str(), "http://localhost:1003");
}

#[test]
fn unknown_names_are_reported_with_a_suggestion() {
    let file = "[rest]\ndb_schemas = \"api\"\n[auth]\njwt_exp = 60\nsmtp_url = \"x\"\n[sevrer]\na = 1\nb = 2\n[stripe]\nzzz = 1\n";
    assert_eq!(
        faults(
            file,
            &[
                ("BASALT_SERVER_PROT", "1"),
                ("BASALT_WHATEVER_ELSE", "1"),
                ("BASALT_TEST_BLESS", "1"),
                ("BASALT_URL", "x"),
                ("BASALT_PORT", "1")
            ]
        ),
        [
            "basalt.toml:2: unknown setting rest.db_schemas. Did you mean rest.schemas?",
            "basalt.toml:4: unknown setting auth.jwt_exp. Did you mean jwt.exp?",
            "basalt.toml:5: unknown setting auth.smtp_url. Did you mean mail.smtp_url?",
            "basalt.toml:6: unknown section [sevrer]. Did you mean [server]?",
            "basalt.toml:10: unknown setting stripe.zzz. Remove it.",
            "BASALT_PORT: unknown setting. Did you mean BASALT_SERVER_PORT?",
            "BASALT_SERVER_PROT: unknown setting. Did you mean BASALT_SERVER_PORT?",
            "BASALT_WHATEVER_ELSE: unknown setting. Remove it.",
        ]
    );
}

#[test]
fn broken_line_causes_no_further_faults() {
    let found = faults("[server\nport = 1\nlog_format = 2\n[rest]\nmax_row = 1\n", &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("basalt.toml:1: is not valid TOML"), "{found:?}");
    assert!(found[1].starts_with("basalt.toml:5: unknown setting rest.max_row"), "{found:?}");
    let found = faults("[server]\nport = 80 00\n", &[]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn faults_explain_sections_lists_and_ranges() {
    for (text, said) in [
        ("server = 5\n", "server is a section: write [server] and put its settings below it"),
        ("[server]\ntrusted_proxies = [\"10.0.0.0/99\"]\n", "not a list of the text \"10.0.0.0/99\""),
        ("[server]\nmax_header_bytes = \"1KiB\"\n", "must be from 8KiB to 16MiB"),
    ] {
        let found = faults(text, &[]);
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
}

#[test]
fn invalid_toml_names_line_and_checks_the_rest() {
    let found = faults("[server]\nport = \n[rest]\nmax_row = 1\n", &[]);
    assert!(found.first().unwrap().starts_with("basalt.toml:2: is not valid TOML"), "{found:?}");
    assert!(found.iter().any(|line| line.contains("Did you mean rest.max_rows?")), "{found:?}");
}

#[test]
fn contradicting_settings_are_faults() {
    let file = "[server]\nadmin_port = 8000\ncors_origins = [\"*\", \"https://a.example\"]\nbody_memory = \"49MiB\"\nidle_timeout = \"0s\"\n[database]\nreplica_url = \"postgresql://r@h/d\"\n\
                authenticator_url = \"postgresql://a@h/d\"\n[auth]\nmailer_autoconfirm = true\nmailer_allow_unverified_email_sign_ins = true\n\
                [storage]\nbackend = \"s3\"\n[mail]\nsmtp_url = \"http://mail\"\n";
    let found = faults(file, &[]);
    let lines: Vec<usize> =
        found.iter().map(|line| line.split(':').nth(1).and_then(|line| line.parse().ok()).unwrap()).collect();
    assert_eq!(lines, [2, 3, 4, 5, 7, 8, 11, 13, 15], "{found:#?}");
}

#[test]
fn zero_and_out_of_range_values_are_rejected() {
    let said = |name: &str, value: &str| {
        let variable = format!("BASALT_{}", name.replace('.', "_").to_uppercase());
        load("", &[(&variable, value)]).err().map(|faults| faults.to_string())
    };
    let (time, size) = (<Time>::expected(), <Bytes as Kind<u64>>::expected());
    let times: Vec<_> = settings()
        .filter(|row| [&time, &size].contains(&&(row.expected)()))
        // No code reads those of storage.
        .filter(|row| !row.is_reserved && !row.key.starts_with("storage."))
        .collect();
    assert!(times.len() > 25);
    for row in times {
        let means_something = row.help.split(|c: char| !c.is_alphanumeric()).any(|word| word == "0")
            || matches!(row.fallback, Fallback::Is("0"));
        for zero in ["0", "0s"].into_iter().take(1 + usize::from((row.expected)() == time)) {
            let fault = said(row.key, zero);
            let is_named = fault.as_ref().is_some_and(|text| text.contains(&format!("{} ", row.key)));
            assert!(is_named != means_something, "{} = {zero}: {fault:?}", row.key);
        }
        for nonsense in ["-1", "-1s", "99999999999999999999", "1 fortnight"] {
            let fault = said(row.key, nonsense).unwrap_or_default();
            assert!(fault.contains(&format!("{} must be a", row.key)), "{} = {nonsense}: {fault}", row.key);
        }
        if (row.expected)() == time {
            assert!(said(row.key, "18446744073709551615").is_some(), "{}", row.key);
        }
    }
    // Fractions of a second are rounded up where a setting counts whole seconds.
    let config =
        load("[auth]\nsessions_timebox = \"500ms\"\n[database]\npool_max_lifetime = 0\n", &[]).unwrap();
    assert_eq!((config.auth.sessions_timebox, config.database.pool_max_lifetime), (1, Duration::MAX));
}

#[test]
fn faults_and_listing_contain_no_secrets() {
    let marked = "hunter2-marked-secret";
    let url = format!("postgresql://u:{marked}@h:6000/d");
    let report = load(
        "",
        &[
            ("BASALT_JWT_SECRET", marked),
            ("BASALT_SERVER_MASTER_KEY", marked),
            ("BASALT_JWT_ANON_KEY", marked),
            ("BASALT_JWT_SECRET_KEY", marked),
            ("BASALT_JWT_KEYS", marked),
            ("BASALT_MAIL_SMTP_URL", marked),
            ("BASALT_DATABASE_URL", &format!("mysql://u:{marked}@h")),
        ],
    )
    .unwrap_err();
    assert_eq!(report.0.len(), 7, "{report}");
    assert!(!format!("{report} {report:?}").contains(marked), "{report}");

    let long = format!("{marked}-{marked}");
    let config = load("", &[("BASALT_DATABASE_URL", &url), ("BASALT_JWT_SECRET", &long)]).unwrap();
    let mut out = Vec::new();
    print::print_config(&config, &mut out).unwrap();
    let listing = String::from_utf8(out).unwrap();
    assert!(!listing.contains(marked) && !format!("{config:?}").contains(marked), "{listing}");
    assert!(listing.contains(r#"url = "postgresql://u:(set)@h:6000/d""#), "{listing}");
    let line =
        |key: &str| listing.lines().find(|line| line.starts_with(&format!("# {key} ="))).unwrap_or_default();
    assert!(line("secret").ends_with("# BASALT_JWT_SECRET") && line("secret").contains("(set)"), "{listing}");
    assert!(line("app_settings").ends_with("# not set"), "{listing}");
    assert!(
        line("keys").ends_with("# not set: an ES256 key, generated, stored in the state folder"),
        "{listing}"
    );
}

#[test]
fn mode_defaults_from_addresses() {
    let mode = |variables: &[(&str, &str)]| load("", variables).unwrap().mode;
    assert_eq!(mode(&[("BASALT_SERVER_HOST", "0.0.0.0")]), Mode::Production);
    assert_eq!(mode(&[("BASALT_SERVER_PUBLIC_URL", "https://example.org")]), Mode::Production);
    assert_eq!(
        mode(&[("BASALT_SERVER_HOST", "::1"), ("BASALT_SERVER_PUBLIC_URL", "http://[::1]:8000/")]),
        Mode::Development
    );
    assert_eq!(
        mode(&[("BASALT_SERVER_HOST", "0.0.0.0"), ("BASALT_SERVER_MODE", "development")]),
        Mode::Development
    );
    let production = load("", &[("BASALT_SERVER_MODE", "production")]).unwrap();
    assert!(!production.auth.mailer_autoconfirm);
}

#[test]
fn only_rest_requires_a_database_url() {
    let rest = CommandLine { only: Some(Only::Rest), ..CommandLine::default() };
    let dir = folder("");
    let report = load_in(dir.path(), &[], &rest).unwrap_err();
    assert!(report.to_string().contains("--only rest") && report.0.len() == 1, "{report}");
    let url = [("BASALT_DATABASE_URL", "postgresql://u@h/d"), ("BASALT_SERVER_PREFIX", "")];
    let config = load_in(dir.path(), &url, &rest).unwrap();
    assert_eq!(config.database.authenticator_url.unwrap().expose_secret(), "postgresql://u@h/d");
    assert_eq!((config.server.prefix.as_deref(), config.rest.safe_update), (Some(""), false));
    assert_eq!(config.server.app_dir, None);
    let login = [("BASALT_DATABASE_AUTHENTICATOR_URL", "postgresql://a@h/d")];
    let config = load_in(dir.path(), &login, &rest).unwrap();
    assert!(!config.is_embedded() && config.database.url.is_none());
    // A URL that does not parse is reported once, and not also as missing.
    let wrong = [("BASALT_DATABASE_AUTHENTICATOR_URL", "nonsense")];
    assert_eq!(load_in(dir.path(), &wrong, &rest).unwrap_err().0.len(), 1);
}

#[test]
fn relative_paths_resolve_against_their_source() {
    let dir = folder("[server]\nstate_dir = \"state\"\n");
    let elsewhere = tempfile::tempdir().unwrap();
    let project = Some(dir.path().to_string_lossy().into_owned());
    let options = CommandLine { project: project.clone(), ..CommandLine::default() };
    let config = load_in(elsewhere.path(), &[], &options).unwrap();
    assert_eq!(config.server.state_dir, dir.path().join("state"));
    let options = CommandLine { project, data: Some("data".to_owned()), ..CommandLine::default() };
    let config = load_in(elsewhere.path(), &[], &options).unwrap();
    assert_eq!(config.server.state_dir, elsewhere.path().join("data"));
    assert_eq!(config.project.dir, dir.path());
    let missing = CommandLine { project: Some("nowhere".to_owned()), ..CommandLine::default() };
    assert!(load_in(elsewhere.path(), &[], &missing).unwrap_err().to_string().contains("--project"));
}

#[test]
fn empty_variable_counts_as_unset() {
    let config = load(
        "",
        &[
            ("BASALT_SERVER_PORT", ""),
            ("BASALT_DATABASE_URL", ""),
            ("BASALT_REST_ANON_ROLE", ""),
            ("BASALT_SERVER_APP_DIR", ""),
        ],
    )
    .unwrap();
    assert_eq!((config.server.port, config.rest.anon_role, config.server.app_dir), (8000, None, None));
    assert!(config.database.url.is_none());
}

#[test]
fn defaults_parse_and_every_setting_is_read() {
    let config = load("", &[]).unwrap();
    for row in settings() {
        if let Fallback::Is(text) | Fallback::ByOr(_, text) = row.fallback {
            assert!((row.show)(&Value::Bare(text.to_owned())).is_some(), "{}", row.key);
        }
        assert!(sections().any(|(section, _)| row.key.starts_with(&format!("{section}."))), "{}", row.key);
        assert_eq!(settings().filter(|other| other.variable() == row.variable()).count(), 1, "{}", row.key);
    }
    assert_eq!(config.effective.len(), settings().count());
    let mut reader = Reader::default();
    resolve::read(&mut reader, None, false);
    let unread: Vec<_> = settings().map(|row| row.key).filter(|key| reader.shown(key).is_none()).collect();
    assert!(unread.is_empty(), "in a table that config/resolve.rs does not read: {unread:?}");
}

#[test]
fn values_parse_and_print() {
    for (name, text, shown) in [
        ("jwt.exp", "90", Some("\"90s\"")),
        ("jwt.exp", "1h30m", Some("\"90m\"")),
        ("jwt.exp", "soon", None),
        ("jwt.exp", "5 parsecs", None),
        ("storage.max_file_size", "2GiB", Some("\"2GiB\"")),
        ("storage.max_file_size", "10kb", Some("10000")),
        ("storage.max_file_size", "99999999999999GB", None),
        ("server.trusted_proxies", "10.0.0.0/8, ::1", Some("[\"10.0.0.0/8\", \"::1/128\"]")),
        ("server.trusted_proxies", "10.0.0.0/33", None),
        ("server.public_url", "https://a.example/base/", Some("\"https://a.example/base\"")),
        ("server.public_url", "https://u:p@a.example", None),
        ("server.require_apikey", "off", Some("false")),
        ("rest.app_settings", "a=1, b=x=y", Some("{ \"a\" = \"1\", \"b\" = \"x=y\" }")),
        ("database.url", "host=/run/pg user=u", Some("\"postgresql://u@/run/pg:5432/u\"")),
        ("database.url", "dbname=x", None),
    ] {
        let row = setting(name).unwrap();
        assert_eq!((row.show)(&Value::Bare(text.to_owned())).as_deref(), shown, "{name} = {text}");
    }
}

#[cfg(feature = "planning")]
#[test]
fn config_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/CONFIG.md");
    let text = print::markdown();
    if std::env::vars_os().any(|(name, _)| name == "BASALT_TEST_BLESS") {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/CONFIG.md is stale: run cargo xtask gen-docs");
}

#[cfg(feature = "planning")]
#[test]
fn repository_configuration_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let config = load_in(root, &[], &CommandLine::default()).unwrap();
    assert!(config.functions.builtin && config.project.file.is_some());
    assert_eq!(config.warnings, Vec::<String>::new());
    for project in ["tests/bench/project", "tests/conformance/project"] {
        let config = load_in(&root.join(project), &[], &CommandLine::default())
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(config.project.file.is_some(), "{project}");
    }
}

#[test]
fn reserved_setting_warns() {
    let file = "[database]\nurl = \"postgresql://a:b@db.example/x\"\nreplica_url = \"postgresql://a:b@db.example/y\"\n";
    let config = load(file, &[]).unwrap();
    assert_eq!(
        config.warnings,
        ["database.replica_url (basalt.toml:3) is checked, but this release does not use it yet"]
    );
}
