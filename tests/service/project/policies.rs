//! The app's policies and permission functions.

use super::support::{self, app_database, become_user, failure, fixture, repository, values};
use basalt_project::Project;

const OWNER: &str = "7e570000-0000-4000-8000-000000000004";
const SECOND: &str = "7e570000-0000-4000-8000-000000000006";
const FREE_OWNER: &str = "7e570000-0000-4000-8000-000000000008";
const STRANGER: &str = "7e570000-0000-4000-8000-000000000001";
const PLAN: &str = "7e571000-0000-4000-8000-000000000001";
const TOKEN: &str = "7e573000-0000-4000-8000-000000000001";

#[tokio::test]
async fn policy_matrix_of_the_app_passes() {
    let (_database, mut client) = app_database().await;
    let outcome = Project::open(repository()).unwrap().test_policies(&mut client).await.unwrap();
    assert!(outcome.faults.is_empty(), "{:#?}", outcome.faults);
    assert!(outcome.checks > 200, "{}", outcome.checks);
    assert_eq!(values(&client, "select count(*) from plans").await, ["0"], "the policy tests leave no rows");
}

#[tokio::test]
async fn policy_tests_detect_wrong_and_missing_policies() {
    let (_database, mut client) = app_database().await;
    let project = Project::open(repository()).unwrap();
    let mut faults_after = async |sql: &str| {
        client.batch_execute(sql).await.unwrap();
        project.test_policies(&mut client).await.unwrap().faults
    };
    let faults = faults_after(
        "create policy open on plans for select to anon using (true); grant select on plans to anon",
    )
    .await;
    assert!(
        faults.iter().any(|fault| fault.ends_with("read the plan: visitor is allowed but must not be")),
        "{faults:#?}"
    );
    let faults = faults_after("drop policy open on plans; drop policy \"owners delete\" on plans").await;
    assert!(
        faults.iter().any(|fault| fault.ends_with("delete the plan: owner is denied but must be allowed")),
        "{faults:#?}"
    );
    let faults = faults_after("create table forgotten (id int)").await;
    for expected in
        ["public.forgotten has no file in policies/tests", "public.forgotten has no row-level security"]
    {
        assert!(faults.iter().any(|fault| fault == expected), "{faults:#?}");
    }
}

#[tokio::test]
async fn concurrent_leave_keeps_one_owner() {
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let (database, client) = app_database().await;
        client.batch_execute(&fixture()).await.unwrap();
        let second = format!(
            "insert into plan_members (plan_id, user_id, email, role, invite_accepted, invite_token)
             values ('{PLAN}', '{SECOND}', 'second.owner@test.local', 'owner', true, null)"
        );
        client.batch_execute(&second).await.unwrap();

        let (one, two) = (support::admin(&database).await, support::admin(&database).await);
        let leave =
            |who: &str| format!("delete from plan_members where plan_id = '{PLAN}' and user_id = '{who}'");
        for (session, who) in [(&one, OWNER), (&two, SECOND)] {
            become_user(session, who).await;
            session
                .batch_execute(&format!("begin isolation level {isolation}; select from plans"))
                .await
                .unwrap();
        }
        one.batch_execute(&leave(OWNER)).await.unwrap();
        let leave_second = leave(SECOND);
        // The second transaction waits for the first, which then commits.
        let (refused, committed) = tokio::join!(two.batch_execute(&leave_second), async {
            let waiting = "select count(*) from pg_stat_activity
                where datname = current_database() and wait_event_type = 'Lock'";
            while values(&client, waiting).await == ["0"] {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            one.batch_execute("commit").await
        });
        committed.unwrap();
        let code = refused.expect_err("one owner must stay").code().unwrap().code().to_owned();
        let expected = if isolation == "read committed" { "23514" } else { "40001" };
        assert_eq!(code, expected, "{isolation}");
        let owners = format!(
            "select user_id from plan_members where plan_id = '{PLAN}' and role = 'owner' and invite_accepted"
        );
        assert_eq!(values(&client, &owners).await, [SECOND]);
        let first_owner = format!("select user_id from plans where id = '{PLAN}'");
        assert_eq!(values(&client, &first_owner).await, [SECOND], "the plan has the second owner");
    }
}

#[tokio::test]
async fn deleting_an_account_keeps_plans_with_other_owners() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    client
        .batch_execute(&format!(
            "insert into plan_members (plan_id, user_id, email, role, invite_accepted, invite_token)
             values ('{PLAN}', '{SECOND}', 'second.owner@test.local', 'owner', true, null);
             delete from auth.users where id = '{OWNER}'"
        ))
        .await
        .unwrap();
    assert_eq!(values(&client, &format!("select user_id from plans where id = '{PLAN}'")).await, [SECOND]);

    client
        .batch_execute(&format!("delete from auth.users where id in ('{SECOND}', '{FREE_OWNER}')"))
        .await
        .unwrap();
    assert_eq!(
        values(&client, "select count(*) from plans").await,
        ["0"],
        "plans without another owner are deleted"
    );
    assert_eq!(values(&client, "select count(*) from plan_members").await, ["0"]);
}

#[tokio::test]
async fn invitation_is_for_one_address_and_one_use() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    let get =
        format!("select plan_title || ' ' || role || ' ' || email from get_invitation('{TOKEN}', '{PLAN}')");
    let accept = format!("select accept_invitation('{TOKEN}', '{PLAN}')");

    client.batch_execute("set role anon").await.unwrap();
    assert_eq!(values(&client, &get).await, ["The plan manager Stranger@Test.local"]);
    assert_eq!(failure(&client, &accept).await.0, "42501");

    become_user(&client, SECOND).await;
    assert_eq!(
        failure(&client, &accept).await,
        ("42501".into(), "This invitation is for another e-mail address".into())
    );

    become_user(&client, STRANGER).await;
    let wrong_plan = format!("select accept_invitation('{TOKEN}', '{STRANGER}')");
    // PT404 becomes status 404 in REST.
    let unknown = || ("PT404".into(), "This invitation is no longer valid".into());
    assert_eq!(failure(&client, &wrong_plan).await, unknown());
    client
        .batch_execute("reset role; update auth.users set email_confirmed_at = null; set role authenticated")
        .await
        .unwrap();
    let unproven = ("42501".to_owned(), "Confirm your e-mail address first".to_owned());
    assert_eq!(failure(&client, &accept).await, unproven, "an unconfirmed address is rejected");
    // As after an autoconfirmed sign-up; user metadata is ignored.
    client
        .batch_execute(
            r#"reset role;
             update auth.users set email_confirmed_at = now(), raw_user_meta_data = '{"email_verified": true}';
             update auth.identities set identity_data = identity_data || '{"email_verified": false}';
             set role authenticated"#,
        )
        .await
        .unwrap();
    assert_eq!(failure(&client, &accept).await, unproven, "an autoconfirmed address is rejected");
    client
        .batch_execute(
            r#"reset role;
             update auth.identities set identity_data = identity_data || '{"email_verified": true}';
             set role authenticated"#,
        )
        .await
        .unwrap();
    client
        .batch_execute(
            "reset role;
             update plan_members set created_at = now() - interval '15 days' where not invite_accepted;
             set role authenticated",
        )
        .await
        .unwrap();
    assert_eq!(failure(&client, &accept).await, unknown(), "an expired invitation is rejected");
    assert!(values(&client, &get).await.is_empty());
    client
        .batch_execute("reset role; update plan_members set created_at = now() where not invite_accepted; set role authenticated")
        .await
        .unwrap();

    assert_eq!(values(&client, &accept).await, ["manager"]);
    assert_eq!(values(&client, "select title from plans").await, ["The plan"]);
    assert_eq!(failure(&client, &accept).await, unknown(), "a used invitation is rejected");
    assert!(values(&client, &get).await.is_empty());
}

#[tokio::test]
async fn raising_an_invitation_to_owner_changes_its_token() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    let token =
        "select invite_token from plan_members where id = '7e572000-0000-4000-8000-000000000003'".to_owned();
    let set_role = async |role: &str| {
        let set = format!("update plan_members set role = '{role}' where invite_token = '{TOKEN}'");
        client.batch_execute(&set).await.unwrap();
    };
    set_role("viewer").await;
    assert_eq!(values(&client, &token).await, [TOKEN]);
    set_role("owner").await;
    assert_ne!(values(&client, &token).await, [TOKEN], "managers could read the old token");
}

#[tokio::test]
async fn permission_functions_answer_only_members_and_admins() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    let role_of = |who: &str| format!("select get_user_plan_role('{PLAN}', '{who}')");
    let email_of = |who: &str| format!("select get_user_email_by_id('{who}')");
    let admin = "7e570000-0000-4000-8000-000000000005";
    let viewer = "7e570000-0000-4000-8000-000000000002";

    become_user(&client, viewer).await;
    assert_eq!(values(&client, &role_of(OWNER)).await, ["owner"]);
    assert_eq!(values(&client, &role_of(STRANGER)).await, ["-"]);
    assert_eq!(values(&client, &email_of(viewer)).await, ["viewer@test.local"]);
    assert_eq!(values(&client, &email_of(OWNER)).await, ["-"]);
    assert_eq!(values(&client, "select is_admin()").await, ["f"]);

    become_user(&client, STRANGER).await;
    assert_eq!(values(&client, &role_of(OWNER)).await, ["-"], "other users get no role");

    become_user(&client, admin).await;
    assert_eq!(values(&client, &role_of(OWNER)).await, ["owner"]);
    assert_eq!(values(&client, &email_of(OWNER)).await, ["owner@test.local"]);
    assert_eq!(values(&client, "select is_admin()").await, ["t"]);

    client.batch_execute("reset role; set role anon").await.unwrap();
    assert_eq!(failure(&client, &role_of(OWNER)).await.0, "42501");
    assert_eq!(failure(&client, "select app_private.my_plans()").await.0, "42501");
}

#[tokio::test]
async fn plan_list_uses_indexes_and_evaluates_uid_once() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    client
        .batch_execute(
            "insert into auth.users (id, email) select gen_random_uuid(), n || '@many.local' from generate_series(1, 1000) as n;
             insert into plans (user_id, title) select id, 'Plan ' || n from auth.users, generate_series(1, 5) as n;
             analyze plans; analyze plan_members",
        )
        .await
        .unwrap();
    become_user(&client, OWNER).await;
    let plan = values(&client, "explain (costs off) select * from plans").await.join("\n");
    assert!(plan.contains("Bitmap Index Scan on plans_pkey"), "{plan}");
    assert!(!plan.contains("Seq Scan on plans"), "{plan}");
    let plan = values(&client, "explain (costs off) select * from plan_members").await.join("\n");
    assert!(!plan.contains("Seq Scan on plan_members"), "{plan}");
}

#[tokio::test]
async fn demo_data_fits_the_schema() {
    let (_database, mut client) = support::database().await;
    let project = Project::open(repository()).unwrap();
    let options = basalt_project::MigrateOptions { seed: true, ..Default::default() };
    assert!(project.migrate(&mut client, &options, |_| {}).await.unwrap().seeded);
    let demo = "5eed0000-0000-4000-8000-000000000001";
    become_user(&client, demo).await;
    assert_eq!(values(&client, "select count(*) from plans").await, ["3"]);
    client.batch_execute("reset role").await.unwrap();
    let password =
        "select encrypted_password = extensions.crypt('basalt-demo', encrypted_password) from auth.users";
    assert_eq!(values(&client, password).await, ["t", "t", "t"]);
    // The policy tests also pass with demo data: they can run on any database.
    assert_eq!(project.test_policies(&mut client).await.unwrap().faults, Vec::<String>::new());
}
