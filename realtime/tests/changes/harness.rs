//! A database with the realtime schema, the row changes of one server on it, and recording sinks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use basalt_core::claims::Claims;
use basalt_pg::database::Database;
use basalt_pg::listen::Events;
use basalt_pg::pool::{PoolConfig, ServicePool};
use basalt_pg::session::Sessions;
use basalt_pg::system_migrations::{self, MigrationSettings};
use basalt_realtime::changes::{
    Binding, CHANNEL, ChangeSink, Changes, Dependencies, EncodedChange, EventKind, MessagePayload,
    MessageSink, PermissionSink, SubscribeError, Subscriber, Subscription,
};
use basalt_testkit::TestDatabase;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A database and the changes streamed from it.
pub(crate) struct Server {
    pub(crate) database: TestDatabase,
    pub(crate) changes: Changes,
    pub(crate) messages: Arc<Messages>,
    shutdown: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts with tables created by `sql`.
    pub(crate) async fn start_with(sql: &str) -> Self {
        let database = TestDatabase::create().await;
        let admin = Database::new(database.config());
        prepare(&admin).await;
        if !sql.is_empty() {
            let _made = database.admin_sql(sql).await;
        }
        let server = Self::on(database, admin);
        // Creating a slot waits for all transactions of the cluster, including those of other tests.
        let streamed =
            server.changes.wait_until_streamed().await || server.changes.wait_until_streamed().await;
        assert!(streamed, "the slot waits for more than two minutes");
        server
    }

    /// Streams with the login `admin`.
    pub(crate) fn on(database: TestDatabase, admin: Database) -> Self {
        let (tracker, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let system = ServicePool::new(admin.clone(), PoolConfig::new("system", 4), tracker.clone());
        let login = Database::new(database.config()).with_login("authenticator", "testkit");
        let sessions = Sessions::new(login, PoolConfig::new("realtime", 8), tracker.clone());
        let events = Events::listen(admin.clone(), vec![CHANNEL.to_owned()], &tracker, shutdown.clone());
        let messages = Arc::new(Messages::default());
        let changes = Changes::start(Dependencies {
            admin,
            system,
            sessions,
            events,
            messages: Arc::clone(&messages) as Arc<dyn MessageSink>,
            permissions: Arc::clone(&messages) as Arc<dyn PermissionSink>,
            queue_bytes: 64 << 20,
            checks: 4,
            tracker,
            shutdown: shutdown.clone(),
        });
        Self { database, changes, messages, shutdown }
    }

    pub(crate) async fn sql(&self, statements: &str) {
        let _rows = self.database.admin_sql(statements).await;
    }

    /// Subscribes as a user, or as `anon` if `user` is empty.
    pub(crate) async fn listen(&self, user: &str, bindings: Vec<Binding>) -> Listener {
        self.try_listen(user, bindings).await.expect("the bindings are accepted")
    }

    pub(crate) async fn try_listen(
        &self,
        user: &str,
        bindings: Vec<Binding>,
    ) -> Result<Listener, SubscribeError> {
        let role = if user.is_empty() { "anon" } else { "authenticated" };
        self.listen_as(json!({ "role": role, "sub": user }), bindings).await
    }

    pub(crate) async fn listen_as(
        &self,
        claims: Value,
        bindings: Vec<Binding>,
    ) -> Result<Listener, SubscribeError> {
        let log = Arc::new(Log::default());
        let who = Subscriber {
            claims: self::claims(&claims),
            sink: Arc::clone(&log) as Arc<dyn ChangeSink>,
            visitor: format!("client {:p}", Arc::as_ptr(&log)).into(),
        };
        let subscription = self.changes.subscribe(who, bindings).await?;
        Ok(Listener { subscription, log })
    }
}

/// Creates the roles, the schema `realtime`, and a login for policy checks.
pub(crate) async fn prepare(admin: &Database) {
    let mut client = admin.connect().await.expect("the test cluster takes connections");
    let settings = MigrationSettings {
        passwords: vec![("authenticator", "testkit".into())],
        ..MigrationSettings::default()
    };
    let applied = system_migrations::apply(&mut client, &[basalt_realtime::MIGRATIONS], &settings).await;
    let _report = applied.expect("the migrations apply");
}

pub(crate) fn claims(claims: &Value) -> Arc<Claims> {
    Arc::new(Claims::parse(claims.to_string().into_bytes()).expect("claims are an object"))
}

/// All changes of a table in schema `public`.
pub(crate) fn table(name: &str) -> Binding {
    Binding {
        id: 1,
        event: EventKind::All,
        schema: "public".to_owned(),
        table: Some(name.to_owned()),
        filter: None,
        select: None,
    }
}

/// Like [`table`], with a filter.
pub(crate) fn filtered(name: &str, filter: &str) -> Binding {
    Binding { filter: Some(filter.to_owned()), ..table(name) }
}

/// A subscribed channel.
pub(crate) struct Listener {
    pub(crate) subscription: Subscription,
    log: Arc<Log>,
}

/// What a listener has received.
#[derive(Default)]
struct Log {
    changes: Mutex<Vec<(Value, Vec<u64>)>>,
    gaps: Mutex<usize>,
    failures: Mutex<Vec<String>>,
    arrived: Mutex<Vec<Instant>>,
}

impl ChangeSink for Log {
    fn change(&self, change: &EncodedChange, ids: &[u64]) {
        self.arrived.lock().unwrap().push(Instant::now());
        let data = serde_json::from_slice(&change.data).expect("a change is JSON");
        self.changes.lock().unwrap().push((data, ids.to_vec()));
    }

    fn gap(&self) {
        *self.gaps.lock().unwrap() += 1;
    }

    fn failed(&self, message: &str) {
        self.failures.lock().unwrap().push(message.to_owned());
    }
}

impl Listener {
    pub(crate) fn heard(&self) -> Vec<Value> {
        self.log.changes.lock().unwrap().iter().map(|(data, _)| data.clone()).collect()
    }

    pub(crate) fn ids(&self) -> Vec<Vec<u64>> {
        self.log.changes.lock().unwrap().iter().map(|(_, ids)| ids.clone()).collect()
    }

    /// When each change arrived.
    pub(crate) fn arrivals(&self) -> Vec<Instant> {
        self.log.arrived.lock().unwrap().clone()
    }

    pub(crate) fn gaps(&self) -> usize {
        *self.log.gaps.lock().unwrap()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.log.failures.lock().unwrap().clone()
    }

    /// Waits until `count` changes have arrived and returns all of them.
    pub(crate) async fn until(&self, count: usize) -> Vec<Value> {
        until("changes", || self.log.changes.lock().unwrap().len() >= count).await;
        self.heard()
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "{what} did not come");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A row of `realtime.messages`: topic, whether private, event, payload.
type Sent = (String, bool, String, Vec<u8>);

/// Records broadcasts.
#[derive(Default)]
pub(crate) struct Messages(Mutex<Vec<Sent>>);

impl MessageSink for Messages {
    fn message(&self, topic: &str, private: bool, event: &str, payload: MessagePayload, _: Uuid) {
        let (MessagePayload::Json(bytes) | MessagePayload::Binary(bytes)) = payload;
        self.0.lock().unwrap().push((topic.to_owned(), private, event.to_owned(), bytes.to_vec()));
    }
}

impl PermissionSink for Messages {
    fn permissions_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Messages {
    pub(crate) fn all(&self) -> Vec<Sent> {
        self.0.lock().unwrap().clone()
    }
}
