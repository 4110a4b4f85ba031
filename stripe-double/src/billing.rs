//! The lifecycle of a subscription: bought, renewed, changed, past due, canceled. Each step emits Stripe's events.

use std::time::Duration;

use basalt_core::convert::saturating;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cards::Card;
use crate::error::{Result, StripeError};
use crate::prices::Price;
use crate::state::{
    Buyer, Customer, Event, Invoice, InvoiceStatus, Session, SessionStatus, Status, Subscription,
};
use crate::{Double, Inner, json as shape, new_id, webhooks};

/// Days after a failed renewal at which the payment is retried; after the last one the subscription is canceled.
const RETRY_DAYS: [i64; 3] = [3, 5, 7];

const DAY: i64 = 86_400;

/// Maximum steps per run of [`run_due`]; the rest follows in the next run.
const MAX_STEPS: usize = 10_000;

/// A change of a subscription, requested by a call or a page.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    CancelAtPeriodEnd,
    /// `None` removes the planned end.
    CancelAt(Option<i64>),
}

/// Records an event and queues it for delivery.
pub(crate) fn emit(
    inner: &mut Inner,
    now: i64,
    kind: &str,
    object: &Value,
    previous: Option<Value>,
) -> String {
    let id = new_id("evt_");
    let mut data = json!({ "object": object });
    if let (Value::Object(fields), Some(previous)) = (&mut data, previous) {
        fields.insert("previous_attributes".to_owned(), previous);
    }
    let version = if inner.state.is_pre_basil { shape::PRE_BASIL_VERSION } else { shape::API_VERSION };
    let (request, key) = inner.caller.clone().map_or((None, None), |(request, key)| (Some(request), key));
    let body = json!({
        "id": id,
        "object": "event",
        "api_version": version,
        "created": now,
        "data": data,
        "livemode": false,
        "pending_webhooks": 1,
        "request": { "id": request, "idempotency_key": key },
        "type": kind,
    });
    inner.state.events.insert(Event {
        id: id.clone(),
        kind: kind.to_owned(),
        created: now,
        body,
        delivered: false,
    });
    inner.outgoing.enqueue(&id);
    id
}

fn rendered(inner: &Inner, id: &str) -> Option<Value> {
    inner.state.subscriptions.get(id).map(|it| shape::subscription(it, inner.state.is_pre_basil))
}

/// Changes a subscription and emits `customer.subscription.updated` if the change is visible.
pub(crate) fn update(inner: &mut Inner, now: i64, id: &str, work: impl FnOnce(&mut Subscription)) {
    let Some(before) = rendered(inner, id) else { return };
    if let Some(it) = inner.state.subscriptions.get_mut(id) {
        work(it);
    }
    let Some(after) = rendered(inner, id) else { return };
    let previous = shape::previous(&before, &after);
    if previous.as_object().is_some_and(|fields| !fields.is_empty()) {
        emit(inner, now, "customer.subscription.updated", &after, Some(previous));
    }
}

/// Sets or removes the planned end of a subscription.
pub(crate) fn apply(it: &mut Subscription, now: i64, change: &Change) {
    let end = match change {
        Change::CancelAtPeriodEnd => Some(it.period_end),
        Change::CancelAt(end) => *end,
    };
    it.cancel_at_period_end = matches!(change, Change::CancelAtPeriodEnd);
    it.cancel_at = end;
    it.canceled_at = end.map(|_| now);
    it.cancel_reason = end.map(|_| "cancellation_requested".to_owned());
    if end.is_none() {
        (it.cancel_comment, it.cancel_feedback) = (None, None);
    }
}

/// Ends a subscription immediately.
pub(crate) fn cancel(inner: &mut Inner, now: i64, id: &str, reason: &str) {
    let Some(it) = inner.state.subscriptions.get_mut(id) else { return };
    it.status = Status::Canceled;
    it.ended_at = Some(now);
    it.canceled_at = it.canceled_at.or(Some(now));
    it.cancel_reason.get_or_insert_with(|| reason.to_owned());
    it.next_attempt = None;
    if let Some(after) = rendered(inner, id) {
        emit(inner, now, "customer.subscription.deleted", &after, None);
    }
}

/// Changes a subscription's price. With another interval, a new period starts and is billed immediately.
pub(crate) fn change_price(inner: &mut Inner, now: i64, id: &str, price: Price) {
    let Some(it) = inner.state.subscriptions.get(id) else { return };
    let restarts = it.price.interval != price.interval && it.status == Status::Active;
    update(inner, now, id, |it| {
        it.price = price;
        if restarts {
            (it.anchor, it.period) = (now, 0);
            (it.period_start, it.period_end) = (now, it.price.interval.after(now, 1));
            if it.cancel_at_period_end {
                it.cancel_at = Some(it.period_end);
            }
        }
    });
    if restarts {
        bill(inner, now, id, "subscription_update");
    }
}

/// Completes a purchase: starts the subscription and pays its invoice. Returns the id of `checkout.session.completed`.
pub(crate) fn complete(
    inner: &mut Inner,
    base: &str,
    now: i64,
    session: &str,
    buyer: Buyer,
    card: Card,
) -> Result<String> {
    let Some(it) = inner.state.sessions.get(session).cloned() else {
        return Err(StripeError::not_found("checkout.session", session));
    };
    if it.status != SessionStatus::Open {
        return Err(StripeError::invalid("This checkout session is no longer open."));
    }
    let customer = it.customer.clone().unwrap_or_else(|| create_customer(inner, now, &buyer));
    let id = new_id("sub_");
    let trial_end = it.trial_days.map(|days| now.saturating_add(days.saturating_mul(DAY)));
    let anchor = trial_end.unwrap_or(now);
    inner.state.subscriptions.insert(Subscription {
        id: id.clone(),
        item: new_id("si_"),
        customer: customer.clone(),
        status: Status::Incomplete,
        created: now,
        anchor,
        period: 0,
        period_start: now,
        period_end: trial_end.unwrap_or_else(|| it.price.interval.after(anchor, 1)),
        cancel_at: None,
        cancel_at_period_end: false,
        canceled_at: None,
        ended_at: None,
        cancel_reason: None,
        cancel_comment: None,
        cancel_feedback: None,
        metadata: it.subscription_metadata.clone(),
        card,
        latest_invoice: None,
        trial_start: trial_end.map(|_| now),
        trial_end,
        trial_end_announced: false,
        next_attempt: None,
        price: it.price,
    });
    if let Some(created) = rendered(inner, &id) {
        emit(inner, now, "customer.subscription.created", &created, None);
    }
    bill(inner, now, &id, "subscription_create");
    let invoice = inner.state.subscriptions.get(&id).and_then(|it| it.latest_invoice.clone());
    let Some(it) = inner.state.sessions.get_mut(session) else {
        return Err(StripeError::not_found("checkout.session", session));
    };
    it.status = SessionStatus::Complete;
    (it.customer, it.subscription, it.invoice) = (Some(customer), Some(id), invoice);
    (it.buyer, it.confirming) = (Some(buyer), None);
    let object = shape::session(it, base);
    Ok(emit(inner, now, "checkout.session.completed", &object, None))
}

fn create_customer(inner: &mut Inner, now: i64, buyer: &Buyer) -> String {
    let customer = Customer {
        id: new_id("cus_"),
        created: now,
        email: Some(buyer.email.clone()),
        name: Some(buyer.name.clone()),
        phone: None,
        description: None,
        metadata: crate::params::Metadata::new(),
        deleted: false,
    };
    let (id, object) = (customer.id.clone(), shape::customer(&customer));
    inner.state.customers.insert(customer);
    emit(inner, now, "customer.created", &object, None);
    id
}

/// Creates the invoice for the current period and tries to collect it.
fn bill(inner: &mut Inner, now: i64, id: &str, reason: &str) {
    let Some(it) = inner.state.subscriptions.get(id).cloned() else { return };
    let customer = inner.state.customers.get(&it.customer);
    let is_trial = it.trial_end.is_some_and(|end| it.period_end <= end);
    let number = inner.state.invoices.iter().filter(|other| other.customer == it.customer).count() + 1;
    let invoice = Invoice {
        id: new_id("in_"),
        number: format!("{}-{number:04}", shape::invoice_prefix(&it.customer)),
        created: now,
        customer: it.customer.clone(),
        customer_email: customer.and_then(|customer| customer.email.clone()),
        customer_name: customer.and_then(|customer| customer.name.clone()),
        subscription: it.id,
        subscription_item: it.item,
        subscription_metadata: it.metadata,
        billing_reason: reason.to_owned(),
        status: InvoiceStatus::Draft,
        amount: if is_trial { 0 } else { it.price.unit_amount },
        price: it.price,
        attempts: 0,
        next_attempt: None,
        period_start: it.period_start,
        period_end: it.period_end,
        finalized_at: None,
        paid_at: None,
    };
    let invoice_id = invoice.id.clone();
    inner.state.invoices.insert(invoice);
    emit_invoice(inner, now, &invoice_id, "invoice.created", |_| {});
    if let Some(it) = inner.state.subscriptions.get_mut(id) {
        it.latest_invoice = Some(invoice_id.clone());
    }
    emit_invoice(inner, now, &invoice_id, "invoice.finalized", |invoice| {
        (invoice.status, invoice.finalized_at) = (InvoiceStatus::Open, Some(now));
    });
    collect(inner, now, id, &invoice_id, is_trial);
}

fn emit_invoice(inner: &mut Inner, now: i64, id: &str, kind: &str, work: impl FnOnce(&mut Invoice)) {
    let is_pre_basil = inner.state.is_pre_basil;
    let Some(invoice) = inner.state.invoices.get_mut(id) else { return };
    work(invoice);
    let object = shape::invoice(invoice, is_pre_basil);
    emit(inner, now, kind, &object, None);
}

/// Tries to collect an open invoice. If the payment fails, the subscription becomes past due and is eventually canceled.
fn collect(inner: &mut Inner, now: i64, id: &str, invoice: &str, is_trial: bool) {
    let Some(it) = inner.state.subscriptions.get(id) else { return };
    let is_first = it.status == Status::Incomplete;
    if is_first || is_trial || !it.card.fails_later {
        update(inner, now, id, |it| {
            it.status = if is_trial { Status::Trialing } else { Status::Active };
            it.next_attempt = None;
        });
        return emit_invoice(inner, now, invoice, "invoice.paid", |invoice| {
            (invoice.status, invoice.paid_at) = (InvoiceStatus::Paid, Some(now));
            (invoice.attempts, invoice.next_attempt) = (invoice.attempts + 1, None);
        });
    }
    let Some(it) = inner.state.invoices.get(invoice) else { return };
    let attempts = saturating::<usize>(it.attempts);
    let next = RETRY_DAYS.get(attempts).map(|days| it.created.saturating_add(days * DAY));
    emit_invoice(inner, now, invoice, "invoice.payment_failed", |invoice| {
        (invoice.attempts, invoice.next_attempt) = (invoice.attempts + 1, next);
    });
    update(inner, now, id, |it| (it.status, it.next_attempt) = (Status::PastDue, next));
    if next.is_none() {
        cancel(inner, now, id, "payment_failed");
    }
}

/// Replaces a subscription's card, and collects its open invoice with the new one.
pub(crate) fn replace_card(inner: &mut Inner, now: i64, id: &str, card: Card) {
    update(inner, now, id, |it| it.card = card);
    let Some(it) = inner.state.subscriptions.get(id) else { return };
    let invoice = it.latest_invoice.clone().filter(|_| it.status == Status::PastDue);
    if let Some(invoice) = invoice {
        collect(inner, now, id, &invoice, false);
    }
}

/// Expires an open session.
pub(crate) fn expire(inner: &mut Inner, base: &str, now: i64, id: &str) {
    let Some(session) = inner.state.sessions.get_mut(id) else { return };
    session.status = SessionStatus::Expired;
    session.confirming = None;
    let object = shape::session(session, base);
    emit(inner, now, "checkout.session.expired", &object, None);
}

enum Step {
    Expire,
    AnnounceTrialEnd,
    Cancel,
    Renew,
    Retry,
}

/// The next scheduled step of a subscription, with its time.
fn next_step(it: &Subscription) -> Option<(i64, Step)> {
    let ends = it.cancel_at.map(|at| (at, Step::Cancel));
    let other = match it.status {
        Status::Active => Some((it.period_end, Step::Renew)),
        Status::Trialing => match it.trial_end {
            Some(end) if !it.trial_end_announced => {
                Some((end.saturating_sub(3 * DAY).max(it.created), Step::AnnounceTrialEnd))
            }
            _ => Some((it.period_end, Step::Renew)),
        },
        Status::PastDue => it.next_attempt.map(|at| (at, Step::Retry)),
        Status::Incomplete | Status::IncompleteExpired | Status::Unpaid | Status::Paused => None,
        Status::Canceled => return None,
    };
    // A subscription that ends with its period is not renewed first: `min_by_key` returns the first of equal times.
    ends.into_iter().chain(other).min_by_key(|(at, _)| *at)
}

/// Runs all steps due up to `until`, each at its own time.
pub(crate) fn run_due(inner: &mut Inner, base: &str, until: i64) {
    for _ in 0..MAX_STEPS {
        let expiring = inner.state.sessions.iter().filter(|it| it.status == SessionStatus::Open);
        let expiring = expiring.map(|it: &Session| (it.expires_at, it.id.as_str(), Step::Expire));
        let steps = inner.state.subscriptions.iter();
        let steps = steps.filter_map(|it| next_step(it).map(|(at, step)| (at, it.id.as_str(), step)));
        let Some((at, id, step)) = expiring.chain(steps).min_by_key(|(at, ..)| *at) else { return };
        if at > until {
            return;
        }
        let id = id.to_owned();
        match step {
            Step::Expire => expire(inner, base, at, &id),
            Step::AnnounceTrialEnd => {
                if let Some(it) = inner.state.subscriptions.get_mut(&id) {
                    it.trial_end_announced = true;
                }
                if let Some(object) = rendered(inner, &id) {
                    emit(inner, at, "customer.subscription.trial_will_end", &object, None);
                }
            }
            Step::Cancel => cancel(inner, at, &id, "cancellation_requested"),
            Step::Renew => renew(inner, at, &id),
            Step::Retry => {
                let invoice = inner.state.subscriptions.get(&id).and_then(|it| it.latest_invoice.clone());
                collect(inner, at, &id, &invoice.unwrap_or_default(), false);
            }
        }
    }
}

fn renew(inner: &mut Inner, now: i64, id: &str) {
    update(inner, now, id, |it| {
        // The trial period ends at the anchor, where the first paid period starts.
        it.period = if it.period_end == it.anchor { 0 } else { it.period + 1 };
        it.period_start = it.period_end;
        it.period_end = it.price.interval.after(it.anchor, it.period + 1);
    });
    bill(inner, now, id, "subscription_cycle");
}

/// Runs due steps every second.
pub(crate) async fn tick(double: &Double, shutdown: &CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(Duration::from_secs(1))).await.is_some() {
        let mut inner = double.lock();
        let (now, events) =
            (double.now(&inner), inner.state.events.iter().next_back().map(|event| event.id.clone()));
        run_due(&mut inner, double.base(), now);
        if inner.state.events.iter().next_back().map(|event| &event.id) != events.as_ref() {
            inner.version += 1;
            double.0.wake.notify_one();
        }
    }
}

impl Double {
    /// Pays a checkout session, then waits at most 10 s until the endpoint has accepted `checkout.session.completed`, so that the
    /// site knows about the purchase when the buyer returns.
    pub(crate) async fn pay(&self, session: &str, buyer: Buyer, card: Card) -> Result<()> {
        let event = self.with(|inner, now| complete(inner, self.base(), now, session, buyer, card))?;
        webhooks::wait_until_delivered(self, &event, Duration::from_secs(10)).await;
        Ok(())
    }
}
