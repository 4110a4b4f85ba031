//! What the metrics of this crate mean: their rows in docs/METRICS.md.

use basalt_core::metric::Kind::{Counter, Gauge, Histogram};
use basalt_core::metric::Shown::Happened;
use basalt_core::metric::{Labels, Metric};

const NONE: Labels = &[];

#[rustfmt::skip]
pub(crate) static METRICS: &[Metric] = &[
    Metric::new("basalt_stripe_calls_total", Counter, &[("outcome", "ok, refused, busy, unreachable, key")], "calls", Happened, "Calls of Stripe's API, with their repetitions.", "key: check `stripe.secret_key`. unreachable, busy: users are told to try again, webhooks wait."),
    Metric::new("basalt_stripe_call_duration_seconds", Histogram, NONE, "seconds", Happened, "From a call to its result, with its repetitions.", ""),
    Metric::new("basalt_stripe_webhooks_total", Counter, &[("outcome", "stored, repeated, ignored, forged, unsigned, no_secret, overloaded, not_stored")], "deliveries", Happened, "Deliveries to the function `stripe-webhook`.", "forged: the endpoint's signing secret is not the one that is known here. overloaded, not_stored: Stripe sends them again."),
    Metric::new("basalt_stripe_events_processed_total", Counter, &[("kind", "type of the event")], "events", Happened, "Events applied or ignored.", ""),
    Metric::new("basalt_stripe_events_failed_total", Counter, &[("kind", "type of the event")], "attempts", Happened, "Attempts that failed; they are made again.", "The administrator's page Webhook Management has the reasons."),
    Metric::new("basalt_stripe_events_dead_total", Counter, &[("kind", "type of the event")], "events", Happened, "Events given up after a day and a half.", "Replay them on the administrator's page."),
    Metric::new("basalt_stripe_events_waiting", Gauge, NONE, "events", Happened, "Events that wait for their next attempt.", "Stripe is away, or refuses the key."),
    Metric::new("basalt_stripe_events_dead", Gauge, NONE, "events", Happened, "Events given up that are still kept.", "As for `basalt_stripe_events_dead_total`."),
    Metric::new("basalt_stripe_former_customers_done_total", Counter, &[("kind", "`live` or `test`")], "customers", Happened, "Deleted users for whom nothing runs at Stripe any more.", ""),
    Metric::new("basalt_stripe_former_customers_failed_total", Counter, &[("kind", "`live` or `test`")], "attempts", Happened, "Attempts to end what runs for them that failed; they are made again.", "Stripe is away, or refuses the key."),
    Metric::new("basalt_stripe_former_customers_dead_total", Counter, &[("kind", "`live` or `test`")], "customers", Happened, "Deleted users given up after a week: they may go on paying.", "End their subscriptions in Stripe's dashboard; the log has the customers."),
    Metric::new("basalt_stripe_former_customers_waiting", Gauge, NONE, "customers", Happened, "Deleted users for whom something may still run.", "As for `basalt_stripe_former_customers_failed_total`."),
    Metric::new("basalt_stripe_former_customers_dead", Gauge, NONE, "customers", Happened, "Deleted users given up.", "As for `basalt_stripe_former_customers_dead_total`."),
    Metric::new("basalt_functions_rate_limited_total", Counter, &[("limit", "billing, invite_by_user, invite_by_user_daily, invite_by_plan, invite_by_recipient, test_email, webhook_secret, replay")], "requests", Happened, "Calls of built-in functions refused with 429.", "A user tries again and again, or sends many invitations."),
];
