//! `/v1/checkout/sessions`.

use serde_json::Value;

use super::{Call, find};
use crate::error::{Result, StripeError};
use crate::params::Metadata;
use crate::state::{Session, SessionStatus};
use crate::{billing, json as shape, new_id};

const HOUR: i64 = 3_600;

impl Call<'_> {
    pub(super) fn create_session(&mut self) -> Result<Value> {
        let mode = self.params.one_of("mode", &["payment", "setup", "subscription"])?;
        match mode.as_deref() {
            Some("subscription") => {}
            None => return Err(StripeError::missing_param("mode")),
            Some(_) => {
                return Err(StripeError::param("mode", "The Stripe double supports subscriptions only."));
            }
        }
        self.params.one_of("ui_mode", &["hosted_page"])?;
        let customer_email = self.params.email("customer_email")?;
        if customer_email.is_some() && self.params.as_map().contains_key("customer") {
            let text = "You may only specify one of these parameters: customer, customer_email.";
            return Err(StripeError::param("customer", text));
        }
        let customer = self.customer_param("customer")?;
        match self.params.indices("line_items").as_slice() {
            [] => return Err(StripeError::missing_param("line_items")),
            [index] if index == "0" => {}
            _ => {
                return Err(StripeError::param("line_items", "The Stripe double supports one line item."));
            }
        }
        let price = self.price_param("line_items[0][price]")?;
        self.quantity("line_items[0][quantity]")?;
        let success_url = self.params.url("success_url")?;
        let success_url = success_url.ok_or_else(|| StripeError::missing_param("success_url"))?;
        let cancel_url = self.params.url("cancel_url")?;
        let client_reference_id = self.params.text("client_reference_id")?;
        if client_reference_id.as_ref().is_some_and(|id| id.chars().count() > 200) {
            let text = "Invalid string: client_reference_id has 200 characters at most.";
            return Err(StripeError::param("client_reference_id", text));
        }
        let allow_promotion_codes = self.params.boolean("allow_promotion_codes")?;
        let trial_days = self.params.integer("subscription_data[trial_period_days]")?;
        if trial_days.is_some_and(|days| !(1..=730).contains(&days)) {
            let text = "Invalid integer: a trial has 1 to 730 days.";
            return Err(StripeError::param("subscription_data[trial_period_days]", text));
        }
        let expires_at = self.params.integer("expires_at")?;
        let (earliest, latest) = (self.now + HOUR / 2, self.now + 24 * HOUR);
        // Allow a minute for the duration of the request.
        if expires_at.is_some_and(|at| at < earliest - 60 || at > latest + 60) {
            let text = "The `expires_at` timestamp must be between 30 minutes and 24 hours from now.";
            return Err(StripeError::param("expires_at", text));
        }
        let (mut metadata, mut subscription_metadata) = (Metadata::new(), Metadata::new());
        self.params.metadata("metadata", &mut metadata)?;
        self.params.metadata("subscription_data[metadata]", &mut subscription_metadata)?;
        self.params.finish()?;
        let session = Session {
            id: new_id("cs_test_"),
            created: self.now,
            expires_at: expires_at.unwrap_or(latest),
            status: SessionStatus::Open,
            price,
            customer,
            customer_email,
            client_reference_id,
            metadata,
            subscription_metadata,
            trial_days,
            allow_promotion_codes,
            success_url,
            cancel_url,
            subscription: None,
            invoice: None,
            confirming: None,
            buyer: None,
        };
        let object = shape::session(&session, self.double.base());
        self.inner.state.sessions.insert(session);
        Ok(object)
    }

    pub(super) fn list_sessions(&mut self) -> Result<Value> {
        let customer = self.params.text("customer")?;
        let subscription = self.params.text("subscription")?;
        let status = self.params.one_of("status", &["open", "complete", "expired"])?;
        let sessions = self.inner.state.sessions.iter().rev().filter(|it| {
            (customer.is_none() || it.customer == customer)
                && (subscription.is_none() || it.subscription == subscription)
                && status.as_deref().is_none_or(|status| it.status.as_str() == status)
        });
        let rows = sessions.map(|it| (it.id.clone(), shape::session(it, self.double.base()))).collect();
        self.page("/v1/checkout/sessions", rows)
    }

    pub(super) fn get_session(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        let session = find(&self.inner.state.sessions, "checkout.session", id)?;
        Ok(shape::session(session, self.double.base()))
    }

    pub(super) fn expire_session(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        let session = find(&self.inner.state.sessions, "checkout.session", id)?;
        if session.status != SessionStatus::Open {
            let text = format!(
                "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of `{}`.",
                session.status.as_str()
            );
            return Err(StripeError::invalid(text));
        }
        billing::expire(self.inner, self.double.base(), self.now, id);
        let session = find(&self.inner.state.sessions, "checkout.session", id)?;
        Ok(shape::session(session, self.double.base()))
    }
}
