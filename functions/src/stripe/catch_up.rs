//! What was missed in a long outage (functions.md 3.17.6): events that Stripe could not deliver come into the inbox, and every
//! subscription is compared with ours. One server does it once a day, `basalt stripe sync` at once.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::session::SessionError;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::billing::Billing;
use super::client::{INTERACTIVE, Stripe, StripeError};
use super::objects::{self, Subscription};
use super::processor::kinds;
use super::sync::{Subject, SyncError, escaped, write_down};

/// At most five requests a second: people's own calls count against the same limits at Stripe.
const PACE: Duration = Duration::from_millis(200);
/// How long after its start a server looks for the first time whether it is its turn: a start has other things to do.
const FIRST: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);
/// Rows of one list. An event may have a hundred KB.
const PAGE: usize = 50;
/// Most lists of each kind in one run: half a million objects.
const PAGES: usize = 10_000;

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaughtUp {
    /// Events that Stripe could not deliver and that were not in the inbox.
    pub events: u64,
    /// Subscriptions that were compared.
    pub subscriptions: u64,
    /// Those of them whose state was another here.
    pub changed: u64,
    /// Those that belong to no account here: another product's of the same Stripe account, say.
    pub without_account: Vec<String>,
}

/// Why a run did not come to its end. What it did until then holds.
#[derive(Debug)]
pub enum CatchUpError {
    /// The database fails.
    Database(SessionError),
    /// There is no key.
    NoKey,
    /// Stripe does; a sentence.
    Stripe(String),
}

impl std::fmt::Display for CatchUpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::NoKey => f.write_str(&StripeError::NotConfigured.sentence()),
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
            StripeError::NotConfigured => Self::NoKey,
            StripeError::Unreachable(_)
            | StripeError::Busy
            | StripeError::Key(_)
            | StripeError::Refused(_) => Self::Stripe(error.sentence()),
        }
    }
}

/// Catches up once a day with the other servers of this database, for ever.
#[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
pub(crate) async fn daily(billing: Billing, stripe: Arc<Stripe>) {
    sleep(FIRST).await;
    loop {
        if stripe.access().is_ok() {
            match billing.begin_to_catch_up().await {
                Ok(true) => run_once(&billing, &stripe).await,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "whether Stripe is to be asked cannot be read"),
            }
        }
        sleep(HOUR).await;
    }
}

async fn run_once(billing: &Billing, stripe: &Stripe) {
    match catch_up(billing, stripe).await {
        Ok(CaughtUp { events, subscriptions, changed, without_account }) => tracing::info!(
            events,
            subscriptions,
            changed,
            without_account = without_account.len(),
            "caught up with Stripe"
        ),
        Err(error) => {
            tracing::warn!(%error, "could not catch up with Stripe; trying again in an hour");
            if let Err(error) = billing.catch_up_in_an_hour().await {
                tracing::debug!(%error, "the time of the next try could not be written: it is tomorrow");
            }
        }
    }
}

/// Fetches what may have been missed.
pub(crate) async fn catch_up(billing: &Billing, stripe: &Stripe) -> Result<CaughtUp, CatchUpError> {
    let mut done = CaughtUp::default();
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let kinds: String = kinds().map(|kind| format!("&types[]={kind}")).collect();
    let mut events = List::new(format!("events?delivery_success=false{kinds}"));
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
            // Each write goes to everyone who watches the table, and Stripe may have to be asked for the owner.
            if billing.has_state(&state).await? {
                continue;
            }
            pace.tick().await;
            let subject = Subject { subscription: state.id.clone(), ..Subject::default() };
            match write_down(billing, stripe, &subject, &state, as_of).await {
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

/// A list of Stripe's, page by page.
struct List {
    path: String,
    /// The last id of the page before.
    after: Option<String>,
    pages: usize,
    has_more: bool,
}

impl List {
    fn new(path: String) -> Self {
        Self { path, after: None, pages: 0, has_more: true }
    }

    /// The next page, with the database's time before it was asked for.
    async fn next(
        &mut self,
        billing: &Billing,
        stripe: &Stripe,
        pace: &mut Interval,
    ) -> Result<Option<(Vec<Value>, Timestamp)>, CatchUpError> {
        if !self.has_more || self.pages == PAGES {
            return Ok(None);
        }
        let Self { path, .. } = self;
        let after = self.after.as_deref().map(|id| format!("&starting_after={}", escaped(id)));
        let path = format!("{path}&limit={PAGE}{}", after.unwrap_or_default());
        pace.tick().await;
        let as_of = billing.before("").await?.now;
        let mut page = stripe.get(&path, INTERACTIVE).await?;
        self.pages += 1;
        let Some(Value::Array(rows)) = page.get_mut("data").map(Value::take) else {
            return Err(CatchUpError::Stripe("Stripe's answer is no list".to_owned()));
        };
        self.after = rows.last().and_then(|row| objects::id(row.get("id")));
        let says_more = page.get("has_more").and_then(Value::as_bool).unwrap_or(false);
        self.has_more = says_more && self.after.is_some();
        Ok(Some((rows, as_of)))
    }
}
