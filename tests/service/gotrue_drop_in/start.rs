//! Startup errors and warnings.

use basalt_testkit::{TestDatabase, free_port};

use crate::gotrue_drop_in::server::program;

/// Starts with these variables; returns the exit code and output.
fn start(own: &[(&str, &str)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port().to_string();
    let output = program(&dir, &[]).env("PORT", port).envs(own.iter().copied()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const REQUIRED: [(&str, &str); 4] = [
    ("GOTRUE_SITE_URL", "http://localhost:3000"),
    ("API_EXTERNAL_URL", "http://localhost:9999"),
    ("GOTRUE_JWT_SECRET", "37c304f8-51aa-419a-a1af-06154e63707a"),
    ("DATABASE_URL", "postgres://nobody:nothing@127.0.0.1:1/nowhere"),
];

#[test]
fn missing_required_variables_are_named() {
    let (code, output) = start(&[("GOTRUE_DISABLE_SIGNUP", "true")]);
    assert_eq!(code, Some(1), "{output}");
    for name in ["GOTRUE_SITE_URL", "API_EXTERNAL_URL", "GOTRUE_JWT_SECRET", "GOTRUE_DB_DATABASE_URL"] {
        assert!(output.contains(&format!("{name} is required")), "{name}: {output}");
    }
}

#[test]
fn invalid_values_are_named_by_variable() {
    let wrong = [
        ("GOTRUE_JWT_EXP", "soon"),
        ("GOTRUE_DISABLE_SIGNUP", "perhaps"),
        ("GOTRUE_JWT_SECRET", "too-short-a-secret"),
        ("GOTRUE_SMTP_HOST", "mail.example.org"),
        ("GOTRUE_SMTP_ADMIN_EMAIL", "admin@example.org"),
        ("GOTRUE_SMTP_PORT", "none"),
        ("GOTRUE_LOG_LEVEL", "loud"),
        ("PORT", "many"),
    ];
    let (code, output) = start(&[&REQUIRED[..], &wrong].concat());
    assert_eq!(code, Some(1), "{output}");
    for name in [
        "GOTRUE_JWT_EXP",
        "GOTRUE_DISABLE_SIGNUP",
        "GOTRUE_JWT_SECRET",
        "GOTRUE_SMTP_PORT",
        "GOTRUE_LOG_LEVEL",
        "PORT",
    ] {
        assert!(output.contains(&format!("{name}: ")), "{name}: {output}");
    }
    assert!(!output.contains("too-short-a-secret") && !output.contains("nothing"), "{output}");
}

#[test]
fn unreachable_database_prevents_the_start() {
    let (code, output) = start(&REQUIRED);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("127.0.0.1:1/nowhere does not respond"), "{output}");
}

#[tokio::test]
async fn login_without_auth_owner_role_names_the_grant() {
    let database = TestDatabase::create().await;
    // Another login has prepared the database; this login has no privileges.
    let first = crate::gotrue_drop_in::server::Server::launch(&[
        ("GOTRUE_SITE_URL", "http://localhost:3000"),
        ("GOTRUE_JWT_SECRET", "37c304f8-51aa-419a-a1af-06154e63707a"),
        ("GOTRUE_DB_DATABASE_URL", &database.url()),
        ("GOTRUE_API_HOST", "127.0.0.1"),
    ]);
    drop(first.ready().await);
    database
        .admin_sql("create role auth_guest login password 'guest'; grant all on schema basalt to auth_guest; grant all on all tables in schema basalt to auth_guest")
        .await;
    let url = database.url().replace("supabase_admin:testkit", "auth_guest:guest");
    let (code, output) = start(&[&REQUIRED[..], &[("DATABASE_URL", url.as_str())]].concat());
    database.admin_sql("drop owned by auth_guest; drop role auth_guest").await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("grant supabase_auth_admin to auth_guest"), "{output}");
}
