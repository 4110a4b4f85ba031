//! Stripe's JSON objects in the current version (with the period on the subscription's item) or the version before 2025-03-31.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::Double;
use crate::prices::Price;
use crate::state::{Customer, Invoice, Portal, Session, SessionStatus, State, Status, Subscription};

/// The API version of the current objects.
pub(crate) const API_VERSION: &str = "2026-09-30.endive";
/// The API version of the older objects.
pub(crate) const PRE_BASIL_VERSION: &str = "2024-06-20";

/// A page of a list.
pub(crate) fn list(url: &str, data: &[Value], has_more: bool) -> Value {
    json!({ "object": "list", "data": data, "has_more": has_more, "url": url })
}

pub(crate) fn deleted(object: &str, id: &str) -> Value {
    json!({ "id": id, "object": object, "deleted": true })
}

pub(crate) fn customer(customer: &Customer) -> Value {
    if customer.deleted {
        return deleted("customer", &customer.id);
    }
    json!({
        "id": customer.id,
        "object": "customer",
        "address": null,
        "balance": 0,
        "created": customer.created,
        "currency": null,
        "default_source": null,
        "delinquent": false,
        "description": customer.description,
        "email": customer.email,
        "invoice_prefix": invoice_prefix(&customer.id),
        "invoice_settings": {
            "custom_fields": null, "default_payment_method": null, "footer": null, "rendering_options": null,
        },
        "livemode": false,
        "metadata": customer.metadata,
        "name": customer.name,
        "next_invoice_sequence": 1,
        "phone": customer.phone,
        "preferred_locales": [],
        "shipping": null,
        "tax_exempt": "none",
        "test_clock": null,
    })
}

/// Eight upper-case characters of the customer's id.
pub(crate) fn invoice_prefix(customer: &str) -> String {
    customer.chars().rev().take(8).collect::<String>().to_uppercase()
}

pub(crate) fn price(price: &Price) -> Value {
    json!({
        "id": price.id,
        "object": "price",
        "active": price.active,
        "billing_scheme": "per_unit",
        "created": 1_700_000_000,
        "currency": price.currency,
        "custom_unit_amount": null,
        "livemode": false,
        "lookup_key": null,
        "metadata": {},
        "nickname": null,
        "product": price.product_id(),
        "recurring": {
            "interval": price.interval.as_str(),
            "interval_count": 1,
            "meter": null,
            "trial_period_days": null,
            "usage_type": "licensed",
        },
        "tax_behavior": "unspecified",
        "tiers_mode": null,
        "transform_quantity": null,
        "type": "recurring",
        "unit_amount": price.unit_amount,
        "unit_amount_decimal": price.unit_amount.to_string(),
    })
}

fn plan(price: &Price) -> Value {
    json!({
        "id": price.id,
        "object": "plan",
        "active": price.active,
        "amount": price.unit_amount,
        "amount_decimal": price.unit_amount.to_string(),
        "billing_scheme": "per_unit",
        "created": 1_700_000_000,
        "currency": price.currency,
        "interval": price.interval.as_str(),
        "interval_count": 1,
        "livemode": false,
        "metadata": {},
        "meter": null,
        "nickname": null,
        "product": price.product_id(),
        "tiers_mode": null,
        "transform_usage": null,
        "trial_period_days": null,
        "usage_type": "licensed",
    })
}

pub(crate) fn subscription(it: &Subscription, is_pre_basil: bool) -> Value {
    let mut item = json!({
        "id": it.item,
        "object": "subscription_item",
        "billing_thresholds": null,
        "created": it.created,
        "current_period_end": it.period_end,
        "current_period_start": it.period_start,
        "discounts": [],
        "metadata": {},
        "plan": plan(&it.price),
        "price": price(&it.price),
        "quantity": 1,
        "subscription": it.id,
        "tax_rates": [],
    });
    if is_pre_basil {
        without(&mut item, &["current_period_end", "current_period_start"]);
    }
    let mut value = json!({
        "id": it.id,
        "object": "subscription",
        "application": null,
        "application_fee_percent": null,
        "automatic_tax": { "disabled_reason": null, "enabled": false, "liability": null },
        "billing_cycle_anchor": it.anchor,
        "billing_cycle_anchor_config": null,
        "billing_mode": { "flexible": { "proration_discounts": "included" }, "type": "flexible" },
        "billing_schedules": [],
        "billing_thresholds": null,
        "cancel_at": it.cancel_at,
        "cancel_at_period_end": it.cancel_at_period_end,
        "canceled_at": it.canceled_at,
        "cancellation_details": {
            "comment": it.cancel_comment, "feedback": it.cancel_feedback, "reason": it.cancel_reason,
        },
        "collection_method": "charge_automatically",
        "created": it.created,
        "currency": it.price.currency,
        "customer": it.customer,
        "customer_account": null,
        "days_until_due": null,
        "default_payment_method": it.card.id,
        "default_source": null,
        "default_tax_rates": [],
        "description": null,
        "discounts": [],
        "ended_at": it.ended_at,
        "invoice_settings": { "account_tax_ids": null, "issuer": { "type": "self" } },
        "items": {
            "object": "list",
            "data": [item],
            "has_more": false,
            "total_count": 1,
            "url": format!("/v1/subscription_items?subscription={}", it.id),
        },
        "latest_invoice": it.latest_invoice,
        "livemode": false,
        "metadata": it.metadata,
        "next_pending_invoice_item_invoice": null,
        "on_behalf_of": null,
        "pause_collection": null,
        "payment_settings": {
            "payment_method_options": null,
            "payment_method_types": ["card"],
            "save_default_payment_method": "off",
        },
        "pending_invoice_item_interval": null,
        "pending_setup_intent": null,
        "pending_update": null,
        "schedule": null,
        "start_date": it.created,
        "status": it.status.as_str(),
        "test_clock": null,
        "transfer_data": null,
        "trial_end": it.trial_end,
        "trial_settings": { "end_behavior": { "missing_payment_method": "create_invoice" } },
        "trial_start": it.trial_start,
    });
    if is_pre_basil {
        without(&mut value, &["billing_mode", "billing_schedules", "customer_account"]);
        set(&mut value, "plan", plan(&it.price));
        set(&mut value, "quantity", json!(1));
        set(&mut value, "current_period_end", json!(it.period_end));
        set(&mut value, "current_period_start", json!(it.period_start));
    }
    value
}

pub(crate) fn invoice(it: &Invoice, is_pre_basil: bool) -> Value {
    let is_paid = it.paid_at.is_some();
    let details = json!({ "metadata": it.subscription_metadata, "subscription": it.subscription });
    let line = json!({
        "id": format!("il_{}", it.id.trim_start_matches("in_")),
        "object": "line_item",
        "amount": it.amount,
        "currency": it.price.currency,
        "description": format!("1 × {} (at {} / {})", it.price.product_name, it.price.amount_text(), it.price.interval.as_str()),
        "discount_amounts": [],
        "discountable": true,
        "discounts": [],
        "invoice": it.id,
        "livemode": false,
        "metadata": it.subscription_metadata,
        "parent": {
            "invoice_item_details": null,
            "subscription_item_details": {
                "invoice_item": null,
                "proration": false,
                "proration_details": null,
                "subscription": it.subscription,
                "subscription_item": it.subscription_item,
            },
            "type": "subscription_item_details",
        },
        "period": { "end": it.period_end, "start": it.period_start },
        "pretax_credit_amounts": [],
        "pricing": {
            "price_details": { "price": it.price.id, "product": it.price.product_id() },
            "type": "price_details",
            "unit_amount_decimal": it.price.unit_amount.to_string(),
        },
        "quantity": 1,
        "subtotal": it.amount,
        "taxes": [],
    });
    let paid = if is_paid { it.amount } else { 0 };
    let mut value = json!({
        "id": it.id,
        "object": "invoice",
        "account_country": "US",
        "account_name": "Basalt (test)",
        "account_tax_ids": null,
        "amount_due": it.amount,
        "amount_overpaid": 0,
        "amount_paid": paid,
        "amount_remaining": it.amount - paid,
        "amount_shipping": 0,
        "application": null,
        "attempt_count": it.attempts,
        "attempted": it.attempts > 0,
        "auto_advance": !is_paid,
        "automatic_tax": { "disabled_reason": null, "enabled": false, "liability": null, "provider": null, "status": null },
        "automatically_finalizes_at": null,
        "billing_reason": it.billing_reason,
        "collection_method": "charge_automatically",
        "created": it.created,
        "currency": it.price.currency,
        "custom_fields": null,
        "customer": it.customer,
        "customer_address": null,
        "customer_email": it.customer_email,
        "customer_name": it.customer_name,
        "customer_phone": null,
        "customer_shipping": null,
        "customer_tax_exempt": "none",
        "customer_tax_ids": [],
        "default_payment_method": null,
        "default_source": null,
        "default_tax_rates": [],
        "description": null,
        "discounts": [],
        "due_date": null,
        "effective_at": it.finalized_at,
        "ending_balance": if it.finalized_at.is_some() { json!(0) } else { Value::Null },
        "footer": null,
        "from_invoice": null,
        "hosted_invoice_url": null,
        "invoice_pdf": null,
        "issuer": { "type": "self" },
        "last_finalization_error": null,
        "latest_revision": null,
        "lines": {
            "object": "list", "data": [line], "has_more": false, "total_count": 1,
            "url": format!("/v1/invoices/{}/lines", it.id),
        },
        "livemode": false,
        "metadata": {},
        "next_payment_attempt": it.next_attempt,
        "number": it.number,
        "on_behalf_of": null,
        "parent": { "quote_details": null, "subscription_details": details, "type": "subscription_details" },
        "payment_settings": { "default_mandate": null, "payment_method_options": null, "payment_method_types": null },
        "period_end": it.period_end,
        "period_start": it.period_start,
        "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0,
        "receipt_number": null,
        "rendering": null,
        "shipping_cost": null,
        "shipping_details": null,
        "starting_balance": 0,
        "statement_descriptor": null,
        "status": it.status.as_str(),
        "status_transitions": {
            "finalized_at": it.finalized_at, "marked_uncollectible_at": null, "paid_at": it.paid_at, "voided_at": null,
        },
        "subtotal": it.amount,
        "subtotal_excluding_tax": it.amount,
        "test_clock": null,
        "total": it.amount,
        "total_discount_amounts": [],
        "total_excluding_tax": it.amount,
        "total_pretax_credit_amounts": [],
        "total_taxes": [],
        "webhooks_delivered_at": it.created,
    });
    if is_pre_basil {
        without(&mut value, &["parent", "total_taxes", "amount_overpaid"]);
        set(&mut value, "subscription", json!(it.subscription));
        set(&mut value, "subscription_details", json!({ "metadata": it.subscription_metadata }));
        set(&mut value, "paid", json!(is_paid));
    }
    value
}

pub(crate) fn session(it: &Session, base: &str) -> Value {
    let details = it.buyer.as_ref().map(|buyer| {
        json!({
            "address": null, "business_name": null, "email": buyer.email, "individual_name": null,
            "name": buyer.name, "phone": null, "tax_exempt": "none", "tax_ids": [],
        })
    });
    let payment_status = match (it.status, it.trial_days) {
        (SessionStatus::Complete, None) => "paid",
        (SessionStatus::Complete, Some(_)) => "no_payment_required",
        (SessionStatus::Open | SessionStatus::Expired, _) => "unpaid",
    };
    let total = if it.trial_days.is_some() { 0 } else { it.price.unit_amount };
    let url = (it.status == SessionStatus::Open).then(|| format!("{base}/c/pay/{}", it.id));
    json!({
        "id": it.id,
        "object": "checkout.session",
        "adaptive_pricing": { "enabled": false },
        "after_expiration": null,
        "allow_promotion_codes": it.allow_promotion_codes,
        "amount_subtotal": total,
        "amount_total": total,
        "automatic_tax": { "enabled": false, "liability": null, "provider": null, "status": null },
        "billing_address_collection": null,
        "cancel_url": it.cancel_url,
        "client_reference_id": it.client_reference_id,
        "client_secret": null,
        "collected_information": null,
        "consent": null,
        "consent_collection": null,
        "created": it.created,
        "currency": it.price.currency,
        "currency_conversion": null,
        "custom_fields": [],
        "custom_text": { "after_submit": null, "shipping_address": null, "submit": null, "terms_of_service_acceptance": null },
        "customer": it.customer,
        "customer_account": null,
        "customer_creation": if it.customer_email.is_some() { json!("always") } else { Value::Null },
        "customer_details": details,
        "customer_email": it.customer_email,
        "discounts": [],
        "expires_at": it.expires_at,
        "invoice": it.invoice,
        "invoice_creation": null,
        "livemode": false,
        "locale": null,
        "metadata": it.metadata,
        "mode": "subscription",
        "origin_context": null,
        "payment_intent": null,
        "payment_link": null,
        "payment_method_collection": "always",
        "payment_method_configuration_details": null,
        "payment_method_options": { "card": { "request_three_d_secure": "automatic" } },
        "payment_method_types": ["card"],
        "payment_status": payment_status,
        "permissions": null,
        "phone_number_collection": { "enabled": false },
        "recovered_from": null,
        "saved_payment_method_options": {
            "allow_redisplay_filters": ["always"], "payment_method_remove": "disabled", "payment_method_save": null,
        },
        "setup_intent": null,
        "shipping_address_collection": null,
        "shipping_cost": null,
        "shipping_options": [],
        "status": it.status.as_str(),
        "submit_type": null,
        "subscription": it.subscription,
        "success_url": it.success_url,
        "total_details": { "amount_discount": 0, "amount_shipping": 0, "amount_tax": 0 },
        "ui_mode": "hosted_page",
        "url": url,
        "wallet_options": null,
    })
}

pub(crate) fn portal(it: &Portal, base: &str) -> Value {
    let flow = it.change.as_ref().map(|change| {
        let after = match &change.redirect {
            Some(url) => {
                json!({ "hosted_confirmation": null, "redirect": { "return_url": url }, "type": "redirect" })
            }
            None => json!({ "hosted_confirmation": null, "redirect": null, "type": "portal_homepage" }),
        };
        json!({
            "after_completion": after,
            "subscription_cancel": null,
            "subscription_update": null,
            "subscription_update_confirm": {
                "discounts": null,
                "items": [{ "id": change.item, "price": change.price.id, "quantity": 1 }],
                "subscription": change.subscription,
            },
            "type": "subscription_update_confirm",
        })
    });
    json!({
        "id": it.id,
        "object": "billing_portal.session",
        "configuration": "bpc_double",
        "created": it.created,
        "customer": it.customer,
        "customer_account": null,
        "flow": flow,
        "livemode": false,
        "locale": null,
        "on_behalf_of": null,
        "return_url": it.return_url,
        "url": format!("{base}/p/session/{}", it.secret),
    })
}

/// Replaces the ids at the paths in `expand` by their objects. A path without an id is ignored.
pub(crate) fn expand(value: &mut Value, paths: &[String], state: &State, double: &Double) {
    for path in paths.iter().take(20) {
        let segments: Vec<&str> = path.split('.').take(4).collect();
        expand_path(value, &segments, state, double);
    }
}

fn expand_path(value: &mut Value, path: &[&str], state: &State, double: &Double) {
    let Some((first, rest)) = path.split_first() else {
        if let Some(object) = value.as_str().and_then(|id| object(id, state, double)) {
            *value = object;
        }
        return;
    };
    // `data` of a list applies to each of its members.
    if let Value::Array(members) = value {
        return members.iter_mut().for_each(|member| expand_path(member, path, state, double));
    }
    if let Some(object) = value.as_str().and_then(|id| object(id, state, double)) {
        *value = object;
    }
    if let Some(field) = value.get_mut(*first) {
        expand_path(field, rest, state, double);
    }
}

fn object(id: &str, state: &State, double: &Double) -> Option<Value> {
    match id.split_once('_')?.0 {
        "cus" => state.customers.get(id).map(customer),
        "sub" => state.subscriptions.get(id).map(|it| subscription(it, state.is_pre_basil)),
        "in" => state.invoices.get(id).map(|it| invoice(it, state.is_pre_basil)),
        "cs" => state.sessions.get(id).map(|it| session(it, double.base())),
        _ => None,
    }
}

/// The old values of the fields in `before` that differ in `after`: `previous_attributes` of an event.
pub(crate) fn previous(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return before.clone() };
    let changed = before.iter().filter(|(name, old)| after.get(*name) != Some(*old)).map(|(name, old)| {
        let old = match (old, after.get(name)) {
            (Value::Object(_), Some(new @ Value::Object(_))) => previous(old, new),
            _ => old.clone(),
        };
        (name.clone(), old)
    });
    Value::Object(changed.collect::<Map<_, _>>())
}

fn without(value: &mut Value, names: &[&str]) {
    if let Value::Object(fields) = value {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
}

fn set(value: &mut Value, name: &str, new: Value) {
    if let Value::Object(fields) = value {
        fields.insert(name.to_owned(), new);
    }
}

/// A date such as `November 22, 2026`.
pub(crate) fn date_text(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().strftime("%B %-d, %Y").to_string()
}

/// A status as shown on pages.
pub(crate) const fn status_text(status: Status) -> &'static str {
    match status {
        Status::Incomplete => "Incomplete",
        Status::IncompleteExpired => "Expired before payment",
        Status::Trialing => "Trial",
        Status::Active => "Active",
        Status::PastDue => "Payment due",
        Status::Unpaid => "Unpaid",
        Status::Paused => "Paused",
        Status::Canceled => "Canceled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_attributes_have_old_values() {
        let before = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": null });
        let after = json!({ "a": 1, "b": { "c": 3, "d": 2 }, "e": 5 });
        assert_eq!(previous(&before, &after), json!({ "b": { "c": 1 }, "e": null }));
    }
}
