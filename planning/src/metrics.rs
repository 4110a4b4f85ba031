//! The metrics of this crate; `metric_table.rs` describes them. Labels have closed sets of values.

use std::time::Duration;

/// A rate limit rejected a caller.
pub(crate) fn rate_limited(limit: &'static str) {
    metrics::counter!("basalt_functions_rate_limited_total", "limit" => limit).increment(1);
}

/// A call to Stripe's API ended.
pub(crate) fn stripe_called(outcome: &'static str, took: Duration) {
    metrics::counter!("basalt_stripe_calls_total", "outcome" => outcome).increment(1);
    metrics::histogram!("basalt_stripe_call_duration_seconds").record(took.as_secs_f64());
}

/// Stripe delivered a webhook.
pub(crate) fn webhook(outcome: &'static str) {
    metrics::counter!("basalt_stripe_webhooks_total", "outcome" => outcome).increment(1);
}
