//! pg_net and database webhooks: `basalt.http_requests` is a queue of requests, written in the caller's transaction
//! and sent once after its commit (decision 0127). `calls` serves the extension http, whose requests are not queued.

mod calls;
mod outbound;
mod sender;
mod target;

use std::sync::Arc;
use std::time::Duration;

use basalt_pg::jobs::{Completion, Metrics, Policy, Queue, Retention, Table, Worker};
use basalt_pg::pool::ServicePool;
use tokio_util::task::TaskTracker;

use crate::ExtensionsConfig;
pub(crate) use calls::Calls;
pub(crate) use outbound::Outbound;
use sender::Sender;
pub use target::OwnServer;

/// Notified by `basalt.enqueue_http_request`.
pub(crate) const CHANNEL: &str = "basalt_requests";

/// The longest timeout of a request; `basalt.enqueue_http_request` lowers longer ones.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for recording the response.
const MARGIN: Duration = Duration::from_secs(30);

static TABLE: Table = Table {
    name: "net",
    table: "basalt.http_requests",
    channel: Some(CHANNEL),
    key: "id",
    key_type: "bigint",
    owner: None,
    kind: "method",
    columns: "method, url, headers, body, timeout_milliseconds",
    listed: "url",
    order: "next_attempt_at, id",
    state: "case when next_attempt_at is null then 'dead' else 'queued' end",
    waiting: "next_attempt_at is not null",
    dead: "next_attempt_at is null",
    finished_at: "null::timestamptz",
    error: "last_error",
    outcome: None,
    on_claim: "",
    on_done: Completion::Delete,
    on_retry: "",
    on_dead: "next_attempt_at = null",
    on_revive: "",
    failed_message: "the response to a request of net or a webhook was not recorded",
    dead_message: "the response to a request of net or a webhook was given up",
    metrics: Metrics {
        done: "basalt_net_requests_total",
        failed: "basalt_net_recordings_failed_total",
        given_up: "basalt_net_recordings_lost_total",
        waiting: "basalt_net_requests_waiting",
        dead: "basalt_net_requests_dead",
    },
};

/// The worker that sends the requests.
pub(crate) fn worker(
    pool: ServicePool,
    outbound: Arc<Outbound>,
    config: &ExtensionsConfig,
    tracker: TaskTracker,
) -> Arc<Worker<Sender>> {
    let policy = Policy {
        concurrency: config.net_concurrency,
        // The second attempt sends nothing: it records that the response of the first was lost.
        pauses: vec![Duration::from_millis(100)],
        time_limit: LONGEST_TIMEOUT + MARGIN,
        retention: vec![Retention {
            rows: "next_attempt_at is null",
            since: "created_at",
            keep: config.net_retention,
        }],
    };
    let sender = Sender::new(pool.clone(), outbound, config);
    Worker::new(Queue::new(pool, &TABLE, None), sender, policy, tracker)
}
