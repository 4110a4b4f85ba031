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
async fn accounts_are_made_listed_signed_out_and_deleted_beside_a_running_server() {
    let server = quick().start().await;
    let said = basalt(&server, &["user", "create", "ada@example.org"]).ok();
    let password = said.out.lines().find_map(|line| line.strip_prefix("password: ")).unwrap().to_owned();
    basalt_with(&server, &["user", "create", "Bob@Example.org", "--password-stdin"], "bobs password\n").ok();
    let said = basalt(&server, &["user", "create", "ada@example.org"]).failed("User already registered");
    assert!(!said.err.contains(&password));

    let session = sign_in(&server, "ada@example.org", &password).await.expect(200).json();
    sign_in(&server, "bob@example.org", "bobs password").await.expect(200);

    let listed = basalt(&server, &["user", "list", "--json"]).ok().json();
    assert_eq!(listed["total"], 2);
    let emails: Vec<&str> =
        listed["users"].as_array().unwrap().iter().map(|user| user["email"].as_str().unwrap()).collect();
    assert_eq!(emails, ["bob@example.org", "ada@example.org"], "the newest first");
    assert_eq!(listed["users"][1]["state"], "confirmed");
    assert_eq!(listed["users"][1]["sessions"], 1);
    let found = basalt(&server, &["user", "list", "ADA", "--json"]).ok().json();
    assert_eq!(found["total"], 1);
    let none = basalt(&server, &["user", "list", "a%a", "--json"]).ok().json();
    assert_eq!(none["total"], 0, "a search is no pattern");

    let said = basalt(&server, &["user", "list", "--limit", "1"]).ok();
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].contains("ACCOUNT"), "{}", said.out);
    assert!(lines[1].contains("bob@example.org") && lines.len() == 2, "{}", said.out);
    assert!(said.err.contains("1 of 2 accounts"), "{}", said.err);

    let said = basalt(&server, &["user", "revoke-sessions", "ada@example.org"]).ok();
    assert_eq!(said.out, "ended 1 session of ada@example.org\n");
    let refresh = json!({ "refresh_token": session["refresh_token"] });
    let refused =
        server.post("/auth/v1/token?grant_type=refresh_token").apikey(server.anon_key()).json(&refresh);
    assert_eq!(refused.send().await.json()["error_code"], "refresh_token_not_found");

    basalt(&server, &["user", "delete", "bob@example.org"]).failed("Confirm with --yes");
    let id = listed["users"][0]["id"].as_str().unwrap();
    let said = basalt(&server, &["user", "delete", id, "--yes"]).ok();
    assert_eq!(said.out, "deleted bob@example.org\n");
    sign_in(&server, "bob@example.org", "bobs password").await.expect(400);
    basalt(&server, &["user", "delete", "bob@example.org", "--yes"])
        .failed("account bob@example.org does not exist");
    let audit = server
        .sql("select payload ->> 'action' from auth.audit_log_entries order by created_at desc limit 1");
    assert_eq!(audit.await, [[Some("user_deleted".to_owned())]]);
}

#[tokio::test]
async fn a_password_is_reset_by_a_link_or_from_standard_input_and_never_from_the_command_line() {
    let server = quick().start().await;
    basalt_with(&server, &["user", "create", "ada@example.org", "--password-stdin"], "the first one").ok();
    let before = sign_in(&server, "ada@example.org", "the first one").await.expect(200).json();

    let said = basalt(&server, &["user", "reset-password", "ada@example.org"]).ok();
    let link = said.out.trim();
    assert!(link.contains("/auth/v1/verify?token=") && link.contains("type=recovery"), "{link}");
    let path = link.find("/auth/v1/verify").and_then(|start| link.get(start..)).unwrap();
    let followed = server.get(path).send().await.expect(303);
    assert!(followed.header("location").contains("type=recovery"), "{}", followed.header("location"));
    let again = server.get(path).send().await.expect(303);
    assert!(again.header("location").contains("error_code=otp_expired"), "the link holds once");

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

    let said =
        basalt(&server, &["user", "reset-password", "ada@example.org", "--password", "on the command line"]);
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    basalt(&server, &["user", "reset-password", "eve@example.org"])
        .failed("account eve@example.org does not exist");
    basalt(&server, &["user", "reset-password", "not an address"]).failed("invalid format");
}

#[tokio::test]
async fn without_a_server_the_database_is_started_for_the_moment() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    alone(dir, &["user", "create", "ada@example.org", "--password", "lovelace!"]).await.ok();
    let listed = alone(dir, &["user", "list", "--json"]).await.ok().json();
    assert_eq!(listed["users"][0]["email"], "ada@example.org");
    let said = alone(dir, &["keys", "list"]).await.ok();
    assert!(said.out.contains("publishable") && said.out.contains("in use"), "{}", said.out);
    assert!(!dir.join("state/postgres/postmaster.pid").exists(), "nothing is left running");
}

#[tokio::test]
async fn a_database_that_nobody_prepared_is_told_apart() {
    let database = basalt_testkit::Cluster::get().await.empty_database().await;
    let dir = tempfile::tempdir().unwrap();
    let output = Basalt::command(dir.path())
        .env("BASALT_DATABASE_URL", database.url())
        .args(["user", "list"])
        .output()
        .unwrap();
    super::CliOutput::of(&output).failed("run `basalt migrate`");
}
