//! The app's triggers, constraints and cascades.

use std::cell::Cell;
use std::time::Duration;

use super::support::{admin, app_database, become_user, failure, fixture, values};

const OWNER: &str = "7e570000-0000-4000-8000-000000000004";
const ADMIN: &str = "7e570000-0000-4000-8000-000000000005";
const PLAN: &str = "7e571000-0000-4000-8000-000000000001";

#[tokio::test]
async fn mail_key_is_masked_and_kept_when_the_mask_is_saved() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    let save = async |value: &str| {
        become_user(&client, ADMIN).await;
        let upsert = format!(
            "insert into app_settings (key, value) values ('email_resend', '{value}')
             on conflict (key) do update set value = excluded.value returning value"
        );
        let shown = values(&client, &upsert).await;
        client.batch_execute("reset role").await.unwrap();
        let kept = values(&client, "select secret from app_private.secrets").await;
        (shown.concat(), kept.concat())
    };
    let key = "re_0123456789abcdefWXYZ";
    let saved = |shown: &str, kept: &str| (shown.to_owned(), kept.to_owned());

    assert_eq!(save(r#"{"fromName": "A"}"#).await, saved(r#"{"fromName": "A"}"#, ""), "no key is stored yet");
    let masked = r#"{"apiKey": "••••••••WXYZ", "fromName": "A"}"#;
    let with_key = format!(r#"{{"apiKey": "{key}", "fromName": "A"}}"#);
    assert_eq!(save(&with_key).await, saved(masked, key));
    assert_eq!(save(masked).await, saved(masked, key), "saving the mask keeps the key");
    let stale = r#"{"apiKey": "••••••••abcd", "fromName": "A"}"#;
    assert_eq!(save(stale).await, saved(masked, key), "saving the mask of an earlier key keeps the key");
    assert_eq!(
        save(r#"{"fromName": "A"}"#).await,
        saved(masked, key),
        "saving a value without a key keeps the key"
    );
    let short = r#"{"apiKey": "0123456789"}"#;
    assert_eq!(
        save(short).await,
        saved(r#"{"apiKey": "••••••••"}"#, "0123456789"),
        "a short key is masked completely"
    );
    assert_eq!(save(r#"{"apiKey": ""}"#).await, saved("{}", ""), "an empty key removes it");
    assert_eq!(
        save(r#"{"apiKey": "••••••••"}"#).await,
        saved("{}", ""),
        "a mask without a stored key is not a key"
    );

    become_user(&client, ADMIN).await;
    for wrong in ["[]", "1", r#""apiKey""#, r#"{"apiKey": 1}"#, r#"{"apiKey": {"apiKey": "x"}}"#] {
        let update = format!("update app_settings set value = '{wrong}' where key = 'email_resend'");
        let refusal = failure(&client, &update).await;
        assert_eq!(refusal.0, "23514", "{wrong}");
        assert!(refusal.1.contains("app_settings_email_resend_shape"), "{wrong}: {}", refusal.1);
    }
    assert_eq!(failure(&client, "select secret from app_private.secrets").await.0, "42501");

    assert_eq!(save(&with_key).await.1, key);
    client.batch_execute("delete from app_settings where key = 'email_resend'").await.unwrap();
    assert_eq!(values(&client, "select count(*) from app_private.secrets").await, ["0"]);
    let log = values(&client, "select details::text from audit_log where subject_id = 'email_resend'").await;
    assert!(
        log.len() > 3 && !log.concat().contains(key),
        "the log has the setting's name, not its value: {log:?}"
    );
}

#[tokio::test]
async fn admin_changes_are_logged_with_old_values() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    become_user(&client, ADMIN).await;
    client
        .batch_execute(
            "update subscription_plans set price = 25 where stripe_price_id = 'price_test_active';
             update subscription_plans set price = 25 where stripe_price_id = 'price_test_active'",
        )
        .await
        .unwrap();
    let log = "select concat_ws(' ', actor_id, action, subject, subject_id, details)
        from audit_log where action = 'update' and actor_id is not null";
    let expected = format!(
        r#"{ADMIN} update subscription_plans 7e578000-0000-4000-8000-000000000001 {{"changed": {{"price": [20.00, 25.00]}}}}"#
    );
    assert_eq!(values(&client, log).await, [expected], "an update without a change is not logged");
}

#[tokio::test]
async fn deleting_a_plan_cascades() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    become_user(&client, OWNER).await;
    client.batch_execute("begin").await.unwrap();
    client.batch_execute(&format!("delete from plans where id = '{PLAN}'")).await.unwrap();
    let objects = "delete from storage.objects where bucket_id = 'plan_files'";
    assert_eq!(failure(&client, objects).await.0, "42501", "callers cannot delete storage rows directly");
    client.batch_execute("rollback").await.unwrap();
    client.batch_execute(&format!("delete from plans where id = '{PLAN}'; reset role")).await.unwrap();
    for (table, left) in [
        ("plan_members where plan_id = '{}'", "0"),
        ("priorities", "2"),
        ("tasks", "2"),
        ("plan_attachments", "1"),
        ("organizations", "1"),
        ("storage.objects where bucket_id <> 'public'", "5"),
    ] {
        let count = format!("select count(*) from {}", table.replace("{}", PLAN));
        assert_eq!(values(&client, &count).await, [left], "{table}");
    }
}

#[tokio::test]
async fn moving_a_row_keeps_its_version() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    for (table, function) in [("priorities", "move_priority"), ("tasks", "move_task")] {
        client.batch_execute(&format!("reset role; update {table} set position = 3")).await.unwrap();
        let versions = format!("select updated_at::text from {table} order by id");
        let before = values(&client, &versions).await;
        become_user(&client, OWNER).await;
        let moved = values(
            &client,
            &format!("select moved.position::text from (select id from {table} limit 1) one, {function}(one.id) moved"),
        )
        .await;
        assert_eq!(moved.len(), 1, "{table}");
        client.batch_execute("reset role").await.unwrap();
        assert_eq!(values(&client, &versions).await, before, "{table}: a move is not an edit");
        client
            .batch_execute(&format!("update {table} set title = title || '!', position = 4"))
            .await
            .unwrap();
        assert_ne!(values(&client, &versions).await, before, "{table}: an edit is");
    }
}

#[tokio::test]
async fn moves_in_one_list_wait_for_each_other() {
    let (database, one) = app_database().await;
    one.batch_execute(&fixture()).await.unwrap();
    let (other, observer) = (admin(&database).await, admin(&database).await);
    let priority = values(&one, &format!("select id from priorities where plan_id = '{PLAN}' limit 1")).await;
    for (table, list, id, function) in [
        ("priorities", "plan_id", PLAN, "move_priority"),
        ("tasks", "priority_id", priority[0].as_str(), "move_task"),
    ] {
        let add = format!(
            "reset role; insert into {table} ({list}, title) values ('{id}', 'Row A'), ('{id}', 'Row B'), ('{id}', 'Row C') returning id"
        );
        let ids = values(&one, &add).await;
        become_user(&one, OWNER).await;
        become_user(&other, OWNER).await;
        let before_a = |moved: usize| format!("select from {function}('{}', '{}')", ids[moved], ids[0]);
        one.batch_execute(&format!("begin; {}", before_a(2))).await.unwrap();
        let second = before_a(1);
        let is_done = Cell::new(false);
        let waits = "select pid::text from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'";
        tokio::join!(
            async {
                other.batch_execute(&second).await.unwrap();
                is_done.set(true);
            },
            async {
                while !is_done.get() && values(&observer, waits).await.is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                one.batch_execute("commit").await.unwrap();
            }
        );
        let order = format!(
            "select title from {table} where id = any ('{{{}}}') order by position, title",
            ids.join(",")
        );
        assert_eq!(values(&observer, &order).await, ["Row C", "Row B", "Row A"], "{table}");
    }
}

#[tokio::test]
async fn task_gets_the_plan_of_its_priority() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    let other = "7e571000-0000-4000-8000-000000000003";
    client
        .batch_execute(&format!(
            "insert into tasks (id, priority_id, plan_id, title)
             values ('7e575000-0000-4000-8000-000000000009', '7e574000-0000-4000-8000-000000000001', '{other}', 'Task')"
        ))
        .await
        .unwrap();
    let plan = "select plan_id from tasks where title = 'Task'";
    assert_eq!(values(&client, plan).await, [PLAN], "the written plan_id is ignored");
    let moved = format!(
        "update priorities set plan_id = '{other}' where id = '7e574000-0000-4000-8000-000000000001'"
    );
    client.batch_execute(&moved).await.unwrap();
    assert_eq!(values(&client, plan).await, [other], "the task follows its moved priority");

    let completed = "select completed_at is not null from tasks where title = 'Task'";
    for (is_completed, expected) in [("true", "t"), ("false", "f")] {
        client
            .batch_execute(&format!("update tasks set is_completed = {is_completed} where title = 'Task'"))
            .await
            .unwrap();
        assert_eq!(values(&client, completed).await, [expected]);
    }
}

#[tokio::test]
async fn replica_identities_cover_realtime_filters() {
    let (_database, client) = app_database().await;
    let identities = "select c.relname || ' ' || coalesce(
            (select string_agg(a.attname, ',' order by k.n)
             from pg_index i, unnest(i.indkey) with ordinality as k (attnum, n), pg_attribute a
             where i.indrelid = c.oid and a.attrelid = c.oid and a.attnum = k.attnum
               and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary end),
            '*')
        from pg_publication_tables t join pg_class c on c.oid = (t.schemaname || '.' || t.tablename)::regclass
        where t.pubname = 'supabase_realtime' order by 1";
    let expected = [
        "brand_assets id",
        "marketing_content id",
        "organizations id,plan_id",
        "plan_attachments id,plan_id",
        "plan_members id",
        "plans *",
        "priorities id,plan_id",
        "subscription_plans id",
        "subscription_prompt id",
        "task_comments id,task_id,plan_id",
        "tasks id,priority_id,plan_id",
    ];
    assert_eq!(values(&client, identities).await, expected);
}

#[tokio::test]
async fn report_counts_days_in_its_time_zone() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    // One of two priorities; tasks that were completed, late, upcoming and undated on the report's last day, and a task that was
    // completed on New Year's Eve in UTC, which is New Year's Day on Kiritimati.
    client
        .batch_execute(&format!(
            "insert into priorities (id, plan_id, title) values ('7e574000-0000-4000-8000-0000000000aa', '{PLAN}', 'Hubs');
             insert into tasks (priority_id, title, due_date, is_completed)
             select '7e574000-0000-4000-8000-0000000000aa', *
             from (values ('Done at midnight', date '2020-01-05', true), ('Done in March', null, true),
               ('Done too late', '2020-03-20', true), ('Late', '2020-03-31', false), ('Next', '2020-06-29', false),
               ('Later', '2020-06-30', false), ('Undated', null, false)) as t;
             update tasks set completed_at = case title when 'Done at midnight' then timestamptz '2019-12-31 11:00+00'
               when 'Done in March' then timestamptz '2020-03-31 09:59+00' else timestamptz '2020-03-31 10:00+00' end
             where is_completed;"
        ))
        .await
        .unwrap();
    become_user(&client, OWNER).await;
    let report = async |path: &str, zone: &str| {
        let sql = format!(
            "select jsonb_path_query_array(get_plan_report('{PLAN}', '2020-01-01', '2020-03-31', '{zone}',
               '{{7e574000-0000-4000-8000-000000000001}}'), '{path}')::text"
        );
        values(&client, &sql).await.concat()
    };

    let titles = |list: &str| format!("$.lists.{list}.tasks[*].title");
    let island = "Pacific/Kiritimati";
    assert_eq!(report(&titles("done"), island).await, r#"["Done at midnight", "Done in March"]"#);
    assert_eq!(report(&titles("done"), "UTC").await, r#"["Done in March", "Done too late"]"#);
    assert_eq!(report(&titles("late"), island).await, r#"["Done too late", "Late"]"#);
    assert_eq!(report(&titles("next"), island).await, r#"["Next"]"#);
    assert_eq!(report("$.lists.later.total", island).await, "[1]");
    assert_eq!(report("$.lists.undated.total", island).await, "[1]");
    assert_eq!(report("$.months[*].completed", island).await, "[1, 0, 1]");
    assert_eq!(report("$.months[*].month", island).await, r#"["2020-01-01", "2020-02-01", "2020-03-01"]"#);
    assert_eq!(report("$.priorities[*]", island).await, r#"[{"title": "Hubs", "total": 7, "completed": 2}]"#);
    assert_eq!(report("$.as_of", island).await, r#"["2020-03-31"]"#);
}

#[tokio::test]
async fn report_of_thousands_of_tasks_is_bounded() {
    let (_database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    client
        .batch_execute(
            "insert into tasks (priority_id, title, due_date)
             select '7e574000-0000-4000-8000-000000000001', 'Task ' || n, date '2020-01-01' from generate_series(1, 5000) n",
        )
        .await
        .unwrap();
    let report = "select (r #>> '{lists,late,total}') || ' ' || jsonb_array_length(r #> '{lists,late,tasks}') || ' ' || (r ->> 'comment')
         from get_shared_report('test-token') r";
    client.batch_execute("set role anon").await.unwrap();
    assert_eq!(values(&client, report).await, ["5000 200 The comment"]);
    client.batch_execute("reset role").await.unwrap();
    let used = "select count(*) from plan_report_links where last_used_at is not null";
    assert_eq!(values(&client, used).await, ["1"]);
}
