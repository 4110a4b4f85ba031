//! Parses the parts of Stripe's objects that the app uses (functions.md 3.17.4), in every API version since 2022: an endpoint keeps the version
//! that it was created with, so a field may be in its old or its new location.

use serde_json::Value;
use uuid::Uuid;

/// The status of a subscription, ordered by precedence: the smallest is shown if a user has several (functions.md 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SubscriptionStatus {
    Active,
    Trialing,
    PastDue,
    Unpaid,
    Paused,
    Incomplete,
    Canceled,
    IncompleteExpired,
}

impl SubscriptionStatus {
    const ALL: [Self; 8] = [
        Self::Active,
        Self::Trialing,
        Self::PastDue,
        Self::Unpaid,
        Self::Paused,
        Self::Incomplete,
        Self::Canceled,
        Self::IncompleteExpired,
    ];

    /// The value at Stripe and in our table.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Trialing => "trialing",
            Self::PastDue => "past_due",
            Self::Unpaid => "unpaid",
            Self::Paused => "paused",
            Self::Incomplete => "incomplete",
            Self::Canceled => "canceled",
            Self::IncompleteExpired => "incomplete_expired",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the subscription can never become active again.
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Canceled | Self::IncompleteExpired)
    }
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) customer: Option<String>,
    pub(crate) status: SubscriptionStatus,
    pub(crate) price: Option<String>,
    pub(crate) item: Option<String>,
    /// Unix seconds, as all times here.
    pub(crate) current_period_end: Option<i64>,
    pub(crate) cancel_at_period_end: bool,
    pub(crate) cancel_at: Option<i64>,
    pub(crate) trial_end: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) is_live: bool,
    /// The user in the metadata, which our checkout sets.
    pub(crate) user: Option<Uuid>,
}

impl Subscription {
    /// Parses a subscription; `None` if it has no id or status.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let id = id(object.get("id"))?;
        let status = object.get("status")?.as_str()?;
        let status = SubscriptionStatus::parse(status).unwrap_or_else(|| {
            tracing::warn!("unknown subscription status from Stripe; treating it as past_due");
            SubscriptionStatus::PastDue
        });
        let items = object.pointer("/items/data").and_then(Value::as_array);
        let first = items.and_then(|items| items.first());
        let item_end = |item: &Value| seconds(item, "current_period_end");
        let period = items.into_iter().flatten().filter_map(item_end).max();
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

    /// Whether the subscription will end by itself, according to either of Stripe's two fields.
    pub(crate) fn is_ending(&self) -> bool {
        self.cancel_at_period_end || (self.cancel_at.is_some() && !self.has_ended())
    }

    /// Whether the subscription can never become active again.
    pub(crate) fn has_ended(&self) -> bool {
        self.status.has_ended()
    }
}

/// An id, given as a string or in an expanded object.
pub(crate) fn id(value: Option<&Value>) -> Option<String> {
    let value = value?;
    let id = value.as_str().or_else(|| value.get("id")?.as_str())?;
    Some(id.to_owned()).filter(|id| !id.is_empty() && id.len() <= 255)
}

/// `metadata.user_id` of an object.
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
    fn parses_both_versions_of_a_subscription() {
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
        let unknown = json!({"id": "sub_1", "status": "dreaming"});
        assert_eq!(Subscription::read(&unknown).unwrap().status, SubscriptionStatus::PastDue);
        for invalid in [json!({}), json!({"id": 1, "status": "active"}), json!("x"), json!({"id": "sub_1"})] {
            assert_eq!(Subscription::read(&invalid), None);
        }
    }

    #[test]
    fn parses_both_versions_of_an_invoice() {
        let new = json!({"parent": {"subscription_details": {"subscription": "sub_1"}}});
        let old = json!({"subscription": {"id": "sub_1"}});
        for invoice in [new, old] {
            assert_eq!(subscription_of_invoice(&invoice).as_deref(), Some("sub_1"));
        }
        assert_eq!(subscription_of_invoice(&json!({"subscription": null})), None);
    }
}
