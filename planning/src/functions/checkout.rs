//! `create-checkout-session`: the page where a user buys a plan (functions.md 3.12). Two tabs must not create two subscriptions: a user with a
//! subscription changes it, or gets a message that says what to do first.

use std::sync::Arc;

use aws_lc_rs::digest;
use axum::body::Body;
use http::request::Parts;
use serde_json::{Value, json};

use super::portal::{open_portal, page};
use super::urls::return_url;
use super::{Answer, Caller, fields, ok};
use crate::app::App;
use crate::refusal::Refusal;
use crate::stripe::billing::Plan;
use crate::stripe::objects::{Subscription, SubscriptionStatus};
use crate::stripe::sync::escape_id;
use crate::stripe::{Form, INTERACTIVE, StripeError};

/// Identical requests within this many seconds share a session, so that a double click creates only one.
const SESSION_WINDOW_S: i64 = 300;
/// Attempts to create a customer; its idempotency key may already be used with other parameters.
const CUSTOMER_ATTEMPTS: u32 = 4;

/// A purchase, and the pages to return to.
struct Purchase {
    price: String,
    plan: Plan,
    success_url: String,
    cancel_url: String,
    is_live: bool,
}

pub(crate) async fn create_checkout_session(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let price = fields.required("priceId")?;
    let success_url = return_url(&app, &fields, "successUrl", "/dashboard?subscription=success")?;
    let cancel_url = return_url(&app, &fields, "cancelUrl", "/pricing?subscription=canceled")?;
    app.rates.billing.take(format!("checkout {}", caller.id))?;
    let plan = if price.len() <= 255 { app.billing.active_plan(price).await? } else { None };
    let plan = plan.ok_or_else(|| Refusal::bad_request("Unknown or inactive plan"))?;
    let is_live = app.stripe.access()?.is_live();
    let purchase = Purchase { price: price.to_owned(), plan, success_url, cancel_url, is_live };

    let customer = app.billing.customer(caller.id, is_live).await?;
    let (customer, current) = current(&app, &caller, customer, is_live).await?;
    if let Some(current) = current {
        let is_same = current.price.as_deref() == Some(price);
        match current.status {
            SubscriptionStatus::Active | SubscriptionStatus::Trialing if is_same => {
                let message = "You are already subscribed to this plan.";
                return Err(Refusal::conflict(message).with_code("already_subscribed"));
            }
            SubscriptionStatus::Active | SubscriptionStatus::Trialing => {
                return change_plan(&app, &current, &purchase).await;
            }
            SubscriptionStatus::PastDue | SubscriptionStatus::Unpaid | SubscriptionStatus::Paused => {
                let message = "Update your payment method in Billing Settings first.";
                return Err(Refusal::conflict(message).with_code("payment_required"));
            }
            SubscriptionStatus::Incomplete
            | SubscriptionStatus::Canceled
            | SubscriptionStatus::IncompleteExpired => {}
        }
    }
    let session = new_session(&app, &caller, customer, &purchase).await?;
    let id = session.get("id").and_then(Value::as_str);
    // The account may have been deleted in the meantime, and the job that expires its sessions may have run before this session existed.
    if !app.billing.has_account(caller.id).await? {
        expire(&app, id.unwrap_or_default()).await;
        return Err(Refusal::not_authenticated());
    }
    ok(&json!({"url": page(&session)?, "sessionId": id}))
}

/// The subscription that takes precedence.
struct Current {
    id: String,
    customer: String,
    item: Option<String>,
    price: Option<String>,
    status: SubscriptionStatus,
}

/// The customer and the current subscription according to Stripe. Our table may lag behind; it is used if there is no customer or Stripe is
/// unavailable. A customer that Stripe has deleted is removed from our table.
async fn current(
    app: &App,
    caller: &Caller,
    customer: Option<String>,
    is_live: bool,
) -> Result<(Option<String>, Option<Current>), Refusal> {
    if let Some(known) = &customer {
        let before = app.billing.begin_fetch("").await?;
        let path = format!("subscriptions?customer={}&limit=10", escape_id(known));
        match app.stripe.get(&path, INTERACTIVE).await {
            Ok(list) => {
                let data = list.get("data").and_then(Value::as_array);
                let mut states: Vec<Subscription> =
                    data.into_iter().flatten().filter_map(Subscription::read).collect();
                for state in &states {
                    app.billing.apply(caller.id, state, before.now, None).await?;
                }
                states.sort_by_key(|state| state.status);
                let best = states.into_iter().next().map(|state| Current {
                    id: state.id,
                    customer: known.clone(),
                    item: state.item,
                    price: state.price,
                    status: state.status,
                });
                return Ok((customer, best));
            }
            Err(error) if error.is_missing() => {
                app.billing.forget_customer(known).await?;
                return Ok((None, None));
            }
            Err(StripeError::Unreachable(_) | StripeError::Busy) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let known = app.billing.subscriptions(caller.id, is_live).await?;
    let best = known.into_iter().next().map(|known| Current {
        id: known.id,
        customer: known.customer,
        item: None,
        price: known.price,
        status: known.status,
    });
    Ok((customer, best))
}

/// Returns Stripe's page where the user confirms the change.
async fn change_plan(app: &App, current: &Current, purchase: &Purchase) -> Answer {
    let item = match &current.item {
        Some(item) => item.clone(),
        None => {
            let path = format!("subscriptions/{}", escape_id(&current.id));
            let object = app.stripe.get(&path, INTERACTIVE).await?;
            Subscription::read(&object).and_then(|state| state.item).unwrap_or_default()
        }
    };
    let confirm = |name: &str| format!("flow_data[subscription_update_confirm]{name}");
    let form = Form::default()
        .with("customer", &current.customer)
        .with("return_url", &purchase.cancel_url)
        .with("flow_data[type]", "subscription_update_confirm")
        .with(&confirm("[subscription]"), &current.id)
        .with(&confirm("[items][0][id]"), &item)
        .with(&confirm("[items][0][price]"), &purchase.price)
        .with(&confirm("[items][0][quantity]"), "1")
        .with("flow_data[after_completion][type]", "redirect")
        .with("flow_data[after_completion][redirect][return_url]", &purchase.success_url);
    open_portal(app, form, |error| {
        // Stripe rejects prices that the portal's configuration does not list.
        error.is_bad_request().then(|| {
            let message = "Changing plans is not enabled. Use Billing Settings or contact us.";
            Refusal::conflict(message).with_code("plan_change_unavailable")
        })
    })
    .await
}

/// A checkout session for the customer; creates the customer if there is none.
async fn new_session(
    app: &App,
    caller: &Caller,
    customer: Option<String>,
    purchase: &Purchase,
) -> Result<Value, Refusal> {
    let mut customer = match customer {
        Some(customer) => customer,
        None => create_customer(app, caller, purchase.is_live, 0).await?,
    };
    expire_others(app, &customer, purchase).await;
    let mut is_new_customer = false;
    let mut suffix = String::new();
    loop {
        let key = session_key(app, caller, purchase, &suffix);
        match app.stripe.post("checkout/sessions", form(caller, &customer, purchase), &key).await {
            // Stripe returned the completed session of this key: another purchase needs another key.
            Ok(session) if session.get("url").is_none_or(Value::is_null) && suffix.is_empty() => {
                suffix = format!(":{}", app.clock.unix_seconds());
            }
            Ok(session) => return Ok(session),
            Err(error) if error.is_missing_customer() && !is_new_customer => {
                app.billing.forget_customer(&customer).await?;
                customer = create_customer(app, caller, purchase.is_live, 1).await?;
                is_new_customer = true;
                suffix = format!(":{customer}");
            }
            Err(error) if error.is_used_key() && suffix.is_empty() => suffix = format!(":{customer}"),
            Err(error) => return Err(error.into()),
        }
    }
}

fn form(caller: &Caller, customer: &str, purchase: &Purchase) -> Form {
    let (user, plan) = (caller.id.to_string(), purchase.plan.id.to_string());
    Form::default()
        .with("mode", "subscription")
        .with("customer", customer)
        .with("line_items[0][price]", &purchase.price)
        .with("line_items[0][quantity]", "1")
        .with("client_reference_id", &user)
        .with("metadata[user_id]", &user)
        .with("metadata[plan_id]", &plan)
        // Finds the user of each event of the subscription, in whichever order events arrive.
        .with("subscription_data[metadata][user_id]", &user)
        .with("subscription_data[metadata][plan_id]", &plan)
        .with("allow_promotion_codes", "true")
        .with("success_url", &purchase.success_url)
        .with("cancel_url", &purchase.cancel_url)
}

/// Covers all parameters, because Stripe rejects other parameters with the same key.
fn session_key(app: &App, caller: &Caller, purchase: &Purchase, suffix: &str) -> String {
    let Purchase { price, success_url, cancel_url, .. } = purchase;
    let window = app.clock.unix_seconds().div_euclid(SESSION_WINDOW_S);
    let text = format!("{}|{price}|{success_url}|{cancel_url}|{window}{suffix}", caller.id);
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    format!("checkout:{}", hex::encode(hash))
}

/// Creates the user's customer; of two concurrent requests, the first one's customer is stored.
async fn create_customer(app: &App, caller: &Caller, is_live: bool, first: u32) -> Result<String, Refusal> {
    let mode = if is_live { "live" } else { "test" };
    let mut last = None;
    for number in first..first + CUSTOMER_ATTEMPTS {
        let mut form = Form::default().with("metadata[user_id]", &caller.id.to_string());
        if let Some(email) = &caller.account.email {
            form = form.with("email", email);
        }
        if let Some(name) = &caller.account.name {
            form = form.with("name", name);
        }
        let suffix = if number == 0 { String::new() } else { format!(":{number}") };
        let key = format!("customer:{}:{mode}{suffix}", caller.id);
        let made = match app.stripe.post("customers", form, &key).await {
            Ok(made) => made,
            // For example, the user's address has changed since the first attempt.
            Err(error) if error.is_used_key() => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let id = made.get("id").and_then(Value::as_str);
        let id = id.ok_or_else(|| StripeError::Unreachable("its customer has no id".to_owned()))?;
        let kept = app.billing.store_customer(caller.id, is_live, id).await?;
        return Ok(kept.unwrap_or_else(|| id.to_owned()));
    }
    Err(last.map_or_else(Refusal::internal, Refusal::from))
}

/// Expires the customer's open sessions for other plans, so that a forgotten tab cannot buy a second plan.
async fn expire_others(app: &App, customer: &str, purchase: &Purchase) {
    let path = format!("checkout/sessions?customer={}&status=open&limit=10", escape_id(customer));
    let Ok(list) = app.stripe.get(&path, INTERACTIVE).await else { return };
    let plan = purchase.plan.id.to_string();
    for session in list.get("data").and_then(Value::as_array).into_iter().flatten() {
        let is_other =
            session.pointer("/metadata/plan_id").and_then(Value::as_str).is_some_and(|other| other != plan);
        let Some(id) = session.get("id").and_then(Value::as_str).filter(|_| is_other) else { continue };
        expire(app, id).await;
    }
}

async fn expire(app: &App, session: &str) {
    let path = format!("checkout/sessions/{}/expire", escape_id(session));
    // The session may have completed or expired in the meantime.
    if let Err(error) = app.stripe.post_repeatable(&path, Form::default()).await {
        tracing::debug!(error = error.sentence(), "cannot expire an open checkout session");
    }
}
