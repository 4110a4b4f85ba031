//! Payment checks of `basalt doctor`: whether Stripe accepts the key, and whether this machine's clock is close to Stripe's. Webhooks whose
//! timestamp differs by more than five minutes are rejected (functions.md 6).

use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::http_client::{HttpClient, HttpError, Reach};
use basalt_functions::built_in::{Finding, Outcome};
use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderValue};
use jiff::fmt::rfc2822::DateTimeParser;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use url::Url;

use crate::config::StripeConfig;
use crate::stripe::API;

const DEADLINE: Duration = Duration::from_secs(10);
const RESPONSE_BYTES: usize = 1024 * 1024;
/// The largest clock difference at which webhooks are accepted, and the smallest one to report.
const TOLERANCE_S: i64 = 300;
const NOTICEABLE_S: i64 = 30;

fn finding(outcome: Outcome, text: impl Into<String>) -> Finding {
    Finding { outcome, subject: "payments", text: text.into() }
}

pub(crate) async fn check(config: &StripeConfig, clock: &Clock) -> Vec<Finding> {
    use Outcome::{Fail, Ok as Fine, Warn};
    let Some(key) = &config.secret_key else {
        return vec![finding(
            Warn,
            "stripe.secret_key is not set: unless `basalt secrets list` shows STRIPE_SECRET_KEY, nothing can be bought; set it, or start \
             `basalt-stripe-double` for test cards",
        )];
    };
    let base = config.api_base.as_ref().map_or(API, |base| base.url().as_str());
    // The functions make the same call.
    let url = format!("{}/v1/subscriptions?limit=1", base.trim_end_matches('/'));
    let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()));
    let (Ok(url), Ok(bearer)) = (url.parse::<Url>(), bearer) else {
        return vec![finding(
            Fail,
            "stripe.secret_key or stripe.api_base contains invalid characters: check both",
        )];
    };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
    let response =
        HttpClient::new(Reach::Anywhere).get(&url, headers, RESPONSE_BYTES, Instant::now() + DEADLINE).await;
    let response = match response {
        Ok(response) => response,
        Err(
            error @ (HttpError::Url
            | HttpError::NotPublic
            | HttpError::TooLarge(_)
            | HttpError::Deadline
            | HttpError::Connection(_)),
        ) => {
            return vec![finding(Fail, format!("Stripe cannot be reached ({error}): check the network"))];
        }
    };
    let key = match response.status.as_u16() {
        200 => finding(Fine, "Stripe accepts stripe.secret_key"),
        401 => finding(Fail, "Stripe rejects stripe.secret_key: check it in Stripe's dashboard"),
        403 => finding(
            Fail,
            "stripe.secret_key lacks read access to subscriptions: grant it to the restricted key in Stripe's dashboard",
        ),
        status => finding(Warn, format!("Stripe responds with {status}: see status.stripe.com")),
    };
    let date = response.headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    let clock = match date.map(|date| clock.unix_seconds() - date.as_second()) {
        Some(ahead) => clock_finding(ahead),
        None => finding(Warn, "Stripe's response has no date, so this machine's clock cannot be checked"),
    };
    vec![key, clock]
}

/// `ahead` is how many seconds this machine's clock is ahead of Stripe's.
fn clock_finding(ahead: i64) -> Finding {
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let difference = format!("this machine's clock is {} s {direction} Stripe's", ahead.abs());
    match ahead.abs() {
        TOLERANCE_S.. => {
            finding(Outcome::Fail, format!("{difference}: every webhook is rejected; set the clock"))
        }
        NOTICEABLE_S.. => finding(
            Outcome::Warn,
            format!("{difference}: webhooks are rejected from 300 s on; set the clock"),
        ),
        _ => finding(Outcome::Ok, "this machine's clock agrees with Stripe's"),
    }
}
