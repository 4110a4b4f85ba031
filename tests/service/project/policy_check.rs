//! `policies check`: no findings on the app, and every kind of fault is detected.

use basalt_project::policy_check::Rule;
use basalt_project::{MigrateOptions, Project};
use tokio_postgres::Client;

use super::support::{app_database, database, project, repository, values};

/// The findings as text.
#[expect(clippy::unwrap_used, reason = "a helper fails a test as the test itself does")]
async fn findings(project: &Project, client: &mut Client) -> Vec<String> {
    let findings = project.check_policies(client, &["public".to_owned()]).await.unwrap();
    findings.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn app_policies_have_no_findings() {
    let (_database, mut client) = app_database().await;
    let project = Project::open(repository()).unwrap();
    assert_eq!(findings(&project, &mut client).await, Vec::<String>::new());
}

#[tokio::test]
async fn every_kind_of_fault_is_detected() {
    let notes = "create table notes (id int primary key, owner_id uuid, done boolean);
        create index notes_owner_id on notes (owner_id)";
    let policy = "alter table notes enable row level security;
        revoke all on notes from anon, authenticated, service_role;
        grant select, insert, delete on notes to authenticated;
        create policy read on notes for select to authenticated using (owner_id = (select auth.uid()))";
    let (_dir, project) = project(&[("migrations/0001_notes.sql", notes), ("policies/notes.sql", policy)]);
    let (_database, mut client) = database().await;
    project.migrate(&mut client, &MigrateOptions::default(), |_| {}).await.unwrap();
    assert_eq!(findings(&project, &mut client).await, Vec::<String>::new());

    let faults: [(&str, &str, Rule, &str); 12] = [
        ("create table bare (id int)", "public.bare", Rule::TableWithoutRls, "has no row-level security"),
        (
            "create policy open on notes for select using (true)",
            "public.notes",
            Rule::PolicyWithoutRole,
            "policy \"open\" names no role",
        ),
        (
            "create policy slow on notes for delete to authenticated using (owner_id = auth.uid())",
            "public.notes",
            Rule::CallPerRow,
            "policy \"slow\" calls auth.uid() for each row",
        ),
        (
            "create policy slow on notes for insert to authenticated with check (owner_id = auth.uid())",
            "public.notes",
            Rule::CallPerRow,
            "policy \"slow\" calls auth.uid() for each row",
        ),
        (
            "drop index notes_owner_id",
            "public.notes",
            Rule::UnindexedColumn,
            "policy \"read\" searches rows by public.notes.owner_id",
        ),
        (
            "create function trusting() returns int language sql security definer as 'select 1'; alter function trusting() owner to postgres",
            "public.trusting()",
            Rule::FunctionWithoutSearchPath,
            "is SECURITY DEFINER",
        ),
        (
            "create view all_notes as select * from notes",
            "public.all_notes",
            Rule::OwnerRightsView,
            "runs with its owner's rights",
        ),
        (
            "create policy nothing on notes for delete to authenticated using (false)",
            "public.notes",
            Rule::NeverAllows,
            "policy \"nothing\" never allows anything: its condition is false",
        ),
        (
            "create policy ungranted on notes for update to authenticated using (true)",
            "public.notes",
            Rule::NeverAllows,
            "policy \"ungranted\" never allows anything: authenticated lacks the privilege for UPDATE",
        ),
        (
            "grant update on notes to anon",
            "public.notes",
            Rule::Drift,
            "only in the database, not in the policy file: grant UPDATE to anon",
        ),
        (
            "drop policy read on notes",
            "public.notes",
            Rule::Drift,
            "only in the policy file, not in the database: policy \"read\"",
        ),
        (
            "create table unstated (id int); alter table unstated enable row level security; grant select on unstated to anon",
            "public.unstated",
            Rule::Drift,
            "no policy file defines",
        ),
    ];
    for (change, place, rule, message) in faults {
        client.batch_execute(&format!("begin; {change}; commit")).await.unwrap();
        let found = project.check_policies(&mut client, &["public".to_owned()]).await.unwrap();
        let is_there = found
            .iter()
            .any(|found| found.object == place && found.rule == rule && found.message.starts_with(message));
        assert!(is_there, "{change}\n{found:#?}");
        client
            .batch_execute(
                "drop table if exists bare, unstated; drop view if exists all_notes; drop function if exists trusting();
                 create index if not exists notes_owner_id on notes (owner_id)",
            )
            .await
            .unwrap();
        project.apply_policies(&mut client, |_| {}).await.unwrap();
        assert_eq!(
            findings(&project, &mut client).await,
            Vec::<String>::new(),
            "`policies apply` reverts: {change}"
        );
    }
    let views = "create view own_notes with (security_invoker = true) as select * from notes";
    client.batch_execute(views).await.unwrap();
    assert_eq!(findings(&project, &mut client).await, Vec::<String>::new());
}

#[tokio::test]
async fn policy_check_is_read_only() {
    let (_database, mut client) = app_database().await;
    client.batch_execute("create policy extra on plans for select to anon using (true)").await.unwrap();
    let project = Project::open(repository()).unwrap();
    let state = "select count(*) || ' ' || md5(string_agg(c.relacl::text, '' order by c.relname))
        from pg_policy p join pg_class c on c.oid = p.polrelid";
    let before = values(&client, state).await;
    let found = findings(&project, &mut client).await;
    assert_eq!(found.len(), 2, "drift, and a policy without a grant: {found:#?}");
    assert_eq!(values(&client, state).await, before);
}
