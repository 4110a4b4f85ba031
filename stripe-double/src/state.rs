//! The double's state. Each table keeps its newest [`CAPACITY`] rows and drops the oldest.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cards::Card;
use crate::params::Metadata;
use crate::prices::Price;

/// Maximum rows per table.
pub(crate) const CAPACITY: usize = 5_000;

/// The state that survives a restart if there is a state file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// Seconds by which the double's clock is ahead of the machine's.
    pub(crate) clock_offset: i64,
    /// Whether objects have the version before 2025-03-31, with the period on the subscription.
    pub(crate) is_pre_basil: bool,
    /// Created through the API; the others are the project's plans.
    #[serde(default)]
    pub(crate) prices: Table<Price>,
    pub(crate) customers: Table<Customer>,
    pub(crate) sessions: Table<Session>,
    pub(crate) portals: Table<Portal>,
    pub(crate) subscriptions: Table<Subscription>,
    pub(crate) invoices: Table<Invoice>,
    pub(crate) events: Table<Event>,
}

/// A row with an id.
pub(crate) trait Row {
    fn id(&self) -> &str;
}

/// Rows, oldest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Table<T>(VecDeque<T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Row> Table<T> {
    pub(crate) fn insert(&mut self, row: T) {
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(row);
    }

    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.0.iter().rev().find(|row| row.id() == id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.0.iter_mut().rev().find(|row| row.id() == id)
    }

    /// The rows, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Customer {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) email: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) phone: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) metadata: Metadata,
    pub(crate) deleted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SessionStatus {
    Open,
    Complete,
    Expired,
}

impl SessionStatus {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Complete => "complete",
            Self::Expired => "expired",
        }
    }
}

/// A checkout session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) expires_at: i64,
    pub(crate) status: SessionStatus,
    pub(crate) price: Price,
    pub(crate) customer: Option<String>,
    pub(crate) customer_email: Option<String>,
    pub(crate) client_reference_id: Option<String>,
    pub(crate) metadata: Metadata,
    pub(crate) subscription_metadata: Metadata,
    pub(crate) trial_days: Option<i64>,
    pub(crate) allow_promotion_codes: Option<bool>,
    pub(crate) success_url: String,
    pub(crate) cancel_url: Option<String>,
    pub(crate) subscription: Option<String>,
    pub(crate) invoice: Option<String>,
    /// The card that waits for confirmation by its owner, with the buyer's other input.
    pub(crate) confirming: Option<(Card, Buyer)>,
    pub(crate) buyer: Option<Buyer>,
}

/// The buyer's input on the checkout page, except for the card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Buyer {
    pub(crate) email: String,
    pub(crate) name: String,
}

/// A billing portal session, and the visit opened by its link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Portal {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) customer: String,
    pub(crate) return_url: Option<String>,
    pub(crate) change: Option<PlanChange>,
    /// The last part of the link, which works once.
    pub(crate) secret: String,
    /// The last part of the pages' addresses after the link was opened.
    pub(crate) visit: Option<String>,
}

/// A change of plan that a portal session asks the buyer to confirm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlanChange {
    pub(crate) subscription: String,
    pub(crate) item: String,
    pub(crate) price: Price,
    /// Where the buyer is redirected afterwards; `None` shows the portal's own confirmation.
    pub(crate) redirect: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Incomplete,
    IncompleteExpired,
    Trialing,
    Active,
    PastDue,
    Unpaid,
    Paused,
    Canceled,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::IncompleteExpired => "incomplete_expired",
            Self::Trialing => "trialing",
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Unpaid => "unpaid",
            Self::Paused => "paused",
            Self::Canceled => "canceled",
        }
    }

    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Canceled | Self::IncompleteExpired)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) item: String,
    pub(crate) customer: String,
    pub(crate) price: Price,
    pub(crate) status: Status,
    pub(crate) created: i64,
    /// The start of the first period; periods are counted from here.
    pub(crate) anchor: i64,
    /// Number of the current period, from 0.
    pub(crate) period: i64,
    pub(crate) period_start: i64,
    pub(crate) period_end: i64,
    pub(crate) cancel_at: Option<i64>,
    pub(crate) cancel_at_period_end: bool,
    pub(crate) canceled_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) cancel_reason: Option<String>,
    pub(crate) cancel_comment: Option<String>,
    pub(crate) cancel_feedback: Option<String>,
    pub(crate) metadata: Metadata,
    pub(crate) card: Card,
    pub(crate) latest_invoice: Option<String>,
    pub(crate) trial_start: Option<i64>,
    pub(crate) trial_end: Option<i64>,
    pub(crate) trial_end_announced: bool,
    /// Time of the next payment attempt while past due.
    pub(crate) next_attempt: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InvoiceStatus {
    Draft,
    Open,
    Paid,
    Void,
    Uncollectible,
}

impl InvoiceStatus {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Open => "open",
            Self::Paid => "paid",
            Self::Void => "void",
            Self::Uncollectible => "uncollectible",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Invoice {
    pub(crate) id: String,
    pub(crate) number: String,
    pub(crate) created: i64,
    pub(crate) customer: String,
    pub(crate) customer_email: Option<String>,
    pub(crate) customer_name: Option<String>,
    pub(crate) subscription: String,
    pub(crate) subscription_item: String,
    pub(crate) subscription_metadata: Metadata,
    pub(crate) billing_reason: String,
    pub(crate) status: InvoiceStatus,
    pub(crate) price: Price,
    pub(crate) amount: i64,
    pub(crate) attempts: i64,
    pub(crate) next_attempt: Option<i64>,
    pub(crate) period_start: i64,
    pub(crate) period_end: i64,
    pub(crate) finalized_at: Option<i64>,
    pub(crate) paid_at: Option<i64>,
}

/// An event in the form in which it is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) created: i64,
    pub(crate) body: Value,
    /// Whether the endpoint has responded with 2xx.
    pub(crate) delivered: bool,
}

macro_rules! rows {
    ($($name:ident)*) => {$(
        impl Row for $name {
            fn id(&self) -> &str {
                &self.id
            }
        }
    )*};
}
rows!(Price Customer Session Portal Subscription Invoice Event);

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(String);
    impl Row for Number {
        fn id(&self) -> &str {
            &self.0
        }
    }

    #[test]
    fn full_table_drops_oldest_row() {
        let mut table = Table::default();
        for number in 0..=CAPACITY {
            table.insert(Number(number.to_string()));
        }
        assert_eq!(table.len(), CAPACITY);
        assert!(table.get("0").is_none());
        assert!(table.get("1").is_some());
    }
}
