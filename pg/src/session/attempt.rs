//! One attempt at a transaction on one leased connection, including its cleanup when the request is dropped.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::exchange::Exchange;
use super::{Access, Answers, Manager, SessionError, Work};
use crate::pool;

/// How long a cancelled connection may take to become clean again.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// One exchange on one leased connection. If dropped before the end, the exchange finishes in a task of its own.
pub(super) struct Attempt {
    /// `None` once the exchange is complete.
    under_way: Option<(Lease, Exchange)>,
    completed: Option<Work>,
    tracker: TaskTracker,
    _counted: TaskTrackerToken,
}

type Lease = pool::Lease<Manager>;

impl Attempt {
    pub(super) fn new(lease: Lease, work: Work, tracker: &TaskTracker) -> Self {
        Self {
            under_way: Some((lease, Exchange::new(work))),
            completed: None,
            tracker: tracker.clone(),
            _counted: tracker.token(),
        }
    }

    pub(super) async fn run(&mut self) -> Result<Answers, SessionError> {
        let Some((lease, exchange)) = &mut self.under_way else {
            return Err(SessionError::Deadline);
        };
        let deadline = exchange.work.scope.deadline;
        // Dropping `self` after the deadline cancels the exchange, reads and writes alike.
        let result = tokio::time::timeout_at(deadline, exchange.run(lease))
            .await
            .map_err(|_elapsed| SessionError::Deadline)?;
        if let Some((mut lease, exchange)) = self.under_way.take() {
            if matches!(&result, Err(SessionError::Postgres(error)) if error.refuses_role()) {
                lease.suspect();
            }
            self.completed = exchange.into_work();
            give_back(lease);
        }
        result
    }

    /// Returns the work for a retry; `None` while the exchange is under way, and after its check has run.
    pub(super) fn into_work(mut self) -> Option<Work> {
        self.completed.take()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some((lease, exchange)) = self.under_way.take() else { return };
        match Handle::try_current() {
            // After a panic the connection's state is unknown, and without a runtime no task can finish the exchange.
            Err(_) => discard(lease),
            Ok(_) if std::thread::panicking() => discard(lease),
            Ok(_) if exchange.is_under_way() => {
                self.tracker.spawn(finish(lease, exchange));
            }
            Ok(_) => give_back(lease),
        }
    }
}

/// Ends an abandoned exchange: a write runs to completion or to its deadline; anything else is cancelled.
async fn finish(mut lease: Lease, mut exchange: Exchange) {
    if exchange.work.scope.access == Access::ReadWrite {
        let deadline = exchange.work.scope.deadline;
        // The result is discarded.
        if tokio::time::timeout_at(deadline, exchange.run(&mut lease)).await.is_ok() {
            return give_back(lease);
        }
    }
    exchange.give_up();
    metrics::counter!("basalt_statements_cancelled_total").increment(1);
    let canceller = lease.canceller().clone();
    let cleaned = tokio::time::timeout(CANCEL_GRACE, async {
        let (cancelled, _answers) = tokio::join!(canceller.cancel(), exchange.run(&mut lease));
        // The cancel may have hit the reset.
        matches!(cancelled, Ok(true)) && lease.wait_for_reset().await
    });
    if cleaned.await.unwrap_or(false) { give_back(lease) } else { discard(lease) }
}

/// Returns the connection to the pool if it is clean; otherwise discards it.
fn give_back(mut lease: Lease) {
    if lease.is_clean() {
        lease.reset_if_due();
    }
    if lease.is_clean() {
        drop(lease);
    } else {
        discard(lease);
    }
}

fn discard(lease: Lease) {
    drop(lease.take());
}
