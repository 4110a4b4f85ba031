//! Brings our copy of a subscription up to date with Stripe's (functions.md 3.17.5). Every effect of an event is this one.

use basalt_core::session::SessionError;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::billing::{Applied, Billing, Candidates};
use super::client::{BACKGROUND, Stripe, StripeError};
use super::objects::{Subscription, user_in};

/// What is to be brought up to date.
#[derive(Debug, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) subscription: String,
    /// The event that asks for it.
    pub(crate) event: Option<&'a str>,
    /// When the event arrived: what was fetched later needs no fetch of its own. `None` fetches in any case.
    pub(crate) arrived: Option<Timestamp>,
    /// The subscription as the event has it, and when Stripe made the event.
    pub(crate) snapshot: Option<(&'a Value, Option<Timestamp>)>,
    /// Whether the event says that it is deleted.
    pub(crate) is_deleted: bool,
    /// The user of the checkout session.
    pub(crate) in_session: Option<Uuid>,
    /// The user whom an administrator names.
    pub(crate) named: Option<Uuid>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synced {
    /// Stripe's state is in force.
    Applied,
    /// A newer state was in force already.
    Stale,
    /// Stripe was asked after the event had arrived.
    AskedLater,
    /// Applied; the user has another subscription that has not ended.
    Duplicate,
    /// Its user was deleted.
    Former,
}

impl Synced {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Stale => "stale",
            Self::AskedLater => "applied: Stripe was asked after this event had arrived",
            Self::Duplicate => "duplicate subscription",
            Self::Former => "ignored: the user was deleted",
        }
    }
}

/// Why it did not.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// The database fails.
    Database(SessionError),
    /// Stripe does; a sentence.
    Stripe(String),
    /// The event cannot be applied as things are; a sentence. Only a replay, or what comes later, can help.
    Unusable(String),
}

impl From<SessionError> for SyncError {
    fn from(error: SessionError) -> Self {
        Self::Database(error)
    }
}

/// Fetches the subscription and writes down what Stripe says.
pub(crate) async fn sync(
    billing: &Billing,
    stripe: &Stripe,
    subject: &Subject<'_>,
) -> Result<Synced, SyncError> {
    let id = &subject.subscription;
    let mut before = billing.before(id).await?;
    let is_covered = |as_of: Option<Timestamp>| {
        subject.arrived.is_some_and(|arrived| as_of.is_some_and(|as_of| as_of > arrived))
    };
    if is_covered(before.state_as_of) {
        return Ok(Synced::AskedLater);
    }
    let waited = tokio::time::Instant::now();
    stripe.pace().await;
    if waited.elapsed() > std::time::Duration::from_millis(5) {
        // Others of this subscription may have asked meanwhile.
        before = billing.before(id).await?;
        if is_covered(before.state_as_of) {
            return Ok(Synced::AskedLater);
        }
    }
    let path = format!("subscriptions/{}", escaped(id));
    let fetched = stripe.get(&path, BACKGROUND).await;
    let (object, as_of, is_fetched) = match (fetched, subject.snapshot) {
        (Ok(object), _) => (object, before.now, true),
        (Err(error), Some((snapshot, _))) if error.is_missing() && subject.is_deleted => {
            (ended(snapshot), before.now, true)
        }
        (Err(error), _) if error.is_missing() => {
            let reason = "Stripe has no such subscription: is the key another account's?";
            return Err(SyncError::Unusable(format!("{reason} ({id})")));
        }
        (Err(StripeError::Unreachable(_) | StripeError::Busy), Some((snapshot, Some(created)))) => {
            // Stripe's clock may be ahead of ours; the state is not newer than the event's arrival.
            let arrived = subject.arrived.unwrap_or(before.now);
            (snapshot.clone(), created.min(arrived), false)
        }
        (Err(error), _) => return Err(SyncError::Stripe(error.sentence())),
    };
    let state = Subscription::read(&object)
        .ok_or_else(|| SyncError::Unusable(format!("Stripe's answer about {id} is no subscription")))?;
    let Some(applied) = write_down(billing, stripe, subject, &state, as_of).await? else {
        return Ok(Synced::Former);
    };
    match (applied.is_applied, is_fetched) {
        // Two snapshots of one second cannot be ordered: another attempt asks Stripe.
        (true, false) => Err(SyncError::Stripe(
            "Stripe cannot be reached: the state that the event holds is in force until then".to_owned(),
        )),
        (false, false) => {
            Err(SyncError::Stripe("Stripe cannot be reached, and the event is an old one".to_owned()))
        }
        (true, true) if applied.has_another => Ok(Synced::Duplicate),
        (true, true) => Ok(Synced::Applied),
        (false, true) => Ok(Synced::Stale),
    }
}

/// Writes down what Stripe said at a time. `None`: the user was deleted, and what still runs for them is ended.
pub(crate) async fn write_down(
    billing: &Billing,
    stripe: &Stripe,
    subject: &Subject<'_>,
    state: &Subscription,
    as_of: Timestamp,
) -> Result<Option<Applied>, SyncError> {
    let Some(user) = owner(billing, stripe, subject, state).await? else {
        let customer = state.customer.as_deref().unwrap_or_default();
        return if billing.is_former_customer(customer, !state.has_ended()).await? {
            Ok(None)
        } else {
            Err(SyncError::Unusable(no_user(state)))
        };
    };
    let applied = match billing.apply(user, state, as_of, subject.event).await {
        // The account was deleted a moment ago.
        Err(SessionError::Postgres(error)) if error.code == "23503" => {
            return Err(SyncError::Unusable(no_user(state)));
        }
        applied => applied?,
    };
    if applied.has_another {
        tracing::warn!(
            subscription = state.id,
            "a user has two subscriptions that have not ended: look at both in Stripe"
        );
    }
    Ok(Some(applied))
}

async fn owner(
    billing: &Billing,
    stripe: &Stripe,
    subject: &Subject<'_>,
    state: &Subscription,
) -> Result<Option<Uuid>, SyncError> {
    let candidates = Candidates {
        subscription: &state.id,
        in_metadata: state.user,
        customer: state.customer.as_deref(),
        in_session: subject.in_session,
    };
    if let Some(user) = billing.owner(&candidates).await? {
        return Ok(Some(user));
    }
    if let Some(customer) = &state.customer {
        let path = format!("customers/{}", escaped(customer));
        match stripe.get(&path, BACKGROUND).await {
            Ok(customer) => {
                let in_metadata = user_in(&customer);
                let found = billing.owner(&Candidates { in_metadata, ..Candidates::default() }).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(SyncError::Stripe(error.sentence())),
        }
    }
    Ok(subject.named)
}

fn no_user(state: &Subscription) -> String {
    let customer = state.customer.as_deref().unwrap_or("without an id");
    format!("No user found for customer {customer} (subscription {})", state.id)
}

fn ended(snapshot: &Value) -> Value {
    let mut object = snapshot.clone();
    if let Some(object) = object.as_object_mut() {
        object.insert("status".to_owned(), "canceled".into());
    }
    object
}

/// An id in a path. Stripe's need no escape; one from an event might.
pub(crate) fn escaped(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    id.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
