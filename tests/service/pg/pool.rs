//! Pools of services with their own login: the state of a connection when the next task gets it.

use std::net::Ipv4Addr;
use std::time::Duration;

use basalt_pg::database::Database;
use basalt_pg::pool::{PoolConfig, ServicePool, Tx};
use basalt_pg::session::SessionError;
use basalt_testkit::{ChaosProxy, Link, TestDatabase};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

async fn database() -> TestDatabase {
    let database = TestDatabase::create().await;
    database.sql("create table items (id int primary key, name text)").await;
    database
}

/// A pool with one connection.
fn pool(config: tokio_postgres::Config) -> ServicePool {
    let mut settings = PoolConfig::new("test", 1);
    settings.acquire_timeout = Duration::from_secs(10);
    ServicePool::new(Database::new(config), settings, TaskTracker::new())
}

fn within(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}

async fn pid(tx: &Tx) -> i32 {
    tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn late_begin_is_not_reused() {
    let database = database().await;
    let proxy = ChaosProxy::start((Ipv4Addr::LOCALHOST, database.cluster().port()).into()).await;
    let mut config = tokio_postgres::Config::new();
    let url: tokio_postgres::Config = database.config();
    config.user(url.get_user().unwrap()).password(url.get_password().unwrap()).dbname(database.name());
    config.host("127.0.0.1").port(proxy.port());
    let pool = pool(config);
    pool.begin(within(5_000)).await.unwrap().commit().await.unwrap();
    proxy.set(Link::Stalled);
    assert!(matches!(pool.begin(within(200)).await, Err(SessionError::Deadline)));
    // Also when the caller was dropped.
    let left = tokio::time::timeout(Duration::from_millis(200), pool.begin(within(5_000))).await;
    assert!(left.is_err());
    proxy.set(Link::Up);
    let tx = pool.autocommit(within(10_000)).await.unwrap();
    tx.execute("insert into items values (1)", &[]).await.unwrap();
    tx.commit().await.unwrap();
    // Inside another task's transaction only that task would see the row.
    assert_eq!(database.count("items").await, 1);
}

#[tokio::test]
async fn abandoned_statement_ends_before_its_permit_is_freed() {
    let database = database().await;
    let pool = pool(database.config());
    for is_left in [true, false] {
        for is_begun in [true, false] {
            let deadline = within(if is_left { 20_000 } else { 800 });
            let begin = if is_begun { pool.begin(deadline).await } else { pool.autocommit(deadline).await };
            let tx = begin.unwrap();
            let sleep = tx.query("select pg_sleep(30), 'left behind'", &[]);
            if is_left {
                tokio::select! {
                    _ended = sleep => panic!("it ended before the caller left"),
                    () = database.until_asleep("%left behind%") => {}
                }
                drop(tx);
            } else {
                assert!(matches!(sleep.await, Err(SessionError::Deadline)));
                tx.rollback().await;
            }
            let tx = pool.begin(within(5_000)).await.unwrap();
            let deadline = within(20_000);
            while database.running("%left behind%").await > 0 {
                assert!(Instant::now() < deadline, "the statement still runs");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tx.commit().await.unwrap();
        }
    }
}

#[tokio::test]
async fn dropped_transaction_is_rolled_back() {
    let database = database().await;
    let pool = pool(database.config());
    let tx = pool.begin(within(5_000)).await.unwrap();
    let first = pid(&tx).await;
    tx.execute("insert into items values (1)", &[]).await.unwrap();
    drop(tx);
    let tx = pool.begin(within(5_000)).await.unwrap();
    let second = pid(&tx).await;
    assert!(first != second && database.count("items").await == 0);
    tx.execute("insert into items values (1)", &[]).await.unwrap();
    let failed = tx.execute("insert into items values (1)", &[]).await;
    assert!(matches!(failed, Err(SessionError::Postgres(error)) if error.code == "23505"));
    // COMMIT would return ROLLBACK, which is not an error.
    assert!(tx.commit().await.is_err());
    let tx = pool.autocommit(within(5_000)).await.unwrap();
    assert_eq!(pid(&tx).await, second);
    assert_eq!(database.count("items").await, 0);
}

#[tokio::test]
async fn stale_statement_fails_once_in_a_service_pool() {
    let database = database().await;
    let pool = pool(database.config());
    let ask = async || {
        let tx = pool.begin(within(5_000)).await.unwrap();
        let result = tx.query("select * from items", &[]).await.map(drop);
        tx.finish(result).await
    };
    ask().await.unwrap();
    database.sql("alter table items alter column name type varchar(20)").await;
    let stale = ask().await;
    assert!(matches!(stale, Err(SessionError::Postgres(error)) if error.is_stale_statement()));
    ask().await.unwrap();
}
