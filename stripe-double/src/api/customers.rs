//! `/v1/customers`.

use serde_json::Value;

use super::{Call, find};
use crate::error::{Result, StripeError};
use crate::params::Metadata;
use crate::state::Customer;
use crate::{billing, json as shape, new_id};

impl Call<'_> {
    pub(super) fn create_customer(&mut self) -> Result<Value> {
        let mut customer = Customer {
            id: new_id("cus_"),
            created: self.now,
            email: None,
            name: None,
            phone: None,
            description: None,
            metadata: Metadata::new(),
            deleted: false,
        };
        self.customer_fields(&mut customer)?;
        let object = shape::customer(&customer);
        self.inner.state.customers.insert(customer);
        billing::emit(self.inner, self.now, "customer.created", &object, None);
        Ok(object)
    }

    /// Applies the parameters; an empty value unsets a field.
    fn customer_fields(&mut self, customer: &mut Customer) -> Result<()> {
        match self.params.as_map().get("email").map(String::as_str) {
            Some("") => {
                self.params.raw("email");
                customer.email = None;
            }
            Some(_) => customer.email = self.params.email("email")?,
            None => {}
        }
        for (name, field) in [
            ("name", &mut customer.name),
            ("phone", &mut customer.phone),
            ("description", &mut customer.description),
        ] {
            if let Some(value) = self.params.raw(name) {
                *field = Some(value).filter(|value| !value.is_empty());
            }
        }
        self.params.metadata("metadata", &mut customer.metadata)?;
        self.params.finish()
    }

    pub(super) fn list_customers(&mut self) -> Result<Value> {
        let email = self.params.text("email")?;
        let customers = self.inner.state.customers.iter().rev().filter(|customer| !customer.deleted);
        let customers = customers.filter(|customer| email.is_none() || customer.email == email);
        let rows = customers.map(|customer| (customer.id.clone(), shape::customer(customer))).collect();
        self.page("/v1/customers", rows)
    }

    pub(super) fn get_customer(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        find(&self.inner.state.customers, "customer", id).map(shape::customer)
    }

    pub(super) fn update_customer(&mut self, id: &str) -> Result<Value> {
        let mut customer = self.live_customer(id)?;
        let before = shape::customer(&customer);
        self.customer_fields(&mut customer)?;
        let after = shape::customer(&customer);
        if let Some(place) = self.inner.state.customers.get_mut(id) {
            *place = customer;
        }
        let previous = shape::previous(&before, &after);
        if before != after {
            billing::emit(self.inner, self.now, "customer.updated", &after, Some(previous));
        }
        Ok(after)
    }

    /// Deletes the customer and ends its subscriptions.
    pub(super) fn delete_customer(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        let customer = self.live_customer(id)?;
        let running =
            self.inner.state.subscriptions.iter().filter(|it| it.customer == id && !it.status.has_ended());
        let running: Vec<String> = running.map(|it| it.id.clone()).collect();
        for subscription in running {
            billing::cancel(self.inner, self.now, &subscription, "cancellation_requested");
        }
        if let Some(customer) = self.inner.state.customers.get_mut(id) {
            customer.deleted = true;
        }
        billing::emit(self.inner, self.now, "customer.deleted", &shape::customer(&customer), None);
        Ok(shape::deleted("customer", id))
    }

    fn live_customer(&self, id: &str) -> Result<Customer> {
        let customer = find(&self.inner.state.customers, "customer", id)?;
        if customer.deleted {
            return Err(StripeError::not_found("customer", id));
        }
        Ok(customer.clone())
    }
}
