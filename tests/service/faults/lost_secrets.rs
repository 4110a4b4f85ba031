//! The secrets of an embedded database are lost: the server refuses to start until `basalt secrets reset`.

use std::fs;
use std::process::{Output, Stdio};
use std::time::Duration;

use basalt_testkit::Basalt;
use serde_json::{Value, json};

/// The time limit of a command.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command. If it does not exit (a server that starts unexpectedly), it is killed and the test fails.
async fn run(server: &Basalt, arguments: &[&str]) -> Output {
    let port = server.port().to_string();
    let mut command = server.same_settings();
    let _arguments = command.args(arguments).args(["--port", &port]).stdin(Stdio::null());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    tokio::time::timeout(LIMIT, output).await.unwrap().unwrap()
}

async fn printed(server: &Basalt, arguments: &[&str]) -> String {
    let output = run(server, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The output of a command that must fail.
async fn refusal(server: &Basalt, arguments: &[&str]) -> String {
    let output = run(server, arguments).await;
    assert!(!output.status.success(), "{arguments:?} succeeded");
    String::from_utf8([output.stderr, output.stdout].concat()).unwrap()
}

fn stored_secrets(server: &Basalt) -> Value {
    serde_json::from_slice(&fs::read(server.state_dir().join("secrets.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn lost_secrets_prevent_the_start_until_reset() {
    let mut server = Basalt::builder().embedded().start().await;
    let user = server.sign_up("ada@example.org").await;
    let (old_token, old_refresh) = (user.access_token.clone(), user.refresh_token.clone());
    let own_key = printed(&server, &["keys", "create", "publishable", "--name", "mobile"]).await;
    let own_key = own_key.split_whitespace().find(|word| word.starts_with("sb_publishable_")).unwrap();
    let _set = printed(&server, &["secrets", "set", "WEATHER_KEY=x"]).await;
    let _rotated = printed(&server, &["keys", "create", "signing"]).await;
    server.stop().await;
    let file = server.state_dir().join("secrets.json");
    let backup = server.state_dir().join("backup.json");
    fs::rename(&file, &backup).unwrap();

    for command in [&["serve"][..], &["keys"], &["migrate"], &["secrets", "list"], &["doctor"]] {
        let output = refusal(&server, command).await;
        assert!(
            output.contains("are lost") && output.contains("`basalt secrets reset`"),
            "{command:?}: {output}"
        );
        assert!(!file.exists(), "{command:?} created new secrets");
    }
    // Secrets of another project are rejected too.
    let mut foreign: Value = serde_json::from_slice(&fs::read(&backup).unwrap()).unwrap();
    foreign["master_key"] = json!("x".repeat(48));
    fs::write(&file, foreign.to_string()).unwrap();
    let output = refusal(&server, &["serve"]).await;
    assert!(output.contains("another password") && output.contains("`basalt secrets reset`"), "{output}");
    // Nothing has changed: the server starts with the backup.
    fs::copy(&backup, &file).unwrap();
    server.start_again().await;
    assert!(refusal(&server, &["secrets", "reset"]).await.contains("another Basalt server"));
    server.stop().await;
    assert_eq!(
        printed(&server, &["secrets", "reset"]).await,
        "the secrets match the database; nothing was changed\n"
    );

    fs::remove_file(&file).unwrap();
    let report = printed(&server, &["secrets", "reset"]).await;
    for part in ["`basalt keys`", "set them again: WEATHER_KEY", "signing keys created with `basalt keys`: 1"]
    {
        assert!(report.contains(part), "{part} in {report}");
    }
    assert_ne!(stored_secrets(&server)["secret_key"], foreign["secret_key"]);
    server.start_again().await;
    let key = stored_secrets(&server)["publishable_key"].as_str().unwrap().to_owned();
    server.get("/auth/v1/settings").apikey(server.publishable_key()).send().await.expect(401);
    server.get("/auth/v1/settings").apikey(own_key).send().await.expect(200);
    server.get("/auth/v1/user").apikey(&key).bearer(&old_token).send().await.expect(403);
    let refresh = json!({ "refresh_token": old_refresh });
    let renewed = server.post("/auth/v1/token?grant_type=refresh_token").apikey(&key).json(&refresh);
    assert_eq!(renewed.send().await.expect(200).json()["user"]["id"], user.id);
    assert_eq!(
        printed(&server, &["secrets", "list", "--json"]).await.replace(['\n', ' '], ""),
        "{\"secrets\":[]}"
    );
}

#[tokio::test]
async fn lost_jwt_secret_prevents_the_start_unless_configured() {
    let mut server = Basalt::builder().embedded().start().await;
    server.stop().await;
    let file = server.state_dir().join("secrets.json");
    let mut without = stored_secrets(&server);
    without.as_object_mut().unwrap().remove("jwt_secret").unwrap();
    fs::write(&file, without.to_string()).unwrap();
    let stderr = refusal(&server, &["serve"]).await;
    assert!(stderr.contains("another jwt secret") && stderr.contains("`basalt secrets reset`"), "{stderr}");
    let configured = server
        .same_settings()
        .args(["migrate"])
        .env("BASALT_JWT_SECRET", "a secret that the operator has configured")
        .output()
        .unwrap();
    assert!(configured.status.success(), "{}", String::from_utf8_lossy(&configured.stderr));
    let stderr = refusal(&server, &["serve"]).await;
    assert!(stderr.contains("another jwt secret"), "{stderr}");
    let report = printed(&server, &["secrets", "reset"]).await;
    assert!(report.contains("API keys") && !report.contains("set them again"), "{report}");
    server.start_again().await;
}
