//! System migrations: concurrent starts, roles, passwords, layouts.

use basalt_pg::system_migrations::{Layout, MigrationError, MigrationSettings, SystemMigration, apply};
use secrecy::SecretString;

use super::support::{self, admin, empty_database, failure, values};

#[tokio::test]
async fn concurrent_starts_apply_each_step_once() {
    let database = empty_database().await;
    let mut servers = Vec::new();
    for _ in 0..4 {
        let mut client = admin(&database).await;
        servers.push(tokio::spawn(async move { support::apply(&mut client, Layout::Basalt).await.applied }));
    }
    let mut applied = Vec::new();
    for server in servers {
        applied.push(server.await.unwrap());
    }
    applied.retain(|steps| !steps.is_empty());
    assert_eq!(applied.len(), 1, "{applied:?}");
    let all = support::SERVICES.iter().map(|set| set.len()).sum::<usize>();
    // Ten steps of core, roles and default privileges.
    assert_eq!(applied[0].len(), all + 12, "{applied:?}");
}

#[tokio::test]
async fn databases_of_one_cluster_share_role_creation() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let database = empty_database().await;
        let mut client = admin(&database).await;
        servers.push(tokio::spawn(async move {
            support::apply(&mut client, Layout::Basalt).await;
            drop(client);
            database
        }));
    }
    for server in servers {
        drop(server.await.unwrap());
    }
}

#[tokio::test]
async fn roles_match_the_contracts() {
    let (_database, client) = support::database().await;
    let roles = values(
        &client,
        "select concat_ws(' ', rolname, case when rolsuper then 'superuser' end, case when rolcanlogin then 'login' end,
           case when not rolinherit then 'noinherit' end, case when rolcreaterole then 'createrole' end,
           case when rolcreatedb then 'createdb' end, case when rolreplication then 'replication' end,
           case when rolbypassrls then 'bypassrls' end)
         from pg_roles where rolname !~ '^pg_' and rolname <> 'standalone_authenticator' order by rolname",
    )
    .await;
    assert_eq!(
        roles,
        [
            "anon noinherit",
            "authenticated noinherit",
            "authenticator login noinherit",
            "dashboard_user createrole createdb replication",
            "postgres login createrole createdb replication bypassrls",
            "service_role noinherit bypassrls",
            "supabase_admin superuser login createrole createdb replication bypassrls",
            "supabase_auth_admin login noinherit createrole",
            "supabase_realtime_admin noinherit",
            "supabase_storage_admin noinherit",
        ]
    );
    // `postgres` has ADMIN on authenticator without membership (decision 0024); PostgreSQL 15 has no such option.
    let memberships = values(
        &client,
        "select format('%s in %s', member::regrole, string_agg(roleid::regrole::text, ' ' order by roleid::regrole::text))
         from pg_auth_members m
         where member::regrole::text !~ '^(pg_|standalone)' and to_jsonb(m) ->> 'set_option' is distinct from 'false'
         group by member order by member::regrole::text",
    )
    .await;
    assert_eq!(
        memberships,
        [
            "authenticator in anon authenticated service_role",
            "postgres in anon authenticated pg_monitor pg_signal_backend service_role supabase_realtime_admin supabase_storage_admin",
            "supabase_realtime_admin in anon authenticated service_role",
        ]
    );
    let schemas = "extensions vault supabase_functions auth storage realtime functions";
    for schema in schemas.split(' ') {
        assert_eq!(
            values(&client, &format!("select to_regnamespace('{schema}') is not null")).await,
            ["t"],
            "{schema}"
        );
    }
    let private = values(
        &client,
        "select rolname from pg_roles where not rolsuper and rolname !~ '^pg_' and has_schema_privilege(oid, 'basalt', 'usage')",
    )
    .await;
    // It writes the mail outbox and counts wrong codes; table privileges are tested in core and auth.
    assert_eq!(private, ["supabase_auth_admin"], "roles with USAGE on schema basalt");
}

#[tokio::test]
async fn copied_database_regains_its_privileges() {
    let (template, client) = support::database().await;
    drop(client);
    // Reuse the name of a database that is dropped at the end.
    let copy = empty_database().await;
    let name = copy.name();
    let maintenance = support::connect(&template.url().replace(template.name(), "postgres")).await.unwrap();
    maintenance.batch_execute(&format!("drop database {name}")).await.unwrap();
    let clone = format!("create database {name} template {}", template.name());
    // PostgreSQL waits up to 5 s for the template's last connection to close.
    maintenance.batch_execute(&clone).await.unwrap();
    let mut client = admin(&copy).await;
    assert_eq!(failure(&client, "set role postgres; create schema mine").await.0, "42501");
    client.batch_execute("reset role").await.unwrap();
    assert_eq!(support::apply(&mut client, Layout::Basalt).await.applied, ["cluster/roles"]);
    client.batch_execute("set role postgres; create schema mine").await.unwrap();
    client.batch_execute("reset role").await.unwrap();
    assert!(support::apply(&mut client, Layout::Basalt).await.applied.is_empty());
}

#[tokio::test]
async fn changed_or_failing_migration_is_named_and_rolled_back() {
    let database = empty_database().await;
    let mut client = admin(&database).await;
    let settings = MigrationSettings::default();
    let first = [SystemMigration::new("test", 1, "first", "create table public.first ()")];
    apply(&mut client, &[&first], &settings).await.unwrap();

    let edited = [SystemMigration::new("test", 1, "first", "create table public.first (id int)")];
    let error = apply(&mut client, &[&edited], &settings).await.unwrap_err();
    assert!(matches!(error, MigrationError::Changed { service: "test", version: 1, .. }), "{error}");

    let failing =
        SystemMigration::new("test", 2, "second", "create table public.second ();\n\nselect nonsense;");
    let error = apply(&mut client, &[&[first[0], failing]], &settings).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "system migration test/0002_second, line 3: column \"nonsense\" does not exist (SQLSTATE 42703)"
    );
    assert_eq!(values(&client, "select to_regclass('public.second')").await, ["-"]);
    // The lock is released.
    let mended = SystemMigration::new("test", 2, "second", "create table public.second ()");
    let report = apply(&mut client, &[&[first[0], mended]], &settings).await.unwrap();
    assert_eq!(report.applied, ["test/second"]);
}

#[tokio::test]
async fn passwords_are_set_only_if_changed_and_sent_hashed() {
    let database = empty_database().await;
    let mut client = admin(&database).await;
    let settings = |password: &str| MigrationSettings {
        passwords: vec![
            ("authenticator", SecretString::from(password)),
            ("supabase_admin", SecretString::from(password)),
        ],
        layout: Layout::Basalt,
    };
    let login = |password: &str| {
        let url = database.url().replace("supabase_admin:testkit", &format!("authenticator:{password}"));
        async move { support::connect(&url).await.is_ok() }
    };
    apply(&mut client, &[], &settings("one")).await.unwrap();
    assert!(login("one").await && !login("two").await);
    // The connected superuser keeps its password.
    assert!(admin(&database).await.simple_query("select 1").await.is_ok());

    let again = apply(&mut client, &[], &settings("one")).await.unwrap();
    assert!(again.passwords_set.is_empty() && again.applied.is_empty(), "{again:?}");

    let changed = apply(&mut client, &[], &settings("two")).await.unwrap();
    assert_eq!(changed.passwords_set, ["authenticator"]);
    assert!(login("two").await && !login("one").await);
}

#[tokio::test]
async fn layout_sets_default_privileges() {
    let database = empty_database().await;
    let mut client = admin(&database).await;
    let objects = |n: u8| {
        format!(
            "set role postgres; create table public.t{n} (); create function public.f{n}() returns int
             language sql as 'select 1'; reset role"
        )
    };
    let rights = |n: u8| {
        format!(
            "select has_table_privilege('anon', 'public.t{n}', 'select') || ' '
               || has_table_privilege('service_role', 'public.t{n}', 'delete') || ' '
               || has_function_privilege('anon', 'public.f{n}()', 'execute')"
        )
    };
    let layouts = [
        (Layout::Basalt, "false false false"),
        (Layout::Supabase, "true true true"),
        (Layout::SupabaseUnexposed, "false false true"),
        (Layout::Basalt, "false false false"),
    ];
    for (n, (layout, expected)) in (0..).zip(layouts) {
        support::apply(&mut client, layout).await;
        client.batch_execute(&objects(n)).await.unwrap();
        assert_eq!(values(&client, &rights(n)).await, [expected], "{layout:?}");
    }
}

#[tokio::test]
async fn ddl_notifies_except_for_temporary_tables() {
    let (database, client) = support::database().await;
    let (listener, mut notifications) = support::listen(&database.url(), "pgrst").await;
    // The `end` payload marks the end: anything not received before it was not sent.
    for (sql, expected) in [
        ("create table public.x ()", vec!["reload schema", "end"]),
        ("alter table public.x add y int; comment on table public.x is 'z'", vec!["reload schema", "end"]),
        ("create temporary table x ()", vec!["end"]),
        ("drop table pg_temp.x", vec!["end"]),
        // Unique indexes matter for upserts.
        ("create index on public.x (y)", vec!["reload schema", "end"]),
        ("drop table public.x", vec!["reload schema", "end"]),
        ("set local role postgres; create view public.v as select 1 as one", vec!["reload schema", "end"]),
    ] {
        client.batch_execute(&format!("begin; {sql}; notify pgrst, 'end'; commit")).await.unwrap();
        let mut payloads = Vec::new();
        while payloads.last().is_none_or(|last| last != "end") {
            payloads.push(notifications.recv().await.unwrap());
        }
        assert_eq!(payloads, expected, "{sql}");
    }
    drop(listener);
}

/// One table of each service, and a partition.
const SERVICE_TABLES: [&str; 6] = [
    "auth.users",
    "functions.runtime_secrets",
    "PARTITION",
    "realtime.messages",
    "storage.buckets",
    "storage.objects",
];

#[tokio::test]
async fn each_start_restores_row_security_of_service_tables() {
    let (_database, mut client) = support::database().await;
    let unprotected = "select format('%s.%s', relnamespace::regnamespace, relname) from pg_class
        where relnamespace::regnamespace::text in ('auth', 'storage', 'realtime', 'functions') and relkind in ('r', 'p')
          and not relrowsecurity order by 1";
    assert_eq!(values(&client, unprotected).await, [] as [&str; 0], "a new database protects all of them");
    let partition = "select min(inhrelid::regclass::text) from pg_inherits where inhparent = 'realtime.messages'::regclass";
    let partition = values(&client, partition).await.remove(0);
    let tables = SERVICE_TABLES.map(|table| table.replace("PARTITION", &partition));
    for table in &tables {
        client.batch_execute(&format!("alter table {table} disable row level security")).await.unwrap();
    }
    // A project's own table in a service schema is not changed.
    client
        .batch_execute("create table storage.mine (); alter table storage.mine owner to postgres")
        .await
        .unwrap();
    let mut expected = tables.to_vec();
    expected.sort();
    assert_eq!(support::apply(&mut client, Layout::Untouched).await.protected, [] as [&str; 0]);
    assert_eq!(support::apply(&mut client, Layout::Basalt).await.protected, expected);
    assert_eq!(values(&client, unprotected).await, ["storage.mine"]);
    assert_eq!(support::apply(&mut client, Layout::Basalt).await.protected, [] as [&str; 0]);
}

#[tokio::test]
async fn project_sql_cannot_disable_row_security_of_services() {
    let (_database, client) = support::database().await;
    let refused = ("42501".to_owned(), "must be owner of table storage.objects".to_owned());
    let disable = "alter table storage.objects disable row level security";
    for becomes in [
        "set local role postgres",
        "set local session authorization postgres",
        "set local session authorization postgres; set local role supabase_storage_admin",
        // As for files of a Supabase project.
        "alter role postgres superuser; set local session authorization postgres",
        "set local session_replication_role = replica; set local role postgres",
    ] {
        assert_eq!(failure(&client, &format!("begin; {becomes}; {disable}")).await, refused, "{becomes}");
        client.batch_execute("rollback").await.unwrap();
    }
    client
        .batch_execute(
            "begin; set local role postgres;
             create policy own on storage.objects for select to authenticated using (owner_id = auth.uid()::text);
             alter table storage.objects enable row level security;
             create table public.mine (); alter table public.mine enable row level security;
             alter table public.mine disable row level security; rollback",
        )
        .await
        .unwrap();
    // The server's own login, for restoring dumps.
    client.batch_execute(&format!("begin; {disable}; rollback")).await.unwrap();
}

#[tokio::test]
async fn dropped_row_security_guard_is_restored() {
    let (_database, mut client) = support::database().await;
    client.batch_execute("drop event trigger basalt_guard_row_security").await.unwrap();
    assert_eq!(support::apply(&mut client, Layout::Basalt).await.applied, ["core/row_security_guard"]);
    assert!(support::apply(&mut client, Layout::Basalt).await.applied.is_empty());
}
