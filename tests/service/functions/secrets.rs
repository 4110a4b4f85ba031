//! `basalt secrets`.

use std::io::Write as _;
use std::process::{Output, Stdio};

use basalt_testkit::Basalt;

fn run(server: &Basalt, arguments: &[&str], input: &str) -> Output {
    let mut child = server
        .same_settings()
        .arg("secrets")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn succeeded(server: &Basalt, arguments: &[&str], input: &str) -> String {
    let output = run(server, arguments, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(server: &Basalt, arguments: &[&str], expected: &str) {
    let output = run(server, arguments, "");
    let stripe_event = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stripe_event.contains(expected), "{stripe_event}");
}

#[tokio::test]
async fn secrets_are_encrypted_and_never_shown() {
    let server = Basalt::start().await;
    assert_eq!(succeeded(&server, &["set", "A=tell-nobody", "B=x=y"], ""), "2 secrets are set\n");
    assert_eq!(succeeded(&server, &["set", "--env-file", "-"], "# more\nC=\"1\"\n"), "1 secret is set\n");
    let listed = succeeded(&server, &["list"], "");
    for name in ["A ", "B ", "C "] {
        assert!(listed.contains(name), "{listed}");
    }
    assert!(!listed.contains("tell-nobody"));
    let stored = server
        .database()
        .admin_sql("select count(*) from functions.runtime_secrets where position('tell-nobody'::bytea in ciphertext) > 0")
        .await;
    assert_eq!(stored[0][0].as_deref(), Some("0"));
    refused(&server, &["set", "SUPABASE_URL=x"], "names that start with SUPABASE_ are reserved");
    refused(&server, &["set", "A-B=x"], "is not a valid name of a secret");
    for empty in ["STRIPE_WEBHOOK_SECRET=", "STRIPE_WEBHOOK_SECRET= "] {
        refused(&server, &["set", empty], "the value of STRIPE_WEBHOOK_SECRET is empty");
    }
    refused(&server, &["unset", "A", "D"], "no secret is named D; nothing was changed");
    assert_eq!(succeeded(&server, &["unset", "A", "B"], ""), "2 secrets are removed\n");
    let json = succeeded(&server, &["list", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["secrets"].as_array().unwrap().len(), 1);
    // No API role can access the table.
    for role in ["anon", "authenticated", "service_role"] {
        let may = server
            .database()
            .value(&format!(
                "select has_table_privilege('{role}', 'functions.runtime_secrets', 'select')::text"
            ))
            .await;
        assert_eq!(may, "false", "{role}");
    }
}
