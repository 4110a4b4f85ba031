//! `basalt serve`: from configuration to a running server, and its end in order. Stop accepting, drain, stop the
//! background tasks, close the pools, stop PostgreSQL last. `serve/services.rs` decides which services run.

mod recorder;
mod services;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_pg::key_store::KeyStoreError;
use http::Request;
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::banner::{Banner, Console};
use crate::config::{CommandLine, Config, Only, Server};
use crate::database_setup::SetupError;
use crate::mail;
use crate::router::Gateway;
use crate::running::RunningNote;
use crate::secrets::{Secrets, SecretsError};
use crate::signals::Signals;
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
use services::Running;

/// Why the server did not start; each text is a sentence with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port or socket file.
    #[error(transparent)]
    Bind(#[from] BindError),
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
    #[error("cannot install signal handlers: {0}")]
    Signals(#[from] std::io::Error),
    /// The auth service.
    #[error("cannot start auth: {0}")]
    Auth(#[from] basalt_auth::AuthError),
    /// The folder or the bucket of objects.
    #[error("objects cannot be stored: {0}. Look at storage.dir, or at storage.s3")]
    Storage(#[source] basalt_storage::blobs::BlobError),
    /// The mail settings.
    #[error("mail cannot be sent: {0}")]
    Mail(String),
    /// The metrics recorder.
    #[error("metrics cannot be recorded: {0}")]
    Metrics(String),
}

/// Starts everything, serves until `shutdown`, and ends everything. `command_line` is read again on SIGUSR2.
///
/// # Errors
/// What kept it from starting.
pub async fn serve(
    mut config: Config,
    command_line: &CommandLine,
    console: &Console,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    let started = Instant::now();
    // Before anything else: a signal that comes before this ends the process.
    let signals = Signals::new()?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    // The port first: an operator should hear that it is taken before PostgreSQL starts.
    let listener = match &config.server.unix_socket {
        Some(path) => Listening::unix(path, config.server.unix_socket_mode).await?,
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
    let metrics = recorder::install()?;
    let secrets = Secrets::load(&config)?;
    let keys = Arc::new(Keys::new(secrets.key_material())?);

    let background = Background::default();
    background
        .tracker
        .spawn(background.shutdown.clone().run_until_cancelled_owned(recorder::keep(metrics.clone())));
    let answers = bounds::answer_memory(config.server.answer_memory);
    let starting = async {
        match config.only {
            Some(Only::Rest) => services::rest_alone(&config, &keys, &answers, &background),
            _ => services::all_services(&config, &secrets, &keys, &answers, &background, console).await,
        }
    };
    // Boxed: it is large.
    let Some(running) = Box::pin(shutdown.graceful.run_until_cancelled(starting)).await else {
        // The next start undoes or finishes what was under way.
        background.end(&shutdown).await;
        return Ok(());
    };
    let running = running?;
    let Running { databases, mounts, readiness, reach, rest, mailbox, mut gauges, closers } = running;
    if let Some(rest) = &rest {
        let following = signals.follow(rest.clone(), command_line.clone(), Arc::clone(&keys));
        background.tracker.spawn(background.shutdown.clone().run_until_cancelled_owned(following));
    }
    let max_connections = connections_that_fit(&config);
    let Server { max_requests, body_memory, body_wait, max_streams, .. } = config.server;
    let (pace, heads) = (config.server.pace(), config.server.heads());
    let limits = bounds::Limits {
        max_requests,
        body_memory,
        body_wait,
        max_connections,
        heads,
        max_streams,
        pace,
        answers,
    };
    let bounds = Arc::new(Bounds::new(limits));
    let (shown, key_ring) = (Arc::clone(&bounds), Arc::clone(&keys));
    gauges.push(Box::new(move || {
        shown.report();
        key_ring.report();
        recorder::report_process();
    }));
    let secret_keys_in_browsers = if config.server.secret_keys_in_browsers {
        SecretKeysInBrowsers::Accepted
    } else {
        SecretKeysInBrowsers::Refused
    };
    let gateway = Arc::new(Gateway {
        shared: Shared {
            request_ids: RequestIds::default(),
            cors: config.server.cors_origins.as_deref().map_or(CorsPolicy::Any, CorsPolicy::new),
            key_gate: KeyGate::new(
                Arc::clone(&keys),
                Clock::system(),
                config.server.require_apikey,
                secret_keys_in_browsers,
            ),
            bounds,
        },
        mounts,
        system: SystemRoutes {
            keys: Arc::clone(&keys),
            secret_keys_in_browsers,
            public_url: config.server.public_url.to_string(),
            readiness,
            reach,
            rest: rest.map(|handle| (handle, config.clone())),
            gauges,
            metrics: config.server.metrics.then_some(metrics),
        },
        mailbox,
        app: config.server.app_dir.as_ref().map(|dir| StaticApp::new(dir.clone(), &config.server.public_url)),
        trusted_proxies: config.server.trusted_proxies.clone(),
        untrusted_proxy: OnceLock::new(),
        note: RunningNote::new(&config, &secrets),
    });

    wait_until_ready(&gateway, &shutdown.graceful).await;
    let banner =
        Banner { config: &config, keys: &keys, databases: databases.as_ref(), took: started.elapsed() };
    console.banner(&banner);
    accept_until(gateway, listener, [admin_listener, mailbox_listener], &config, &shutdown).await;

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

/// `server.max_connections`, or what the system's limit of open files leaves for them.
fn connections_that_fit(config: &Config) -> usize {
    let wanted = config.server.max_connections;
    let fit = open_files::room_for(wanted, config.database.connections(), open_files::raise());
    if fit < wanted {
        tracing::warn!(
            "{fit} connections are taken at once instead of server.max_connections, {wanted}: the system lets this \
             program open no more files. Raise that (ulimit -n, or LimitNOFILE of systemd), or lower the setting"
        );
    }
    fit
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

/// The first answer should be an answer: the banner waits for the schema cache, up to a limit.
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
    listener: Listening,
    [admin_listener, mailbox_listener]: [Option<Listening>; 2],
    config: &Config,
    shutdown: &Shutdown,
) {
    // Operators get in when the public port is full.
    const ADMIN_CONNECTIONS: usize = 64;
    let limits = |connections| Limits {
        connections,
        heads: config.server.heads(),
        max_streams: config.server.max_streams,
        idle_timeout: config.server.idle_timeout,
        pace: config.server.pace(),
        drain: config.server.shutdown_timeout,
    };
    let admin = async {
        if let Some(listener) = admin_listener {
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
        if let Some(listener) = mailbox_listener {
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
        listener::run(listener, handle, limits(connections), shutdown)
    };
    tokio::join!(public, admin, mailbox);
}
