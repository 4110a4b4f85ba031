//! `basalt serve`: from configuration to a running server, and its end in order. Stop accepting, drain, stop the
//! background tasks, close the pools, stop PostgreSQL last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use basalt_core::clock::Clock;
use basalt_core::database::Database;
use basalt_core::keys::{CHANNEL, KeyStore, KeyStoreError, Keys};
use basalt_core::listen::Events;
use basalt_core::memory::AnswerMemory;
use basalt_core::pool::{PoolConfig, ServicePool};
use basalt_core::service::Service;
use basalt_core::session::Sessions;
use basalt_rest::RestHandle;
use http::Request;
use hyper::body::Incoming;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::banner::{Banner, Console};
use crate::bind::Listening;
use crate::config::{CommandLine, Config, Only, Server};
use crate::database_setup::{self, Databases, Seed, SetupError};
use crate::embedded::State;
use crate::key_keeper::KeyKeeper;
use crate::layers::api_key::{Gate, KeyGate};
use crate::layers::bounds::{self, Bounds};
use crate::layers::cors::CorsPolicy;
use crate::layers::{Mount, RequestIds, Shared};
use crate::listener::{self, Limits};
use crate::mail;
use crate::mailbox::Mailbox;
use crate::router::Gateway;
use crate::secrets::{Secrets, SecretsError};
use crate::signals::Signals;
use crate::static_app::StaticApp;
use crate::system_routes::{ReadinessCheck, SystemRoutes};

/// Why the server did not start; each text is a sentence with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port or socket file is not to be had.
    #[error("{address} cannot be listened on: {reason}")]
    Bind {
        /// What was asked for.
        address: String,
        /// Why not and what to do.
        reason: String,
    },
    /// The secrets folder.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The keys in it.
    #[error(transparent)]
    Keys(#[from] basalt_core::keys::KeyError),
    /// Those of the database.
    #[error("the keys in the database cannot be used: {0}")]
    StoredKeys(#[from] KeyStoreError),
    /// The database.
    #[error(transparent)]
    Database(#[from] SetupError),
    /// The signals that reload.
    #[error("signals cannot be listened for: {0}")]
    Signals(#[from] std::io::Error),
    /// The mail settings.
    #[error("mail cannot be sent: {0}")]
    Mail(String),
    /// The metrics recorder.
    #[error("metrics cannot be recorded: {0}")]
    Metrics(String),
}

/// Starts everything, serves until `stop`, and ends everything. `command_line` is read again on SIGUSR2.
///
/// # Errors
/// What kept it from starting.
pub async fn serve(
    mut config: Config,
    command_line: &CommandLine,
    console: &Console,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let started = Instant::now();
    // From the first moment: unheard, they would end the process.
    let signals = Signals::new()?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    // The port first: that it is taken should be known before PostgreSQL is started for it.
    let listener = match &config.server.unix_socket {
        Some((path, mode)) => Listening::unix(path, *mode).await?,
        None => Listening::tcp(&config.server.host, config.server.port, config.server.reuse_port).await?,
    };
    config.server.port = listener.port().unwrap_or(config.server.port);
    let admin_listener = match config.server.admin_port {
        Some(port) => Some(Listening::tcp(&config.server.admin_host, port, false).await?),
        None => None,
    };
    let mailbox_listener = match config.mail.mailbox_port.filter(|_| mail::has_mailbox(&config)) {
        Some(port) => Some(Listening::tcp(&config.server.host, port, false).await?),
        None => None,
    };
    let metrics = metrics_recorder()?;
    let secrets = Secrets::load(&config)?;
    let keys = Arc::new(Keys::new(secrets.key_material())?);

    let background = Background::default();
    background
        .tracker
        .spawn(background.shutdown.clone().run_until_cancelled_owned(keep_metrics(metrics.clone())));
    let answers = bounds::answer_memory(config.server.answer_memory);
    let starting = async {
        match config.only {
            Some(Only::Rest) => rest_alone(&config, &keys, &answers, &background),
            _ => whole(&config, &secrets, &keys, &answers, &background, console).await,
        }
    };
    // Boxed: it is large.
    let Some(running) = Box::pin(stop.run_until_cancelled(starting)).await else {
        // What was under way is undone or finished by the next start.
        background.end().await;
        return Ok(());
    };
    let running = running?;
    let Running { databases, mounts, readiness, rest, mailbox, closers } = running;
    if let Some(rest) = &rest {
        let following = signals.follow(rest.clone(), command_line.clone(), Arc::clone(&keys));
        background.tracker.spawn(background.shutdown.clone().run_until_cancelled_owned(following));
    }
    let Server { max_requests, body_memory, max_connections, pace, .. } = config.server;
    let bounds =
        Arc::new(Bounds::new(bounds::Limits { max_requests, body_memory, max_connections, pace, answers }));
    let gateway = Arc::new(Gateway {
        shared: Shared {
            request_ids: RequestIds::default(),
            cors: config.server.cors_origins.as_deref().map_or(CorsPolicy::Any, CorsPolicy::new),
            key_gate: KeyGate::new(
                Arc::clone(&keys),
                Clock::system(),
                config.server.require_apikey,
                config.server.secret_keys_in_browsers,
            ),
            bounds: Arc::clone(&bounds),
        },
        mounts,
        system: SystemRoutes {
            keys: Arc::clone(&keys),
            public_url: config.server.public_url.to_string(),
            readiness,
            rest: rest.map(|handle| (handle, config.clone())),
            bounds,
            metrics: config.server.metrics.then_some(metrics),
        },
        mailbox,
        app: config.server.app_dir.as_ref().map(|dir| StaticApp::new(dir.clone(), &config.server.public_url)),
        trusted_proxies: config.server.trusted_proxies.clone(),
    });

    wait_until_ready(&gateway, &stop).await;
    let banner =
        Banner { config: &config, keys: &keys, databases: databases.as_ref(), took: started.elapsed() };
    console.banner(&banner);
    accept_until(gateway, listener, [admin_listener, mailbox_listener], &config, stop).await;

    console.progress("stopping");
    background.end().await;
    for close in closers {
        close();
    }
    if let Some(embedded) = databases.as_ref().and_then(|databases| databases.embedded.as_ref()) {
        embedded.stop().await;
    }
    Ok(())
}

/// Tasks that live as long as the server.
#[derive(Default)]
struct Background {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    /// Database work of requests; ends by itself when the requests do.
    requests: TaskTracker,
}

impl Background {
    /// Waits for database work that outlived its request, then for the long-lived tasks.
    async fn end(&self) {
        const LIMIT: Duration = Duration::from_secs(10);
        self.requests.close();
        self.tracker.close();
        self.shutdown.cancel();
        let ended = async { tokio::join!(self.requests.wait(), self.tracker.wait()) };
        if tokio::time::timeout(LIMIT, ended).await.is_err() {
            tracing::warn!("some tasks did not end within {} s", LIMIT.as_secs());
        }
    }
}

struct Running {
    databases: Option<Databases>,
    mounts: Vec<Mount>,
    readiness: Vec<ReadinessCheck>,
    /// REST, where it runs.
    rest: Option<RestHandle>,
    /// Where mail goes to be looked at, if it does.
    mailbox: Option<Mailbox>,
    /// Close the pools.
    closers: Vec<Box<dyn FnOnce() + Send>>,
}

/// `--only rest`: a PostgREST on somebody's database. Creates nothing there.
fn rest_alone(
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
        PoolConfig { answers: Some(answers.clone()), ..pool(config, "rest", config.database.pool_size) },
        background.requests.clone(),
    );
    let events = listen(database, rest_channel(config).into_iter().collect(), background);
    let pool = sessions.clone();
    renew_when_lost(&events, move || pool.close_unused(), background);
    let (mount, handle) = rest_service(config, &sessions, keys, &events, background);
    Ok(Running {
        databases: None,
        mounts: vec![mount],
        readiness: vec![rest_ready(&handle), database_there(&events)],
        rest: Some(handle),
        mailbox: None,
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
    config.rest_listens.then(|| config.rest.channel.clone())
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

/// Whether the server's own link to the database lives.
fn database_there(events: &Events) -> ReadinessCheck {
    let events = events.clone();
    ReadinessCheck { name: "database connection", is_ready: Box::new(move || events.is_connected()) }
}

/// Everything, or one service on a database that is ours to prepare.
async fn whole(
    config: &Config,
    secrets: &Secrets,
    keys: &Arc<Keys>,
    answers: &AnswerMemory,
    background: &Background,
    console: &Console,
) -> Result<Running, ServeError> {
    let options = database_setup::Options { seed: Seed::NewDatabase };
    let databases = database_setup::prepare(config, secrets, &options, |line| console.progress(line)).await?;
    let sessions = Sessions::new(
        databases.authenticator.clone(),
        PoolConfig { answers: Some(answers.clone()), ..pool(config, "rest", config.database.pool_size) },
        background.requests.clone(),
    );
    let auth_pool =
        ServicePool::new(databases.auth.clone(), pool(config, "auth", config.database.auth_pool_size));
    let system_pool =
        ServicePool::new(databases.admin.clone(), pool(config, "system", config.database.system_pool_size));
    let outbox = mail::outbox(config, secrets);
    let mut readiness = Vec::new();
    let mut mounts = Vec::new();
    let mut rest = None;
    let runs = |service: Only| config.only.is_none_or(|only| only == service);
    let mut channels = vec![CHANNEL.to_owned(), mail::CHANNEL.to_owned()];
    channels.extend(rest_channel(config).filter(|_| runs(Only::Rest)));
    let events = listen(databases.admin.clone(), channels, background);
    let pools = (sessions.clone(), auth_pool.clone(), system_pool.clone());
    let close_unused = move || {
        pools.0.close_unused();
        pools.1.close_unused();
        pools.2.close_unused();
    };
    renew_when_lost(&events, close_unused, background);
    let mailbox =
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
        rest = Some(handle);
        mounts.push(mount);
    }
    if runs(Only::Auth) {
        let service = basalt_auth::service(
            config.auth.clone(),
            auth_pool.clone(),
            Arc::clone(keys),
            Clock::system(),
            outbox.clone(),
            config.is_development(),
        );
        mounts.push(mount(config, service, Gate::OpenFor(basalt_auth::is_open)));
        if config.auth.db_cleanup_enabled {
            let keep = basalt_auth::keep_clean(config.auth.clone(), auth_pool.clone(), Clock::system());
            background.tracker.spawn(background.shutdown.clone().run_until_cancelled_owned(keep));
        }
    }
    if runs(Only::Storage) {
        mounts.push(mount(
            config,
            basalt_storage::service(&basalt_storage::Config { max_file_size: config.storage.max_file_size }),
            Gate::Rewrite,
        ));
    }
    if runs(Only::Realtime) {
        mounts.push(mount(config, basalt_realtime::service(), Gate::Untouched));
        let keep = basalt_realtime::partitions::keep(databases.admin.clone(), background.shutdown.clone());
        background.tracker.spawn(keep);
    }
    if runs(Only::Functions) {
        mounts.push(mount(config, basalt_functions::service(), Gate::RewriteAndKeep));
    }
    if let Some(embedded) = &databases.embedded {
        let state = embedded.state();
        let is_ready = move || matches!(*state.borrow(), State::Ready);
        readiness.push(ReadinessCheck { name: "database", is_ready: Box::new(is_ready) });
    }
    let closers: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(move || sessions.close()),
        Box::new(move || auth_pool.close()),
        Box::new(move || system_pool.close()),
    ];
    Ok(Running { databases: Some(databases), mounts, readiness, rest, mailbox, closers })
}

fn mount(config: &Config, service: Service, gate: Gate) -> Mount {
    Mount::new(prefix_of(config, &service), service, gate)
}

fn prefix_of(config: &Config, service: &Service) -> String {
    config.server.prefix.clone().unwrap_or_else(|| service.prefix.to_owned())
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

fn metrics_recorder() -> Result<PrometheusHandle, ServeError> {
    const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| ServeError::Metrics(error.to_string()))
}

/// Folds recorded durations into their histograms; until then the recorder keeps each one, and nobody may ever ask for
/// `/metrics`.
#[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
async fn keep_metrics(metrics: PrometheusHandle) {
    const INTERVAL: Duration = Duration::from_secs(5);
    loop {
        tokio::time::sleep(INTERVAL).await;
        metrics.run_upkeep();
    }
}

/// The first answer should be an answer: the banner waits for the schema cache, but not for ever.
async fn wait_until_ready(gateway: &Gateway, stop: &CancellationToken) {
    const LIMIT: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(2);
    let ready = async {
        while !gateway.system.is_ready() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _in_time = stop.run_until_cancelled(tokio::time::timeout(LIMIT, ready)).await;
}

async fn accept_until(
    gateway: Arc<Gateway>,
    listener: Listening,
    [admin_listener, mailbox_listener]: [Option<Listening>; 2],
    config: &Config,
    stop: CancellationToken,
) {
    // Those who look after the server get in when it is full.
    const ADMIN_CONNECTIONS: usize = 64;
    let limits = |connections| Limits {
        connections,
        idle_timeout: config.server.idle_timeout,
        pace: config.server.pace,
        drain: config.server.shutdown_timeout,
    };
    let admin = async {
        if let Some(listener) = admin_listener {
            let gateway = Arc::clone(&gateway);
            let handle = move |request, _peer| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.handle_private(request) }
            };
            let limits = limits(Arc::new(Semaphore::new(ADMIN_CONNECTIONS)));
            listener::run(listener, handle, limits, stop.clone()).await;
        }
    };
    let mailbox = async {
        if let Some(listener) = mailbox_listener {
            let gateway = Arc::clone(&gateway);
            let handle = move |request: Request<Incoming>, _peer| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.mailbox(request.map(Body::new), "").await }
            };
            let limits = limits(Arc::new(Semaphore::new(ADMIN_CONNECTIONS)));
            listener::run(listener, handle, limits, stop.clone()).await;
        }
    };
    let public = {
        let connections = Arc::clone(&gateway.shared.bounds.connections);
        let gateway = Arc::clone(&gateway);
        let handle = move |request, peer| {
            let gateway = Arc::clone(&gateway);
            async move { gateway.handle(request, peer).await }
        };
        listener::run(listener, handle, limits(connections), stop.clone())
    };
    tokio::join!(public, admin, mailbox);
}
