//! `create-checkout-session`: where a user buys a plan (functions.md 3.12). Two tabs must not make two subscriptions: who has
//! one gets a change of it, or is told what to do first.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest;
use axum::body::Body;
use http::request::Parts;
use serde_json::{Value, json};

use super::portal::page;
use super::urls::return_url;
use super::{Answer, Caller, Refusal, fields, ok};
use crate::Functions;
use crate::stripe::billing::Plan;
use crate::stripe::objects::{Subscription, rank};
use crate::stripe::sync::escaped;
use crate::stripe::{Form, INTERACTIVE, StripeError};

/// A double click within these seconds gives one session.
const SAME_SESSION: i64 = 300;
/// Customers that are made anew because Stripe has deleted the one before, or its key was used for another.
const CUSTOMERS: u32 = 4;

/// What is bought, and where the buyer goes then.
struct Purchase {
    price: String,
    plan: Plan,
    success_url: String,
    cancel_url: String,
    is_live: bool,
}

pub(crate) async fn create_checkout_session(functions: Arc<Functions>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::user(&functions, &parts).await?;
    let fields = fields!(&parts, body);
    let price = fields.required("priceId")?;
    let success_url = return_url(&functions, &fields, "successUrl", "/dashboard?subscription=success")?;
    let cancel_url = return_url(&functions, &fields, "cancelUrl", "/pricing?subscription=canceled")?;
    functions.rates.billing.take(format!("checkout {}", caller.id))?;
    let plan = if price.len() <= 255 { functions.billing.active_plan(price).await? } else { None };
    let plan = plan.ok_or_else(|| Refusal::bad_request("Unknown or inactive plan"))?;
    let is_live = functions.stripe.access()?.is_live();
    let purchase = Purchase { price: price.to_owned(), plan, success_url, cancel_url, is_live };

    let customer = functions.billing.customer(caller.id, is_live).await?;
    let (customer, current) = current(&functions, &caller, customer, is_live).await?;
    if let Some(current) = current {
        let is_same = current.price.as_deref() == Some(price);
        match current.status.as_str() {
            "active" | "trialing" if is_same => {
                let message = "You are already subscribed to this plan.";
                return Err(Refusal::conflict(message).with_code("already_subscribed"));
            }
            "active" | "trialing" => return change_plan(&functions, &current, &purchase).await,
            "past_due" | "unpaid" | "paused" => {
                let message = "Update your payment method in Billing Settings first.";
                return Err(Refusal::conflict(message).with_code("payment_required"));
            }
            _ => {}
        }
    }
    let session = new_session(&functions, &caller, customer, &purchase).await?;
    let id = session.get("id").and_then(Value::as_str);
    // The job that ends what runs for a deleted user may have looked before this session was made.
    if !functions.billing.has_account(caller.id).await? {
        expire(&functions, id.unwrap_or_default()).await;
        return Err(Refusal::not_authenticated());
    }
    ok(&json!({"url": page(&session)?, "sessionId": id}))
}

/// The subscription that counts.
struct Current {
    id: String,
    customer: String,
    item: Option<String>,
    price: Option<String>,
    status: String,
}

/// Stripe says what the user has; our table may lag behind, and counts while there is no customer or Stripe fails. A customer
/// that Stripe has no more is forgotten.
async fn current(
    functions: &Functions,
    caller: &Caller,
    customer: Option<String>,
    is_live: bool,
) -> Result<(Option<String>, Option<Current>), Refusal> {
    if let Some(known) = &customer {
        let before = functions.billing.before("").await?;
        let path = format!("subscriptions?customer={}&limit=10", escaped(known));
        match functions.stripe.get(&path, INTERACTIVE).await {
            Ok(list) => {
                let data = list.get("data").and_then(Value::as_array);
                let mut states: Vec<Subscription> =
                    data.into_iter().flatten().filter_map(Subscription::read).collect();
                for state in &states {
                    functions.billing.apply(caller.id, state, before.now, None).await?;
                }
                states.sort_by_key(|state| rank(state.status));
                let best = states.into_iter().next().map(|state| Current {
                    id: state.id,
                    customer: known.clone(),
                    item: state.item,
                    price: state.price,
                    status: state.status.to_owned(),
                });
                return Ok((customer, best));
            }
            Err(error) if error.is_missing() => {
                functions.billing.forget_customer(known).await?;
                return Ok((None, None));
            }
            Err(StripeError::Unreachable(_) | StripeError::Busy) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let known = functions.billing.subscriptions(caller.id, is_live).await?;
    let best = known.into_iter().next().map(|known| Current {
        id: known.id,
        customer: known.customer,
        item: None,
        price: known.price,
        status: known.status,
    });
    Ok((customer, best))
}

/// A page of Stripe's where the user confirms the change.
async fn change_plan(functions: &Functions, current: &Current, purchase: &Purchase) -> Answer {
    let item = match &current.item {
        Some(item) => item.clone(),
        None => {
            let path = format!("subscriptions/{}", escaped(&current.id));
            let object = functions.stripe.get(&path, INTERACTIVE).await?;
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
    let session = functions.stripe.post_repeatable("billing_portal/sessions", form).await;
    let session = session.map_err(|error| match error {
        // The portal's configuration must list the prices.
        StripeError::Refused(reason) if reason.status == 400 => {
            let message = "Changing plans is not enabled. Use Billing Settings or contact us.";
            Refusal::conflict(message).with_code("plan_change_unavailable")
        }
        other @ (StripeError::NotConfigured
        | StripeError::Unreachable(_)
        | StripeError::Busy
        | StripeError::Key(_)
        | StripeError::Refused(_)) => other.into(),
    })?;
    ok(&json!({"url": page(&session)?}))
}

/// A checkout session for the customer, who is made if there is none.
async fn new_session(
    functions: &Functions,
    caller: &Caller,
    customer: Option<String>,
    purchase: &Purchase,
) -> Result<Value, Refusal> {
    let mut customer = match customer {
        Some(customer) => customer,
        None => make_customer(functions, caller, purchase.is_live, 0).await?,
    };
    expire_others(functions, &customer, purchase).await;
    let mut made_anew = false;
    let mut suffix = String::new();
    loop {
        let key = session_key(functions, caller, purchase, &suffix);
        match functions.stripe.post("checkout/sessions", form(caller, &customer, purchase), &key).await {
            // A session that is complete came back for the key: the next one needs another.
            Ok(session) if session.get("url").is_none_or(Value::is_null) && suffix.is_empty() => {
                suffix = format!(":{}", functions.clock.unix_seconds());
            }
            Ok(session) => return Ok(session),
            Err(error) if error.is_missing_customer() && !made_anew => {
                functions.billing.forget_customer(&customer).await?;
                customer = make_customer(functions, caller, purchase.is_live, 1).await?;
                made_anew = true;
                suffix = format!(":{customer}");
            }
            Err(error) if error.is_used_key() && suffix.is_empty() => suffix = format!(":{customer}"),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Exactly these parameters.
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
        // What makes events independent of their order.
        .with("subscription_data[metadata][user_id]", &user)
        .with("subscription_data[metadata][plan_id]", &plan)
        .with("allow_promotion_codes", "true")
        .with("success_url", &purchase.success_url)
        .with("cancel_url", &purchase.cancel_url)
}

/// All parameters are in it: with the same key, Stripe refuses others.
fn session_key(functions: &Functions, caller: &Caller, purchase: &Purchase, suffix: &str) -> String {
    let Purchase { price, success_url, cancel_url, .. } = purchase;
    let window = functions.clock.unix_seconds().div_euclid(SAME_SESSION);
    let text = format!("{}|{price}|{success_url}|{cancel_url}|{window}{suffix}", caller.id);
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().iter().fold("checkout:".to_owned(), |mut key, byte| {
        let _infallible = write!(key, "{byte:02x}");
        key
    })
}

/// Makes the user's customer; of two at once the first counts.
async fn make_customer(
    functions: &Functions,
    caller: &Caller,
    is_live: bool,
    first: u32,
) -> Result<String, Refusal> {
    let mode = if is_live { "live" } else { "test" };
    let mut last = None;
    for number in first..first + CUSTOMERS {
        let mut form = Form::default().with("metadata[user_id]", &caller.id.to_string());
        if let Some(email) = &caller.account.email {
            form = form.with("email", email);
        }
        if let Some(name) = &caller.account.name {
            form = form.with("name", name);
        }
        let suffix = if number == 0 { String::new() } else { format!(":{number}") };
        let key = format!("customer:{}:{mode}{suffix}", caller.id);
        let made = match functions.stripe.post("customers", form, &key).await {
            Ok(made) => made,
            // The address has changed since, say.
            Err(error) if error.is_used_key() => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let id = made.get("id").and_then(Value::as_str);
        let id = id.ok_or_else(|| StripeError::Unreachable("its customer has no id".to_owned()))?;
        let kept = functions.billing.keep_customer(caller.id, is_live, id).await?;
        return Ok(kept.unwrap_or_else(|| id.to_owned()));
    }
    Err(last.map_or_else(Refusal::internal, Refusal::from))
}

/// Ends the customer's open sessions for other plans: a tab that was left open must not buy a second one.
async fn expire_others(functions: &Functions, customer: &str, purchase: &Purchase) {
    let path = format!("checkout/sessions?customer={}&status=open&limit=10", escaped(customer));
    let Ok(list) = functions.stripe.get(&path, INTERACTIVE).await else { return };
    let plan = purchase.plan.id.to_string();
    for session in list.get("data").and_then(Value::as_array).into_iter().flatten() {
        let is_other =
            session.pointer("/metadata/plan_id").and_then(Value::as_str).is_some_and(|other| other != plan);
        let Some(id) = session.get("id").and_then(Value::as_str).filter(|_| is_other) else { continue };
        expire(functions, id).await;
    }
}

async fn expire(functions: &Functions, session: &str) {
    let path = format!("checkout/sessions/{}/expire", escaped(session));
    // It may have been completed or have expired meanwhile.
    if let Err(error) = functions.stripe.post_repeatable(&path, Form::default()).await {
        tracing::debug!(error = error.sentence(), "an open checkout session was not ended");
    }
}
