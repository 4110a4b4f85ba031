//! Starts the services of this process with their pools, background tasks and readiness checks: REST alone on an
//! existing database, or every service on a database that is prepared first. One function per service.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::available_parallelism;

use basalt_core::clock::Clock;
use basalt_core::fair_share::WAITING_PER_IDENTITY;
use basalt_core::keys::Keys;
use basalt_core::memory::AnswerMemory;
use basalt_core::service::Service;
use basalt_extensions::OwnServer;
use basalt_functions::built_in::Host;
use basalt_functions::secrets::{SecretStore, Secrets as FunctionSecrets};
use basalt_pg::database::Database;
use basalt_pg::jobs::Worker;
use basalt_pg::key_store::{CHANNEL, KeyStore};
use basalt_pg::listen::Events;
use basalt_pg::pool::{BackendLimit, PoolConfig, ServicePool};
use basalt_pg::session::Sessions;
use basalt_rest::RestHandle;
use basalt_storage::StorageConfig;
use basalt_storage::blobs::BlobStore;
use futures_util::FutureExt;
use secrecy::ExposeSecret;
use url::Url;

use super::{Background, ServeError};
use crate::backup::scheduler;
use crate::banner::Console;
use crate::built_in::signing_secrets;
use crate::config::{Config, ListenHost, Only};
use crate::database_setup::{self, Databases, STORAGE_ADMIN, Seed};
use crate::function_facts;
use crate::key_keeper::KeyKeeper;
use crate::mail;
use crate::secrets::Secrets;
use crate::system_routes::{ReachCheck, ReadinessCheck};
use basalt_http::layers::Mount;
use basalt_http::layers::api_key::Gate;
use basalt_mail::Outbox;
use basalt_mail::mailbox::Mailbox;
use basalt_mail::worker::Sender as MailSender;
use basalt_postgres::{Embedded, MemoryLimit, State};

/// The role that owns the project's cron jobs.
const JOB_OWNER: &str = "postgres";

/// The services that run, and what else the server needs of them.
pub(super) struct Running {
    pub(super) databases: Option<Databases>,
    pub(super) mounts: Vec<Mount>,
    pub(super) readiness: Vec<ReadinessCheck>,
    /// Checks that each running service can reach what it depends on.
    pub(super) reach: Vec<ReachCheck>,
    /// `None` if REST does not run in this process.
    pub(super) rest: Option<RestHandle>,
    /// The development mailbox, if mail goes there.
    pub(super) mailbox: Option<Mailbox>,
    /// Set the gauges of the pools.
    pub(super) gauges: Vec<Box<dyn Fn() + Send + Sync>>,
    /// Close the pools.
    pub(super) closers: Vec<Box<dyn FnOnce() + Send>>,
}

/// The connection pools of a server that runs every service.
#[derive(Clone)]
struct Pools {
    rest: Sessions,
    /// Separate from `rest`, so that a burst of joins does not delay requests, nor requests joins.
    realtime: Sessions,
    auth: ServicePool,
    storage: ServicePool,
    system: ServicePool,
    functions: ServicePool,
    /// Separate from `system`, because triggers and jobs of the project decide how much the workers do.
    extensions: ServicePool,
}

impl Pools {
    fn open(config: &Config, databases: &Databases, answers: &AnswerMemory, background: &Background) -> Self {
        let backend_limit = backend_limit(config, databases);
        let requests = &background.requests;
        let service_pool = |database, pool| ServicePool::new(database, pool, requests.clone());
        let settings = &config.database;
        Self {
            rest: Sessions::new(
                databases.authenticator.clone(),
                PoolConfig {
                    answers: Some(answers.clone()),
                    backend_limit: backend_limit.clone(),
                    ..shared_pool(config, "rest", settings.pool_size)
                },
                requests.clone(),
            ),
            realtime: Sessions::new(
                databases.authenticator.clone(),
                PoolConfig { backend_limit, ..shared_pool(config, "realtime", settings.realtime_pool_size) },
                requests.clone(),
            ),
            auth: service_pool(
                databases.auth.clone(),
                // No headroom: clients cannot make these statements slow, and writes that wait for the disk need the connections.
                PoolConfig {
                    waiting_per_client: Some(WAITING_PER_IDENTITY),
                    ..pool(config, "auth", settings.auth_pool_size)
                },
            ),
            storage: service_pool(
                databases.admin.acting_as(STORAGE_ADMIN, "storage"),
                pool(config, "storage", settings.storage_pool_size),
            ),
            system: service_pool(databases.admin.clone(), pool(config, "system", settings.system_pool_size)),
            functions: service_pool(
                databases.admin.acting_as("service_role", "public"),
                pool(config, "functions", settings.functions_pool_size),
            ),
            extensions: service_pool(
                databases.admin.clone(),
                pool(config, "extensions", settings.extensions_pool_size),
            ),
        }
    }

    const fn sessions(&self) -> [&Sessions; 2] {
        [&self.rest, &self.realtime]
    }

    const fn service_pools(&self) -> [&ServicePool; 5] {
        [&self.auth, &self.storage, &self.system, &self.functions, &self.extensions]
    }

    fn report(&self) {
        self.sessions().into_iter().for_each(Sessions::report);
        self.service_pools().into_iter().for_each(ServicePool::report);
    }

    fn close_unused(&self) {
        self.sessions().into_iter().for_each(Sessions::close_unused);
        self.service_pools().into_iter().for_each(ServicePool::close_unused);
    }

    fn close(&self) {
        self.sessions().into_iter().for_each(Sessions::close);
        self.service_pools().into_iter().for_each(ServicePool::close);
    }
}

/// Limits the memory of backends of the embedded PostgreSQL; requests may run on another server
/// (`database.authenticator_url`), whose backends Basalt cannot limit.
fn backend_limit(config: &Config, databases: &Databases) -> Option<BackendLimit> {
    let embedded = databases.embedded.as_ref().filter(|_| config.database.authenticator_url.is_none())?;
    let limit = embedded.memory_limit();
    let set = move |backend, values| {
        let limit = limit.clone();
        async move { limit.apply(backend, values).await }.boxed()
    };
    Some(BackendLimit { usual_bytes: MemoryLimit::USUAL_VALUES, set: Arc::new(set) })
}

/// What the functions that start one service have in common.
struct Context<'a> {
    config: &'a Config,
    secrets: &'a Secrets,
    keys: &'a Arc<Keys>,
    background: &'a Background,
    databases: &'a Databases,
    pools: &'a Pools,
    events: &'a Events,
    outbox: &'a Outbox,
}

/// One running service: its routes, and the checks of what it depends on.
struct Started {
    mount: Mount,
    reach: Vec<ReachCheck>,
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
    close_unused_when_lost(&events, move || pool.close_unused(), background);
    let (mount, handle) = rest_service(config, &sessions, keys, &events, background);
    let pool = sessions.clone();
    Ok(Running {
        databases: None,
        mounts: vec![mount],
        readiness: vec![rest_ready(&handle), listen_connection_ready(&events)],
        reach: vec![rest_reach(&sessions)],
        rest: Some(handle),
        mailbox: None,
        gauges: vec![Box::new(move || pool.report())],
        closers: vec![Box::new(move || sessions.close())],
    })
}

/// Prepares the database, then starts every service, or the one that `config.only` names.
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
    let pools = Pools::open(config, &databases, answers, background);
    let outbox = mail::outbox(config, secrets);
    let runs = |service: Only| config.only.is_none_or(|only| only == service);
    let events = listen(databases.admin.clone(), channels(config, runs), background);
    let unused = pools.clone();
    close_unused_when_lost(&events, move || unused.close_unused(), background);
    let mail::Started { mailbox, worker: mail_worker } =
        mail::start(config, &outbox, &pools.system, &events, &background.tracker, &background.shutdown)
            .map_err(ServeError::Mail)?;
    let context = Context {
        config,
        secrets,
        keys,
        background,
        databases: &databases,
        pools: &pools,
        events: &events,
        outbox: &outbox,
    };
    start_key_keeper(&context).await?;
    let mut readiness = vec![listen_connection_ready(&events)];
    let mut started = Vec::new();
    let mut rest = None;
    if runs(Only::Rest) {
        let (mount, handle) = rest_service(config, &pools.rest, keys, &events, background);
        readiness.push(rest_ready(&handle));
        rest = Some(handle);
        started.push(Started { mount, reach: vec![rest_reach(&pools.rest)] });
    }
    if runs(Only::Auth) {
        started.push(start_auth(&context)?);
    }
    if runs(Only::Storage) {
        started.push(start_storage(&context).await?);
    }
    if runs(Only::Realtime) {
        started.push(start_realtime(&context));
    }
    if runs(Only::Functions) {
        started.push(start_functions(&context, mail_worker));
        start_extensions(&context);
    }
    readiness.extend(databases.embedded.as_ref().map(embedded_ready));
    let (mut mounts, mut reach) = (Vec::new(), Vec::new());
    for service in started {
        mounts.push(service.mount);
        reach.extend(service.reach);
    }
    let reported = pools.clone();
    Ok(Running {
        databases: Some(databases),
        mounts,
        readiness,
        reach,
        rest,
        mailbox,
        gauges: vec![Box::new(move || reported.report())],
        closers: vec![Box::new(move || pools.close())],
    })
}

/// The channels that the LISTEN connection subscribes to.
fn channels(config: &Config, runs: impl Fn(Only) -> bool) -> Vec<String> {
    let mut channels =
        [CHANNEL, mail::CHANNEL, basalt_functions::secrets::CHANNEL].map(str::to_owned).to_vec();
    channels.extend(rest_channel(config).filter(|_| runs(Only::Rest)));
    channels
        .extend(basalt_extensions::CHANNELS.map(str::to_owned).into_iter().filter(|_| runs(Only::Functions)));
    channels.extend(basalt_auth::CHANNELS.map(str::to_owned).into_iter().filter(|_| runs(Only::Auth)));
    channels.extend(runs(Only::Realtime).then(|| basalt_realtime::changes::CHANNEL.to_owned()));
    channels
}

/// Loads the keys stored in the database and follows their changes.
async fn start_key_keeper(context: &Context<'_>) -> Result<(), ServeError> {
    let Context { secrets, keys, background, pools, events, .. } = context;
    let store = KeyStore::new(pools.system.clone(), secrets.master_key());
    let mut keeper = KeyKeeper::new(store, Arc::clone(keys), Clock::system());
    // Subscribed before the first load, so that no change is missed between the two.
    let notifications = events.subscribe();
    keeper.start().await?;
    background.spawn(keeper.keep(notifications));
    Ok(())
}

fn start_auth(context: &Context<'_>) -> Result<Started, ServeError> {
    let Context { config, keys, background, pools, outbox, events, .. } = context;
    let service = basalt_auth::service(
        config.auth.clone(),
        basalt_auth::Dependencies {
            pool: pools.auth.clone(),
            keys: Arc::clone(keys),
            clock: Clock::system(),
            outbox: (*outbox).clone(),
            tracker: background.tracker.clone(),
            shutdown: background.shutdown.clone(),
            development: config.is_development(),
        },
        events,
    )?;
    Ok(Started {
        mount: mount(config, service, Gate::OpenFor(basalt_auth::is_open)),
        reach: vec![pool_reach("database connection of auth", &pools.auth)],
    })
}

async fn start_storage(context: &Context<'_>) -> Result<Started, ServeError> {
    let Context { config, secrets, keys, background, pools, events, .. } = context;
    let blobs = BlobStore::open(&config.storage, background.tracker.clone()).await;
    let blobs = blobs.map_err(ServeError::Storage)?;
    if config.only.is_none() {
        let dependencies = scheduler::Dependencies {
            config,
            secrets,
            admin: &context.databases.admin,
            pool: pools.system.clone(),
            store: &blobs,
            events: events.subscribe(),
            tracker: &background.tracker,
            shutdown: &background.shutdown,
        };
        scheduler::start(dependencies).await.map_err(ServeError::Backup)?;
    }
    let service = basalt_storage::service(
        StorageConfig { s3_protocol: secrets.s3_protocol(config), ..config.storage.clone() },
        basalt_storage::Dependencies {
            sessions: pools.rest.clone(),
            system: pools.storage.clone(),
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
    Ok(Started {
        mount: mount(config, service, Gate::Rewrite),
        reach: vec![pool_reach("database connection of storage", &pools.storage), blob_store_reach(&blobs)],
    })
}

fn start_realtime(context: &Context<'_>) -> Started {
    let Context { config, secrets, keys, background, databases, pools, events, .. } = context;
    let service = basalt_realtime::service(
        config.realtime.clone(),
        basalt_realtime::Dependencies {
            sessions: pools.realtime.clone(),
            admin: databases.admin.clone(),
            system: pools.system.clone(),
            events: (*events).clone(),
            keys: Arc::clone(keys),
            clock: Clock::system(),
            project: secrets.project_name(),
            tracker: background.tracker.clone(),
            shutdown: background.shutdown.clone(),
        },
    );
    let reach = ReachCheck { name: "database connection of realtime", ..rest_reach(&pools.realtime) };
    Started { mount: mount(config, service, Gate::Untouched), reach: vec![reach] }
}

fn start_functions(context: &Context<'_>, mail_worker: Option<Arc<Worker<MailSender>>>) -> Started {
    let Context { config, secrets, keys, background, pools, events, outbox, .. } = context;
    let store = SecretStore::new(pools.system.clone(), secrets.master_key(), signing_secrets());
    let function_secrets = Arc::new(FunctionSecrets::new(store, &config.functions.secrets));
    background.spawn(Arc::clone(&function_secrets).keep(events.subscribe()));
    let built_in = config.built_in_functions().map(|built_in| {
        built_in.start(Host {
            sessions: pools.rest.clone(),
            service_role: pools.functions.clone(),
            system: pools.system.clone(),
            secrets: Arc::clone(&function_secrets),
            keys: Arc::clone(keys),
            clock: Clock::system(),
            outbox: (*outbox).clone(),
            mail_worker,
            confirms_without_mail: config.auth.mailer_autoconfirm,
            is_page: Box::new(basalt_auth::page_check(&config.auth, config.server.public_url.as_str())),
            site_url: config.auth.site_url.trim_end_matches('/').to_owned(),
            sender_name: config.mail.sender_name.clone(),
            is_development: config.is_development(),
            tracker: background.tracker.clone(),
            shutdown: background.shutdown.clone(),
        })
    });
    let built_in = built_in.unwrap_or_default();
    let has_built_in = !built_in.is_empty();
    let service = basalt_functions::service(
        &config.functions,
        built_in,
        basalt_functions::Dependencies {
            keys: Arc::clone(keys),
            clock: Clock::system(),
            secrets: function_secrets,
            facts: function_facts::facts(config, Some(secrets)),
            tracker: background.tracker.clone(),
            shutdown: background.shutdown.clone(),
        },
    );
    let mount = mount(config, service, Gate::RewriteAndKeep);
    let reach = has_built_in.then(|| pool_reach("database connection of functions", &pools.functions));
    Started { mount, reach: reach.into_iter().collect() }
}

/// The workers of cron jobs and of requests from the database.
fn start_extensions(context: &Context<'_>) {
    let Context { config, secrets, background, databases, pools, events, .. } = context;
    // On an external server, `database.url` may be this very login.
    let job_login = if databases.admin.config().get_user() == Some(JOB_OWNER) {
        databases.admin.clone()
    } else {
        databases
            .admin
            .with_login(JOB_OWNER, database_setup::login_password(config, secrets, JOB_OWNER).expose_secret())
    };
    let from_folder = config.project.supabase.as_ref().and_then(|supabase| supabase.project_id.clone());
    let own_server = OwnServer {
        origin: own_origin(config),
        public_url: config.server.public_url.url().clone(),
        project_ref: config.extensions.project_ref.clone().or(from_folder),
    };
    basalt_extensions::start(
        &config.extensions,
        basalt_extensions::Dependencies {
            pool: pools.extensions.clone(),
            job_login,
            events: (*events).clone(),
            own_server,
            tracker: background.tracker.clone(),
            shutdown: background.shutdown.clone(),
        },
    );
}

/// Where this server's own requests reach its public port; `None` on a socket file.
pub(super) fn own_origin(config: &Config) -> Option<Url> {
    let server = &config.server;
    let host = match &server.host {
        ListenHost::Address(address) if address.is_unspecified() && address.is_ipv4() => {
            "127.0.0.1".to_owned()
        }
        ListenHost::Address(IpAddr::V6(address)) if !address.is_unspecified() => format!("[{address}]"),
        ListenHost::Address(IpAddr::V6(_)) | ListenHost::EveryIpv6 => "[::1]".to_owned(),
        ListenHost::Address(address) => address.to_string(),
        ListenHost::Everywhere => "127.0.0.1".to_owned(),
        ListenHost::Name(name) => name.clone(),
    };
    server.unix_socket.is_none().then(|| format!("http://{host}:{}", server.port).parse().ok()).flatten()
}

/// Closes unused pool connections when the LISTEN connection is lost: the database went away, so they are dead too.
fn close_unused_when_lost(
    events: &Events,
    close_unused: impl Fn() + Send + 'static,
    background: &Background,
) {
    let mut events = events.clone();
    background.spawn(async move {
        while events.lost().await {
            close_unused();
        }
    });
}

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

/// Whether the LISTEN connection is open.
fn listen_connection_ready(events: &Events) -> ReadinessCheck {
    let events = events.clone();
    ReadinessCheck { name: "database connection", is_ready: Box::new(move || events.is_connected()) }
}

fn embedded_ready(embedded: &Embedded) -> ReadinessCheck {
    let state = embedded.state();
    let is_ready = move || matches!(*state.borrow(), State::Ready);
    ReadinessCheck { name: "database", is_ready: Box::new(is_ready) }
}

/// Whether the login that requests use can connect and switch to a caller's role.
fn rest_reach(sessions: &Sessions) -> ReachCheck {
    let sessions = sessions.clone();
    let is_reachable = move || {
        let sessions = sessions.clone();
        async move { sessions.is_reachable().await }.boxed()
    };
    ReachCheck { name: "database connection of rest", is_reachable: Box::new(is_reachable) }
}

fn pool_reach(name: &'static str, pool: &ServicePool) -> ReachCheck {
    let pool = pool.clone();
    let is_reachable = move || {
        let pool = pool.clone();
        async move { pool.is_reachable().await }.boxed()
    };
    ReachCheck { name, is_reachable: Box::new(is_reachable) }
}

fn blob_store_reach(blobs: &BlobStore) -> ReachCheck {
    let blobs = blobs.clone();
    let is_reachable = move || {
        let blobs = blobs.clone();
        async move { blobs.is_reachable().await }.boxed()
    };
    ReachCheck { name: "store of objects", is_reachable: Box::new(is_reachable) }
}

fn mount(config: &Config, service: Service, gate: Gate) -> Mount {
    Mount::new(prefix_of(config, &service), service, gate)
}

fn prefix_of(config: &Config, service: &Service) -> String {
    config.server.prefix.clone().unwrap_or_else(|| service.prefix.to_owned())
}

/// A pool whose statements clients write or can make slow.
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
