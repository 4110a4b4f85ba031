//! `check-price`: the amount and interval of a price at Stripe, which the app reads before it saves a plan. For administrators.
//!
//! Without a Stripe key there is nothing to check and nothing can be bought, so the answer has no price. Anything else that prevents the
//! check is an error: the app must not save a plan that Stripe cannot charge.

use std::sync::Arc;

use axum::body::Body;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use super::{Answer, Caller, fields, ok};
use crate::app::App;
use crate::refusal::Refusal;
use crate::stripe::{INTERACTIVE, StripeError};

/// The column that the refusals are about.
const SUBJECT: &str = "stripe_price_id";
const ID_BYTES: usize = 255;

pub(crate) async fn check_price(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let id = fields.required("priceId")?;
    if !is_price_id(id) {
        return Err(unknown());
    }
    if let Err(StripeError::NotConfigured { .. }) = app.stripe.access() {
        return ok(&json!({"success": true, "price": null}));
    }
    app.rates.check_price.take(caller.id.to_string())?;
    let object = app.stripe.get(&format!("prices/{id}"), INTERACTIVE).await;
    let object = object.map_err(|error| refusal(&error))?;
    let (cents, interval) = read(&object)?;
    ok(&json!({
        "success": true,
        "price": {"cents": cents, "interval": interval, "active": object.get("active") != Some(&Value::Bool(false))},
    }))
}

fn is_price_id(text: &str) -> bool {
    text.len() <= ID_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn unknown() -> Refusal {
    let message = "Stripe has no price with this ID. Copy it from the price's page in Stripe's dashboard.";
    Refusal::bad_request(message).with_code(SUBJECT)
}

fn refusal(error: &StripeError) -> Refusal {
    if error.is_missing() {
        return unknown();
    }
    let message = format!(
        "The price could not be checked, and nothing was saved: {}. Please try again.",
        error.sentence()
    );
    Refusal::new(StatusCode::BAD_GATEWAY, message)
}

/// Cents per interval, and the interval.
fn read(price: &Value) -> Result<(i64, &str), Refusal> {
    let refused = |message: &str| Refusal::bad_request(message.to_owned()).with_code(SUBJECT);
    let text = |pointer: &str| price.pointer(pointer).and_then(Value::as_str);
    let count = price.pointer("/recurring/interval_count").and_then(Value::as_i64).unwrap_or(1);
    let Some(interval @ ("day" | "week" | "month" | "year")) = text("/recurring/interval") else {
        return Err(refused("This Stripe price is paid once. Use one that recurs."));
    };
    if count != 1 {
        return Err(refused(&format!(
            "This Stripe price is charged every {count} {interval}s. Use one that is charged every {interval}."
        )));
    }
    match text("/currency") {
        Some("usd") => {}
        currency => {
            let currency = currency.unwrap_or("an unknown currency").to_uppercase();
            return Err(refused(&format!("This Stripe price is in {currency}. Use one in USD.")));
        }
    }
    let cents = price.get("unit_amount").and_then(Value::as_i64);
    let cents = cents.ok_or_else(|| refused("This Stripe price has no fixed amount in cents."))?;
    Ok((cents, interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_simple_recurring_dollar_prices_pass() {
        let price = |change: &[(&str, Value)]| {
            let mut price = json!({
                "id": "price_1", "unit_amount": 1950, "currency": "usd",
                "recurring": {"interval": "month", "interval_count": 1},
            });
            for (name, value) in change {
                price[*name] = value.clone();
            }
            read(&price)
                .map(|(cents, interval)| (cents, interval.to_owned()))
                .map_err(|refused| refused.message)
        };
        assert_eq!(price(&[]), Ok((1950, "month".to_owned())));
        let message = |name: &str, value: Value| price(&[(name, value)]).unwrap_err().into_owned();
        assert_eq!(message("recurring", Value::Null), "This Stripe price is paid once. Use one that recurs.");
        assert_eq!(
            message("recurring", json!({"interval": "month", "interval_count": 3})),
            "This Stripe price is charged every 3 months. Use one that is charged every month."
        );
        assert_eq!(message("currency", json!("eur")), "This Stripe price is in EUR. Use one in USD.");
        assert_eq!(message("unit_amount", Value::Null), "This Stripe price has no fixed amount in cents.");
    }
}
