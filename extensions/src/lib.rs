#![doc = include_str!("../README.md")]

mod config;
mod cron;
mod net;

use std::sync::Arc;

use basalt_pg::database::Database;
use basalt_pg::listen::Events;
use basalt_pg::pool::ServicePool;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::ExtensionsConfig;
pub use net::OwnServer;

/// The channels whose notifications wake the workers.
pub const CHANNELS: [&str; 3] = [cron::CHANGED, cron::PLANNED, net::CHANNEL];

/// What the workers need of the server.
pub struct Dependencies {
    /// Of the login that owns schema `basalt`.
    pub pool: ServicePool,
    /// The login of the role that owns cron jobs, `postgres`.
    pub job_login: Database,
    /// The LISTEN connection, subscribed to [`CHANNELS`].
    pub events: Events,
    /// The addresses under which requests mean this server.
    pub own_server: OwnServer,
    /// Tracks the workers and their attempts.
    pub tracker: TaskTracker,
    /// Ends the workers.
    pub shutdown: CancellationToken,
}

impl std::fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dependencies")
    }
}

/// Starts the workers as tasks of the tracker, until shutdown.
pub fn start(config: &ExtensionsConfig, dependencies: Dependencies) {
    let Dependencies { pool, job_login, events, own_server, tracker, shutdown } = dependencies;
    let planner = cron::Planner::new(pool.clone(), config);
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(planner.keep(events.subscribe())));
    let jobs = cron::worker(pool.clone(), &job_login, config, tracker.clone());
    tracker.spawn(Arc::clone(&jobs).run(events.subscribe(), shutdown.clone()));
    let outbound = Arc::new(net::Outbound::new(own_server, config));
    let calls = net::Calls::new(Arc::clone(&outbound), config.http_concurrency);
    tracker.spawn(calls.serve(pool.clone(), tracker.clone(), shutdown.clone()));
    let requests = net::worker(pool, outbound, config, tracker.clone());
    tracker.spawn(Arc::clone(&requests).run(events.subscribe(), shutdown));
}
