use std::time::Duration;

use basalt_testkit::{Basalt, Request, TestDatabase};
use serde_json::{Value, json};

use super::{CliOutput, basalt};

fn read(server: &Basalt, key: &str) -> Request {
    server.get("/auth/v1/settings").apikey(key)
}

/// The time limit for a change to apply without a restart; `keys.rs` tests how soon it does.
const SOON: Duration = Duration::from_secs(60);

/// Repeats the request until the status is `wanted`.
async fn until(server: &Basalt, key: &str, wanted: u16) {
    server.until(SOON, &read(server, key), |response| response.status.as_u16() == wanted).await;
}

fn api_keys(output: &CliOutput) -> Vec<Value> {
    output.json()["api_keys"].as_array().unwrap().clone()
}

#[tokio::test]
async fn key_is_created_used_and_revoked() {
    let server = Basalt::start().await;
    basalt(&server, &["keys", "create", "secret"]).failed("add --name");
    let made = basalt(&server, &["keys", "create", "secret", "--name", "reports", "--expires", "90d"]).ok();
    let key = made.out.trim().to_owned();
    assert!(key.starts_with("sb_secret_") && key.len() == 41, "{key}");
    assert!(!made.err.contains(&key), "the key is printed only to standard output");
    basalt(&server, &["keys", "create", "secret", "--name", "reports"]).failed("rotate");
    until(&server, &key, 200).await;

    let listed = basalt(&server, &["keys", "list"]).ok();
    assert!(!listed.out.contains(&key) && listed.out.contains(key.get(..15).unwrap()), "{}", listed.out);
    assert!(!listed.out.contains(server.secret_key()), "{}", listed.out);
    assert!(listed.out.contains(server.publishable_key()), "the publishable key is listed in full");
    assert!(basalt(&server, &["keys", "list", "--show"]).ok().out.contains(&key));
    let entries = api_keys(&basalt(&server, &["keys", "list", "--json"]).ok());
    let entry = entries.iter().find(|entry| entry["name"] == "reports").unwrap();
    assert_eq!(
        (&entry["type"], &entry["role"], &entry["state"]),
        (&json!("secret"), &json!("service_role"), &json!("active"))
    );
    assert!(entry["expires_at"].is_string());

    basalt(&server, &["keys", "revoke", "reports"]).failed("Confirm with --yes");
    basalt(&server, &["keys", "revoke", "reports", "--yes"]).ok();
    until(&server, &key, 401).await;
    let refused = read(&server, &key).send().await;
    assert_eq!(refused.json(), json!({ "message": "Invalid API key", "hint": "Double check your API key." }));
    basalt(&server, &["keys", "revoke", "reports", "--yes"]).failed("no active key matches reports");
    assert_eq!(api_keys(&basalt(&server, &["keys", "list", "--json"]).ok()).len(), 2);
    assert_eq!(api_keys(&basalt(&server, &["keys", "list", "--json", "--all"]).ok()).len(), 3);
}

#[tokio::test]
async fn initial_keys_can_be_rotated() {
    let mut server = Basalt::start().await;
    let (old, old_secret) = (server.publishable_key().to_owned(), server.secret_key().to_owned());
    basalt(&server, &["keys", "rotate", "publishable"]).failed("--yes");
    let new = basalt(&server, &["keys", "rotate", "publishable", "--grace", "1h"]).ok().out.trim().to_owned();
    until(&server, &new, 200).await;
    read(&server, &old).send().await.expect(200);
    let config = server.get("/app-config.json").send().await.json();
    assert_eq!(config["anonKey"], new.as_str(), "the app gets the new key");
    assert!(basalt(&server, &["keys"]).ok().out.contains(&format!("SUPABASE_PUBLISHABLE_KEY={new}\n")));

    let secret = basalt(&server, &["keys", "rotate", "secret", "--yes", "--json"]).ok().json();
    let secret = secret["api_key"].as_str().unwrap().to_owned();
    until(&server, &old_secret, 401).await;
    read(&server, &secret).send().await.expect(200);
    server.get("/metrics").bearer(&old_secret).send().await.expect(401);
    server.get("/metrics").bearer(&secret).send().await.expect(200);

    // It persists across a restart.
    server.stop().await;
    server.start_again().await;
    read(&server, &old_secret).send().await.expect(401);
    read(&server, &secret).send().await.expect(200);
    read(&server, &new).send().await.expect(200);
    let env = basalt(&server, &["keys"]).ok().out;
    assert!(env.contains(&format!("SUPABASE_SECRET_KEY={secret}\n")), "{env}");
}

#[tokio::test]
async fn signing_keys_are_rotated_and_revoked() {
    let server = Basalt::builder()
        .config("auth.password_argon2_memory", "64")
        .config("auth.password_argon2_iterations", "1")
        // The test signs in repeatedly until the new key is used.
        .config("auth.rate_limit_token_refresh", "0")
        .start()
        .await;
    let account = json!({ "email": "ada@example.org", "password": "lovelace!" });
    server.post("/auth/v1/signup").apikey(server.anon_key()).json(&account).send().await.expect(200);
    let sign_in = async || {
        let path = "/auth/v1/token?grant_type=password";
        let response =
            server.post(path).apikey(server.anon_key()).json(&account).send().await.expect(200).json();
        response["access_token"].as_str().unwrap().to_owned()
    };
    let user = async |token: &str| {
        server.get("/auth/v1/user").apikey(server.anon_key()).bearer(token).send().await.status.as_u16()
    };
    let keys = || basalt(&server, &["keys", "list", "--json", "--all"]).ok().json()["signing_keys"].clone();
    let states = || -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        keys().as_array().unwrap().iter().map(|key| (text(&key["algorithm"]), text(&key["status"]))).collect()
    };
    let pair = |left: &str, right: &str| (left.to_owned(), right.to_owned());
    assert_eq!(states(), [pair("ES256", "in_use"), pair("HS256", "previously_used")]);
    let first = keys()[0]["kid"].as_str().unwrap().to_owned();
    let by_first = sign_in().await;

    let standby =
        basalt(&server, &["keys", "create", "signing", "--algorithm", "RS256"]).ok().out.trim().to_owned();
    let published = |jwks: &Value| -> Vec<String> {
        jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    };
    let jwks = server.get("/auth/v1/.well-known/jwks.json");
    let response = server.until(SOON, &jwks, |response| published(&response.json()).contains(&standby)).await;
    assert_eq!(response.header("cache-control"), "public, max-age=600");
    assert_eq!(published(&response.json()), [first.clone(), standby.clone()]);

    basalt(&server, &["keys", "revoke", &first, "--yes"]).failed("in use");
    let rotated = basalt(&server, &["keys", "rotate", "signing"]).ok();
    assert_eq!(rotated.out.trim(), standby);
    let header = |token: &str| -> Value {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap());
        serde_json::from_slice(&bytes.unwrap()).unwrap()
    };
    let mut by_second = sign_in().await;
    while header(&by_second)["kid"] == first.as_str() {
        by_second = sign_in().await;
    }
    assert_eq!(header(&by_second), json!({ "typ": "JWT", "alg": "RS256", "kid": standby }));
    assert_eq!([user(&by_first).await, user(&by_second).await], [200, 200]);
    let rest = server.get("/rest/v1/").apikey(server.anon_key()).bearer(&by_first).send().await;
    assert_eq!(rest.status.as_u16(), 200, "{}", rest.text());
    assert_eq!(
        states(),
        [pair("RS256", "in_use"), pair("HS256", "previously_used"), pair("ES256", "previously_used")]
    );

    basalt(&server, &["keys", "revoke", &first, "--yes"]).ok();
    let request = server.get("/auth/v1/user").apikey(server.anon_key()).bearer(&by_first);
    let refused = server.until(SOON, &request, |response| response.status.as_u16() == 403).await;
    assert_eq!(refused.json()["error_code"], "bad_jwt");
    assert_eq!(user(&by_second).await, 200);
    let rest = server.get("/rest/v1/").apikey(server.anon_key()).bearer(&by_first).send().await;
    assert_eq!(rest.status.as_u16(), 401, "{}", rest.text());
    assert_eq!(published(&jwks.clone().send().await.json()), [standby]);
    basalt(&server, &["keys", "revoke", &first, "--yes"]).failed("revoked");
    // A kid is base64url: one in 64 starts with a hyphen.
    for unknown in ["nobody", "-Yes", "--kid"] {
        basalt(&server, &["keys", "revoke", unknown, "--yes"])
            .failed(&format!("no active key matches {unknown}"));
    }

    // Legacy keys are invalid without their secret; the other keys still work.
    let kid = keys()[1]["kid"].as_str().unwrap().to_owned();
    basalt(&server, &["keys", "revoke", &kid, "--yes"]).ok();
    let anon = server.anon_key().to_owned();
    until(&server, &anon, 401).await;
    let rest = server.get("/rest/v1/").apikey(server.publishable_key()).send().await;
    assert_eq!(rest.status.as_u16(), 200, "{}", rest.text());
    let admin = server.get("/auth/v1/admin/users").apikey(server.secret_key()).send().await;
    assert_eq!(admin.status.as_u16(), 200, "{}", admin.text());
}

#[tokio::test]
async fn configured_signing_keys_cannot_be_changed_by_command() {
    let key = basalt_core::keys::generate("EdDSA").unwrap();
    // An empty database: the kit's databases have the kit's secrets.
    let database = TestDatabase::create().await;
    let builder = Basalt::builder().config("jwt.keys", &json!([key]).to_string());
    let server = builder.database_url(&database.url()).start().await;
    let kid = key["kid"].as_str().unwrap();
    for arguments in [
        &["keys", "create", "signing"][..],
        &["keys", "rotate", "signing", "--yes"],
        &["keys", "revoke", kid, "--yes"],
    ] {
        basalt(&server, arguments).failed("the signing keys are configured in jwt.keys");
    }
}

#[tokio::test]
async fn key_with_custom_role_acts_as_that_role() {
    let server = Basalt::start().await;
    server.database().admin_sql("create role reporter; grant reporter to authenticator").await;
    server.sql("create function public.who() returns text language sql as 'select current_user::text'").await;
    server.database().admin_sql("grant usage on schema public to reporter; grant execute on function public.who() to reporter; notify pgrst").await;
    basalt(&server, &["keys", "create", "secret", "--name", "r", "--role", "nobody"])
        .failed("the role nobody does not exist");
    basalt(&server, &["keys", "create", "secret", "--name", "r", "--role", "supabase_admin"])
        .failed("supabase_admin");
    let key = basalt(&server, &["keys", "create", "secret", "--name", "r", "--role", "reporter"]).ok();
    let key = key.out.trim();
    let who = server.get("/rest/v1/rpc/who").apikey(key);
    let response = server.until(SOON, &who, |response| response.status.as_u16() == 200).await;
    assert_eq!(response.json(), "reporter");
    server.database().admin_sql("drop owned by reporter; drop role reporter").await;
}

#[tokio::test]
async fn keys_are_printed_with_the_running_servers_address() {
    let mut server = Basalt::start().await;
    let printed = |server: &Basalt, settings: &[(&str, &str)]| {
        let mut command = server.same_settings();
        // As typed in the project folder, without the server's address.
        command.env_remove("BASALT_SERVER_PUBLIC_URL").env("BASALT_SERVER_PORT", server.port().to_string());
        command.envs(settings.iter().copied()).arg("keys");
        CliOutput::from_output(&command.output().unwrap()).ok()
    };
    let keys = printed(&server, &[]);
    let address = format!("SUPABASE_URL={}\n", server.url(""));
    assert!(keys.out.contains(&address) && keys.err.is_empty(), "{}{}", keys.out, keys.err);
    // The server has other secrets than this command.
    let other = [("BASALT_JWT_SECRET", "another secret of at least thirty-two characters")];
    let keys = printed(&server, &other);
    assert!(keys.out.contains(&address), "{}", keys.out);
    assert!(keys.err.contains("other secrets") && keys.err.contains(&server.url("")), "{}", keys.err);

    // Another state directory configured with this server's address.
    let elsewhere = tempfile::tempdir().unwrap();
    let port = server.port().to_string();
    let output = Basalt::command(elsewhere.path()).args(["keys", "--port", &port]).output().unwrap();
    let keys = CliOutput::from_output(&output).ok();
    assert!(keys.err.contains("other secrets") && keys.err.contains(&port), "{}", keys.err);

    server.stop().await;
    let keys = printed(&server, &[]);
    let configured = format!("SUPABASE_URL=http://localhost:{port}\n");
    assert!(keys.out.contains(&configured) && keys.err.is_empty(), "{}{}", keys.out, keys.err);
}
