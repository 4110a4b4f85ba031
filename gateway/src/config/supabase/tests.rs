use basalt_project::supabase::BucketSettings;

use super::super::foreign::Meaning::{As, Same};
use super::*;

fn read(files: &[(&str, &str)], variables: &[(&str, &str)]) -> (Collected, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let environment: Vec<(OsString, OsString)> =
        variables.iter().map(|(name, text)| (name.into(), text.into())).collect();
    let collected =
        collect(dir.path(), &environment, |path| path.strip_prefix(dir.path()).unwrap().to_owned());
    (collected, dir)
}

fn config(text: &str) -> Collected {
    read(&[("supabase/config.toml", text)], &[]).0
}

fn written(collected: &Collected, key: &str) -> Option<String> {
    let (_, Written { value, .. }) = collected.written.iter().rev().find(|(known, _)| *known == key)?;
    (setting(key).unwrap().show)(value)
}

#[test]
fn maps_keys_to_settings() {
    let collected = config(
        r#"
        project_id = "abc"
        [api]
        port = 54421
        schemas = ["public", "app"]
        max_rows = 50000
        [auth]
        site_url = "http://127.0.0.1:3000"
        additional_redirect_urls = ["exp://**", "https://{a,b}.example.org"]
        jwt_expiry = 7200
        enable_signup = false
        password_requirements = "letters_digits"
        [auth.email]
        enable_confirmations = true
        max_frequency = "1s"
        [auth.rate_limit]
        email_sent = 2
        [storage]
        file_size_limit = "10MiB"
        [storage.buckets.images]
        public = true
        file_size_limit = "5MiB"
        allowed_mime_types = ["image/png"]
        [db]
        port = 54322
        major_version = 15
        [db.seed]
        sql_paths = ["./seeds/*.sql"]
        [functions.hello]
        verify_jwt = false
        [auth.external.github]
        enabled = true
        client_id = "abc"
        secret = "s"
        [edge_runtime.secrets]
        API_TOKEN = "t"
        "#,
    );
    assert_eq!(collected.warnings, [""; 0]);
    for (key, value) in [
        ("server.port", Some("54421")),
        ("rest.schemas", Some(r#"["public", "app"]"#)),
        ("rest.max_rows", Some("50000")),
        ("auth.site_url", Some(r#""http://127.0.0.1:3000""#)),
        ("auth.uri_allow_list", Some(r#"["exp://**", "https://{a,b}.example.org"]"#)),
        ("auth.disable_signup", Some("true")),
        ("auth.mailer_autoconfirm", Some("false")),
        ("auth.external_github_enabled", Some("true")),
        ("auth.external_github_client_id", Some(r#"["abc"]"#)),
        // The usual port may be another project's, so it is not required.
        ("database.port", None),
        // Only with a mail server.
        ("auth.rate_limit_email_sent", None),
    ] {
        assert_eq!(written(&collected, key).as_deref(), value, "{key}");
    }
    assert!(written(&collected, "functions.secrets").is_some());
    assert_eq!(collected.project.project_id.as_deref(), Some("abc"));
    assert_eq!(collected.project.seeds.0, ["./seeds/*.sql"]);
    let bucket = BucketSettings {
        name: "images".to_owned(),
        is_public: true,
        file_size_limit: Some(5 << 20),
        allowed_mime_types: Some(vec!["image/png".to_owned()]),
    };
    assert_eq!(collected.project.buckets, [bucket]);
    assert_eq!(collected.functions.len(), 1);
    assert_eq!(collected.notes, ["supabase/config.toml: without effect here: db.major_version"]);
}

#[test]
fn variables_come_from_environment_and_files() {
    let text = r#"
        [auth]
        site_url = "env(SITE)"
        jwt_secret = "env(SECRET)"
        [api]
        port = "env(PORT)"
        [auth.external.github]
        enabled = false
        secret = "env(GITHUB)"
    "#;
    let files = [
        ("supabase/config.toml", text),
        ("supabase/.env", "SITE=http://file.example\nPORT=4000\n"),
        (".env.local", "PORT=5000"),
    ];
    let (collected, _dir) = read(&files, &[("SITE", "http://environment.example")]);
    assert_eq!(written(&collected, "auth.site_url").as_deref(), Some(r#""http://environment.example""#));
    assert_eq!(written(&collected, "server.port").as_deref(), Some("4000"));
    let [warning] = &collected.warnings[..] else { panic!("{:?}", collected.warnings) };
    assert!(warning.contains("config.toml:4: auth.jwt_secret reads the variable SECRET"), "{warning}");
}

#[test]
fn invalid_toml_leaves_the_defaults_and_names_the_line() {
    let collected = config("[api]\nport = 1\n[db]\nport = 2\n[api]\nmax_rows = 3\n");
    assert!(collected.written.is_empty());
    let [warning] = &collected.warnings[..] else { panic!("{:?}", collected.warnings) };
    assert!(warning.starts_with("supabase/config.toml:5: is not valid TOML"), "{warning}");
}

#[test]
fn invalid_values_and_unknown_keys_are_warnings() {
    let collected = config(
        "[api]\nport = \"x\"\nmax_row = 3\n[auth]\nenable_signup = 7\n[auth.external.google]\nenabled = true\nclient_id = \"\"\n\
         [auth.email.template.invite]\ncontent_path = \"./missing.html\"\n[functions.f]\nverify_jwt = \"no\"\n[db.seed]\nsql_paths = 3\n",
    );
    assert!(collected.written.is_empty());
    let texts = collected.warnings.join("\n");
    for part in [
        "config.toml:2: must be a port",
        "config.toml:3: Supabase's CLI has no setting api.max_row; ignored; did you mean api.max_rows?",
        "config.toml:5: must be true or false; ignored",
        "config.toml:7: sign-in with google needs client_id",
        "the file ./missing.html does not exist",
        "config.toml:12: not a setting of functions",
        "config.toml:14: db.seed.sql_paths has a value of another type",
    ] {
        assert!(texts.contains(part), "{part}\n{texts}");
    }
}

#[test]
fn every_target_is_a_setting() {
    for (name, meaning) in NAMES {
        if let Same(key) | List(key) | As(key, _) = meaning {
            assert!(setting(key).is_some(), "{name}: {key}");
        }
    }
}

#[test]
fn deep_and_large_files_are_refused() {
    let deep = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(config(&deep).warnings.len(), 1);
    let large = "#".repeat((1 << 20) + 1);
    assert!(config(&large).warnings.join("").contains("larger than 1 MiB"));
}

#[test]
fn reads_hooks_phones_and_captchas() {
    let collected = config(
        r#"
        [auth.hook.custom_access_token]
        enabled = true
        uri = "pg-functions://postgres/public/claims"
        [auth.hook.send_sms]
        enabled = true
        uri = "http://host.docker.internal:54321/functions/v1/sms"
        secrets = "v1,whsec_c2VjcmV0"
        [auth.hook.send_email]
        enabled = true
        uri = "https://hooks.example.org"
        [auth.hook.before_user_created]
        enabled = false
        uri = "nonsense"
        [auth.sms]
        enable_signup = true
        enable_confirmations = true
        template = "Code: {{ .Code }}"
        max_frequency = "5s"
        [auth.sms.test_otp]
        4152127777 = "123456"
        x = "1"
        [auth.sms.twilio]
        enabled = true
        account_sid = "AC1"
        message_service_sid = "MG1"
        auth_token = "t"
        [auth.mfa.phone]
        enroll_enabled = true
        verify_enabled = true
        otp_length = 8
        [auth.captcha]
        enabled = true
        provider = "turnstile"
        secret = "s"
        "#,
    );
    for (key, value) in [
        ("auth.hook_custom_access_token_enabled", Some("true")),
        ("auth.hook_custom_access_token_uri", Some(r#""pg-functions://postgres/public/claims""#)),
        ("auth.hook_send_sms_enabled", Some("true")),
        ("auth.hook_send_email_enabled", None),
        ("auth.hook_before_user_created_enabled", None),
        ("auth.external_phone_enabled", Some("true")),
        ("auth.sms_autoconfirm", Some("false")),
        ("auth.sms_template", Some(r#""Code: {{ .Code }}""#)),
        ("auth.sms_test_otp", Some(r#"{ "4152127777" = "123456" }"#)),
        ("auth.sms_provider", Some(r#""twilio""#)),
        ("auth.sms_twilio_message_service_sid", Some(r#""MG1""#)),
        ("auth.mfa_phone_enroll_enabled", Some("true")),
        ("auth.mfa_phone_otp_length", Some("8")),
        ("auth.security_captcha_enabled", Some("true")),
        ("auth.security_captcha_provider", Some(r#""turnstile""#)),
    ] {
        assert_eq!(written(&collected, key).as_deref(), value, "{key}");
    }
    let warnings = collected.warnings.join("\n");
    assert!(warnings.contains("the hook send_email stays off: its uri or secrets is required"), "{warnings}");
    assert!(warnings.contains("must be a phone number with a code"), "{warnings}");
    assert_eq!(collected.warnings.len(), 2, "{warnings}");
    let bare = config("[auth.captcha]\nenabled = true\n");
    assert_eq!(written(&bare, "auth.security_captcha_enabled"), None);
    assert!(bare.warnings[0].contains("captchas need a secret"), "{:?}", bare.warnings);
}
