//! `cancel-subscription` and `reactivate-subscription` (functions.md 3.14, 3.15). Stripe's state decides, never our table: to
//! tell a user that they have canceled when they have not costs them money.

use std::sync::Arc;

use axum::body::Body;
use basalt_core::random;
use http::request::Parts;
use serde_json::json;

use super::stripe_webhook::is_id;
use super::{Answer, Caller, Refusal, fields, ok};
use crate::Functions;
use crate::stripe::INTERACTIVE;
use crate::stripe::billing::time;
use crate::stripe::objects::Subscription;
use crate::stripe::sync::escaped;
use crate::stripe::{Form, StripeError};

pub(crate) async fn cancel_subscription(functions: Arc<Functions>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&functions, &parts).await?;
    let fields = fields!(&parts, body);
    let id = own_subscription(&functions, &caller, "cancel", fields.required("subscriptionId")?).await?;
    let state = fetch(&functions, &caller, &id).await?;
    if state.has_ended() {
        return Err(Refusal::conflict("This subscription has already ended."));
    }
    if state.status == "incomplete" {
        return Err(Refusal::conflict("This subscription is not active yet."));
    }
    let state = if state.is_ending() {
        state
    } else {
        update(&functions, &caller, &id, Form::default().with("cancel_at_period_end", "true")).await?
    };
    answer(&state)
}

pub(crate) async fn reactivate_subscription(functions: Arc<Functions>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&functions, &parts).await?;
    let fields = fields!(&parts, body);
    let id = own_subscription(&functions, &caller, "reactivate", fields.required("subscriptionId")?).await?;
    let state = fetch(&functions, &caller, &id).await?;
    if state.has_ended() {
        return Err(Refusal::conflict("This subscription has ended. Choose a plan to subscribe again."));
    }
    // Stripe takes one of the two at a time: what is really set is undone.
    let undo = if state.cancel_at_period_end {
        Some(Form::default().with("cancel_at_period_end", "false"))
    } else {
        state.cancel_at.map(|_| Form::default().with("cancel_at", ""))
    };
    let state = match undo {
        Some(form) => update(&functions, &caller, &id, form).await?,
        None => state,
    };
    answer(&state)
}

/// The id, if it is of a subscription of the caller's. Administrators are no exception.
async fn own_subscription(
    functions: &Functions,
    caller: &Caller,
    what: &str,
    id: &str,
) -> Result<String, Refusal> {
    if !is_id(id, "sub_") {
        return Err(Refusal::bad_request("Invalid subscriptionId"));
    }
    functions.rates.billing.take(format!("{what} {}", caller.id))?;
    if functions.billing.owns(caller.id, id).await? { Ok(id.to_owned()) } else { Err(not_found()) }
}

fn not_found() -> Refusal {
    Refusal::not_found("Subscription not found")
}

fn refused(error: StripeError) -> Refusal {
    if error.is_missing() {
        tracing::error!("Stripe has no subscription that our table has: is the key another account's?");
        return not_found();
    }
    error.into()
}

/// Stripe's state, which is in force from now on.
async fn fetch(functions: &Functions, caller: &Caller, id: &str) -> Result<Subscription, Refusal> {
    let before = functions.billing.before(id).await?;
    let object = functions
        .stripe
        .get(&format!("subscriptions/{}", escaped(id)), INTERACTIVE)
        .await
        .map_err(refused)?;
    let state = Subscription::read(&object).ok_or_else(nonsense)?;
    functions.billing.apply(caller.id, &state, before.now, None).await?;
    Ok(state)
}

/// Changes the subscription; the page that refreshes sees it before the webhook comes. The key is a fresh one: one that is made
/// of the id would, within a day, give the first answer again and do nothing.
async fn update(
    functions: &Functions,
    caller: &Caller,
    id: &str,
    form: Form,
) -> Result<Subscription, Refusal> {
    let before = functions.billing.before(id).await?;
    let key = random::uuid().to_string();
    let object = functions
        .stripe
        .post(&format!("subscriptions/{}", escaped(id)), form, &key)
        .await
        .map_err(refused)?;
    let state = Subscription::read(&object).ok_or_else(nonsense)?;
    functions.billing.apply(caller.id, &state, before.now, None).await?;
    Ok(state)
}

fn nonsense() -> Refusal {
    StripeError::Unreachable("its answer is no subscription".to_owned()).into()
}

fn answer(state: &Subscription) -> Answer {
    let subscription = json!({
        "subscription_id": state.id,
        "status": state.status,
        "cancel_at_period_end": state.is_ending(),
        "current_period_end": time(state.current_period_end),
    });
    ok(&json!({"success": true, "subscription": subscription}))
}
