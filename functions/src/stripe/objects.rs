//! What we read of Stripe's objects (functions.md 3.17.4), in the shapes that its API has had since 2022: an endpoint keeps the
//! version it was made with, so that both the old and the new places of a field arrive.

use serde_json::Value;
use uuid::Uuid;

/// The statuses that our table has.
const STATUSES: [&str; 8] =
    ["incomplete", "incomplete_expired", "trialing", "active", "past_due", "canceled", "unpaid", "paused"];

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) customer: Option<String>,
    pub(crate) status: &'static str,
    pub(crate) price: Option<String>,
    pub(crate) item: Option<String>,
    /// Seconds since 1970, as all times here.
    pub(crate) current_period_end: Option<i64>,
    pub(crate) cancel_at_period_end: bool,
    pub(crate) cancel_at: Option<i64>,
    pub(crate) trial_end: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) is_live: bool,
    /// Whose it is, by the metadata that our checkout gave it.
    pub(crate) user: Option<Uuid>,
}

impl Subscription {
    /// Reads one; `None` when it has no id or status.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let id = id(object.get("id"))?;
        let status = object.get("status")?.as_str()?;
        let status = STATUSES.into_iter().find(|known| *known == status).unwrap_or_else(|| {
            tracing::warn!("Stripe has a new status of subscriptions; it is taken for past_due");
            "past_due"
        });
        let items = object.pointer("/items/data").and_then(Value::as_array);
        let first = items.and_then(|items| items.first());
        let of_item = |item: &Value| seconds(item, "current_period_end");
        let period = items.into_iter().flatten().filter_map(of_item).max();
        Some(Self {
            customer: self::id(object.get("customer")),
            status,
            price: self::id(first.and_then(|item| item.get("price")))
                .or_else(|| self::id(first.and_then(|item| item.get("plan"))))
                .or_else(|| self::id(object.get("plan"))),
            item: self::id(first.and_then(|item| item.get("id"))),
            current_period_end: period.or_else(|| seconds(object, "current_period_end")),
            cancel_at_period_end: object
                .get("cancel_at_period_end")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            cancel_at: seconds(object, "cancel_at"),
            trial_end: seconds(object, "trial_end"),
            ended_at: seconds(object, "ended_at"),
            is_live: object.get("livemode").and_then(Value::as_bool).unwrap_or(false),
            user: user_in(object),
            id,
        })
    }

    /// Whether it ends by itself, by either of Stripe's two ways to say so.
    pub(crate) fn is_ending(&self) -> bool {
        self.cancel_at_period_end || (self.cancel_at.is_some() && !self.has_ended())
    }

    /// Whether it can never come back.
    pub(crate) fn has_ended(&self) -> bool {
        is_ended(self.status)
    }
}

/// Whether a subscription in this status can never come back.
pub(crate) fn is_ended(status: &str) -> bool {
    matches!(status, "canceled" | "incomplete_expired")
}

/// What counts first when a user has several (functions.md 4.3): the smaller the better.
pub(crate) fn rank(status: &str) -> usize {
    const ORDER: [&str; 7] = ["active", "trialing", "past_due", "unpaid", "paused", "incomplete", "canceled"];
    ORDER.iter().position(|known| *known == status).unwrap_or(ORDER.len())
}

/// An id, which may stand alone or be that of an expanded object.
pub(crate) fn id(value: Option<&Value>) -> Option<String> {
    let value = value?;
    let id = value.as_str().or_else(|| value.get("id")?.as_str())?;
    Some(id.to_owned()).filter(|id| !id.is_empty() && id.len() <= 255)
}

/// `metadata.user_id`.
pub(crate) fn user_in(object: &Value) -> Option<Uuid> {
    Uuid::parse_str(object.pointer("/metadata/user_id")?.as_str()?).ok()
}

/// The subscription of an invoice.
pub(crate) fn subscription_of_invoice(invoice: &Value) -> Option<String> {
    id(invoice.pointer("/parent/subscription_details/subscription"))
        .or_else(|| id(invoice.get("subscription")))
}

fn seconds(object: &Value, name: &str) -> Option<i64> {
    object.get(name)?.as_i64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_shapes_of_a_subscription_are_read() {
        let user = "0a0a0a0a-0000-4000-8000-000000000001";
        let new = json!({
            "id": "sub_1", "customer": {"id": "cus_1"}, "status": "active", "livemode": true,
            "items": {"data": [
                {"id": "si_1", "price": {"id": "price_1"}, "current_period_end": 20},
                {"id": "si_2", "price": {"id": "price_2"}, "current_period_end": 30},
            ]},
            "cancel_at_period_end": false, "cancel_at": 30, "metadata": {"user_id": user},
        });
        let old = json!({
            "id": "sub_1", "customer": "cus_1", "status": "active", "livemode": true, "plan": {"id": "price_1"},
            "items": {"data": [{"id": "si_1"}]}, "current_period_end": 30, "cancel_at": 30,
            "metadata": {"user_id": user},
        });
        let read = Subscription::read(&new).unwrap();
        assert_eq!(Subscription::read(&old), Some(read.clone()));
        assert_eq!(
            (read.current_period_end, read.price.as_deref(), read.is_ending()),
            (Some(30), Some("price_1"), true)
        );
        let ended = json!({"id": "sub_1", "status": "canceled", "cancel_at": 30});
        assert!(!Subscription::read(&ended).unwrap().is_ending());
        let strange = json!({"id": "sub_1", "status": "dreaming"});
        assert_eq!(Subscription::read(&strange).unwrap().status, "past_due");
        for nothing in [json!({}), json!({"id": 1, "status": "active"}), json!("x"), json!({"id": "sub_1"})] {
            assert_eq!(Subscription::read(&nothing), None);
        }
    }

    #[test]
    fn both_shapes_of_an_invoice_are_read() {
        let new = json!({"parent": {"subscription_details": {"subscription": "sub_1"}}});
        let old = json!({"subscription": {"id": "sub_1"}});
        for invoice in [new, old] {
            assert_eq!(subscription_of_invoice(&invoice).as_deref(), Some("sub_1"));
        }
        assert_eq!(subscription_of_invoice(&json!({"subscription": null})), None);
    }
}
