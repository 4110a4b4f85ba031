//! `cancel-subscription` and `reactivate-subscription` (functions.md 3.14, 3.15). They use Stripe's state, never our table: a user who is
//! wrongly shown as canceled would keep paying.

use std::sync::Arc;

use axum::body::Body;
use basalt_core::random;
use http::request::Parts;
use serde_json::json;

use super::stripe_webhook::is_id;
use super::{Answer, Caller, fields, ok};
use crate::app::App;
use crate::refusal::Refusal;
use crate::stripe::INTERACTIVE;
use crate::stripe::billing::time;
use crate::stripe::objects::{Subscription, SubscriptionStatus};
use crate::stripe::sync::escape_id;
use crate::stripe::{Form, StripeError};

pub(crate) async fn cancel_subscription(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let id = own_subscription(&app, &caller, "cancel", fields.required("subscriptionId")?).await?;
    let state = fetch(&app, &caller, &id).await?;
    if state.has_ended() {
        return Err(Refusal::conflict("This subscription has already ended."));
    }
    if state.status == SubscriptionStatus::Incomplete {
        return Err(Refusal::conflict("This subscription is not active yet."));
    }
    let state = if state.is_ending() {
        state
    } else {
        update(&app, &caller, &id, Form::default().with("cancel_at_period_end", "true")).await?
    };
    answer(&state)
}

pub(crate) async fn reactivate_subscription(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let id = own_subscription(&app, &caller, "reactivate", fields.required("subscriptionId")?).await?;
    let state = fetch(&app, &caller, &id).await?;
    if state.has_ended() {
        return Err(Refusal::conflict("This subscription has ended. Choose a plan to subscribe again."));
    }
    // Stripe accepts only one of the two fields at a time: clear the one that is set.
    let undo = if state.cancel_at_period_end {
        Some(Form::default().with("cancel_at_period_end", "false"))
    } else {
        state.cancel_at.map(|_| Form::default().with("cancel_at", ""))
    };
    let state = match undo {
        Some(form) => update(&app, &caller, &id, form).await?,
        None => state,
    };
    answer(&state)
}

/// Checks that the subscription belongs to the caller; administrators are no exception.
async fn own_subscription(app: &App, caller: &Caller, action: &str, id: &str) -> Result<String, Refusal> {
    if !is_id(id, "sub_") {
        return Err(Refusal::bad_request("Invalid subscriptionId"));
    }
    app.rates.billing.take(format!("{action} {}", caller.id))?;
    if app.billing.owns(caller.id, id).await? { Ok(id.to_owned()) } else { Err(not_found()) }
}

fn not_found() -> Refusal {
    Refusal::not_found("Subscription not found")
}

fn refused(error: StripeError) -> Refusal {
    if error.is_missing() {
        tracing::error!(
            "a stored subscription does not exist at Stripe; check that stripe.secret_key belongs to the same account"
        );
        return not_found();
    }
    error.into()
}

/// Fetches the subscription and stores its state.
async fn fetch(app: &App, caller: &Caller, id: &str) -> Result<Subscription, Refusal> {
    let before = app.billing.begin_fetch(id).await?;
    let object =
        app.stripe.get(&format!("subscriptions/{}", escape_id(id)), INTERACTIVE).await.map_err(refused)?;
    let state = Subscription::read(&object).ok_or_else(unreadable)?;
    app.billing.apply(caller.id, &state, before.now, None).await?;
    Ok(state)
}

/// Changes the subscription and stores its new state, so that a reloaded page shows it before the webhook arrives. The idempotency key is
/// random: with a key derived from the id, Stripe would repeat its first response for a day without any change.
async fn update(app: &App, caller: &Caller, id: &str, form: Form) -> Result<Subscription, Refusal> {
    let before = app.billing.begin_fetch(id).await?;
    let key = random::uuid().to_string();
    let object =
        app.stripe.post(&format!("subscriptions/{}", escape_id(id)), form, &key).await.map_err(refused)?;
    let state = Subscription::read(&object).ok_or_else(unreadable)?;
    app.billing.apply(caller.id, &state, before.now, None).await?;
    Ok(state)
}

fn unreadable() -> Refusal {
    StripeError::Unreachable("its response is not a subscription".to_owned()).into()
}

fn answer(state: &Subscription) -> Answer {
    let subscription = json!({
        "subscription_id": state.id,
        "status": state.status.as_str(),
        "cancel_at_period_end": state.is_ending(),
        "current_period_end": time(state.current_period_end),
    });
    ok(&json!({"success": true, "subscription": subscription}))
}
