//! Catches up after an outage (functions.md 3.17.6): stores events that Stripe could not deliver in the inbox, and compares every
//! subscription with its row. One server does this daily; `basalt stripe sync` does it at once.

use std::sync::Arc;
use std::time::Duration;

use basalt_pg::session::SessionError;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::billing::Billing;
use super::client::{INTERACTIVE, Stripe};
use super::error::StripeError;
use super::objects::{self, Subscription};
use super::processor::event_types;
use super::sync::{SyncError, SyncTarget, escape_id, store_state};

/// At most five requests per second, because users' calls count against the same limits at Stripe.
const PACE: Duration = Duration::from_millis(200);
/// Delay of the first run, so that it does not compete with the rest of a start.
const INITIAL_DELAY: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);
/// Objects per page. An event may have a hundred KB.
const PAGE_SIZE: usize = 50;
/// Maximum pages per list and run: half a million objects.
const MAX_PAGES: usize = 10_000;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CatchUpReport {
    /// Undelivered events that were not in the inbox.
    pub(crate) events: u64,
    /// Number of subscriptions compared.
    pub(crate) subscriptions: u64,
    /// Number of subscriptions whose stored state differed.
    pub(crate) changed: u64,
    /// Subscriptions without an account here, for example of another product in the same Stripe account.
    pub(crate) without_account: Vec<String>,
}

/// Why a run stopped. What it has stored so far is kept.
#[derive(Debug)]
pub(crate) enum CatchUpError {
    /// The database failed.
    Database(SessionError),
    /// No key is configured.
    NoKey,
    /// Stripe failed; the text says how.
    Stripe(String),
}

impl std::fmt::Display for CatchUpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::NoKey => f.write_str("no Stripe key is configured"),
            Self::Stripe(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for CatchUpError {}

impl From<SessionError> for CatchUpError {
    fn from(error: SessionError) -> Self {
        Self::Database(error)
    }
}

impl From<StripeError> for CatchUpError {
    fn from(error: StripeError) -> Self {
        match error {
            StripeError::NotConfigured { .. } => Self::NoKey,
            StripeError::Unreachable(_)
            | StripeError::Busy
            | StripeError::Key(_)
            | StripeError::Refused(_) => Self::Stripe(error.sentence()),
        }
    }
}

/// Catches up once a day, forever; only one of several servers on a database does.
#[expect(clippy::infinite_loop, reason = "the shutdown token cancels the task")]
pub(crate) async fn daily(billing: Billing, stripe: Arc<Stripe>) {
    sleep(INITIAL_DELAY).await;
    loop {
        if stripe.access().is_ok() {
            match billing.begin_to_catch_up().await {
                Ok(true) => run_once(&billing, &stripe).await,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "cannot read when a server last caught up with Stripe"),
            }
        }
        sleep(HOUR).await;
    }
}

async fn run_once(billing: &Billing, stripe: &Stripe) {
    match catch_up(billing, stripe).await {
        Ok(CatchUpReport { events, subscriptions, changed, without_account }) => tracing::info!(
            events,
            subscriptions,
            changed,
            without_account = without_account.len(),
            "caught up with Stripe"
        ),
        Err(error) => {
            tracing::warn!(%error, "cannot catch up with Stripe; retrying in an hour");
            if let Err(error) = billing.catch_up_in_an_hour().await {
                tracing::debug!(%error, "cannot store the time of the retry; the next run is tomorrow");
            }
        }
    }
}

/// Runs once, until both lists are complete.
pub(crate) async fn catch_up(billing: &Billing, stripe: &Stripe) -> Result<CatchUpReport, CatchUpError> {
    let mut done = CatchUpReport::default();
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let types: String = event_types().map(|kind| format!("&types[]={kind}")).collect();
    let mut events = List::new(format!("events?delivery_success=false{types}"));
    while let Some((page, _)) = events.next(billing, stripe, &mut pace).await? {
        for event in page {
            let id = objects::id(event.get("id"));
            let (Some(id), Some(kind)) = (id, event.get("type").and_then(Value::as_str)) else { continue };
            done.events += u64::from(billing.add_event(&id, kind, &event).await?);
        }
    }
    let mut subscriptions = List::new("subscriptions?status=all".to_owned());
    while let Some((page, as_of)) = subscriptions.next(billing, stripe, &mut pace).await? {
        for object in page {
            let Some(state) = Subscription::read(&object) else { continue };
            done.subscriptions += 1;
            // Skip equal states: a write notifies every subscriber of the table, and finding the owner may take a call to Stripe.
            if billing.has_state(&state).await? {
                continue;
            }
            pace.tick().await;
            let target = SyncTarget { subscription: state.id.clone(), ..SyncTarget::default() };
            match store_state(billing, stripe, &target, &state, as_of).await {
                Ok(Some(applied)) => done.changed += u64::from(applied.is_applied),
                Ok(None) => {}
                Err(SyncError::Unusable(_)) => done.without_account.push(state.id),
                Err(SyncError::Database(error)) => return Err(error.into()),
                Err(SyncError::Stripe(sentence)) => return Err(CatchUpError::Stripe(sentence)),
            }
        }
    }
    Ok(done)
}

/// A list at Stripe, fetched page by page.
struct List {
    path: String,
    /// The last id of the previous page.
    after: Option<String>,
    pages: usize,
    has_more: bool,
}

impl List {
    fn new(path: String) -> Self {
        Self { path, after: None, pages: 0, has_more: true }
    }

    /// The next page, and the database's time before it was fetched.
    async fn next(
        &mut self,
        billing: &Billing,
        stripe: &Stripe,
        pace: &mut Interval,
    ) -> Result<Option<(Vec<Value>, Timestamp)>, CatchUpError> {
        if !self.has_more || self.pages == MAX_PAGES {
            return Ok(None);
        }
        let Self { path, .. } = self;
        let after = self.after.as_deref().map(|id| format!("&starting_after={}", escape_id(id)));
        let path = format!("{path}&limit={PAGE_SIZE}{}", after.unwrap_or_default());
        pace.tick().await;
        let as_of = billing.begin_fetch("").await?.now;
        let mut page = stripe.get(&path, INTERACTIVE).await?;
        self.pages += 1;
        let Some(Value::Array(rows)) = page.get_mut("data").map(Value::take) else {
            return Err(CatchUpError::Stripe("Stripe's response is not a list".to_owned()));
        };
        self.after = rows.last().and_then(|row| objects::id(row.get("id")));
        let has_more = page.get("has_more").and_then(Value::as_bool).unwrap_or(false);
        self.has_more = has_more && self.after.is_some();
        Ok(Some((rows, as_of)))
    }
}
