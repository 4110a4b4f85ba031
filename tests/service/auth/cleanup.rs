//! The background clean-up (auth.md §3.23, §6), with a test clock.

use basalt_auth::{AuthConfig, clean_up};
use basalt_core::clock::Clock;
use basalt_pg::database::Database;
use basalt_pg::pool::{PoolConfig, ServicePool};
use tokio_util::task::TaskTracker;

use super::*;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A second server's pool on the same database. Tests that close one need several threads: its connections end while the kit
/// waits for them.
fn pool(server: &Basalt) -> ServicePool {
    let database = Database::from_url(&server.database().url()).unwrap();
    ServicePool::new(database, PoolConfig::new("cleanup test", 4), TaskTracker::new())
}

async fn count(server: &Basalt, table: &str) -> i64 {
    server.database().count(&format!("auth.{table}")).await
}

fn in_the_future(seconds: i64) -> Clock {
    Clock::fixed(Clock::system().unix_seconds() + seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_each_kind_a_day_after_expiry() {
    let server = quick().config("auth.db_cleanup_enabled", "false").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let _rows = server
        .sql(
            "insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
             select gen_random_uuid(), id, 'recovery_token', 'x', '' from auth.users;
             insert into auth.flow_state (id, provider_type, authentication_method, created_at, updated_at)
             values (gen_random_uuid(), 'email', 'magiclink', now(), now());
             insert into auth.refresh_tokens (token, user_id, revoked, updated_at) values
             ('revoked', '', true, now()), ('live', '', false, now());
             insert into auth.sessions (id, user_id, created_at, not_after)
             select gen_random_uuid(), id, now(), now() from auth.users",
        )
        .await;
    let pool = pool(&server);
    let config = AuthConfig {
        mailer_otp_exp: 3600,
        sessions_inactivity_timeout: 7200,
        audit_log_retention: 10 * 86_400,
        ..AuthConfig::default()
    };
    let clean = async |seconds: i64| clean_up(&config, &pool, &in_the_future(seconds)).await.unwrap();
    assert_eq!(clean(0).await, []);
    assert_eq!(clean(DAY - 60).await, []);
    assert_eq!(clean(DAY + 60).await, [("flow_state", 1), ("refresh_tokens", 1), ("sessions", 1)]);
    assert_eq!(clean(DAY + HOUR + 60).await, [("one_time_tokens", 1)]);
    let _session = refresh(&server, &ada.refresh_token).await.expect(200);
    assert_eq!(clean(DAY + 2 * HOUR + 60).await, [("sessions", 1)]);
    assert_eq!(count(&server, "refresh_tokens").await, 1, "a live one stays");
    assert_eq!(count(&server, "users").await, 1);
    let entries = u64::try_from(count(&server, "audit_log_entries").await).unwrap();
    assert_eq!(clean(10 * DAY + 60).await, [("audit_log_entries", entries)]);
    // By default sessions, the audit log and users are kept.
    let defaults = AuthConfig::default();
    assert_eq!(clean_up(&defaults, &pool, &in_the_future(1000 * DAY)).await.unwrap(), []);
    pool.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_anonymous_users_unless_referenced() {
    let server = quick().config("auth.external_anonymous_users_enabled", "true").start().await;
    let _user = server.sign_up("ada@example.org").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let session = post(&server, "/signup", &json!({})).await.expect(200).json();
        ids.push(text(&session, "/user/id").to_owned());
    }
    let _rows = server
        .sql(&format!(
            "create table public.notes (user_id uuid references auth.users (id));
             insert into public.notes values ('{}')",
            ids[0]
        ))
        .await;
    let pool = pool(&server);
    let config = AuthConfig { db_cleanup_anonymous_users_after: 30 * 86_400, ..AuthConfig::default() };
    assert_eq!(clean_up(&config, &pool, &in_the_future(29 * DAY)).await.unwrap(), []);
    assert_eq!(clean_up(&config, &pool, &in_the_future(31 * DAY)).await.unwrap(), [("users", 2)]);
    assert_eq!(count(&server, "users").await, 2, "the one with a note, and the one with an address");
    pool.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_clean_up_in_batches_without_blocking() {
    let server = quick().start().await;
    let _rows = server
        .sql(
            "insert into auth.flow_state (id, provider_type, authentication_method, created_at)
             select gen_random_uuid(), 'email', 'otp', now() - interval '2 days' from generate_series(1, 5500)",
        )
        .await;
    let (one, two) = (pool(&server), pool(&server));
    let (config, clock) = (AuthConfig::default(), Clock::system());
    // Another session locks a row: the clean-up skips it.
    let holder = holding(&server, "select id from auth.flow_state limit 1 for update").await;
    let (by_one, by_two) = tokio::join!(clean_up(&config, &one, &clock), clean_up(&config, &two, &clock));
    let removed: u64 = by_one.unwrap().into_iter().chain(by_two.unwrap()).map(|(_, rows)| rows).sum();
    assert_eq!((removed, count(&server, "flow_state").await), (5499, 1));
    holder.batch_execute("commit").await.unwrap();
    assert_eq!(clean_up(&config, &one, &clock).await.unwrap(), [("flow_state", 1)]);
    one.close();
    two.close();
}

#[tokio::test]
async fn server_cleans_up_periodically() {
    let server = quick().config("auth.db_cleanup_interval", "1").start().await;
    let _rows = server
        .sql(
            "insert into auth.flow_state (id, provider_type, authentication_method, created_at)
             values (gen_random_uuid(), 'email', 'otp', now() - interval '2 days')",
        )
        .await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while count(&server, "flow_state").await > 0 {
        assert!(std::time::Instant::now() < deadline, "no clean-up ran");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    assert!(metrics.contains("basalt_auth_cleaned_up_total{table=\"flow_state\"} 1"), "{metrics}");
}
