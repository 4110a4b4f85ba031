//! Updates the row of a subscription from Stripe (functions.md 3.17.5). This is the only effect of every event.

use basalt_pg::session::SessionError;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::billing::{Applied, Billing, OwnerCandidates};
use super::client::{BACKGROUND, Stripe};
use super::error::StripeError;
use super::objects::{Subscription, user_in};

/// A subscription to update.
#[derive(Debug, Default)]
pub(crate) struct SyncTarget<'a> {
    pub(crate) subscription: String,
    /// The event that triggers the update.
    pub(crate) event: Option<&'a str>,
    /// When the event arrived; a state fetched later is recent enough. `None` always fetches.
    pub(crate) arrived: Option<Timestamp>,
    /// The subscription in the event, and when Stripe created the event.
    pub(crate) snapshot: Option<(&'a Value, Option<Timestamp>)>,
    /// Whether the event is a deletion.
    pub(crate) is_deleted: bool,
    /// The user of the checkout session.
    pub(crate) in_session: Option<Uuid>,
    /// The user selected by an administrator.
    pub(crate) named: Option<Uuid>,
}

/// The result of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncOutcome {
    /// Stripe's state is stored.
    Applied,
    /// A newer state was stored already.
    Stale,
    /// The stored state was fetched after the event arrived.
    AlreadyFetched,
    /// Applied; the user has another subscription that has not ended.
    Duplicate,
    /// The user was deleted.
    UserDeleted,
}

impl SyncOutcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Stale => "stale",
            Self::AlreadyFetched => "applied: the state was fetched after this event arrived",
            Self::Duplicate => "duplicate subscription",
            Self::UserDeleted => "ignored: the user was deleted",
        }
    }
}

/// Why a subscription was not updated.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// The database failed.
    Database(SessionError),
    /// Stripe failed; the text says how.
    Stripe(String),
    /// The event cannot be applied; only a replay or a later event can help.
    Unusable(String),
}

impl From<SessionError> for SyncError {
    fn from(error: SessionError) -> Self {
        Self::Database(error)
    }
}

/// Fetches the subscription and stores its state.
pub(crate) async fn sync(
    billing: &Billing,
    stripe: &Stripe,
    target: &SyncTarget<'_>,
) -> Result<SyncOutcome, SyncError> {
    let id = &target.subscription;
    let mut before = billing.begin_fetch(id).await?;
    let is_covered = |as_of: Option<Timestamp>| {
        target.arrived.is_some_and(|arrived| as_of.is_some_and(|as_of| as_of > arrived))
    };
    if is_covered(before.state_as_of) {
        return Ok(SyncOutcome::AlreadyFetched);
    }
    let waited = tokio::time::Instant::now();
    stripe.pace().await;
    if waited.elapsed() > std::time::Duration::from_millis(5) {
        // Another event of this subscription may have fetched it in the meantime.
        before = billing.begin_fetch(id).await?;
        if is_covered(before.state_as_of) {
            return Ok(SyncOutcome::AlreadyFetched);
        }
    }
    let path = format!("subscriptions/{}", escape_id(id));
    let fetched = stripe.get(&path, BACKGROUND).await;
    let (object, as_of, is_fetched) = match (fetched, target.snapshot) {
        (Ok(object), _) => (object, before.now, true),
        (Err(error), Some((snapshot, _))) if error.is_missing() && target.is_deleted => {
            (canceled(snapshot), before.now, true)
        }
        (Err(error), _) if error.is_missing() => {
            let reason = "Stripe has no such subscription; check that the key belongs to the same account";
            return Err(SyncError::Unusable(format!("{reason} ({id})")));
        }
        (Err(StripeError::Unreachable(_) | StripeError::Busy), Some((snapshot, Some(created)))) => {
            // Stripe's clock may be ahead of ours, but the state is not newer than the event's arrival.
            let arrived = target.arrived.unwrap_or(before.now);
            (snapshot.clone(), created.min(arrived), false)
        }
        (Err(error), _) => return Err(SyncError::Stripe(error.sentence())),
    };
    let state = Subscription::read(&object)
        .ok_or_else(|| SyncError::Unusable(format!("Stripe's response about {id} is not a subscription")))?;
    let Some(applied) = store_state(billing, stripe, target, &state, as_of).await? else {
        return Ok(SyncOutcome::UserDeleted);
    };
    match (applied.is_applied, is_fetched) {
        // Two snapshots from the same second cannot be ordered, so fail: the next attempt fetches the state.
        (true, false) => Err(SyncError::Stripe(
            "Stripe cannot be reached; the state from the event applies until the next attempt".to_owned(),
        )),
        (false, false) => {
            Err(SyncError::Stripe("Stripe cannot be reached, and the event is outdated".to_owned()))
        }
        (true, true) if applied.has_another => Ok(SyncOutcome::Duplicate),
        (true, true) => Ok(SyncOutcome::Applied),
        (false, true) => Ok(SyncOutcome::Stale),
    }
}

/// Stores Stripe's state as of a time. `None` if the user was deleted; their subscriptions are then ended.
pub(crate) async fn store_state(
    billing: &Billing,
    stripe: &Stripe,
    target: &SyncTarget<'_>,
    state: &Subscription,
    as_of: Timestamp,
) -> Result<Option<Applied>, SyncError> {
    let Some(user) = owner(billing, stripe, target, state).await? else {
        let customer = state.customer.as_deref().unwrap_or_default();
        return if billing.is_former_customer(customer, !state.has_ended()).await? {
            Ok(None)
        } else {
            Err(SyncError::Unusable(no_user(state)))
        };
    };
    let applied = match billing.apply(user, state, as_of, target.event).await {
        // The account was deleted a moment ago.
        Err(SessionError::Postgres(error)) if error.code == "23503" => {
            return Err(SyncError::Unusable(no_user(state)));
        }
        applied => applied?,
    };
    if applied.has_another {
        tracing::warn!(
            subscription = state.id,
            "a user has two subscriptions that have not ended; check both in Stripe's dashboard"
        );
    }
    Ok(Some(applied))
}

async fn owner(
    billing: &Billing,
    stripe: &Stripe,
    target: &SyncTarget<'_>,
    state: &Subscription,
) -> Result<Option<Uuid>, SyncError> {
    let candidates = OwnerCandidates {
        subscription: &state.id,
        in_metadata: state.user,
        customer: state.customer.as_deref(),
        in_session: target.in_session,
    };
    if let Some(user) = billing.owner(&candidates).await? {
        return Ok(Some(user));
    }
    if let Some(customer) = &state.customer {
        let path = format!("customers/{}", escape_id(customer));
        match stripe.get(&path, BACKGROUND).await {
            Ok(customer) => {
                let in_metadata = user_in(&customer);
                let found =
                    billing.owner(&OwnerCandidates { in_metadata, ..OwnerCandidates::default() }).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(SyncError::Stripe(error.sentence())),
        }
    }
    Ok(target.named)
}

fn no_user(state: &Subscription) -> String {
    let customer = state.customer.as_deref().unwrap_or("without an id");
    format!("No user found for customer {customer} (subscription {})", state.id)
}

fn canceled(snapshot: &Value) -> Value {
    let mut object = snapshot.clone();
    if let Some(object) = object.as_object_mut() {
        object.insert("status".to_owned(), "canceled".into());
    }
    object
}

/// Escapes an id for a path. Stripe's own ids need no escaping, but an id in a forged event might.
pub(crate) fn escape_id(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    id.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
