//! The checks of payments for `basalt doctor`: whether Stripe accepts the key, and whether this machine's clock is close to Stripe's. Webhooks
//! that seem to be more than five minutes old or early are refused (functions.md 6).

use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::http_client::{HttpClient, HttpError};
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
/// The largest difference between the clocks at which webhooks are accepted, and the smallest one to report.
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
            "no stripe.secret_key: unless STRIPE_SECRET_KEY is among `basalt secrets list`, nothing can be bought; set it, or start \
             `basalt-stripe-double` for test cards",
        )];
    };
    let base = config.api_base.as_ref().map_or(API, |base| base.url().as_str());
    // The functions make this call too.
    let url = format!("{}/v1/subscriptions?limit=1", base.trim_end_matches('/'));
    let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()));
    let (Ok(url), Ok(bearer)) = (url.parse::<Url>(), bearer) else {
        return vec![finding(Fail, "stripe.secret_key or stripe.api_base cannot be sent: check both")];
    };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
    let response = HttpClient::default().get(&url, headers, RESPONSE_BYTES, Instant::now() + DEADLINE).await;
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
        401 => finding(Fail, "Stripe refuses stripe.secret_key: check it in Stripe's dashboard"),
        403 => finding(
            Fail,
            "stripe.secret_key may not read subscriptions: give the restricted key that right in Stripe's dashboard",
        ),
        status => finding(Warn, format!("Stripe answers {status}: see status.stripe.com")),
    };
    let date = response.headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    let clock = match date.map(|date| clock.unix_seconds() - date.as_second()) {
        Some(ahead) => compared(ahead),
        None => finding(Warn, "Stripe's response has no date to compare this machine's clock with"),
    };
    vec![key, clock]
}

/// `ahead`: by how many seconds this machine's clock is ahead of Stripe's.
fn compared(ahead: i64) -> Finding {
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let difference = format!("this machine's clock is {} s {direction} Stripe's", ahead.abs());
    match ahead.abs() {
        TOLERANCE_S.. => {
            finding(Outcome::Fail, format!("{difference}: every webhook is refused; set the clock"))
        }
        NOTICEABLE_S.. => {
            finding(Outcome::Warn, format!("{difference}: from 300 s on webhooks are refused; set the clock"))
        }
        _ => finding(Outcome::Ok, "this machine's clock agrees with Stripe's"),
    }
}
