//! Digests, reminders and mentions: when they are due, that each is sent once, and the link that stops them.

use std::time::Duration;

use basalt_testkit::{Basalt, SmtpServer, User};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::mail::make_plan;
use super::{app, failure, shown};

/// A time zone in which it is noon now, and the day there.
const NOON: &str = "\
with zone as (
  select 'Etc/GMT' || to_char(extract(hour from now() at time zone 'UTC') - 12, 'SG99') as name
)
select replace(name, ' ', ''), (now() at time zone replace(name, ' ', ''))::date from zone";

/// Adds a priority and returns its id.
async fn priority(server: &Basalt, plan: &str) -> String {
    let sql = format!(
        "insert into public.priorities (plan_id, title) values ('{plan}', 'Priority') returning id::text"
    );
    server.database().value(&sql).await
}

/// Adds a task of last month and returns its id.
async fn task(server: &Basalt, priority: &str, title: &str, due: &str) -> String {
    let sql = format!(
        "insert into public.tasks (priority_id, title, due_date, created_at)
         values ('{priority}', '{title}', {due}, now() - interval '30 days') returning id::text"
    );
    server.database().value(&sql).await
}

async fn schedule(server: &Basalt, moment: &str) -> String {
    server.database().value(&format!("select app_private.schedule_plan_mails({moment})::text")).await
}

/// Comments on a task and returns the status.
async fn comment(server: &Basalt, by: &User, task: &str, body: &str, mentions: &[&User]) -> u16 {
    let mentions: Vec<String> = mentions.iter().map(|user| user.id.to_string()).collect();
    let row = json!({"task_id": task, "body": body, "mentions": mentions});
    server.post("/rest/v1/task_comments").by(server, by).json(&row).send().await.status.as_u16()
}

async fn join(server: &Basalt, plan: &str, user: &User, role: &str) {
    server
        .sql(&format!(
            "insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token, created_at)
             values ('{plan}', '{}', '{}', '{role}', true, null, now() - interval '30 days')",
            user.id, user.email
        ))
        .await;
}

#[tokio::test]
async fn reminder_comes_at_eight_of_the_recipients_day() {
    let server = app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    let list = priority(&server, &plan).await;
    let _task = task(&server, &list, "Sign the lease", "'2031-05-14'").await;
    // Joined long ago, so that digests are due as well.
    server.sql("update public.plan_members set created_at = '2030-01-01'").await;
    server.sql("update public.tasks set created_at = '2030-01-01'").await;
    // The zone, and eight o'clock on May 11 there, three days before.
    for (zone, eight) in [
        ("Pacific/Kiritimati", "2031-05-10 18:00+00"),
        ("Pacific/Pago_Pago", "2031-05-11 19:00+00"),
        ("Asia/Kathmandu", "2031-05-11 02:15+00"),
        ("America/New_York", "2031-05-11 12:00+00"),
    ] {
        let _rows = server
            .database()
            .admin_sql(&format!(
                "delete from functions.plan_mails;
                 insert into public.person_settings (user_id, time_zone) values ('{}', '{zone}')
                 on conflict (user_id) do update set time_zone = excluded.time_zone",
                owner.id
            ))
            .await;
        let at = |offset: &str| format!("timestamptz '{eight}' + interval '{offset}'");
        assert_eq!(schedule(&server, &at("-1 second")).await, "0", "{zone}");
        assert_eq!(schedule(&server, &at("0")).await, "1", "{zone}");
        assert_eq!(schedule(&server, &at("1 minute")).await, "0", "{zone}: once");
        let row = server.database().value("select kind || ' ' || occasion from functions.plan_mails").await;
        assert_eq!(row, "reminder 2031-05-14", "{zone}");
        // A server that was stopped catches up for two days; 2031-05-12 is a Monday with a digest.
        let _rows = server.database().admin_sql("delete from functions.plan_mails").await;
        assert_eq!(schedule(&server, &at("47 hours 59 minutes")).await, "2", "{zone}");
        let _rows = server.database().admin_sql("delete from functions.plan_mails").await;
        assert_eq!(schedule(&server, &at("48 hours")).await, "0", "{zone}");
    }
}

#[tokio::test]
async fn digest_comes_on_monday_once() {
    let server = app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let _plan = make_plan(&server, &owner, "Growth").await;
    server.sql("update public.plan_members set created_at = '2030-01-01'").await;
    let monday = "timestamptz '2031-05-12 08:00+00'";
    assert_eq!(schedule(&server, &format!("{monday} - interval '1 second'")).await, "0");
    assert_eq!(schedule(&server, monday).await, "1");
    for later in ["1 minute", "12 hours", "23 hours 59 minutes", "24 hours", "6 days 23 hours"] {
        assert_eq!(schedule(&server, &format!("{monday} + interval '{later}'")).await, "0", "{later}");
    }
    assert_eq!(schedule(&server, &format!("{monday} + interval '7 days'")).await, "1");
    // A plan in the bin has none.
    server.sql("update public.plans set deleted_at = now()").await;
    assert_eq!(schedule(&server, &format!("{monday} + interval '14 days'")).await, "0");
}

#[tokio::test]
async fn link_in_the_mail_stops_it() {
    let smtp = SmtpServer::start().await;
    let server = app()
        .config("mail.smtp_url", &smtp.url())
        .config("mail.from", "app@example.org")
        .config("auth.mailer_autoconfirm", "true")
        .start()
        .await;
    let (ada, bob) = (server.sign_up("ada@example.org").await, server.sign_up("bob@example.org").await);
    let plan = make_plan(&server, &ada, "Growth").await;
    join(&server, &plan, &bob, "manager").await;
    let list = priority(&server, &plan).await;
    let lease = task(&server, &list, "Sign the lease", "null").await;
    assert_eq!(comment(&server, &ada, &lease, "What do you think, @Bob?", &[&bob]).await, 201);
    let mail = smtp.wait_for("bob@example.org").await;
    assert!(mail.data.contains("List-Unsubscribe-Post: List-Unsubscribe=One-Click"), "{}", mail.data);
    let headers = mail.data.split("\n\n").next().unwrap().replace("\n ", "");
    let url = headers.split_once("List-Unsubscribe: <").unwrap().1.split('>').next().unwrap().to_owned();
    assert!(mail.text().contains(&format!("/plan/{plan}?comments={lease}")), "{}", mail.text());
    let token = url.split_once("token=").unwrap().1.to_owned();
    assert!(mail.text().contains(&format!("/mails/stop?token={token}")), "{}", mail.text());
    let path = format!("/functions/v1/stop-mails?token={token}");
    // A mail program that opens the address is led to the page, and nothing is changed.
    let page = server.get(&path).send().await;
    assert_eq!(
        (page.status.as_u16(), page.header("location").to_owned()),
        (303, server.url(&format!("/mails/stop?token={token}")))
    );
    let settings = "select coalesce((select digest || ' ' || reminders || ' ' || mentions from public.plan_mail_settings), '')";
    assert_eq!(server.database().value(settings).await, "");

    let one_click = async |path: &str| {
        let request = server.post(path).header("content-type", "application/x-www-form-urlencoded");
        shown(&request.body("List-Unsubscribe=One-Click").send().await)
    };
    let stopped = json!({"success": true, "plan": "Growth", "kind": "mention", "wanted": false});
    assert_eq!(one_click(&path).await, (200, stopped.clone()));
    assert_eq!(one_click(&path).await, (200, stopped), "again");
    assert_eq!(server.database().value(settings).await, "true true false");
    assert_eq!(comment(&server, &ada, &lease, "And now, @Bob?", &[&bob]).await, 201);
    assert_eq!(server.database().count("functions.plan_mails").await, 1);
    // The page takes it back.
    let back = server.post(&path).json(&json!({"wanted": true})).send().await;
    assert_eq!(shown(&back).1["wanted"], json!(true));
    assert_eq!(comment(&server, &ada, &lease, "Now, @Bob?", &[&bob]).await, 201);
    assert_eq!(server.database().count("functions.plan_mails").await, 2);

    // A guessed or changed link does nothing.
    let invalid = (400, failure("This link is not valid. Copy it from the mail as a whole."));
    let mut changed = token.clone();
    changed.replace_range(..1, if token.starts_with('0') { "1" } else { "0" });
    for guess in ["", "00", &changed, token.strip_suffix(|_: char| true).unwrap(), &"0".repeat(130)] {
        assert_eq!(one_click(&format!("/functions/v1/stop-mails?token={guess}")).await, invalid, "{guess}");
    }
    assert_eq!(one_click("/functions/v1/stop-mails").await, invalid);
    // The link ends with the membership.
    server.sql(&format!("delete from public.plan_members where user_id = '{}'", bob.id)).await;
    let (status, body) = one_click(&path).await;
    assert_eq!(status, 404, "{body}");
}

#[tokio::test]
async fn mention_is_mailed_once_and_to_members_only() {
    let server = app().start().await;
    let (ada, bob) = (server.sign_up("ada@example.org").await, server.sign_up("bob@example.org").await);
    let eve = server.sign_up("eve@example.org").await;
    let plan = make_plan(&server, &ada, "Growth").await;
    join(&server, &plan, &bob, "viewer").await;
    let list = priority(&server, &plan).await;
    let lease = task(&server, &list, "Sign the lease", "null").await;
    assert_eq!(comment(&server, &ada, &lease, "@Bob <b>look</b>", &[&bob, &eve, &ada, &bob]).await, 201);
    let mail = server.mailbox().wait_for("bob@example.org").await;
    assert_eq!(mail.subject, "Ada mentioned you on “Sign the lease”");
    assert!(mail.html.contains("@Bob &lt;b&gt;look&lt;/b&gt;"), "{}", mail.html);
    // An edit does not mail again.
    server.sql(&format!("update public.task_comments set mentions = array['{}']::uuid[]", bob.id)).await;
    assert_eq!(server.database().count("functions.plan_mails").await, 1);
    // Many mentions are not many mails.
    for number in 0..25 {
        assert_eq!(comment(&server, &ada, &lease, &format!("@Bob {number}"), &[&bob]).await, 201);
    }
    assert_eq!(server.database().count("functions.plan_mails").await, 20);
    assert!(server.mailbox().mails("eve@example.org").await.is_empty());
}

#[tokio::test]
async fn bin_and_activity_are_purged() {
    let server = app().start().await;
    let ada = server.sign_up("ada@example.org").await;
    let (old, new) = (make_plan(&server, &ada, "Old").await, make_plan(&server, &ada, "New").await);
    server
        .sql(&format!(
            "update public.plans set deleted_at = now() - interval '30 days 1 minute' where id = '{old}';
             update public.plans set deleted_at = now() - interval '29 days 23 hours' where id = '{new}';
             update public.plan_activity set created_at = now() - interval '91 days' where plan_id = '{new}' and action = 'created'"
        ))
        .await;
    assert_eq!(server.database().value("select app_private.purge_deleted_plans()::text").await, "1");
    assert_eq!(server.database().value("select title from public.plans").await, "New");
    assert_eq!(server.database().value("select app_private.purge_activity()::text").await, "1");
    assert_eq!(server.database().value("select action from public.plan_activity").await, "deleted");
    let restored = server.post("/rest/v1/rpc/restore_plan").by(&server, &ada).json(&json!({"plan": new}));
    assert_eq!(restored.send().await.expect(200).json(), json!([new]));
}

#[tokio::test]
async fn server_purges_the_bins() {
    let mut server = app().start().await;
    let ada = server.sign_up("ada@example.org").await;
    let (old, new) = (make_plan(&server, &ada, "Old").await, make_plan(&server, &ada, "New").await);
    let list = priority(&server, &new).await;
    for title in ["Sign the lease", "Buy chairs"] {
        let task = task(&server, &list, title, "null").await;
        let deleted = server.delete(&format!("/rest/v1/tasks?id=eq.{task}")).by(&server, &ada).send().await;
        assert_eq!(deleted.status.as_u16(), 204);
    }
    let long_ago = format!(
        "update public.plans set deleted_at = now() - interval '31 days' where id = '{old}';
         update app_private.deleted_items set deleted_at = now() - interval '31 days' where title = 'Sign the lease'"
    );
    let _rows = server.database().admin_sql(&long_ago).await;
    server.kill();
    server.start_again().await;
    let left = "select string_agg(title, ',') from (select title from public.plans union all select title from app_private.deleted_items) b";
    let deadline = Instant::now() + Duration::from_secs(90);
    while server.database().value(left).await != "New,Buy chairs" {
        assert!(Instant::now() < deadline, "nothing is purged");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Reminders of `people` people in each of ten plans, and a kill whenever the number of queued mails passes one of `kills`.
async fn sent_once(people: usize, kills: &[i64]) {
    const PLANS: usize = 10;
    // Outside the mailbox, which keeps only the last 500 mails and is trimmed every minute.
    const LEDGER: &str = "\
create schema ledger;
create table ledger.mails (kind text not null, recipient text not null);
create function ledger.note() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into ledger.mails (kind, recipient) values (new.kind, new.recipient);
  return null;
end $$;
create trigger note after insert on basalt.mail_outbox for each row execute function ledger.note();";
    // On a machine that stands still for a while, attempts run out of time and are repeated; an abandoned mail would still fail the test.
    let mut server = app()
        .expect_log("cannot write a mail about a plan")
        .expect_log("cannot record the result of an attempt")
        .start()
        .await;
    let _rows = server.database().admin_sql(LEDGER).await;
    let zone = server.sql(NOON).await.remove(0);
    let (zone, day) = (zone[0].clone().unwrap(), zone[1].clone().unwrap());
    let statements = format!(
        "insert into auth.users (instance_id, id, aud, role, email, email_confirmed_at, created_at, updated_at)
           select '00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'authenticated', 'authenticated', 'p' || n || '@example.org', now(), now(), now()
           from generate_series(1, {people}) n;
         insert into public.person_settings (user_id, time_zone) select id, '{zone}' from auth.users;
         insert into public.plans (user_id, title) select null, 'Plan ' || n from generate_series(1, {PLANS}) n;
         insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token)
           select p.id, u.id, u.email, 'owner', true, null from public.plans p cross join auth.users u;
         insert into public.priorities (plan_id, title) select id, 'Priority' from public.plans;
         insert into public.tasks (priority_id, title, due_date, created_at)
           select id, 'Sign the lease', date '{day}' + 3, now() - interval '30 days' from public.priorities"
    );
    let _rows = server.database().admin_sql(&statements).await;
    let expected = i64::try_from(people * PLANS).unwrap();
    assert_eq!(schedule(&server, "now()").await, expected.to_string());
    let queued = async |server: &Basalt| {
        let sql = "select count(*)::text from functions.plan_mails where queued_at is not null";
        server.database().value(sql).await.parse::<i64>().unwrap()
    };
    // A repeated attempt waits up to a minute, and up to five the second time.
    let deadline = Instant::now() + Duration::from_secs(1800);
    let mut kills = kills.iter();
    let mut next_kill = kills.next();
    loop {
        let count = queued(&server).await;
        if next_kill.is_some_and(|kill| count >= *kill) {
            assert!(count < expected, "killed in the middle");
            server.kill();
            server.start_again().await;
            next_kill = kills.next();
        } else if server
            .database()
            .value("select count(*)::text from functions.plan_mails where done_at is null")
            .await
            == "0"
        {
            break;
        }
        assert!(Instant::now() < deadline, "{count} of {expected} mails");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(next_kill.is_none(), "every kill happened");
    // One mail for each person and plan: as many rows as there are pairs, and ten for each person.
    assert_eq!(queued(&server).await, expected);
    assert_eq!(server.database().count("ledger.mails").await, expected);
    let per_person = "select min(n) || ' ' || max(n) || ' ' || count(*) from (select count(*) as n from ledger.mails where kind = 'plan_reminder' group by recipient) c";
    assert_eq!(server.database().value(per_person).await, format!("{PLANS} {PLANS} {people}"));
}

#[tokio::test]
async fn killed_server_sends_each_reminder_once() {
    sent_once(30, &[1, 100, 200]).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: ten thousand mails, over a minute"]
async fn ten_thousand_reminders_are_sent_once() {
    sent_once(1000, &[5000]).await;
}

/// A server with a plan whose one task is due in three days, for the attempts that a kill interrupts.
#[tokio::test]
async fn attempt_that_ended_before_its_row_sends_nothing_again() {
    let server = app().start().await;
    let (ada, bob) = (server.sign_up("ada@example.org").await, server.sign_up("bob@example.org").await);
    let plan = make_plan(&server, &ada, "Growth").await;
    join(&server, &plan, &bob, "viewer").await;
    let list = priority(&server, &plan).await;
    let lease = task(&server, &list, "Sign the lease", "null").await;
    assert_eq!(comment(&server, &ada, &lease, "@Bob", &[&bob]).await, 201);
    let _mail = server.mailbox().wait_for("bob@example.org").await;
    // As a kill leaves it between the commit of the mail and the completion of the job.
    let again = "update functions.plan_mails set done_at = null, outcome = null, next_attempt_at = now()";
    let _rows = server.database().admin_sql(again).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    let outcome = "select coalesce((select outcome from functions.plan_mails where done_at is not null), '')";
    while server.database().value(outcome).await != "queued by an earlier attempt" {
        assert!(Instant::now() < deadline, "the job did not run again");
        sleep(Duration::from_millis(50)).await;
    }
    let mails: Vec<Value> =
        server.mailbox().mails("bob@example.org").await.iter().map(|mail| json!(mail.id)).collect();
    assert_eq!(mails.len(), 1, "{mails:?}");
}
