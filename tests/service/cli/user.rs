use basalt_testkit::{Basalt, Builder};
use serde_json::json;

use super::{alone, basalt, basalt_with};

fn quick() -> Builder {
    Basalt::builder()
        .config("auth.password_argon2_memory", "64")
        .config("auth.password_argon2_iterations", "1")
}

async fn sign_in(server: &Basalt, email: &str, password: &str) -> basalt_testkit::Response {
    server
        .post("/auth/v1/token?grant_type=password")
        .apikey(server.anon_key())
        .json(&json!({ "email": email, "password": password }))
        .send()
        .await
}

#[tokio::test]
async fn users_are_managed_next_to_a_running_server() {
    let server = quick().start().await;
    let output = basalt(&server, &["user", "create", "ada@example.org"]).ok();
    let password = output.out.lines().find_map(|line| line.strip_prefix("password: ")).unwrap().to_owned();
    basalt_with(&server, &["user", "create", "Bob@Example.org", "--password-stdin"], "bobs password\n").ok();
    let output = basalt(&server, &["user", "create", "ada@example.org"]).failed("User already registered");
    assert!(!output.err.contains(&password));

    let session = sign_in(&server, "ada@example.org", &password).await.expect(200).json();
    sign_in(&server, "bob@example.org", "bobs password").await.expect(200);

    let listed = basalt(&server, &["user", "list", "--json"]).ok().json();
    assert_eq!(listed["total"], 2);
    let emails: Vec<&str> =
        listed["users"].as_array().unwrap().iter().map(|user| user["email"].as_str().unwrap()).collect();
    assert_eq!(emails, ["bob@example.org", "ada@example.org"], "newest first");
    assert_eq!(listed["users"][1]["state"], "confirmed");
    assert_eq!(listed["users"][1]["sessions"], 1);
    let found = basalt(&server, &["user", "list", "ADA", "--json"]).ok().json();
    assert_eq!(found["total"], 1);
    let none = basalt(&server, &["user", "list", "a%a", "--json"]).ok().json();
    assert_eq!(none["total"], 0, "the search text is not a pattern");

    let output = basalt(&server, &["user", "list", "--limit", "1"]).ok();
    let lines: Vec<&str> = output.out.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].contains("ACCOUNT"), "{}", output.out);
    assert!(lines[1].contains("bob@example.org") && lines.len() == 2, "{}", output.out);
    assert!(output.err.contains("1 of 2 accounts"), "{}", output.err);

    let output = basalt(&server, &["user", "revoke-sessions", "ada@example.org"]).ok();
    assert_eq!(output.out, "ended 1 session of ada@example.org\n");
    let refresh = json!({ "refresh_token": session["refresh_token"] });
    let refused =
        server.post("/auth/v1/token?grant_type=refresh_token").apikey(server.anon_key()).json(&refresh);
    assert_eq!(refused.send().await.json()["error_code"], "refresh_token_not_found");

    basalt(&server, &["user", "delete", "bob@example.org"]).failed("Confirm with --yes");
    let id = listed["users"][0]["id"].as_str().unwrap();
    let output = basalt(&server, &["user", "delete", id, "--yes"]).ok();
    assert_eq!(output.out, "deleted bob@example.org\n");
    sign_in(&server, "bob@example.org", "bobs password").await.expect(400);
    basalt(&server, &["user", "delete", "bob@example.org", "--yes"])
        .failed("account bob@example.org does not exist");
    let audit = server
        .sql("select payload ->> 'action' from auth.audit_log_entries order by created_at desc limit 1");
    assert_eq!(audit.await, [[Some("user_deleted".to_owned())]]);
}

#[tokio::test]
async fn password_reset_uses_a_link_or_standard_input() {
    let server = quick().start().await;
    basalt_with(&server, &["user", "create", "ada@example.org", "--password-stdin"], "the first one").ok();
    let before = sign_in(&server, "ada@example.org", "the first one").await.expect(200).json();

    let output = basalt(&server, &["user", "reset-password", "ada@example.org"]).ok();
    let link = output.out.trim();
    assert!(link.contains("/auth/v1/verify?token=") && link.contains("type=recovery"), "{link}");
    let path = link.find("/auth/v1/verify").and_then(|start| link.get(start..)).unwrap();
    let followed = server.get(path).send().await.expect(303);
    assert!(followed.header("location").contains("type=recovery"), "{}", followed.header("location"));
    let again = server.get(path).send().await.expect(303);
    assert!(again.header("location").contains("error_code=otp_expired"), "the link works once");

    let arguments = ["user", "reset-password", "ada@example.org", "--password"];
    basalt_with(&server, &arguments, "short\n").failed("Password should be at least 6 characters");
    basalt_with(&server, &arguments, "").failed("the password is empty");
    basalt_with(&server, &arguments, "the second one\n").ok();
    sign_in(&server, "ada@example.org", "the first one").await.expect(400);
    sign_in(&server, "ada@example.org", "the second one").await.expect(200);
    let refresh = json!({ "refresh_token": before["refresh_token"] });
    let refused =
        server.post("/auth/v1/token?grant_type=refresh_token").apikey(server.anon_key()).json(&refresh);
    refused.send().await.expect(400);

    let output =
        basalt(&server, &["user", "reset-password", "ada@example.org", "--password", "on the command line"]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    basalt(&server, &["user", "reset-password", "eve@example.org"])
        .failed("account eve@example.org does not exist");
    basalt(&server, &["user", "reset-password", "not an address"]).failed("invalid format");
}

#[tokio::test]
async fn command_starts_the_database_temporarily() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    alone(dir, &["user", "create", "ada@example.org", "--password", "lovelace!"]).await.ok();
    let listed = alone(dir, &["user", "list", "--json"]).await.ok().json();
    assert_eq!(listed["users"][0]["email"], "ada@example.org");
    let output = alone(dir, &["keys", "list"]).await.ok();
    assert!(output.out.contains("publishable") && output.out.contains("in use"), "{}", output.out);
    assert!(!dir.join("state/postgres/postmaster.pid").exists(), "PostgreSQL still runs");
}

#[tokio::test]
async fn unprepared_database_is_reported() {
    let database = basalt_testkit::Cluster::get().await.empty_database().await;
    let dir = tempfile::tempdir().unwrap();
    let output = Basalt::command(dir.path())
        .env("BASALT_DATABASE_URL", database.url())
        .args(["user", "list"])
        .output()
        .unwrap();
    super::CliOutput::from_output(&output).failed("run `basalt migrate`");
}
