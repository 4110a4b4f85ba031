//! A burst of webhooks, as on the first of a month: each gets 200 and is processed once.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::stripe::{Stripe, delivery, subscription};
use super::{calls, milliseconds};
use crate::basalt::Basalt;
use crate::report::rounded;

/// Events of each subscription.
const EACH: u64 = 4;
/// Deliveries at once.
const AT_ONCE: u16 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends `count` events about a quarter as many subscriptions, and waits until all are processed.
pub(super) async fn measure(basalt: &Basalt, stripe: &Stripe, count: u64) -> Result<Value> {
    let created = jiff::Timestamp::now().as_second();
    let requests: Result<Vec<Vec<u8>>> = (0..count)
        .map(|number| {
            delivery(&json!({
                "id": format!("evt_{number}"), "object": "event", "type": "customer.subscription.updated", "created": created,
                "livemode": false, "api_version": "2026-09-30.endive",
                "data": {"object": subscription(&(number / EACH).to_string())},
            }))
        })
        .collect();
    let fetches = stripe.fetches();
    let start = Instant::now();
    let load = calls(basalt.port, &Rc::new(requests?), 200, AT_ONCE, 1).await?;
    let answered = start.elapsed();
    let database = basalt.database().await?;
    let state =
        "select count(*) filter (where status = 'processed'), count(*), coalesce(max(attempts), 0)::bigint
                 from public.webhook_events";
    loop {
        let row = database.query_one(state, &[]).await?;
        let (processed, stored, attempts): (i64, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if u64::try_from(processed)? == count {
            ensure!(processed == stored && attempts == 1, "{stored} events, up to {attempts} attempts");
            break;
        }
        if start.elapsed() > PATIENCE {
            bail!("{processed} of {count} events are processed after {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let processed = start.elapsed();
    let rows: i64 =
        database.query_one("select count(*) from public.user_subscriptions", &[]).await?.try_get(0)?;
    ensure!(u64::try_from(rows)? == count.div_ceil(EACH), "{rows} subscriptions");
    Ok(json!({
        "answered_ms": milliseconds(answered), "processed_ms": milliseconds(processed),
        "per_second": rounded(load.rate()), "p50_ms": rounded(load.quantile_ms(0.5)),
        "p99_ms": rounded(load.quantile_ms(0.99)), "slowest_ms": rounded(load.quantile_ms(1.0)),
        "fetches": stripe.fetches() - fetches,
    }))
}
