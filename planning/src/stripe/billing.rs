//! The payment tables, accessed as `service_role`: callers have no write access, because they could grant themselves subscriptions.

use basalt_pg::pool::{ServicePool, Tx};
use basalt_pg::session::SessionError;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::objects::{Subscription, SubscriptionStatus};
use crate::STATEMENT_LIMIT;

/// Reads and writes the payment tables. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Billing {
    pub(crate) pool: ServicePool,
}

/// An active plan.
pub(crate) struct Plan {
    pub(crate) id: Uuid,
}

/// A row of `user_subscriptions`.
pub(crate) struct StoredSubscription {
    pub(crate) id: String,
    pub(crate) customer: String,
    pub(crate) price: Option<String>,
    pub(crate) status: SubscriptionStatus,
}

/// The state before a fetch from Stripe.
pub(crate) struct FetchStart {
    /// The database's clock, which orders the writes of all servers.
    pub(crate) now: Timestamp,
    /// When the fetch of the currently stored state began.
    pub(crate) state_as_of: Option<Timestamp>,
}

/// Hints about the owner of a subscription, strongest first.
#[derive(Debug, Default)]
pub(crate) struct OwnerCandidates<'a> {
    pub(crate) subscription: &'a str,
    /// The user in the subscription's metadata.
    pub(crate) in_metadata: Option<Uuid>,
    pub(crate) customer: Option<&'a str>,
    /// The user of the checkout session.
    pub(crate) in_session: Option<Uuid>,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether the state was stored. If not, a newer state is stored or the subscription has ended.
    pub(crate) is_applied: bool,
    /// Whether the user has another subscription that has not ended.
    pub(crate) has_another: bool,
}

impl Billing {
    /// The active plan with this price.
    pub(crate) async fn active_plan(&self, price: &str) -> Result<Option<Plan>, SessionError> {
        const PLAN: &str = "select id from public.subscription_plans where stripe_price_id = $1 and active";
        Ok(self.row(PLAN, &[&price]).await?.and_then(|row| Some(Plan { id: row.try_get(0).ok()? })))
    }

    /// The user's customer in live or test mode.
    pub(crate) async fn customer(&self, user: Uuid, is_live: bool) -> Result<Option<String>, SessionError> {
        const CUSTOMER: &str =
            "select stripe_customer_id from public.stripe_customers where user_id = $1 and livemode = $2";
        Ok(self.row(CUSTOMER, &[&user, &is_live]).await?.and_then(|row| row.try_get(0).ok()))
    }

    /// Stores the user's customer and returns the stored one: of two concurrent writes, the first wins.
    pub(crate) async fn store_customer(
        &self,
        user: Uuid,
        is_live: bool,
        customer: &str,
    ) -> Result<Option<String>, SessionError> {
        const KEEP: &str = "\
insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values ($1, $2, $3)
on conflict do nothing";
        self.execute(KEEP, &[&user, &is_live, &customer]).await?;
        self.customer(user, is_live).await
    }

    /// Removes a customer that Stripe has deleted.
    pub(crate) async fn forget_customer(&self, customer: &str) -> Result<(), SessionError> {
        const FORGET: &str = "delete from public.stripe_customers where stripe_customer_id = $1";
        self.execute(FORGET, &[&customer]).await
    }

    /// A user's subscriptions in live or test mode, by precedence.
    pub(crate) async fn subscriptions(
        &self,
        user: Uuid,
        is_live: bool,
    ) -> Result<Vec<StoredSubscription>, SessionError> {
        const SUBSCRIPTIONS: &str = "\
select stripe_subscription_id, stripe_customer_id, stripe_price_id, status
from public.user_subscriptions
where user_id = $1 and livemode = $2
order by array_position(array['active', 'trialing', 'past_due', 'unpaid', 'paused', 'incomplete', 'canceled'], status),
  created_at desc
limit 20";
        let rows = self.rows(SUBSCRIPTIONS, &[&user, &is_live]).await?;
        let known = |row: &Row| {
            Some(StoredSubscription {
                id: row.try_get(0).ok()?,
                customer: row.try_get(1).ok()?,
                price: row.try_get(2).ok()?,
                status: SubscriptionStatus::parse(row.try_get(3).ok()?)?,
            })
        };
        Ok(rows.iter().filter_map(known).collect())
    }

    /// Whether a subscription belongs to a user.
    pub(crate) async fn owns(&self, user: Uuid, subscription: &str) -> Result<bool, SessionError> {
        const OWNS: &str = "\
select from public.user_subscriptions where stripe_subscription_id = $1 and user_id = $2";
        Ok(self.row(OWNS, &[&subscription, &user]).await?.is_some())
    }

    /// Call before fetching a subscription; its time orders the writes.
    pub(crate) async fn begin_fetch(&self, subscription: &str) -> Result<FetchStart, SessionError> {
        const BEFORE: &str = "\
select clock_timestamp(), (select s.state_as_of from public.user_subscriptions s where s.stripe_subscription_id = $1)";
        let row = self.row(BEFORE, &[&subscription]).await?;
        let parse =
            |row: &Row| Some(FetchStart { now: row.try_get(0).ok()?, state_as_of: row.try_get(1).ok()? });
        row.as_ref().and_then(parse).ok_or_else(no_row)
    }

    /// The first candidate that has an account.
    pub(crate) async fn owner(&self, candidates: &OwnerCandidates<'_>) -> Result<Option<Uuid>, SessionError> {
        const OWNER: &str = "\
select coalesce(
  (select s.user_id from public.user_subscriptions s where s.stripe_subscription_id = $1),
  (select $2::uuid from functions.account($2)),
  (select c.user_id from public.stripe_customers c where c.stripe_customer_id = $3),
  (select $4::uuid from functions.account($4)))";
        let OwnerCandidates { subscription, in_metadata, customer, in_session } = candidates;
        let row = self.row(OWNER, &[subscription, in_metadata, customer, in_session]).await?;
        Ok(row.and_then(|row| row.try_get(0).ok()).flatten())
    }

    /// Whether an account exists.
    pub(crate) async fn has_account(&self, user: Uuid) -> Result<bool, SessionError> {
        const ACCOUNT: &str = "select from functions.account($1)";
        Ok(self.row(ACCOUNT, &[&user]).await?.is_some())
    }

    /// Whether the customer's user was deleted. With `has_active`, schedules the job again that ends the customer's subscriptions.
    pub(crate) async fn is_former_customer(
        &self,
        customer: &str,
        has_active: bool,
    ) -> Result<bool, SessionError> {
        const FORMER: &str = "select livemode from functions.former_customers where customer = $1";
        const AGAIN: &str = "select functions.note_former_customer($1, $2)";
        let Some(row) = self.row(FORMER, &[&customer]).await? else { return Ok(false) };
        if has_active {
            let is_live: bool = row.try_get(0).map_err(|_| no_row())?;
            self.execute(AGAIN, &[&customer, &is_live]).await?;
        }
        Ok(true)
    }

    /// The account with this confirmed address, if there is exactly one.
    pub(crate) async fn account_of(&self, email: &str) -> Result<Option<Uuid>, SessionError> {
        const ACCOUNT: &str = "select functions.account_of_confirmed_email($1)";
        let row = self.row(ACCOUNT, &[&email]).await?;
        Ok(row.and_then(|row| row.try_get(0).ok()).flatten())
    }

    /// Stores a subscription's state, and the user of its customer if unknown, in one transaction.
    pub(crate) async fn apply(
        &self,
        user: Uuid,
        subscription: &Subscription,
        as_of: Timestamp,
        event: Option<&str>,
    ) -> Result<Applied, SessionError> {
        const APPLY: &str = "select public.apply_subscription_state($1)";
        const KEEP: &str = "\
insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values ($1, $2, $3)
on conflict do nothing";
        const ANOTHER: &str = "\
select exists (
  select from public.user_subscriptions
  where user_id = $1 and livemode = $3 and stripe_subscription_id <> $2 and status not in ('canceled', 'incomplete_expired'))";
        let state = state(user, subscription, as_of, event);
        let tx = self.pool.begin(Instant::now() + STATEMENT_LIMIT).await?;
        let applied = async {
            let result: String = tx.query_one(APPLY, &[&state]).await?.try_get(0).map_err(|_| no_row())?;
            if let Some(customer) = &subscription.customer {
                tx.execute(KEEP, &[&user, &subscription.is_live, customer]).await?;
            }
            let has_another = !subscription.has_ended()
                && tx
                    .query_one(ANOTHER, &[&user, &subscription.id, &subscription.is_live])
                    .await?
                    .try_get(0)
                    .unwrap_or(false);
            Ok(Applied { is_applied: result == "applied", has_another })
        };
        let applied = applied.await;
        tx.finish(applied).await
    }

    /// Whether the stored row of a subscription equals Stripe's state.
    pub(crate) async fn has_state(&self, subscription: &Subscription) -> Result<bool, SessionError> {
        const SAME: &str = "\
select from public.user_subscriptions, (values ($1::jsonb)) as stripe (says)
where stripe_subscription_id = says ->> 'subscription_id'
  and (stripe_price_id, status, cancel_at_period_end, cancel_at, current_period_end, trial_end, ended_at)
    is not distinct from (says ->> 'price_id', says ->> 'status', (says ->> 'cancel_at_period_end')::boolean,
      (says ->> 'cancel_at')::timestamptz, (says ->> 'current_period_end')::timestamptz,
      (says ->> 'trial_end')::timestamptz, (says ->> 'ended_at')::timestamptz)";
        let state = state(Uuid::nil(), subscription, Timestamp::UNIX_EPOCH, None);
        Ok(self.row(SAME, &[&state]).await?.is_some())
    }

    /// Stores an event that Stripe could not deliver; returns `false` if it is already stored.
    pub(crate) async fn add_event(&self, id: &str, kind: &str, event: &Value) -> Result<bool, SessionError> {
        const ADD: &str = "\
insert into public.webhook_events (id, source, event_type, payload, event_created_at, next_attempt_at)
values ($1, 'stripe', $2, $3, $4, now())
on conflict (id) do nothing
returning id";
        let created = event.get("created").and_then(Value::as_i64);
        let created = created.and_then(|created| Timestamp::from_second(created).ok());
        Ok(self.row(ADD, &[&id, &kind, event, &created]).await?.is_some())
    }

    /// Whether this server should catch up now: a day after any server last did.
    pub(crate) async fn begin_to_catch_up(&self) -> Result<bool, SessionError> {
        const BEGIN: &str = "\
insert into functions.caught_up (at) values (now())
on conflict (only_one) do update set at = excluded.at where caught_up.at <= now() - interval '1 day'
returning at";
        Ok(self.row(BEGIN, &[]).await?.is_some())
    }

    /// Schedules the retry of a failed catch-up.
    pub(crate) async fn catch_up_in_an_hour(&self) -> Result<(), SessionError> {
        self.execute("update functions.caught_up set at = now() - interval '23 hours'", &[]).await
    }

    async fn row(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, SessionError> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    async fn rows(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SessionError> {
        let tx: Tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let rows = tx.query(sql, params).await;
        tx.finish(rows).await
    }

    async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<(), SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let done = tx.execute(sql, params).await;
        tx.finish(done).await.map(drop)
    }
}

fn no_row() -> SessionError {
    SessionError::Unavailable("expected one row, got none".to_owned())
}

fn state(user: Uuid, subscription: &Subscription, as_of: Timestamp, event: Option<&str>) -> Value {
    json!({
        "user_id": user,
        "subscription_id": subscription.id,
        "customer_id": subscription.customer.as_deref().unwrap_or_default(),
        "price_id": subscription.price,
        "status": subscription.status.as_str(),
        "cancel_at_period_end": subscription.is_ending(),
        "cancel_at": time(subscription.cancel_at),
        "current_period_end": time(subscription.current_period_end),
        "trial_end": time(subscription.trial_end),
        "ended_at": time(subscription.ended_at),
        "livemode": subscription.is_live,
        "state_as_of": as_of.to_string(),
        "event_id": event,
    })
}

/// Unix seconds in PostgreSQL's input format.
pub(crate) fn time(seconds: Option<i64>) -> Option<String> {
    seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).map(|time| time.to_string())
}
