//! Names and labels of the functions' metrics. Labels come from closed sets: names of the registry, types of signed events.

use std::time::Duration;

use http::StatusCode;

/// A function was called.
pub(crate) fn called(function: &str, status: StatusCode, took: Duration) {
    let class = match status.as_u16() / 100 {
        1 | 2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    let name = function.to_owned();
    metrics::counter!("basalt_functions_requests_total", "function" => name.clone(), "status" => class)
        .increment(1);
    metrics::histogram!("basalt_functions_duration_seconds", "function" => name).record(took.as_secs_f64());
}

/// A call was refused for its token.
pub(crate) fn refused(function: &str) {
    metrics::counter!("basalt_functions_refused_total", "function" => function.to_owned()).increment(1);
}

/// A caller of a built-in function was refused by a rate limit.
pub(crate) fn rate_limited(limit: &'static str) {
    metrics::counter!("basalt_functions_rate_limited_total", "limit" => limit).increment(1);
}

/// A call of Stripe's API ended.
pub(crate) fn stripe_called(outcome: &'static str, took: Duration) {
    metrics::counter!("basalt_stripe_calls_total", "outcome" => outcome).increment(1);
    metrics::histogram!("basalt_stripe_call_duration_seconds").record(took.as_secs_f64());
}

/// A webhook was delivered.
pub(crate) fn webhook(outcome: &'static str) {
    metrics::counter!("basalt_stripe_webhooks_total", "outcome" => outcome).increment(1);
}
