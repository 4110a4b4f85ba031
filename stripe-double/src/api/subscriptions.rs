//! `/v1/subscriptions`.

use serde_json::Value;

use super::{Call, find};
use crate::billing::{self, Change};
use crate::error::{Result, StripeError};
use crate::json as shape;
use crate::state::{Status, Subscription};

/// Values of `status` in a list, including the eight statuses.
const STATUSES: [&str; 10] = [
    "active",
    "past_due",
    "unpaid",
    "canceled",
    "incomplete",
    "incomplete_expired",
    "trialing",
    "paused",
    "all",
    "ended",
];

const FEEDBACK: [&str; 8] = [
    "customer_service",
    "low_quality",
    "missing_features",
    "other",
    "switched_service",
    "too_complex",
    "too_expensive",
    "unused",
];

impl Call<'_> {
    pub(super) fn list_subscriptions(&mut self) -> Result<Value> {
        let (customer, price) = (self.params.text("customer")?, self.params.text("price")?);
        if let Some(id) = customer.as_ref().filter(|id| self.inner.state.customers.get(id).is_none()) {
            return Err(StripeError::no_such("customer", id, "customer"));
        }
        let status = self.params.one_of("status", &STATUSES)?;
        let state = &self.inner.state;
        let subscriptions = state.subscriptions.iter().rev().filter(|it| {
            let is_asked_for = match status.as_deref() {
                // Without a status, Stripe omits canceled subscriptions.
                None => it.status != Status::Canceled,
                Some("all") => true,
                Some("ended") => it.status.has_ended(),
                Some(status) => it.status.as_str() == status,
            };
            is_asked_for
                && customer.as_ref().is_none_or(|customer| it.customer == *customer)
                && price.as_ref().is_none_or(|price| it.price.id == *price)
        });
        let rows =
            subscriptions.map(|it| (it.id.clone(), shape::subscription(it, state.is_pre_basil))).collect();
        self.page("/v1/subscriptions", rows)
    }

    pub(super) fn get_subscription(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        self.rendered(id)
    }

    fn rendered(&self, id: &str) -> Result<Value> {
        let state = &self.inner.state;
        find(&state.subscriptions, "subscription", id).map(|it| shape::subscription(it, state.is_pre_basil))
    }

    pub(super) fn update_subscription(&mut self, id: &str) -> Result<Value> {
        let it = find(&self.inner.state.subscriptions, "subscription", id)?.clone();
        let mut changed = it.clone();
        let change = self.planned_end()?;
        self.cancellation_details(&mut changed)?;
        self.params.metadata("metadata", &mut changed.metadata)?;
        self.params.one_of("proration_behavior", &["always_invoice", "create_prorations", "none"])?;
        let price = match self.params.indices("items").as_slice() {
            [] => None,
            [index] if index == "0" => {
                let item = self.params.text("items[0][id]")?;
                if item.as_ref().is_some_and(|item| *item != it.item) {
                    return Err(StripeError::no_such(
                        "subscription item",
                        &item.unwrap_or_default(),
                        "items[0][id]",
                    ));
                }
                self.quantity("items[0][quantity]")?;
                Some(self.price_param("items[0][price]")?)
            }
            _ => {
                return Err(StripeError::param(
                    "items",
                    "The Stripe double supports one item per subscription.",
                ));
            }
        };
        self.params.finish()?;
        if it.status.has_ended() && (change.is_some() || price.is_some()) {
            let text = "A canceled subscription can only update its cancellation_details and metadata.";
            return Err(StripeError::invalid(text));
        }
        if let Some(change) = &change {
            let (comment, feedback) = (changed.cancel_comment.clone(), changed.cancel_feedback.clone());
            billing::apply(&mut changed, self.now, change);
            if changed.cancel_at.is_some() {
                (changed.cancel_comment, changed.cancel_feedback) = (comment, feedback);
            }
        }
        billing::update(self.inner, self.now, id, |it| *it = changed);
        if let Some(price) = price.filter(|price| price.id != it.price.id) {
            billing::change_price(self.inner, self.now, id, price);
        }
        self.rendered(id)
    }

    fn planned_end(&mut self) -> Result<Option<Change>> {
        let at_period_end = self.params.boolean("cancel_at_period_end")?;
        let at = self.params.raw("cancel_at");
        match (at_period_end, at) {
            (Some(_), Some(_)) => {
                let text = "You may only specify one of these parameters: cancel_at_period_end, cancel_at.";
                Err(StripeError::param("cancel_at_period_end", text))
            }
            (Some(true), None) => Ok(Some(Change::CancelAtPeriodEnd)),
            (Some(false), None) => Ok(Some(Change::CancelAt(None))),
            (None, None) => Ok(None),
            (None, Some(at)) if at.is_empty() => Ok(Some(Change::CancelAt(None))),
            (None, Some(at)) => match at.parse::<i64>() {
                Ok(at) if at > self.now => Ok(Some(Change::CancelAt(Some(at)))),
                Ok(_) => {
                    Err(StripeError::param("cancel_at", "The `cancel_at` timestamp must be in the future."))
                }
                Err(_) => Err(StripeError::param("cancel_at", format!("Invalid timestamp: {at}"))),
            },
        }
    }

    fn cancellation_details(&mut self, it: &mut Subscription) -> Result<()> {
        if let Some(comment) = self.params.raw("cancellation_details[comment]") {
            it.cancel_comment = Some(comment).filter(|comment| !comment.is_empty());
        }
        let feedback = "cancellation_details[feedback]";
        if self.params.as_map().get(feedback).is_some_and(String::is_empty) {
            self.params.raw(feedback);
            it.cancel_feedback = None;
        } else if let Some(value) = self.params.one_of(feedback, &FEEDBACK)? {
            it.cancel_feedback = Some(value);
        }
        Ok(())
    }

    pub(super) fn cancel_subscription(&mut self, id: &str) -> Result<Value> {
        let mut it = find(&self.inner.state.subscriptions, "subscription", id)?.clone();
        self.cancellation_details(&mut it)?;
        self.params.boolean("invoice_now")?;
        self.params.boolean("prorate")?;
        self.params.finish()?;
        if it.status.has_ended() {
            return Err(StripeError::not_found("subscription", id));
        }
        if let Some(place) = self.inner.state.subscriptions.get_mut(id) {
            *place = it;
        }
        billing::cancel(self.inner, self.now, id, "cancellation_requested");
        self.rendered(id)
    }

    pub(super) fn resume_subscription(&mut self, id: &str) -> Result<Value> {
        self.params.one_of("billing_cycle_anchor", &["now", "unchanged"])?;
        self.params.one_of("proration_behavior", &["always_invoice", "create_prorations", "none"])?;
        self.params.finish()?;
        let it = find(&self.inner.state.subscriptions, "subscription", id)?;
        if it.status != Status::Paused {
            let text =
                format!("Only paused subscriptions can be resumed; this one is {}.", it.status.as_str());
            return Err(StripeError::invalid(text));
        }
        billing::update(self.inner, self.now, id, |it| it.status = Status::Active);
        let object = self.rendered(id)?;
        billing::emit(self.inner, self.now, "customer.subscription.resumed", &object, None);
        Ok(object)
    }
}
