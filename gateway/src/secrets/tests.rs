use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Barrier;

use basalt_core::keys::{ApiKeyKind, secret_kid};
use serde_json::json;

use super::*;
use crate::config::CommandLine;

const SECRET: &str = "super-secret-jwt-token-with-at-least-32-characters-long";

fn config(dir: &Path, variables: &[(&str, &str)], only: Option<Only>) -> Config {
    let environment =
        variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))).collect();
    let command_line = CommandLine { only, ..CommandLine::default() };
    Config::from_origin(&command_line, environment, dir.to_path_buf()).unwrap()
}

fn load(dir: &Path, variables: &[(&str, &str)]) -> Result<Secrets, SecretsError> {
    Secrets::load_at(&config(dir, variables, None), &Clock::fixed(1_800_000_000))
}

fn stored(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join(".basalt/secrets.json")).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Decodes a token's header without verifying the token.
fn peek_header(token: &str) -> Value {
    let header = token.split('.').next().unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap()
}

#[test]
fn first_start_generates_secrets_that_later_starts_keep() {
    let dir = tempfile::tempdir().unwrap();
    let first = load(dir.path(), &[]).unwrap();
    // A later clock must not change the legacy keys.
    let later = Secrets::load_at(&config(dir.path(), &[], None), &Clock::fixed(1_900_000_000)).unwrap();
    assert_eq!(first.api_keys().anon, later.api_keys().anon);
    assert_eq!(first.fingerprint(), later.fingerprint());
    assert_eq!(mode(&dir.path().join(".basalt")), 0o700);
    assert_eq!(mode(&dir.path().join(".basalt/secrets.json")), 0o600);

    let keys = Keys::new(first.key_material()).unwrap();
    let token = keys.sign(&json!({ "sub": "a" })).unwrap();
    assert_eq!(peek_header(&token).get("alg"), Some(&json!("ES256")));
    let anon = keys.verify(&first.api_keys().anon).unwrap();
    assert_eq!(
        (anon.role(), anon.get("exp").and_then(Value::as_i64)),
        (Some("anon"), Some(1_800_000_000 + 315_360_000))
    );
    assert_eq!(keys.verify(first.api_keys().service.expose_secret()).unwrap().role(), Some("service_role"));
    let publishable = &first.api_keys().publishable;
    assert_eq!(keys.api_key(publishable, 0).unwrap().kind, ApiKeyKind::Publishable);
    let tail: Vec<usize> =
        publishable.strip_prefix("sb_publishable_").unwrap().rsplitn(2, '_').map(str::len).collect();
    assert_eq!(tail, [8, 22]);
}

#[test]
fn configured_secrets_win_and_are_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let master = "a-master-key-that-is-long-enough-to-be-one";
    let secrets = load(
        dir.path(),
        &[
            ("BASALT_JWT_SECRET", SECRET),
            ("BASALT_SERVER_MASTER_KEY", master),
            ("BASALT_JWT_PUBLISHABLE_KEY", "sb_publishable_0123456789abcdef"),
        ],
    )
    .unwrap();
    let keys = Keys::new(secrets.key_material()).unwrap();
    let token = keys.sign(&json!({})).unwrap();
    assert_eq!(peek_header(&token).get("alg"), Some(&json!("HS256")));
    assert_eq!(peek_header(&token).get("kid"), Some(&json!(secret_kid(SECRET.as_bytes()))));
    assert_eq!(secrets.api_keys().publishable, "sb_publishable_0123456789abcdef");
    let written = stored(dir.path());
    let names: Vec<_> = written.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["issued_at", "secret_key"]);
    // Once removed from the configuration, each secret is generated; stored ones stay.
    load(dir.path(), &[]).unwrap();
    let completed = stored(dir.path());
    assert_eq!(completed.get("secret_key"), written.get("secret_key"));
    assert!(completed.get("master_key").is_some() && completed.get("jwt_signing_key").is_some());
}

#[test]
fn fully_configured_server_needs_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let donor = load(other.path(), &[("BASALT_JWT_SECRET", SECRET)]).unwrap();
    let keys = donor.api_keys();
    let variables = [
        ("BASALT_JWT_SECRET", SECRET),
        ("BASALT_SERVER_MASTER_KEY", SECRET),
        ("BASALT_JWT_ANON_KEY", keys.anon.as_str()),
        ("BASALT_JWT_SERVICE_KEY", keys.service.expose_secret()),
        ("BASALT_JWT_PUBLISHABLE_KEY", keys.publishable.as_str()),
        ("BASALT_JWT_SECRET_KEY", keys.secret.expose_secret()),
    ];
    load(dir.path(), &variables).unwrap();
    assert!(!dir.path().join(".basalt").exists());
}

#[test]
fn only_rest_without_key_gate_generates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let variables =
        [("BASALT_DATABASE_URL", "postgresql://u@h/d"), ("BASALT_SERVER_REQUIRE_APIKEY", "false")];
    let config = config(dir.path(), &variables, Some(Only::Rest));
    let secrets = Secrets::load(&config).unwrap();
    let keys = Keys::new(secrets.key_material()).unwrap();
    assert!(!keys.can_verify());
    assert!(!dir.path().join(".basalt").exists());
}

#[test]
fn damaged_file_is_named_and_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), &[]).unwrap();
    let path = dir.path().join(".basalt/secrets.json");
    for damage in [
        "",
        "{\"master_key\": \"half",
        "[]",
        "{\"master_key\": 7}",
        "{\"master_key\": \"short\"}",
        "{\"secret_key\": \"x\"}",
    ] {
        fs::write(&path, damage).unwrap();
        let error = load(dir.path(), &[]).unwrap_err();
        assert!(matches!(error, SecretsError::Damaged { .. }), "{damage}: {error}");
        assert!(error.to_string().contains("restore the file from a backup"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damage);
    }
}

#[test]
fn unwritable_folder_is_named_with_remedy() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".basalt"), "a file, not a folder").unwrap();
    let error = load(dir.path(), &[]).unwrap_err().to_string();
    assert!(error.contains(".basalt") && error.contains("--data"), "{error}");
}

#[test]
fn concurrent_first_starts_agree() {
    let dir = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(8);
    let fingerprints: Vec<String> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    load(dir.path(), &[]).unwrap().fingerprint()
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert!(fingerprints.windows(2).all(|pair| pair[0] == pair[1]), "{fingerprints:?}");
    let left: Vec<_> =
        fs::read_dir(dir.path().join(".basalt")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "temporary files remain: {left:?}");
}

#[test]
fn permissions_of_readable_file_are_tightened() {
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), &[]).unwrap();
    let path = dir.path().join(".basalt/secrets.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    load(dir.path(), &[]).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn entries_of_newer_release_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".basalt")).unwrap();
    fs::write(dir.path().join(".basalt/secrets.json"), "{\"of_tomorrow\": 1}").unwrap();
    load(dir.path(), &[]).unwrap();
    assert_eq!(stored(dir.path()).get("of_tomorrow"), Some(&json!(1)));
}

#[test]
fn login_passwords_depend_on_master_key_and_role() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = load(dir.path(), &[]).unwrap();
    let password = |role: &str| secrets.role_password(role).expose_secret().to_owned();
    assert_eq!(password("authenticator"), password("authenticator"));
    assert_ne!(password("authenticator"), password("supabase_auth_admin"));
    assert_eq!(password("authenticator").len(), 43);
    let other = tempfile::tempdir().unwrap();
    let other = load(other.path(), &[]).unwrap();
    assert_ne!(other.role_password("authenticator").expose_secret(), password("authenticator"));
}

#[test]
fn rejects_mismatched_configured_keys() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = load(dir.path(), &[("BASALT_JWT_SECRET", SECRET)]).unwrap();
    let (anon, service) =
        (secrets.api_keys().anon.clone(), secrets.api_keys().service.expose_secret().to_owned());
    let swapped = [("BASALT_JWT_SECRET", SECRET), ("BASALT_JWT_ANON_KEY", service.as_str())];
    assert!(load(dir.path(), &swapped).unwrap_err().to_string().contains("swapped"));
    let foreign =
        [("BASALT_JWT_SECRET", "another-secret-with-at-least-32-characters"), ("BASALT_JWT_ANON_KEY", &anon)];
    assert!(load(dir.path(), &foreign).unwrap_err().to_string().contains("jwt.anon_key"));
}

#[test]
fn differing_secrets_are_named() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = load(one.path(), &[]).unwrap();
    let two_same_master = load(two.path(), &[]).unwrap();
    assert_eq!(one.differences(&one.fingerprint()), Vec::<String>::new());
    assert_eq!(one.differences(""), Vec::<String>::new());
    assert_eq!(one.differences(&two_same_master.fingerprint()), ["master key", "jwt secret", "signing key"]);
    let fingerprint = one.fingerprint();
    assert!(!fingerprint.contains(one.master_key().expose_secret()));
}

#[test]
fn key_listing_is_an_environment_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &[], None);
    let secrets = Secrets::load(&config).unwrap();
    let mut out = Vec::new();
    print_keys(config.server.public_url.as_str(), secrets.api_keys(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let names: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('=').next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "SUPABASE_URL",
            "SUPABASE_ANON_KEY",
            "SUPABASE_PUBLISHABLE_KEY",
            "SUPABASE_SERVICE_ROLE_KEY",
            "SUPABASE_SECRET_KEY"
        ]
    );
    assert!(text.contains("SUPABASE_URL=http://localhost:8000\n"));
}

#[test]
fn development_server_has_s3_key_pair() {
    let dir = tempfile::tempdir().unwrap();
    let pair = |variables: &[(&str, &str)]| {
        let protocol = load(dir.path(), variables).unwrap().s3_protocol(&config(dir.path(), variables, None));
        (protocol.access_key_id, protocol.secret_access_key.map(|secret| secret.expose_secret().to_owned()))
    };
    let (id, secret) = pair(&[]);
    assert!(id.is_some() && secret.is_some() && id != secret);
    assert_eq!(pair(&[]), (id, secret), "later starts use the same pair");
    assert_eq!(pair(&[("BASALT_SERVER_MODE", "production")]), (None, None));
    let (id, secret) =
        ("BASALT_STORAGE_S3_PROTOCOL_ACCESS_KEY_ID", "BASALT_STORAGE_S3_PROTOCOL_SECRET_ACCESS_KEY");
    let written = [(id, "mine"), (secret, "mine too"), ("BASALT_SERVER_MODE", "production")];
    assert_eq!(pair(&written), (Some("mine".to_owned()), Some("mine too".to_owned())));
}
