//! `create-portal-session`: Stripe's page where a customer changes the card and sees invoices (functions.md 3.13).

use std::sync::Arc;

use axum::body::Body;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use super::urls::return_url;
use super::{Answer, Caller, fields, ok};
use crate::app::App;
use crate::refusal::Refusal;
use crate::stripe::{Form, StripeError};

pub(crate) async fn create_portal_session(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let url = return_url(&app, &fields, "returnUrl", "/dashboard/subscription")?;
    app.rates.billing.take(format!("portal {}", caller.id))?;
    let is_live = app.stripe.access()?.is_live();
    let customer = match app.billing.customer(caller.id, is_live).await? {
        Some(customer) => Some(customer),
        None => {
            let known = app.billing.subscriptions(caller.id, is_live).await?;
            known.into_iter().next().map(|known| known.customer)
        }
    };
    let none = || Refusal::not_found("No billing account yet. Choose a plan first.");
    let customer = customer.filter(|customer| !customer.is_empty()).ok_or_else(none)?;
    let form = Form::default().with("customer", &customer).with("return_url", &url);
    open_portal(&app, form, |error| {
        if error.is_missing_customer() {
            return Some(none());
        }
        error.is_bad_request().then(|| {
            tracing::error!("the customer portal is not configured at Stripe: save a configuration in its dashboard, under Settings, Billing");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "The billing portal is not configured.")
        })
    })
    .await
}

/// Creates a session of Stripe's customer portal and responds with its URL. `rejected` may replace the usual message of an error.
pub(super) async fn open_portal(
    app: &App,
    form: Form,
    rejected: impl FnOnce(&StripeError) -> Option<Refusal>,
) -> Answer {
    let session = app.stripe.post_repeatable("billing_portal/sessions", form).await;
    let session = session.map_err(|error| rejected(&error).unwrap_or_else(|| error.into()))?;
    // The URL gives access to the customer's data, so it is neither logged nor stored.
    ok(&json!({"url": page(&session)?}))
}

/// The address of the page that Stripe created.
pub(super) fn page(session: &Value) -> Result<&str, Refusal> {
    let url = session.get("url").and_then(Value::as_str);
    url.ok_or_else(|| StripeError::Unreachable("its response has no URL".to_owned()).into())
}
