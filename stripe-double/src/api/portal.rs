//! `/v1/billing_portal/sessions`.

use serde_json::Value;

use super::Call;
use crate::error::{Result, StripeError};
use crate::state::{PlanChange, Portal};
use crate::{json as shape, new_id};

const CONFIRM: &str = "flow_data[subscription_update_confirm]";

impl Call<'_> {
    pub(super) fn create_portal(&mut self) -> Result<Value> {
        let customer =
            self.customer_param("customer")?.ok_or_else(|| StripeError::missing_param("customer"))?;
        let return_url = self.params.url("return_url")?;
        let change = match self.params.has_below("flow_data") {
            true => Some(self.plan_change(&customer)?),
            false => None,
        };
        self.params.finish()?;
        let portal = Portal {
            id: new_id("bps_"),
            created: self.now,
            customer,
            return_url,
            change,
            secret: new_id("test_"),
            visit: None,
        };
        let object = shape::portal(&portal, self.double.base());
        self.inner.state.portals.insert(portal);
        Ok(object)
    }

    fn plan_change(&mut self, customer: &str) -> Result<PlanChange> {
        match self.params.required("flow_data[type]")?.as_str() {
            "subscription_update_confirm" => {}
            other => {
                let text = format!(
                    "Invalid flow_data[type]: the Stripe double does not support the flow '{other}'."
                );
                return Err(StripeError::param("flow_data[type]", text));
            }
        }
        let name = format!("{CONFIRM}[subscription]");
        let subscription = self.params.required(&name)?;
        let found =
            self.inner.state.subscriptions.get(&subscription).filter(|it| it.customer == customer).cloned();
        let found = found.ok_or_else(|| StripeError::no_such("subscription", &subscription, &name))?;
        if found.status.has_ended() {
            return Err(StripeError::param(&name, "A subscription that has ended cannot be updated."));
        }
        match self.params.indices(&format!("{CONFIRM}[items]")).as_slice() {
            [index] if index == "0" => {}
            _ => {
                return Err(StripeError::param(
                    &format!("{CONFIRM}[items]"),
                    "There must be exactly one item.",
                ));
            }
        }
        let name = format!("{CONFIRM}[items][0][id]");
        let item = self.params.required(&name)?;
        if item != found.item {
            return Err(StripeError::no_such("subscription item", &item, &name));
        }
        let name = format!("{CONFIRM}[items][0][price]");
        let price = self.price_param(&name)?;
        if price.id == found.price.id {
            return Err(StripeError::param(
                &name,
                "The subscription has this price already; there is nothing to confirm.",
            ));
        }
        self.quantity(&format!("{CONFIRM}[items][0][quantity]"))?;
        let after = "flow_data[after_completion]";
        let kind = self.params.one_of(&format!("{after}[type]"), &["portal_homepage", "redirect"])?;
        let redirect = self.params.url(&format!("{after}[redirect][return_url]"))?;
        if kind.as_deref() == Some("redirect") && redirect.is_none() {
            return Err(StripeError::missing_param(&format!("{after}[redirect][return_url]")));
        }
        Ok(PlanChange { subscription, item, price, redirect })
    }
}
