//! Which services run on which database, with their pools, their part of the tasks and what says that they are ready:
//! REST alone on an existing database, or every service on a database that is prepared first.

use std::sync::Arc;
use std::thread::available_parallelism;

use basalt_core::clock::Clock;
use basalt_core::fair_share::WAITING_PER_IDENTITY;
use basalt_core::keys::Keys;
use basalt_core::memory::AnswerMemory;
use basalt_core::service::Service;
use basalt_functions::built_in::Host;
use basalt_functions::secrets::{SecretStore, Secrets as FunctionSecrets};
use basalt_pg::database::Database;
use basalt_pg::key_store::{CHANNEL, KeyStore};
use basalt_pg::listen::Events;
use basalt_pg::pool::{BackendLimit, PoolConfig, ServicePool};
use basalt_pg::session::Sessions;
use basalt_rest::RestHandle;
use basalt_storage::StorageConfig;
use basalt_storage::blobs::BlobStore;
use futures_util::FutureExt;

use super::{Background, ServeError};
use crate::banner::Console;
use crate::built_in::signing_secrets;
use crate::config::{Config, Only};
use crate::database_setup::{self, Databases, STORAGE_ADMIN, Seed};
use crate::key_keeper::KeyKeeper;
use crate::mail;
use crate::secrets::Secrets;
use crate::system_routes::{ReachCheck, ReadinessCheck};
use basalt_http::layers::Mount;
use basalt_http::layers::api_key::Gate;
use basalt_mail::mailbox::Mailbox;
use basalt_postgres::{MemoryLimit, State};

/// The services of a start, and what else of it the server has to know.
pub(super) struct Running {
    pub(super) databases: Option<Databases>,
    pub(super) mounts: Vec<Mount>,
    pub(super) readiness: Vec<ReadinessCheck>,
    /// Of the services that run.
    pub(super) reach: Vec<ReachCheck>,
    /// REST, where it runs.
    pub(super) rest: Option<RestHandle>,
    /// Where mail goes to be looked at, if it does.
    pub(super) mailbox: Option<Mailbox>,
    /// Set the gauges of the pools.
    pub(super) gauges: Vec<Box<dyn Fn() + Send + Sync>>,
    /// Close the pools.
    pub(super) closers: Vec<Box<dyn FnOnce() + Send>>,
}

/// `--only rest`: a PostgREST on an existing database. Creates nothing there.
pub(super) fn rest_alone(
    config: &Config,
    keys: &Arc<Keys>,
    answers: &AnswerMemory,
    background: &Background,
) -> Result<Running, ServeError> {
    let url = config.database.authenticator_url.as_ref().or(config.database.url.as_ref());
    let url = url.map(|url| url.expose_secret().to_owned()).unwrap_or_default();
    let database = database_setup::external("database.authenticator_url", &url, config)?;
    let sessions = Sessions::new(
        database.clone(),
        PoolConfig {
            answers: Some(answers.clone()),
            ..shared_pool(config, "rest", config.database.pool_size)
        },
        background.requests.clone(),
    );
    let events = listen(database, rest_channel(config).into_iter().collect(), background);
    let pool = sessions.clone();
    renew_when_lost(&events, move || pool.close_unused(), background);
    let (mount, handle) = rest_service(config, &sessions, keys, &events, background);
    let pool = sessions.clone();
    Ok(Running {
        databases: None,
        mounts: vec![mount],
        readiness: vec![rest_ready(&handle), database_there(&events)],
        reach: vec![rest_reaches(&sessions)],
        rest: Some(handle),
        mailbox: None,
        gauges: vec![Box::new(move || pool.report())],
        closers: vec![Box::new(move || sessions.close())],
    })
}

/// The LISTEN connection is asked every few seconds whether the database is there. When it is not, unused connections of
/// the pools are not either.
fn renew_when_lost(events: &Events, close_unused: impl Fn() + Send + 'static, background: &Background) {
    let mut events = events.clone();
    let renew = async move {
        while events.lost().await {
            close_unused();
        }
    };
    background.tracker.spawn(background.shutdown.clone().run_until_cancelled_owned(renew));
}

/// The one LISTEN connection.
fn listen(login: Database, channels: Vec<String>, background: &Background) -> Events {
    Events::listen(login, channels, &background.tracker, background.shutdown.clone())
}

fn rest_channel(config: &Config) -> Option<String> {
    config.rest.channel_enabled.then(|| config.rest.channel.clone())
}

/// REST, with its schema cache kept up to date by notifications.
fn rest_service(
    config: &Config,
    sessions: &Sessions,
    keys: &Arc<Keys>,
    events: &Events,
    background: &Background,
) -> (Mount, RestHandle) {
    let (service, handle, handler) = basalt_rest::service(
        config.rest.clone(),
        sessions.clone(),
        Arc::clone(keys),
        events.subscribe(),
        Clock::system(),
        &background.tracker,
        background.shutdown.clone(),
    );
    let mut mount = mount(config, service, Gate::Closed);
    mount.direct = Some(handler);
    let settings = handle.clone();
    mount.origins = Box::new(move || settings.cors_origins());
    (mount, handle)
}

fn rest_ready(handle: &RestHandle) -> ReadinessCheck {
    let handle = handle.clone();
    ReadinessCheck { name: "rest", is_ready: Box::new(move || handle.ready()) }
}

/// Whether the login that takes on callers' roles does.
fn rest_reaches(sessions: &Sessions) -> ReachCheck {
    let sessions = sessions.clone();
    let is_reachable = move || {
        let sessions = sessions.clone();
        async move { sessions.is_reachable().await }.boxed()
    };
    ReachCheck { name: "database connection of rest", is_reachable: Box::new(is_reachable) }
}

/// The same of the sessions that realtime asks policies in.
fn realtime_reaches(sessions: &Sessions) -> ReachCheck {
    ReachCheck { name: "database connection of realtime", ..rest_reaches(sessions) }
}

/// The same of auth's login.
fn auth_reaches(pool: &ServicePool) -> ReachCheck {
    pool_reaches("database connection of auth", pool)
}

/// And of the login that acts as the owner of schema `storage`.
fn storage_reaches(pool: &ServicePool) -> ReachCheck {
    pool_reaches("database connection of storage", pool)
}

fn pool_reaches(name: &'static str, pool: &ServicePool) -> ReachCheck {
    let pool = pool.clone();
    let is_reachable = move || {
        let pool = pool.clone();
        async move { pool.is_reachable().await }.boxed()
    };
    ReachCheck { name, is_reachable: Box::new(is_reachable) }
}

/// Whether objects can be stored.
fn blobs_reached(blobs: &BlobStore) -> ReachCheck {
    let blobs = blobs.clone();
    let is_reachable = move || {
        let blobs = blobs.clone();
        async move { blobs.is_reachable().await }.boxed()
    };
    ReachCheck { name: "store of objects", is_reachable: Box::new(is_reachable) }
}

/// Whether the server's own link to the database lives.
fn database_there(events: &Events) -> ReadinessCheck {
    let events = events.clone();
    ReadinessCheck { name: "database connection", is_ready: Box::new(move || events.is_connected()) }
}

/// Everything, or one service on a database that is ours to prepare.
pub(super) async fn all_services(
    config: &Config,
    secrets: &Secrets,
    keys: &Arc<Keys>,
    answers: &AnswerMemory,
    background: &Background,
    console: &Console,
) -> Result<Running, ServeError> {
    let options = database_setup::Options { seed: Seed::NewDatabase, adopt: false };
    let databases = database_setup::prepare(config, secrets, &options, |line| console.progress(line)).await?;
    // Requests may be sent elsewhere.
    let own = databases.embedded.as_ref().filter(|_| config.database.authenticator_url.is_none());
    let backend_limit = own.map(|embedded| {
        let limit = embedded.memory_limit();
        let set = move |backend, values| {
            let limit = limit.clone();
            async move { limit.apply(backend, values).await }.boxed()
        };
        BackendLimit { usual_bytes: MemoryLimit::USUAL_VALUES, set: Arc::new(set) }
    });
    let sessions = Sessions::new(
        databases.authenticator.clone(),
        PoolConfig {
            answers: Some(answers.clone()),
            backend_limit: backend_limit.clone(),
            ..shared_pool(config, "rest", config.database.pool_size)
        },
        background.requests.clone(),
    );
    // Its own: a burst of joins does not hold up requests, nor the other way round.
    let realtime_sessions = Sessions::new(
        databases.authenticator.clone(),
        PoolConfig { backend_limit, ..shared_pool(config, "realtime", config.database.realtime_pool_size) },
        background.requests.clone(),
    );
    let auth_pool = ServicePool::new(
        databases.auth.clone(),
        // No headroom: clients cannot make these statements slow, and writes that wait for the disk need the connections.
        PoolConfig {
            waiting_per_client: Some(WAITING_PER_IDENTITY),
            ..pool(config, "auth", config.database.auth_pool_size)
        },
        background.requests.clone(),
    );
    let storage_pool = ServicePool::new(
        databases.admin.acting_as(STORAGE_ADMIN, "storage"),
        pool(config, "storage", config.database.storage_pool_size),
        background.requests.clone(),
    );
    let system_pool = ServicePool::new(
        databases.admin.clone(),
        pool(config, "system", config.database.system_pool_size),
        background.requests.clone(),
    );
    let functions_pool = ServicePool::new(
        databases.admin.acting_as("service_role", "public"),
        pool(config, "functions", config.database.functions_pool_size),
        background.requests.clone(),
    );
    let outbox = mail::outbox(config, secrets);
    let (mut readiness, mut reach) = (Vec::new(), Vec::new());
    let mut mounts: Vec<Mount> = Vec::new();
    let mut rest = None;
    let runs = |service: Only| config.only.is_none_or(|only| only == service);
    let mut channels =
        [CHANNEL, mail::CHANNEL, basalt_functions::secrets::CHANNEL].map(str::to_owned).to_vec();
    channels.extend(rest_channel(config).filter(|_| runs(Only::Rest)));
    channels.extend(runs(Only::Realtime).then(|| basalt_realtime::changes::CHANNEL.to_owned()));
    let events = listen(databases.admin.clone(), channels, background);
    let pools = (
        [sessions.clone(), realtime_sessions.clone()],
        [auth_pool.clone(), storage_pool.clone(), system_pool.clone(), functions_pool.clone()],
    );
    let shown = pools.clone();
    let gauges = move || {
        shown.0.iter().for_each(Sessions::report);
        shown.1.iter().for_each(ServicePool::report);
    };
    let close_unused = move || {
        pools.0.iter().for_each(Sessions::close_unused);
        pools.1.iter().for_each(ServicePool::close_unused);
    };
    renew_when_lost(&events, close_unused, background);
    let mail::Started { mailbox, worker: mail_worker } =
        mail::start(config, &outbox, &system_pool, &events, &background.tracker, &background.shutdown)
            .map_err(ServeError::Mail)?;
    readiness.push(database_there(&events));
    let store = KeyStore::new(system_pool.clone(), secrets.master_key());
    let mut keeper = KeyKeeper::new(store, Arc::clone(keys), Clock::system());
    let heard = events.subscribe();
    keeper.start().await?;
    background.tracker.spawn(background.shutdown.clone().run_until_cancelled_owned(keeper.keep(heard)));
    if runs(Only::Rest) {
        let (mount, handle) = rest_service(config, &sessions, keys, &events, background);
        readiness.push(rest_ready(&handle));
        reach.push(rest_reaches(&sessions));
        rest = Some(handle);
        mounts.push(mount);
    }
    if runs(Only::Auth) {
        let service = basalt_auth::service(
            config.auth.clone(),
            basalt_auth::Dependencies {
                pool: auth_pool.clone(),
                keys: Arc::clone(keys),
                clock: Clock::system(),
                outbox: outbox.clone(),
                tracker: background.tracker.clone(),
                shutdown: background.shutdown.clone(),
                development: config.is_development(),
            },
        )?;
        mounts.push(mount(config, service, Gate::OpenFor(basalt_auth::is_open)));
        reach.push(auth_reaches(&auth_pool));
    }
    if runs(Only::Storage) {
        let blobs = BlobStore::open(&config.storage, background.tracker.clone()).await;
        let blobs = blobs.map_err(ServeError::Storage)?;
        let service = basalt_storage::service(
            StorageConfig { s3_protocol: secrets.s3_protocol(config), ..config.storage.clone() },
            basalt_storage::Dependencies {
                sessions: sessions.clone(),
                system: storage_pool.clone(),
                blobs: blobs.clone(),
                events: events.subscribe(),
                keys: Arc::clone(keys),
                clock: Clock::system(),
                public_url: config.server.public_url.to_string(),
                is_public_url_local: config.server.public_url.is_loopback(),
                tracker: background.tracker.clone(),
                shutdown: background.shutdown.clone(),
            },
        );
        mounts.push(mount(config, service, Gate::Rewrite));
        reach.push(storage_reaches(&storage_pool));
        reach.push(blobs_reached(&blobs));
    }
    if runs(Only::Realtime) {
        let service = basalt_realtime::service(
            config.realtime.clone(),
            basalt_realtime::Dependencies {
                sessions: realtime_sessions.clone(),
                admin: databases.admin.clone(),
                system: system_pool.clone(),
                events: events.clone(),
                keys: Arc::clone(keys),
                clock: Clock::system(),
                project: secrets.project_name(),
                tracker: background.tracker.clone(),
                shutdown: background.shutdown.clone(),
            },
        );
        mounts.push(mount(config, service, Gate::Untouched));
        reach.push(realtime_reaches(&realtime_sessions));
    }
    if runs(Only::Functions) {
        let store = SecretStore::new(system_pool.clone(), secrets.master_key(), signing_secrets());
        let function_secrets = Arc::new(FunctionSecrets::new(store, &config.functions.secrets));
        let kept = Arc::clone(&function_secrets).keep(events.subscribe());
        background.tracker.spawn(background.shutdown.clone().run_until_cancelled_owned(kept));
        let built_in = config.built_in_functions().map(|built_in| {
            built_in.start(Host {
                sessions: sessions.clone(),
                service_role: functions_pool.clone(),
                system: system_pool.clone(),
                secrets: function_secrets,
                keys: Arc::clone(keys),
                clock: Clock::system(),
                outbox: outbox.clone(),
                mail_worker,
                confirms_without_mail: config.auth.mailer_autoconfirm,
                is_page: Box::new(basalt_auth::page_check(&config.auth, config.server.public_url.as_str())),
                site_url: config.auth.site_url.trim_end_matches('/').to_owned(),
                is_development: config.is_development(),
                tracker: background.tracker.clone(),
                shutdown: background.shutdown.clone(),
            })
        });
        let built_in = built_in.unwrap_or_default();
        let has_built_in = !built_in.is_empty();
        let service =
            basalt_functions::service(&config.functions, built_in, Arc::clone(keys), Clock::system());
        mounts.push(mount(config, service, Gate::RewriteAndKeep));
        if has_built_in {
            reach.push(pool_reaches("database connection of functions", &functions_pool));
        }
    }
    if let Some(embedded) = &databases.embedded {
        let state = embedded.state();
        let is_ready = move || matches!(*state.borrow(), State::Ready);
        readiness.push(ReadinessCheck { name: "database", is_ready: Box::new(is_ready) });
    }
    let closers: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(move || sessions.close()),
        Box::new(move || auth_pool.close()),
        Box::new(move || storage_pool.close()),
        Box::new(move || system_pool.close()),
        Box::new(move || realtime_sessions.close()),
        Box::new(move || functions_pool.close()),
    ];
    let gauges: Vec<Box<dyn Fn() + Send + Sync>> = vec![Box::new(gauges)];
    Ok(Running { databases: Some(databases), mounts, readiness, reach, rest, mailbox, gauges, closers })
}

fn mount(config: &Config, service: Service, gate: Gate) -> Mount {
    Mount::new(prefix_of(config, &service), service, gate)
}

fn prefix_of(config: &Config, service: &Service) -> String {
    config.server.prefix.clone().unwrap_or_else(|| service.prefix.to_owned())
}

/// A pool whose statements clients write, or make slow.
fn shared_pool(config: &Config, name: &'static str, size: usize) -> PoolConfig {
    PoolConfig {
        waiting_per_client: Some(WAITING_PER_IDENTITY),
        keeps_headroom: true,
        flood_share: Some(available_parallelism().map_or(1, |cores| (cores.get() - 1).max(1))),
        ..pool(config, name, size)
    }
}

fn pool(config: &Config, name: &'static str, size: usize) -> PoolConfig {
    PoolConfig {
        acquire_timeout: config.database.pool_timeout,
        max_lifetime: config.database.pool_max_lifetime,
        idle_timeout: Some(config.database.pool_idle_timeout).filter(|limit| !limit.is_zero()),
        statement_cache: config.database.statement_cache,
        row_bytes: config.database.max_row_bytes,
        ..PoolConfig::new(name, size)
    }
}
