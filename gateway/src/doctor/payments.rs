//! Whether Stripe takes the key, and whether this machine's clock is near Stripe's: webhooks that seem older or newer than five
//! minutes are refused (functions.md 6).

use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::http_client::{HttpClient, HttpError};
use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderValue};
use jiff::fmt::rfc2822::DateTimeParser;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use url::Url;

use super::Report;
use crate::config::{Config, Only};

const SUBJECT: &str = "payments";
const STRIPE: &str = "https://api.stripe.com";
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES: usize = 1024 * 1024;
/// What webhooks are allowed to be off by, and from when on we speak of it.
const TOLERANCE_S: i64 = 300;
const NOTICEABLE_S: i64 = 30;

pub(super) async fn payments(config: &Config, clock: &Clock, report: &mut Report) {
    if !config.functions.builtin || !matches!(config.only, None | Some(Only::Functions)) {
        return;
    }
    let Some(key) = &config.stripe.secret_key else {
        return if config.is_development() {
            report.ok(SUBJECT, "no stripe.secret_key: the double of Stripe takes test cards");
        } else {
            report.warn(
                SUBJECT,
                "no stripe.secret_key: unless STRIPE_SECRET_KEY is among `basalt secrets list`, nothing can be bought",
            );
        };
    };
    let base = config.stripe.api_base.as_ref().map_or(STRIPE, |base| base.url().as_str());
    // A call that the functions make, too.
    let url = format!("{}/v1/subscriptions?limit=1", base.trim_end_matches('/'));
    let mut headers = HeaderMap::new();
    let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()));
    let (Ok(url), Ok(bearer)) = (url.parse::<Url>(), bearer) else {
        return report.fail(SUBJECT, "stripe.secret_key or stripe.api_base cannot be sent: check both");
    };
    headers.insert(AUTHORIZATION, bearer);
    let asked = HttpClient::default().get(&url, headers, ANSWER_BYTES, Instant::now() + PATIENCE).await;
    let answer = match asked {
        Ok(answer) => answer,
        Err(
            error @ (HttpError::Url
            | HttpError::NotPublic
            | HttpError::TooLarge(_)
            | HttpError::Deadline
            | HttpError::Connection(_)),
        ) => {
            return report.fail(SUBJECT, format!("Stripe cannot be reached ({error}): check the network"));
        }
    };
    match answer.status.as_u16() {
        200 => report.ok(SUBJECT, "Stripe takes stripe.secret_key"),
        401 => report.fail(SUBJECT, "Stripe refuses stripe.secret_key: check it in Stripe's dashboard"),
        403 => report.fail(
            SUBJECT,
            "stripe.secret_key may not read subscriptions: give the restricted key its rights",
        ),
        status => report.warn(SUBJECT, format!("Stripe answers {status}: see status.stripe.com")),
    }
    let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
    let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else {
        return report.warn(SUBJECT, "Stripe's answer has no date to compare the clock with");
    };
    let ahead = clock.unix_seconds() - date.as_second();
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let off = format!("this machine's clock is {} s {direction} Stripe's", ahead.abs());
    match ahead.abs() {
        TOLERANCE_S.. => report.fail(SUBJECT, format!("{off}: every webhook is refused; set the clock")),
        NOTICEABLE_S.. => {
            report.warn(SUBJECT, format!("{off}: from 300 s on webhooks are refused; set the clock"))
        }
        _ => report.ok(SUBJECT, "this machine's clock is that of Stripe"),
    }
}
