//! Descriptions of this crate's metrics for docs/METRICS.md.

use basalt_core::metric::Kind::{Counter, Gauge, Histogram};
use basalt_core::metric::Shown::Happened;
use basalt_core::metric::{Labels, Metric};

const NONE: Labels = &[];

#[rustfmt::skip]
pub(crate) static METRICS: &[Metric] = &[
    Metric::new("basalt_stripe_calls_total", Counter, &[("outcome", "ok, refused, busy, unreachable, key")], "calls", Happened, "Calls to Stripe's API; a call includes its retries.", "key: check `stripe.secret_key`. unreachable, busy: users get a message to try again, and webhooks wait."),
    Metric::new("basalt_stripe_call_duration_seconds", Histogram, NONE, "seconds", Happened, "Duration of a call, including its retries.", ""),
    Metric::new("basalt_stripe_webhooks_total", Counter, &[("outcome", "stored, repeated, ignored, forged, unsigned, no_secret, overloaded, not_stored")], "deliveries", Happened, "Deliveries to the function `stripe-webhook`.", "forged: the endpoint's signing secret differs from the configured one. overloaded, not_stored: Stripe sends them again."),
    Metric::new("basalt_stripe_events_processed_total", Counter, &[("kind", "type of the event")], "events", Happened, "Events applied or ignored.", ""),
    Metric::new("basalt_stripe_events_failed_total", Counter, &[("kind", "type of the event")], "attempts", Happened, "Failed attempts; they are retried.", "The administrator's page Webhook Management shows the reasons."),
    Metric::new("basalt_stripe_events_dead_total", Counter, &[("kind", "type of the event")], "events", Happened, "Events abandoned after a day and a half.", "Replay them on the administrator's page."),
    Metric::new("basalt_stripe_events_waiting", Gauge, NONE, "events", Happened, "Events waiting for their next attempt.", "Stripe is unavailable, or rejects the key."),
    Metric::new("basalt_stripe_events_dead", Gauge, NONE, "events", Happened, "Abandoned events that are still stored.", "As for `basalt_stripe_events_dead_total`."),
    Metric::new("basalt_stripe_former_customers_done_total", Counter, &[("kind", "`live` or `test`")], "customers", Happened, "Deleted users whose subscriptions and sessions at Stripe have been ended.", ""),
    Metric::new("basalt_stripe_former_customers_failed_total", Counter, &[("kind", "`live` or `test`")], "attempts", Happened, "Failed attempts to end a deleted user's subscriptions; they are retried.", "Stripe is unavailable, or rejects the key."),
    Metric::new("basalt_stripe_former_customers_dead_total", Counter, &[("kind", "`live` or `test`")], "customers", Happened, "Deleted users abandoned after a week of attempts: they may still be paying.", "End their subscriptions in Stripe's dashboard; the log has the customers."),
    Metric::new("basalt_stripe_former_customers_waiting", Gauge, NONE, "customers", Happened, "Deleted users who may still have a subscription.", "As for `basalt_stripe_former_customers_failed_total`."),
    Metric::new("basalt_stripe_former_customers_dead", Gauge, NONE, "customers", Happened, "Deleted users whose subscriptions could not be ended.", "As for `basalt_stripe_former_customers_dead_total`."),
    Metric::new("basalt_plan_mails_done_total", Counter, &[("kind", "digest, reminder, mention")], "mails", Happened, "Mails about plans that were queued, or not sent because there was nothing to say any more.", ""),
    Metric::new("basalt_plan_mails_failed_total", Counter, &[("kind", "digest, reminder, mention")], "attempts", Happened, "Failed attempts to write a mail about a plan; they are retried.", "The log has the reason; usually the database."),
    Metric::new("basalt_plan_mails_dead_total", Counter, &[("kind", "digest, reminder, mention")], "mails", Happened, "Mails about plans abandoned after nine hours of attempts.", "As for `basalt_plan_mails_failed_total`."),
    Metric::new("basalt_plan_mails_waiting", Gauge, NONE, "mails", Happened, "Mails about plans that are not written yet.", "Thousands for minutes: on Monday morning this is expected."),
    Metric::new("basalt_plan_mails_dead", Gauge, NONE, "mails", Happened, "Abandoned mails about plans that are still stored.", "As for `basalt_plan_mails_failed_total`."),
    Metric::new("basalt_functions_rate_limited_total", Counter, &[("limit", "billing, invite_by_user, invite_by_user_daily, invite_by_plan, invite_by_recipient, test_email, mail_settings, webhook_secret, replay")], "requests", Happened, "Calls of built-in functions rejected with 429.", "A user retries repeatedly, or sends many invitations."),
];
