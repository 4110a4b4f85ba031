//! `basalt serve`: starts the server from its configuration, and stops it in order: stop accepting, drain, stop the
//! background tasks, close the pools, stop PostgreSQL last. `serve/services.rs` starts the services.

mod recorder;
mod services;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::memory::AnswerMemory;
use basalt_core::settings::BaseUrl;
use basalt_pg::key_store::KeyStoreError;
use basalt_postgres::Embedded;
use http::header::LOCATION;
use http::uri::PathAndQuery;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::banner::{Banner, Console};
use crate::bucket_files;
use crate::config::{CommandLine, Config, Only};
use crate::database_setup::{self, SetupError};
use crate::function_facts;
use crate::mail;
use crate::project_watch;
use crate::router::Gateway;
use crate::running::RunningNote;
use crate::secrets::{Secrets, SecretsError};
use crate::service_manager;
use crate::signals::{Reloads, Signals};
use crate::system_routes::SystemRoutes;
use basalt_http::bind::{BindError, Listening};
use basalt_http::layers::api_key::{KeyGate, SecretKeysInBrowsers};
use basalt_http::layers::bounds::{self, Bounds};
use basalt_http::layers::cors::CorsPolicy;
use basalt_http::layers::{RequestIds, Shared};
use basalt_http::listener::{self, Limits};
use basalt_http::open_files;
use basalt_http::shutdown::Shutdown;
use basalt_http::static_app::StaticApp;
use basalt_http::tls::acme::Acme;
use basalt_http::tls::{Acceptor, Certificates, Files, Identity, TlsError};
use services::Running;

/// Why the server did not start. Each message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port or socket file cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The secrets cannot be read or written.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The keys among the secrets cannot be used.
    #[error(transparent)]
    Keys(#[from] basalt_core::keys::KeyError),
    /// The keys stored in the database cannot be used.
    #[error("cannot use the keys in the database: {0}")]
    StoredKeys(#[from] KeyStoreError),
    /// The database cannot be reached or prepared.
    #[error(transparent)]
    Database(#[from] SetupError),
    /// The reload signals cannot be handled.
    #[error("cannot install signal handlers: {0}")]
    Signals(#[from] std::io::Error),
    /// The auth service rejects its configuration.
    #[error("cannot start auth: {0}")]
    Auth(#[from] basalt_auth::AuthError),
    /// The blob store (folder or bucket) cannot be used.
    #[error("cannot store objects: {0}. Check storage.dir or storage.s3")]
    Storage(#[source] basalt_storage::blobs::BlobError),
    /// The certificate of the public port cannot be used.
    #[error("cannot use TLS: {0}. Check server.tls_certificate and server.tls_key")]
    Tls(#[from] TlsError),
    /// Backups are configured and cannot be made.
    #[error("cannot make backups: {0}")]
    Backup(#[source] basalt_backup::BackupError),
    /// With `--strict`: functions cannot run.
    #[error("these functions cannot run, and --strict is set:\n  {0}")]
    Functions(String),
    /// The mail settings are invalid.
    #[error("cannot send mail: {0}")]
    Mail(String),
    /// The metrics recorder cannot be installed.
    #[error("cannot record metrics: {0}")]
    Metrics(String),
}

/// Starts every part, serves until `shutdown`, and stops every part. `command_line` is read again on SIGUSR2.
///
/// # Errors
/// The server cannot start.
pub async fn serve(
    mut config: Config,
    command_line: &CommandLine,
    console: &Console,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    let started = Instant::now();
    // Install these first: until then, a reload signal ends the process.
    let signals = Signals::new()?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    for note in &config.notes {
        console.progress(note);
    }
    check_functions(&config).await?;
    // Bind before PostgreSQL starts, so that the operator learns at once that a port is taken.
    let listeners = Listeners::bind(&config).await?;
    config.server.port = listeners.public.port().unwrap_or(config.server.port);
    let metrics = recorder::install()?;
    let tls = PublicTls::new(&config)?;
    let secrets = Secrets::load(&config)?;
    let keys = Arc::new(Keys::new(secrets.key_material())?);

    let background = Background::default();
    background.spawn(recorder::keep(metrics.clone()));
    let answers = bounds::answer_memory(config.server.answer_memory);
    let starting = async {
        match config.only {
            Some(Only::Rest) => services::rest_alone(&config, &keys, &answers, &background),
            _ => services::all_services(&config, &secrets, &keys, &answers, &background, console).await,
        }
    };
    // Boxed because the future is large.
    let Some(running) = Box::pin(shutdown.graceful.run_until_cancelled(starting)).await else {
        // The next start finishes or reverts interrupted work.
        background.end(&shutdown).await;
        if config.is_embedded() {
            let embedded = database_setup::embedded_config(&config, &secrets);
            let _forced = shutdown.forced.run_until_cancelled(Embedded::until_ended(&embedded)).await;
        }
        return Ok(());
    };
    let mut running = running?;
    let reloads = Reloads { rest: running.rest.clone(), files: Arc::default() };
    if let Some(tls) = &tls {
        tls.keep_certificate(&config, &background, Arc::clone(&reloads.files));
    }
    background.spawn(signals.follow(reloads, command_line.clone(), Arc::clone(&keys)));
    let databases = running.databases.take();
    if let Some(databases) = databases.as_ref().filter(|_| config.is_development() && !config.is_guest()) {
        let (api_keys, admin) = (secrets.api_keys().clone(), databases.admin.clone());
        background.spawn(project_watch::watch(config.clone(), api_keys, admin, *console));
    }
    let closers = std::mem::take(&mut running.closers);
    let gateway = Arc::new(gateway(&config, &secrets, &keys, running, answers, metrics));

    wait_until_ready(&gateway, &shutdown.graceful).await;
    let banner =
        Banner { config: &config, keys: &keys, databases: databases.as_ref(), took: started.elapsed() };
    console.banner(&banner);
    service_manager::notify("READY=1");
    upload_bucket_files(&config, &secrets, &background);
    let acceptor = tls.map(|tls| tls.acceptor);
    accept_until(gateway, listeners, &config, acceptor, &shutdown).await;

    service_manager::notify("STOPPING=1");
    console.progress("stopping");
    background.end(&shutdown).await;
    for close in closers {
        close();
    }
    if let Some(embedded) = databases.as_ref().and_then(|databases| databases.embedded.as_ref()) {
        embedded.stop().await;
    }
    Ok(())
}

/// In development: starts the upload of the files that belong into buckets.
fn upload_bucket_files(config: &Config, secrets: &Secrets, background: &Background) {
    let buckets = config.project.supabase.as_ref().map(|supabase| supabase.bucket_files.clone());
    let buckets = buckets.filter(|buckets| !buckets.is_empty()).unwrap_or_default();
    if buckets.is_empty() || config.only.is_some() {
        return;
    }
    let origin = services::own_origin(config).filter(|_| config.is_development() && !config.server.has_tls());
    match origin {
        Some(origin) => {
            let key = secrets.api_keys().service.clone();
            background.spawn(bucket_files::upload(buckets, origin, key));
        }
        None => tracing::info!(
            "the files of objects_path in config.toml are uploaded in development only, on a port without TLS; here, run `supabase seed buckets`"
        ),
    }
}

/// With `--strict`: checks that the modules of every function can be loaded.
async fn check_functions(config: &Config) -> Result<(), ServeError> {
    if !config.project.is_strict || !matches!(config.only, None | Some(Only::Functions)) {
        return Ok(());
    }
    let facts = function_facts::facts(config, None);
    let inspected = basalt_functions::inspect(&config.functions, &facts, true).await;
    let faults: Vec<String> = inspected
        .iter()
        .filter(|function| function.is_enabled)
        .filter_map(|function| Some(format!("{}: {}", function.entry.display(), function.problem.as_ref()?)))
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(ServeError::Functions(faults.join("\n  "))) }
}

/// The bound sockets: the public one, and those of the admin and mailbox ports if they are configured.
struct Listeners {
    public: Listening,
    admin: Option<Listening>,
    mailbox: Option<Listening>,
    redirect: Option<Listening>,
}

impl Listeners {
    async fn bind(config: &Config) -> Result<Self, BindError> {
        let server = &config.server;
        let public = match &server.unix_socket {
            Some(path) => Listening::unix(path, server.unix_socket_mode).await?,
            None => Listening::tcp(&server.host, server.port, server.reuse_port).await?,
        };
        let admin = match server.admin_port {
            Some(port) => Some(Listening::tcp(&server.admin_host, port, false).await?),
            None => None,
        };
        let mailbox = match config.mail.mailbox_port.filter(|_| mail::has_mailbox(config)) {
            Some(port) => Some(Listening::tcp(&server.host, port, false).await?),
            None => None,
        };
        let redirect = match server.redirect_port {
            Some(port) => Some(Listening::tcp(&server.host, port, server.reuse_port).await?),
            None => None,
        };
        Ok(Self { public, admin, mailbox, redirect })
    }
}

/// Puts the gateway together: the routes of the services, the system routes, and the layers in front of them.
fn gateway(
    config: &Config,
    secrets: &Secrets,
    keys: &Arc<Keys>,
    running: Running,
    answers: AnswerMemory,
    metrics: PrometheusHandle,
) -> Gateway {
    let Running { mounts, readiness, reach, rest, mailbox, mut gauges, .. } = running;
    let bounds = Arc::new(Bounds::new(limits(config, answers)));
    let (reported, key_ring) = (Arc::clone(&bounds), Arc::clone(keys));
    gauges.push(Box::new(move || {
        reported.report();
        key_ring.report();
        recorder::report_process();
    }));
    let server = &config.server;
    let secret_keys_in_browsers = if server.secret_keys_in_browsers {
        SecretKeysInBrowsers::Accepted
    } else {
        SecretKeysInBrowsers::Refused
    };
    Gateway {
        shared: Shared {
            request_ids: RequestIds::default(),
            cors: server.cors_origins.as_deref().map_or(CorsPolicy::Any, CorsPolicy::new),
            key_gate: KeyGate::new(
                Arc::clone(keys),
                Clock::system(),
                server.require_apikey,
                secret_keys_in_browsers,
            ),
            bounds,
        },
        mounts,
        system: SystemRoutes {
            keys: Arc::clone(keys),
            secret_keys_in_browsers,
            public_url: server.public_url.to_string(),
            readiness,
            reach,
            rest: rest.map(|handle| (handle, config.clone())),
            gauges,
            metrics: server.metrics.then_some(metrics),
        },
        mailbox,
        app: server.app_dir.as_ref().map(|dir| StaticApp::new(dir.clone(), &server.public_url)),
        trusted_proxies: server.trusted_proxies.clone(),
        has_tls: server.has_tls(),
        untrusted_proxy: OnceLock::new(),
        note: RunningNote::new(config, secrets),
    }
}

fn limits(config: &Config, answers: AnswerMemory) -> bounds::Limits {
    let server = &config.server;
    bounds::Limits {
        max_requests: server.max_requests,
        body_memory: server.body_memory,
        body_wait: server.body_wait,
        max_connections: connections_that_fit(config),
        heads: server.heads(),
        max_streams: server.max_streams,
        pace: server.pace(),
        answers,
    }
}

/// `server.max_connections`, or fewer if the limit on open files does not allow that many.
fn connections_that_fit(config: &Config) -> usize {
    let wanted = config.server.max_connections;
    let fit = open_files::connections_within(wanted, config.database.connections(), open_files::raise());
    if fit < wanted {
        tracing::warn!(
            "accepting {fit} connections at once instead of server.max_connections ({wanted}) because of the limit on open \
             files: raise it (ulimit -n, or systemd's LimitNOFILE), or lower the setting"
        );
    }
    fit
}

/// Tasks that live as long as the server.
#[derive(Default)]
struct Background {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    /// Database work of requests; it ends when the requests end.
    requests: TaskTracker,
}

impl Background {
    /// Runs `task` until the server stops.
    fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(&self, task: F) {
        self.tracker.spawn(self.shutdown.clone().run_until_cancelled_owned(task));
    }

    /// Waits for database work that outlived its request, then for the long-lived tasks.
    async fn end(&self, shutdown: &Shutdown) {
        const LIMIT: Duration = Duration::from_secs(10);
        self.requests.close();
        self.tracker.close();
        self.shutdown.cancel();
        let ended = async { tokio::join!(self.requests.wait(), self.tracker.wait()) };
        let in_time = shutdown.forced.run_until_cancelled(tokio::time::timeout(LIMIT, ended)).await;
        if let Some(Err(_elapsed)) = in_time {
            tracing::warn!("some tasks did not end within {} s", LIMIT.as_secs());
        }
    }
}

/// Delays the banner until the schema cache is loaded, up to a limit, so that the first request does not fail.
async fn wait_until_ready(gateway: &Gateway, graceful: &CancellationToken) {
    const LIMIT: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(2);
    let ready = async {
        while !gateway.system.is_ready() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _in_time = graceful.run_until_cancelled(tokio::time::timeout(LIMIT, ready)).await;
}

async fn accept_until(
    gateway: Arc<Gateway>,
    listeners: Listeners,
    config: &Config,
    tls: Option<Acceptor>,
    shutdown: &Shutdown,
) {
    // Their own limit, so that operators can connect when the public port is full.
    const ADMIN_CONNECTIONS: usize = 64;
    const REDIRECT_CONNECTIONS: usize = 1024;
    let limits = |connections| Limits {
        connections,
        heads: config.server.heads(),
        max_streams: config.server.max_streams,
        idle_timeout: config.server.idle_timeout,
        pace: config.server.pace(),
        drain: config.server.shutdown_timeout,
        tls: None,
    };
    let redirect = async {
        if let Some(listener) = listeners.redirect {
            let url = Arc::new(config.server.public_url.clone());
            let handle = move |request: Request<Incoming>, _peer| {
                let url = Arc::clone(&url);
                async move { redirect(&url, request.uri()) }
            };
            let limits = limits(Arc::new(Semaphore::new(REDIRECT_CONNECTIONS)));
            listener::run(listener, handle, limits, shutdown).await;
        }
    };
    let admin = async {
        if let Some(listener) = listeners.admin {
            let gateway = Arc::clone(&gateway);
            let handle = move |request, _peer| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.handle_private(request).await }
            };
            let limits = limits(Arc::new(Semaphore::new(ADMIN_CONNECTIONS)));
            listener::run(listener, handle, limits, shutdown).await;
        }
    };
    let mailbox = async {
        if let Some(listener) = listeners.mailbox {
            let gateway = Arc::clone(&gateway);
            let handle = move |request: Request<Incoming>, peer| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.mailbox(request.map(Body::new), peer, "").await }
            };
            let limits = limits(Arc::new(Semaphore::new(ADMIN_CONNECTIONS)));
            listener::run(listener, handle, limits, shutdown).await;
        }
    };
    let public = {
        let connections = Arc::clone(&gateway.shared.bounds.connections);
        let gateway = Arc::clone(&gateway);
        let handle = move |request, peer| {
            let gateway = Arc::clone(&gateway);
            async move { gateway.handle(request, peer).await }
        };
        listener::run(listeners.public, handle, Limits { tls, ..limits(connections) }, shutdown)
    };
    tokio::join!(public, admin, mailbox, redirect);
}

/// The same path below the public URL. 308 keeps method and body.
fn redirect(url: &BaseUrl, uri: &http::Uri) -> Response {
    let rest = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let target = format!("{}{rest}", url.url().origin().ascii_serialization());
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, target)]).into_response()
}

/// TLS of the public port.
struct PublicTls {
    certificates: Arc<Certificates>,
    acceptor: Acceptor,
}

impl PublicTls {
    /// Loads the certificate's files; `None` if the port does not speak HTTPS.
    fn new(config: &Config) -> Result<Option<Self>, TlsError> {
        if !config.server.has_tls() {
            return Ok(None);
        }
        let certificates = Arc::new(Certificates::default());
        if let Some(Files { certificate, key }) = certificate_files(config) {
            certificates.replace(Identity::from_files(&certificate, &key)?);
        }
        let acceptor = certificates.acceptor()?;
        Ok(Some(Self { certificates, acceptor }))
    }

    /// Watches the files, or obtains certificates by ACME, in the background.
    fn keep_certificate(&self, config: &Config, background: &Background, reload: Arc<Notify>) {
        let (server, certificates) = (&config.server, Arc::clone(&self.certificates));
        if let Some(files) = certificate_files(config) {
            background.spawn(files.watch(certificates, reload));
            return;
        }
        let acme = Acme {
            domains: server.acme_domains.clone(),
            email: server.acme_email.clone(),
            directory: server.acme_directory.to_string(),
            ca: server.acme_ca.clone(),
            folder: server.state_dir.join("acme"),
        };
        background.spawn(acme.keep(certificates, Clock::system()));
    }
}

fn certificate_files(config: &Config) -> Option<Files> {
    let server = &config.server;
    Some(Files { certificate: server.tls_certificate.clone()?, key: server.tls_key.clone()? })
}
