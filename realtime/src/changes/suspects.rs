//! Whose policies or filters failed or exceeded their time budget on a table: they are evaluated aside, by connections of their
//! own and one at a time for each suspect, so that nobody else waits for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How long a suspect must stay within its budget until it is evaluated with the others again, and how often it is notified.
const SUSPICION: Duration = Duration::from_secs(60);
/// Suspects that nothing was evaluated for in this time are dropped.
const IDLE: Duration = Duration::from_secs(600);
/// Batches that wait for one suspect.
const MOST_WAITING: usize = 16;

/// Who is over budget, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// The policies of a user, or of a set of claims.
    Policies(Arc<str>),
    /// The filters of a user, or of a visitor.
    Filters(Arc<str>),
}

/// Evaluated aside.
pub(super) struct Suspect {
    /// When it was over budget last.
    since: Mutex<Instant>,
    notified: Mutex<Option<Instant>>,
    waiting: AtomicUsize,
    /// One evaluation at a time: among suspects each gets its turn.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// A place among the batches that wait for a suspect.
pub(super) struct WaitingBatch(pub(super) Arc<Suspect>);

impl Drop for WaitingBatch {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Suspect {
    /// `None` where too many wait.
    pub(super) fn enter(self: &Arc<Self>) -> Option<WaitingBatch> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let entered = WaitingBatch(Arc::clone(self));
        (waiting <= MOST_WAITING).then_some(entered)
    }

    /// Whether its channels may be notified of a failure now.
    pub(super) fn may_notify(&self) -> bool {
        let mut notified = self.notified.lock();
        let may = notified.is_none_or(|at| at.elapsed() > SUSPICION);
        if may {
            *notified = Some(Instant::now());
        }
        may
    }

    fn since(&self) -> MutexGuard<'_, Instant> {
        self.since.lock()
    }
}

/// The suspects of one table.
#[derive(Default)]
pub(super) struct Suspects(Mutex<HashMap<Subject, Arc<Suspect>>>);

impl Suspects {
    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(super) fn get(&self, subject: &Subject) -> Option<Arc<Suspect>> {
        self.all().get(subject).cloned()
    }

    /// It was over budget just now.
    pub(super) fn accuse(&self, subject: &Subject) -> Arc<Suspect> {
        let mut all = self.all();
        let now = Instant::now();
        all.retain(|_, suspect| {
            suspect.waiting.load(Ordering::Relaxed) > 0 || now.duration_since(*suspect.since()) < IDLE
        });
        let suspect = all.entry(subject.clone()).or_insert_with(|| {
            Arc::new(Suspect {
                since: Mutex::new(now),
                notified: Mutex::default(),
                waiting: AtomicUsize::new(0),
                turn: tokio::sync::Mutex::default(),
            })
        });
        *suspect.since() = now;
        Arc::clone(suspect)
    }

    /// It stayed within its budget.
    pub(super) fn clear(&self, subject: &Subject) {
        let mut all = self.all();
        if all.get(subject).is_some_and(|suspect| suspect.since().elapsed() > SUSPICION) {
            all.remove(subject);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Subject, Arc<Suspect>>> {
        self.0.lock()
    }
}
