//! Databases and project folders for these tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers fail a test as the test itself does"
)]

use std::fs;
use std::future::poll_fn;
use std::path::{Path, PathBuf};

use basalt_pg::system_migrations::{self, Layout, MigrationSettings, Report, SystemMigration};
use basalt_project::{MigrateOptions, Project};
use basalt_testkit::{Cluster, TestDatabase};
use tempfile::TempDir;
use tokio::sync::{OnceCell, mpsc};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls, SimpleQueryMessage};

pub(crate) const SERVICES: [&[SystemMigration]; 6] = [
    basalt_auth::MIGRATIONS,
    basalt_backup::MIGRATIONS,
    basalt_storage::MIGRATIONS,
    basalt_realtime::MIGRATIONS,
    basalt_functions::MIGRATIONS,
    basalt_planning::MIGRATIONS,
];

/// The repository, which is the app's project folder.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The fixture of the policy cases.
pub(crate) fn fixture() -> String {
    fs::read_to_string(repository().join("policies/tests/fixture.sql")).unwrap()
}

/// A database in a cluster only for these tests, which change roles and passwords that servers of other tests use.
pub(crate) async fn empty_database() -> TestDatabase {
    static CLUSTER: OnceCell<&Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(Cluster::another).await.empty_database().await
}

/// A database with the system migrations.
pub(crate) async fn database() -> (TestDatabase, Client) {
    let database = empty_database().await;
    let mut client = admin(&database).await;
    apply(&mut client, Layout::Basalt).await;
    (database, client)
}

/// A database with the app's tables and policies, without demo data.
pub(crate) async fn app_database() -> (TestDatabase, Client) {
    let (database, mut client) = database().await;
    let project = Project::open(repository()).unwrap();
    project.migrate(&mut client, &MigrateOptions::default(), |_| {}).await.unwrap();
    (database, client)
}

/// A superuser connection.
pub(crate) async fn admin(database: &TestDatabase) -> Client {
    connect(&database.url()).await.unwrap()
}

pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub(crate) async fn apply(client: &mut Client, layout: Layout) -> Report {
    let settings = MigrationSettings { layout, ..MigrationSettings::default() };
    system_migrations::apply(client, &SERVICES, &settings).await.unwrap()
}

/// A listening connection, and the payloads that it receives.
pub(crate) async fn listen(url: &str, channel: &str) -> (Client, mpsc::Receiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (sender, receiver) = mpsc::channel(100);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                sender.send(notification.payload().to_owned()).await.unwrap();
            }
        }
    });
    client.batch_execute(&format!("listen {channel}")).await.unwrap();
    (client, receiver)
}

/// The first column of every row, NULL as `-`.
pub(crate) async fn values(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let mut values = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            values.push(row.get(0).unwrap_or("-").to_owned());
        }
    }
    values
}

/// SQLSTATE and message of a statement that must fail.
pub(crate) async fn failure(client: &Client, sql: &str) -> (String, String) {
    let error = client.batch_execute(sql).await.expect_err(sql);
    let error = error.as_db_error().expect("expected an error from PostgreSQL");
    (error.code().code().to_owned(), error.message().to_owned())
}

/// Switches the connection to this user, with role and claims as in a request after the second factor, which one of the users has.
pub(crate) async fn become_user(client: &Client, id: &str) {
    let claims = format!(r#"{{"role":"authenticated","sub":"{id}","aal":"aal2"}}"#);
    let sql = format!(
        "reset role; select set_config('request.jwt.claims', '{claims}', false); set role authenticated"
    );
    client.batch_execute(&sql).await.unwrap();
}

/// A project folder with these files.
pub(crate) fn project(files: &[(&str, &str)]) -> (TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(dir.path(), path, text);
    }
    let project = Project::open(dir.path()).unwrap();
    (dir, project)
}

pub(crate) fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
