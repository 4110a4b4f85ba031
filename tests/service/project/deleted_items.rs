//! The bin of deleted priorities and tasks.

#![allow(clippy::unwrap_used, reason = "helpers fail a test as the test itself does")]

use std::time::Instant;

use basalt_testkit::TestDatabase;
use tokio_postgres::Client;

use super::support::{admin, app_database, become_user, failure, fixture, values};

const VIEWER: &str = "7e570000-0000-4000-8000-000000000002";
const MANAGER: &str = "7e570000-0000-4000-8000-000000000003";
const OWNER: &str = "7e570000-0000-4000-8000-000000000004";
const PLAN: &str = "7e571000-0000-4000-8000-000000000001";
const HUBS: &str = "7e574000-0000-4000-8000-0000000000aa";
const HALL: &str = "7e575000-0000-4000-8000-0000000000aa";
const OPEN: &str = "7e575000-0000-4000-8000-0000000000bb";

/// The ids in the bins.
const BIN: &str = "select id from app_private.deleted_items order by deleted_at";

/// The fixture, with empty bins and a priority of two tasks, of which one is completed, assigned and discussed.
async fn plan() -> (TestDatabase, Client) {
    let (database, client) = app_database().await;
    client.batch_execute(&fixture()).await.unwrap();
    client
        .batch_execute(&format!(
            "delete from app_private.deleted_items;
             insert into priorities (id, plan_id, title, description) values ('{HUBS}', '{PLAN}', 'Hubs', '<p>Four</p>');
             insert into tasks (id, priority_id, title, due_date, responsible_party, responsible_ids, is_completed) values
               ('{HALL}', '{HUBS}', 'Find a hall', '2027-01-31', '{{Maya}}', '{{{MANAGER},{VIEWER}}}', true),
               ('{OPEN}', '{HUBS}', 'Buy chairs', null, '{{}}', '{{}}', false);
             insert into task_comments (id, task_id, author_id, body, mentions, created_at)
             select gen_random_uuid(), '{HALL}', author, 'Comment', array['{MANAGER}'::uuid], '2026-01-01' from unnest('{{{OWNER},{VIEWER}}}'::uuid[]) author;
             update priorities set position = 7 where id = '{HUBS}';
             update tasks set position = 0.5, completed_at = '2026-02-03', created_at = '2026-01-01' where id = '{HALL}'"
        ))
        .await
        .unwrap();
    (database, client)
}

/// All priorities, tasks and comments, with every column.
async fn rows(client: &Client) -> Vec<String> {
    let all = "select to_jsonb(r)::text from priorities r union all select to_jsonb(r)::text from tasks r
        union all select to_jsonb(r)::text from task_comments r order by 1";
    reset(client).await;
    values(client, all).await
}

async fn reset(client: &Client) {
    client.batch_execute("reset role").await.unwrap();
}

/// Runs a statement as this user and returns the first column.
async fn run_as(client: &Client, user: &str, sql: &str) -> Vec<String> {
    become_user(client, user).await;
    let found = values(client, sql).await;
    reset(client).await;
    found
}

fn delete(table: &str, id: &str) -> String {
    format!("delete from {table} where id = '{id}' returning id")
}

fn restore(id: &str) -> String {
    format!("select restore_plan_item('{id}')")
}

#[tokio::test]
async fn restored_priority_is_as_it_was() {
    let (_database, client) = plan().await;
    let before = rows(&client).await;
    let mails = "select count(*) from functions.plan_mails";
    let queued = values(&client, mails).await;
    client.batch_execute("delete from plan_activity").await.unwrap();

    assert_eq!(run_as(&client, OWNER, &delete("priorities", HUBS)).await, [HUBS]);
    let list = "select concat_ws(' ', kind, title, tasks, comments, is_restorable, deleted_by, deleted_for_good_at - deleted_at)
        from get_deleted_plan_items('7e571000-0000-4000-8000-000000000001')";
    let shown = format!("priority Hubs 2 2 t {OWNER} 30 days");
    assert_eq!(run_as(&client, MANAGER, list).await, [shown], "one entry, none for its tasks");
    assert_eq!(run_as(&client, MANAGER, &restore(HUBS)).await, [HUBS]);
    assert_eq!(rows(&client).await, before);
    assert_eq!(values(&client, mails).await, queued, "no mail is queued again");
    let activity =
        "select concat_ws(' ', actor_id, action, subject, subject_id, title) from plan_activity order by id";
    let expected =
        [format!("{OWNER} deleted priority {HUBS} Hubs"), format!("{MANAGER} restored priority {HUBS} Hubs")];
    assert_eq!(values(&client, activity).await, expected);
    assert_eq!(run_as(&client, MANAGER, &restore(HUBS)).await, [""; 0], "restored once");
    assert_eq!(rows(&client).await, before);
    assert_eq!(values(&client, "select count(*) from app_private.deleted_rows").await, ["0"]);

    assert_eq!(run_as(&client, MANAGER, &delete("tasks", HALL)).await, [HALL]);
    assert_eq!(values(&client, BIN).await, [HALL]);
    assert_eq!(run_as(&client, MANAGER, list).await, [format!("task Find a hall 0 2 t {MANAGER} 30 days")]);
    assert_eq!(run_as(&client, OWNER, &restore(HALL)).await, [HALL]);
    assert_eq!(rows(&client).await, before);
    // Rows that are added afterwards, in the same session, are additions.
    client
        .batch_execute(&format!(
            "delete from plan_activity; insert into tasks (priority_id, title, is_completed) values ('{HUBS}', 'New', true)"
        ))
        .await
        .unwrap();
    assert_eq!(values(&client, "select action from plan_activity").await, ["created"]);
    let new = "select (position < 0.5 and completed_at = created_at)::text from tasks where title = 'New'";
    assert_eq!(values(&client, new).await, ["true"]);
}

#[tokio::test]
async fn cascades_leave_no_entry() {
    let (_database, client) = plan().await;
    run_as(&client, MANAGER, &delete("tasks", HALL)).await;
    client.batch_execute(&format!("delete from auth.users where id = '{MANAGER}'")).await.unwrap();
    let kept = "select concat_ws(' ', title, coalesce(deleted_by::text, 'no account')) from app_private.deleted_items";
    assert_eq!(
        values(&client, kept).await,
        ["Find a hall no account"],
        "the account's own entries lose their author"
    );
    run_as(&client, OWNER, &delete("plans", PLAN)).await;
    assert_eq!(values(&client, BIN).await, [""; 0], "a bin goes with its plan");
    assert_eq!(values(&client, "select count(*) from app_private.deleted_rows").await, ["0"]);
}

#[tokio::test]
async fn task_stays_in_the_bin_without_its_priority() {
    let (_database, client) = plan().await;
    let before = rows(&client).await;
    run_as(&client, OWNER, &delete("tasks", HALL)).await;
    run_as(&client, OWNER, &delete("priorities", HUBS)).await;
    let restorable =
        format!("select concat_ws(' ', title, is_restorable) from get_deleted_plan_items('{PLAN}')");
    assert_eq!(run_as(&client, OWNER, &restorable).await, ["Hubs t", "Find a hall f"], "the newest first");
    become_user(&client, OWNER).await;
    let refusal = failure(&client, &restore(HALL)).await;
    assert_eq!(
        refusal,
        ("PT409".to_owned(), "The priority of this task was deleted. Restore the priority first.".to_owned())
    );
    assert_eq!(run_as(&client, OWNER, &restore(HUBS)).await, [HUBS]);
    assert_eq!(run_as(&client, OWNER, &restore(HALL)).await, [HALL]);
    assert_eq!(rows(&client).await, before);
}

#[tokio::test]
async fn two_restores_at_once_restore_once() {
    let (database, client) = plan().await;
    let before = rows(&client).await;
    let (one, two) = (admin(&database).await, admin(&database).await);
    become_user(&one, OWNER).await;
    become_user(&two, MANAGER).await;
    let restore = restore(HUBS);
    for round in 0..100 {
        run_as(&client, OWNER, &delete("priorities", HUBS)).await;
        let (first, second) = tokio::join!(values(&one, &restore), values(&two, &restore));
        assert_eq!([first, second].concat(), [HUBS], "round {round}");
    }
    assert_eq!(rows(&client).await, before);
    let restored =
        format!("select count(*) from plan_activity where action = 'restored' and subject_id = '{HUBS}'");
    assert_eq!(values(&client, &restored).await, ["100"]);
}

#[tokio::test]
async fn restore_and_deletion_of_the_priority_do_not_mix() {
    let (database, client) = plan().await;
    let (one, two) = (admin(&database).await, admin(&database).await);
    become_user(&one, OWNER).await;
    become_user(&two, MANAGER).await;
    let (delete_priority, restore_task) = (delete("priorities", HUBS), restore(HALL));
    for round in 0..50 {
        run_as(&client, OWNER, &delete("tasks", HALL)).await;
        let (deleted, restored) =
            tokio::join!(one.batch_execute(&delete_priority), two.batch_execute(&restore_task));
        deleted.unwrap();
        let is_restored = restored.is_ok();
        if let Err(error) = restored {
            assert_eq!(error.code().unwrap().code(), "PT409", "round {round}: {error:?}");
        }
        // The task is part of the priority's entry, or has its own.
        let entries = values(
            &client,
            "select concat_ws(' ', kind, tasks) from app_private.deleted_items order by kind",
        )
        .await;
        assert_eq!(
            entries,
            if is_restored { vec!["priority 2"] } else { vec!["priority 1", "task 1"] },
            "round {round}"
        );
        run_as(&client, OWNER, &restore(HUBS)).await;
        run_as(&client, OWNER, &restore(HALL)).await;
        assert_eq!(values(&client, BIN).await, [""; 0], "round {round}");
    }
}

#[tokio::test]
async fn limit_of_priorities_holds_for_restores() {
    let (_database, client) = plan().await;
    run_as(&client, OWNER, &delete("priorities", HUBS)).await;
    client
        .batch_execute(&format!(
            "insert into priorities (plan_id, title) select '{PLAN}', 'Priority ' || n
             from generate_series(1, 500 - (select count(*)::int from priorities where plan_id = '{PLAN}')) n"
        ))
        .await
        .unwrap();
    become_user(&client, OWNER).await;
    let refusal = failure(&client, &restore(HUBS)).await;
    assert_eq!(refusal, ("23514".to_owned(), "A plan can have at most 500 priorities.".to_owned()));
    reset(&client).await;
    assert_eq!(values(&client, BIN).await, [HUBS]);
    run_as(&client, OWNER, "delete from priorities where title = 'Priority 1'").await;
    assert_eq!(run_as(&client, OWNER, &restore(HUBS)).await, [HUBS]);
}

#[tokio::test]
async fn rows_are_adapted_to_what_changed_since() {
    let (_database, client) = plan().await;
    run_as(&client, OWNER, &delete("priorities", HUBS)).await;
    // A column more, one less, an account and a member gone.
    client
        .batch_execute(&format!(
            "alter table tasks add column weight integer not null default 3;
             alter table task_comments add column pinned boolean not null default false;
             alter table task_comments drop column updated_at;
             delete from auth.users where id = '{VIEWER}'"
        ))
        .await
        .unwrap();
    assert_eq!(run_as(&client, OWNER, &restore(HUBS)).await, [HUBS]);
    let task = format!(
        "select concat_ws(' ', weight, responsible_party, responsible_ids) from tasks where id = '{HALL}'"
    );
    assert_eq!(values(&client, &task).await, [format!("3 {{Maya}} {{{MANAGER}}}")]);
    let authors = format!("select author_id from task_comments where task_id = '{HALL}' order by author_id");
    assert_eq!(values(&client, &authors).await, [OWNER, "-"]);
}

#[tokio::test]
async fn id_in_use_again_leaves_the_entry() {
    let (_database, client) = plan().await;
    run_as(&client, OWNER, &delete("priorities", HUBS)).await;
    let other = "insert into tasks (id, priority_id, title)
        values ('7e575000-0000-4000-8000-0000000000bb', '7e574000-0000-4000-8000-000000000001', 'Another')";
    run_as(&client, MANAGER, other).await;
    become_user(&client, OWNER).await;
    let refusal = failure(&client, &restore(HUBS)).await;
    assert_eq!(refusal.0, "PT409", "{}", refusal.1);
    reset(&client).await;
    let priorities = format!("select count(*) from priorities where id = '{HUBS}'");
    assert_eq!(values(&client, &priorities).await, ["0"], "nothing is restored in part");
    // Of an id, the bin has the row that was deleted last.
    run_as(&client, OWNER, &delete("tasks", OPEN)).await;
    assert_eq!(values(&client, BIN).await, [HUBS, OPEN]);
    assert_eq!(run_as(&client, OWNER, &restore(HUBS)).await, [HUBS]);
    run_as(&client, OWNER, &delete("tasks", OPEN)).await;
    let titles = "select title from app_private.deleted_items";
    assert_eq!(values(&client, titles).await, ["Buy chairs"]);
}

#[tokio::test]
async fn bin_is_bounded() {
    let (_database, client) = plan().await;
    // A loop that adds and deletes, and one statement that deletes many.
    for round in 1..=3 {
        client
            .batch_execute(&format!(
                "insert into tasks (priority_id, title) select '{HUBS}', 'Task ' || n from generate_series(1, 300) n;
                 delete from tasks where title like 'Task %';
                 insert into tasks (priority_id, title) values ('{HUBS}', 'Round {round}');
                 delete from tasks where title = 'Round {round}'"
            ))
            .await
            .unwrap();
    }
    let kept = "select count(*) || ' ' || count(*) filter (where title in ('Round 2', 'Round 3')) from app_private.deleted_items";
    assert_eq!(values(&client, kept).await, ["500 2"], "the newest");
    let titles = "select title from app_private.deleted_items order by deleted_at desc";
    client
        .batch_execute(&format!(
            "delete from app_private.deleted_items;
             insert into priorities (plan_id, title) select '{PLAN}', unnest('{{First,Second,Third,Fourth}}'::text[]);
             delete from priorities where title = 'First';
             delete from priorities where title = 'Second';
             delete from priorities where title = 'Third';
             update app_private.deleted_items set bytes = 20 * 1024 * 1024;
             delete from priorities where title = 'Fourth'"
        ))
        .await
        .unwrap();
    assert_eq!(values(&client, titles).await, ["Fourth", "Third", "Second"], "the oldest made room");
    // Bytes count as stored; without compression, so that little data is enough.
    client
        .batch_execute(&format!(
            "alter table app_private.deleted_rows alter column content set storage external;
             insert into priorities (plan_id, title) values ('{PLAN}', 'Larger than the bin');
             insert into tasks (priority_id, title, description)
             select p.id, 'Task ' || n, repeat('x', 100000) from priorities p cross join generate_series(1, 530) n
             where p.title = 'Larger than the bin';
             delete from priorities where title = 'Larger than the bin'"
        ))
        .await
        .unwrap();
    assert_eq!(values(&client, titles).await, ["Larger than the bin"], "the last one can always be restored");
}

#[tokio::test]
async fn priority_with_thousands_of_rows_is_restored() {
    let (_database, client) = plan().await;
    client
        .batch_execute(&format!(
            "insert into tasks (priority_id, title) select '{HUBS}', 'Task ' || n from generate_series(1, 5000) n;
             insert into task_comments (task_id, author_id, body) select '{HALL}', '{OWNER}', repeat('word ', 20) from generate_series(1, 10000);
             analyze"
        ))
        .await
        .unwrap();
    let before = rows(&client).await;
    let began = Instant::now();
    run_as(&client, OWNER, &delete("priorities", HUBS)).await;
    let deleted = began.elapsed();
    let counts = "select concat_ws(' ', tasks, comments, bytes < 10000000) from app_private.deleted_items";
    assert_eq!(values(&client, counts).await, ["5002 10002 t"]);
    let began = Instant::now();
    assert_eq!(run_as(&client, OWNER, &restore(HUBS)).await, [HUBS]);
    println!("deleted in {deleted:?}, restored in {:?}", began.elapsed());
    assert_eq!(rows(&client).await, before);
}

#[tokio::test]
async fn entries_are_purged_after_30_days() {
    let (_database, client) = plan().await;
    run_as(&client, OWNER, &delete("tasks", HALL)).await;
    run_as(&client, OWNER, &delete("tasks", OPEN)).await;
    client
        .batch_execute(&format!(
            "update app_private.deleted_items set deleted_at = now() - case id when '{HALL}' then interval '30 days 1 minute' else '29 days 23 hours' end"
        ))
        .await
        .unwrap();
    let purge = "select app_private.purge_deleted_items()";
    assert_eq!(values(&client, purge).await, ["1"]);
    assert_eq!(values(&client, purge).await, ["0"]);
    assert_eq!(values(&client, "select distinct row_id from app_private.deleted_rows").await, [OPEN]);
    assert_eq!(run_as(&client, OWNER, &restore(OPEN)).await, [OPEN]);
    assert_eq!(run_as(&client, OWNER, &restore(HALL)).await, [""; 0]);
}
