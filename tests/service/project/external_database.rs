//! A login without superuser: only CREATEROLE, CREATEDB and its own database. The test has its own cluster, because roles are
//! cluster-wide and here another login creates them first.

use super::support::{self, SERVICES, admin, connect, repository, values};
use basalt_pg::system_migrations::{Layout, MigrationSettings, apply};
use basalt_project::Project;
use basalt_testkit::Cluster;
use secrecy::SecretString;

#[tokio::test]
async fn non_superuser_prepares_a_database_and_reports_gaps() {
    let database = Cluster::another().await.empty_database().await;
    let superuser = admin(&database).await;
    superuser
        .batch_execute(&format!(
            "create role plain login createrole createdb password 'testkit'; alter database {} owner to plain",
            database.name()
        ))
        .await
        .unwrap();

    let mut client = connect(&database.url().replace("supabase_admin", "plain")).await.unwrap();
    let settings = MigrationSettings {
        passwords: vec![
            ("authenticator", SecretString::from("secret")),
            ("supabase_auth_admin", SecretString::from("secret")),
        ],
        layout: Layout::Basalt,
    };
    let report = apply(&mut client, &SERVICES, &settings).await.unwrap();
    assert!(!report.is_superuser);
    let missing: Vec<&str> = report.limits.iter().map(|limit| limit.what).collect();
    assert_eq!(
        missing,
        [
            "service_role cannot bypass row-level security",
            "role postgres cannot bypass row-level security",
            "no event trigger reports schema changes",
            "the login of database.url may not replicate"
        ]
    );
    assert_eq!(report.passwords_set.len(), 2);
    assert!(apply(&mut client, &SERVICES, &settings).await.unwrap().applied.is_empty());

    let project = Project::open(repository()).unwrap();
    let options = basalt_project::MigrateOptions { seed: true, ..Default::default() };
    assert!(project.migrate(&mut client, &options, |_| {}).await.unwrap().seeded);
    assert_eq!(
        values(&client, "select tableowner from pg_tables where tablename = 'plans'").await,
        ["postgres"]
    );

    let requests =
        connect(&database.url().replace("supabase_admin:testkit", "authenticator:secret")).await.unwrap();
    for role in ["anon", "authenticated", "service_role"] {
        requests.batch_execute(&format!("set role {role}; reset role")).await.unwrap();
    }

    // Without an event trigger the project's SQL can do this; the next start reverts it.
    let disable = "set role postgres; alter table storage.objects disable row level security; reset role";
    client.batch_execute(disable).await.unwrap();
    assert_eq!(apply(&mut client, &SERVICES, &settings).await.unwrap().protected, ["storage.objects"]);

    // After a superuser fixes the gaps, the next start completes the setup.
    superuser
        .batch_execute(
            "alter role service_role bypassrls; alter role postgres bypassrls; alter role plain replication",
        )
        .await
        .unwrap();
    let report = apply(&mut client, &SERVICES, &settings).await.unwrap();
    assert_eq!(report.limits.len(), 1, "{:?}", report.limits);
    // Only superusers can create event triggers.
    let mut as_superuser = admin(&database).await;
    let report = apply(&mut as_superuser, &SERVICES, &MigrationSettings::default()).await.unwrap();
    let mended =
        ["core/ddl_watch", "core/ddl_watch_more", "core/row_security_guard"].map(str::to_owned).to_vec();
    assert_eq!((report.applied, report.limits), (mended, vec![]));
    let outcome = project.test_policies(&mut client).await.unwrap();
    assert!(outcome.faults.is_empty(), "{:#?}", outcome.faults);

    elevation_is_taken_back().await;
}

/// A server killed while `postgres` was a superuser reverts that at its next start. Part of the test above, because roles are
/// cluster-wide.
#[expect(clippy::unwrap_used, reason = "a part of the test above")]
async fn elevation_is_taken_back() {
    let database = Cluster::another().await.empty_database().await;
    let mut client = admin(&database).await;
    support::apply(&mut client, Layout::Basalt).await;
    client.batch_execute("alter role postgres superuser").await.unwrap();
    assert_eq!(support::apply(&mut client, Layout::Basalt).await.applied, ["cluster/roles"]);
    assert_eq!(values(&client, "select rolsuper from pg_roles where rolname = 'postgres'").await, ["f"]);
}
