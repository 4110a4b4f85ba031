//! The prices of the app's plans, read through the server's REST API, so that a new plan can be bought immediately.

use std::time::Duration;

use basalt_core::http_client::{HttpClient, Reach};
use futures_util::future::{BoxFuture, FutureExt as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use crate::prices::{Interval, Price, Prices};

const APIKEY: HeaderName = HeaderName::from_static("apikey");
const DEADLINE: Duration = Duration::from_secs(10);
const RESPONSE_BYTES: usize = 1024 * 1024;

/// The rows of `public.subscription_plans`.
pub struct PlanPrices {
    http: HttpClient,
    rest: Url,
    key: SecretString,
}

#[derive(Deserialize)]
struct Plan {
    stripe_price_id: String,
    name: String,
    /// Dollars as a decimal string, because a float would not be exact.
    price: String,
    interval: String,
    active: bool,
}

impl PlanPrices {
    /// `rest` is the address of the REST API; `key` must be able to read inactive plans, because existing subscriptions continue.
    #[must_use]
    pub fn new(rest: Url, key: SecretString) -> Self {
        Self { http: HttpClient::new(Reach::Anywhere), rest, key }
    }

    async fn read(&self) -> Result<Vec<Price>, String> {
        const PLANS: &str =
            "subscription_plans?select=stripe_price_id,name,price::text,interval,active&limit=1000";
        let url = format!("{}/{PLANS}", self.rest.as_str().trim_end_matches('/'));
        let url: Url = url.parse().map_err(|_| format!("{url} is not a URL"))?;
        let mut key = HeaderValue::from_str(self.key.expose_secret())
            .map_err(|_| "the server's key contains invalid characters")?;
        key.set_sensitive(true);
        let headers = HeaderMap::from_iter([(APIKEY, key)]);
        let response = self.http.get(&url, headers, RESPONSE_BYTES, Instant::now() + DEADLINE).await;
        let response = response.map_err(|error| format!("cannot read the server's plans: {error}"))?;
        if !response.status.is_success() {
            return Err(format!("cannot read the server's plans ({}): check the key", response.status));
        }
        let plans: Vec<Plan> = serde_json::from_slice(&response.body)
            .map_err(|error| format!("the server's list of plans is invalid: {error}"))?;
        Ok(plans.into_iter().filter_map(Plan::into_price).collect())
    }
}

impl Prices for PlanPrices {
    fn prices(&self) -> BoxFuture<'_, Result<Vec<Price>, String>> {
        self.read().boxed()
    }
}

impl Plan {
    fn into_price(self) -> Option<Price> {
        Some(Price {
            id: self.stripe_price_id,
            product_name: self.name,
            unit_amount: cents(&self.price)?,
            currency: "usd".to_owned(),
            interval: Interval::parse(&self.interval)?,
            active: self.active,
        })
    }
}

/// Converts `19`, `19.5` and `19.00` to cents.
fn cents(dollars: &str) -> Option<i64> {
    let (whole, rest) = dollars.split_once('.').unwrap_or((dollars, ""));
    let digits: String = rest.chars().chain("00".chars()).take(2).collect();
    whole.parse::<i64>().ok()?.checked_mul(100)?.checked_add(digits.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_prices_to_cents() {
        for (text, expected) in
            [("19.00", Some(1900)), ("19", Some(1900)), ("0.5", Some(50)), ("1.239", Some(123)), ("", None)]
        {
            assert_eq!(cents(text), expected, "{text}");
        }
    }
}
