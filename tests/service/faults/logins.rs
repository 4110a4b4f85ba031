//! Logins that PostgreSQL rejects, at runtime and at startup: clients get 503 with Retry-After, the log names the remedy,
//! `/ready` fails within about a second, and no restart is needed.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Request, Response};
use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::load::{insert, is_refusal, project, stored};
use crate::own::OwnPostgres;
use crate::refused::status_code_details;

const SOON: Duration = Duration::from_secs(60);
/// `/ready` is cached for a second, and a check takes a while on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(20);
const REST: &str = "database connection of rest";
const AUTH: &str = "database connection of auth";
/// Realtime has its own connections, with REST's login.
const REALTIME: &str = "database connection of realtime";

const END_REQUESTS: &str = "select pg_terminate_backend(pid, 1000) from pg_stat_activity
    where usename in ('authenticator', 'somebody', 'supabase_auth_admin') and datname = current_database()";

/// Applies a change: SQL, or a line for `pg_hba.conf`.
async fn apply(own: &OwnPostgres, change: &str) {
    if change.is_empty() {
        own.admit_no_longer().await;
    } else if change.starts_with("host") {
        own.admit(change).await;
    } else {
        own.sql(change).await;
    }
}

/// Waits until `/ready` lists exactly these logins; an empty list means ready.
async fn until_ready_without(server: &Basalt, logins: &[&str]) {
    let wanted = |response: &Response| match logins {
        [] => response.status == 200,
        _ => response.status == 503 && response.json()["waiting_for"] == json!(logins),
    };
    server.until(READY_LIMIT, &server.get("/ready"), wanted).await;
}

fn assert_refused(response: &Response, reason: &str) {
    let (status, code, details) = status_code_details(response);
    assert_eq!((status, code.as_str()), (503, "PGRST000"), "{reason}: {}", response.text());
    assert!(details.contains(reason) && is_refusal(response), "{}", response.text());
}

#[tokio::test]
async fn rejected_login_causes_503_until_accepted_again() {
    let project = project();
    let own = OwnPostgres::start().await;
    let server = own.server(project.path(), &[]).await;
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    let password =
        own.sql("select rolpassword from pg_authid where rolname = 'authenticator'").await.unwrap();
    let set_back = format!("alter role authenticator password '{password}'");
    for (change, back, reason, remedy) in [
        (
            "alter role authenticator password 'another'",
            set_back.as_str(),
            "password authentication failed",
            "check the password",
        ),
        ("alter role authenticator nologin", "alter role authenticator login", "log in", "have LOGIN"),
        (
            "alter role authenticator rename to somebody",
            &format!("alter role somebody rename to authenticator; {set_back}"),
            "password authentication failed",
            "check the password",
        ),
        ("host all authenticator all reject", "", "pg_hba.conf rejects", "to the server's pg_hba.conf"),
        (
            "revoke connect on database postgres from authenticator, public",
            "grant connect on database postgres to authenticator, public",
            "permission denied for database",
            "grant connect on database",
        ),
        (
            "alter role authenticator connection limit 0",
            "alter role authenticator connection limit -1",
            "too many connections for role",
            "raise the limit",
        ),
    ] {
        // Count from before the change: a pool may open a connection at any time after it.
        let start = server.log().len();
        // Existing connections stay open, so the server stays ready.
        apply(&own, change).await;
        read.clone().send().await.expect(200);
        server.get("/ready").send().await.expect(200);
        own.sql(END_REQUESTS).await;
        let refused: &[&str] =
            if change.contains("public") { &[REST, AUTH, REALTIME] } else { &[REST, REALTIME] };
        until_ready_without(&server, refused).await;
        server.get("/health").send().await.expect(200);
        for request in [read.clone(), insert(&server).json(&json!({ "id": 1 }))] {
            let begun = Instant::now();
            let response = request.send().await;
            assert_refused(&response, reason);
            assert!(!response.text().contains(&password));
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        }
        // Logged once per login, not per request.
        let logged = server.log().into_iter().skip(start).filter(|line| line.raw.contains(remedy)).count();
        assert_eq!(logged, refused.len(), "{reason}");
        apply(&own, back).await;
        until_ready_without(&server, &[]).await;
        read.clone().send().await.expect(200);
    }
    own.sql("alter role supabase_auth_admin nologin").await;
    own.sql(END_REQUESTS).await;
    until_ready_without(&server, &[AUTH]).await;
    read.send().await.expect(200);
    own.sql("alter role supabase_auth_admin login").await;
    until_ready_without(&server, &[]).await;
    assert!(stored(&server).await.is_empty());
    drop(server);
    own.stop().await;
}

/// Opens all remaining connections as superuser.
async fn fill(own: &OwnPostgres) -> Vec<Client> {
    let mut taken = Vec::new();
    loop {
        match tokio_postgres::connect(&own.url, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                taken.push(client);
            }
            Err(error) => {
                assert_eq!(error.code().map(|code| code.code()), Some("53300"), "{error:?}");
                return taken;
            }
        }
    }
}

#[tokio::test]
async fn exhausted_connections_cause_503_until_freed() {
    let project = project();
    let own = OwnPostgres::start_with(&[("max_connections", "20")]).await;
    let settings = [("database.pool_size", "6"), ("database.pool_timeout", "2s")];
    let mut server = own.server(project.path(), &settings).await;
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    own.sql(END_REQUESTS).await;
    let taken = fill(&own).await;
    for request in [read.clone(), insert(&server).json(&json!({ "id": 1 }))] {
        let begun = Instant::now();
        assert_refused(&request.send().await, "(SQLSTATE 53300)");
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
    until_ready_without(&server, &[REST, AUTH, REALTIME]).await;
    drop(taken);
    until_ready_without(&server, &[]).await;
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);

    // A start retries for a while, then reports the reason.
    server.stop().await;
    let taken = fill(&own).await;
    let output = failed_start(&server).await;
    assert!(output.contains("has no free connection; raise max_connections"), "{output}");
    let free = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(taken);
    };
    tokio::join!(free, server.start_again());
    let read: Request = read;
    server.until(SOON, &read, |response| response.status == 200).await;
    drop(server);
    own.stop().await;
}

/// Starts a server that must fail; returns its stderr.
async fn failed_start(server: &Basalt) -> String {
    let mut command: Command = server.same_settings();
    command.args(["serve", "--port", &server.port().to_string()]);
    let begun = Instant::now();
    let output: Output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    stderr
}

#[tokio::test]
async fn start_rejected_by_pg_hba_names_the_remedy() {
    let project = project();
    let own = OwnPostgres::start().await;
    let mut server = own.server(project.path(), &[]).await;
    server.stop().await;
    own.admit("host all supabase_admin all reject").await;
    let output = failed_start(&server).await;
    assert!(output.contains("rejects the login (pg_hba.conf rejects connection"), "{output}");
    assert!(output.contains("add a line to the server's pg_hba.conf that admits this user"), "{output}");
    own.admit_no_longer().await;
    server.start_again().await;
    drop(server);
    own.stop().await;
}
