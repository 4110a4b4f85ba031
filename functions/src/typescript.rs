//! The project's TypeScript functions as handlers: found at the start, and again in development when files change.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::service::Handler;
use futures_util::FutureExt as _;
use secrecy::SecretString;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::FunctionsConfig;
use crate::deno::journal::Journal;
use crate::deno::runtime::Runtime;
use crate::deno::source::{Source, discover};
use crate::deno::{self, Environment, Host, Modules, Snapshot, locate};
use crate::error::WorkerError;
use crate::registry::Registry;
use crate::secrets::Secrets;

/// What functions and their processes need to know about the server.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// `server.public_url`.
    pub public_url: String,
    /// The database's URL for functions, unless `functions.allow_db` is off.
    pub database_url: Option<SecretString>,
    /// The database's `host:port`.
    pub database_address: Option<String>,
    /// The folders of the embedded database: its data, and its socket.
    pub database_dirs: Vec<PathBuf>,
    /// `server.state_dir`.
    pub state_dir: PathBuf,
    /// `project.dir`.
    pub project_dir: PathBuf,
    /// Folders in which, or above which, `node_modules` may contain Deno.
    pub module_roots: Vec<PathBuf>,
    /// `PATH` of the server.
    pub path: Option<OsString>,
    /// Variables that choose registries and proxies, such as `NPM_CONFIG_REGISTRY`, for downloads of modules.
    pub registry: Vec<(String, String)>,
    /// `host:port`s of the server that functions may not reach.
    pub private_addresses: Vec<String>,
    /// Whether files are watched and modules downloaded.
    pub is_development: bool,
}

/// What the service shares with the rest of the server.
pub struct Dependencies {
    /// Verifies tokens; its API keys are given to functions.
    pub keys: Arc<Keys>,
    /// The clock.
    pub clock: Clock,
    /// Secrets from the configuration and the database.
    pub secrets: Arc<Secrets>,
    /// Facts about this server.
    pub facts: ServerFacts,
    /// Tracks every spawned task.
    pub tracker: TaskTracker,
    /// Cancelled when the server stops.
    pub shutdown: CancellationToken,
}

/// See the module.
pub(crate) struct TypeScript {
    config: FunctionsConfig,
    /// Or why none can run, with the remedy.
    runtime: Result<Arc<Runtime>, String>,
}

impl TypeScript {
    /// Finds Deno and the functions. Without functions nothing is created.
    pub(crate) fn new(config: &FunctionsConfig, dependencies: &Dependencies) -> Self {
        let runtime = find_program(config, &dependencies.facts)
            .and_then(|program| start_runtime(config, dependencies, program));
        if let Ok(runtime) = &runtime {
            runtime.replace(discover(config), |_| false);
        }
        Self { config: config.clone(), runtime }
    }

    pub(crate) fn sources(&self) -> Vec<Source> {
        discover(&self.config)
    }

    /// Why functions cannot run.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.runtime.as_ref().err().map(String::as_str)
    }

    /// Runs the function.
    pub(crate) fn handler(&self, name: &str) -> Handler {
        let pool = self.runtime.as_ref().ok().and_then(|runtime| runtime.pool(name));
        Arc::new(move |request| {
            let pool = pool.clone();
            async move {
                let Some(pool) = pool else { return WorkerError::NoRuntime.into_response() };
                pool.call(request).await.unwrap_or_else(WorkerError::into_response)
            }
            .boxed()
        })
    }

    /// Gives functions new workers when their files change.
    #[expect(clippy::infinite_loop, reason = "the shutdown token cancels the task")]
    pub(crate) async fn watch(self: Arc<Self>, registry: Registry) {
        let Ok(runtime) = &self.runtime else { return };
        let scan = || {
            let typescript = Arc::clone(&self);
            tokio::task::spawn_blocking(move || {
                let sources = typescript.sources();
                (Snapshot::take(&typescript.config.dir, &sources), sources)
            })
        };
        let mut before = scan().await.ok();
        loop {
            let started = Instant::now();
            let now = scan().await.ok();
            let pause = deno::INTERVAL.max(started.elapsed() * 20);
            if let (Some((earlier, known)), Some((current, sources))) = (&before, &now)
                && (earlier != current || known != sources)
            {
                runtime.replace(sources.clone(), |name| current.changed(earlier, name));
                registry.set_typescript(&self, sources);
            }
            before = now;
            sleep(pause.min(Duration::from_secs(5))).await;
        }
    }

    /// Gives all functions new workers when secrets change.
    pub(crate) async fn follow_secrets(self: Arc<Self>, secrets: Arc<Secrets>) {
        let Ok(runtime) = &self.runtime else { return };
        let mut changes = secrets.changes();
        while changes.changed().await.is_ok() {
            runtime.replace(self.sources(), |_| true);
        }
    }
}

fn start_runtime(
    config: &FunctionsConfig,
    dependencies: &Dependencies,
    program: PathBuf,
) -> Result<Arc<Runtime>, String> {
    let host = host(config, dependencies, program).map_err(|error| {
        let dir = dependencies.facts.state_dir.join("functions");
        format!("cannot prepare {} for workers (it must be writable for this user): {error}", dir.display())
    })?;
    let Dependencies { clock, facts, tracker, shutdown, .. } = dependencies;
    let (journal, write) = Journal::new(&facts.state_dir, clock.clone());
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(write));
    Ok(Runtime::new(host, journal, tracker.clone(), shutdown.clone()))
}

fn host(config: &FunctionsConfig, dependencies: &Dependencies, program: PathBuf) -> std::io::Result<Host> {
    let Dependencies { keys, secrets, facts, .. } = dependencies;
    let environment = Environment {
        keys: Arc::clone(keys),
        secrets: Arc::clone(secrets),
        url: config.supabase_url.clone().unwrap_or_else(|| facts.public_url.clone()),
        database_url: facts.database_url.clone().filter(|_| config.allow_db),
        region: config.region.clone(),
    };
    let mut denied_hosts = config.deny_net.clone();
    denied_hosts.extend(facts.private_addresses.iter().cloned());
    denied_hosts.extend(facts.database_address.clone().filter(|_| !config.allow_db));
    Host::new(config.clone(), environment, modules(facts, program), facts, denied_hosts)
}

fn modules(facts: &ServerFacts, program: PathBuf) -> Modules {
    let (registry, is_development) = (facts.registry.clone(), facts.is_development);
    Modules { program, cache_dir: facts.state_dir.join("functions/cache"), registry, is_development }
}

/// What a function is, and whether it can run: for `doctor` and `basalt functions`.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The name.
    pub name: String,
    /// The file to run.
    pub entry: PathBuf,
    /// `enabled`.
    pub is_enabled: bool,
    /// `verify_jwt`.
    pub verify_jwt: bool,
    /// Why it cannot run, with the remedy.
    pub problem: Option<String>,
}

/// Inspects all TypeScript functions, one after the other. With `loads` their modules are loaded: in development from the network, else
/// from the cache only.
pub async fn inspect(config: &FunctionsConfig, facts: &ServerFacts, loads: bool) -> Vec<Inspected> {
    let program = find_program(config, facts);
    let mut inspected = Vec::new();
    for source in discover(config) {
        let problem = match &program {
            Err(problem) => Some(problem.clone()),
            Ok(program) if loads && source.settings.is_enabled => {
                modules(facts, program.clone()).load(&source).await.err()
            }
            Ok(_) => None,
        };
        let (is_enabled, verify_jwt) = (source.settings.is_enabled, source.settings.verify_jwt);
        inspected.push(Inspected {
            name: source.name().to_owned(),
            entry: source.entry,
            is_enabled,
            verify_jwt,
            problem,
        });
    }
    inspected
}

/// In production: logs the functions whose modules are not in the cache, or cannot be read.
pub(crate) async fn warn_of_problems(config: FunctionsConfig, facts: ServerFacts) {
    for Inspected { entry, problem, .. } in inspect(&config, &facts, true).await {
        if let Some(problem) = problem {
            tracing::warn!("{} cannot run, and calls return 503 BOOT_ERROR: {problem}", entry.display());
        }
    }
}

/// The Deno program, or how to get it.
pub(crate) fn find_program(config: &FunctionsConfig, facts: &ServerFacts) -> Result<PathBuf, String> {
    locate::find(&locate::Search {
        configured: config.deno_path.as_deref(),
        roots: facts.module_roots.clone(),
        path: facts.path.as_deref(),
    })
}
