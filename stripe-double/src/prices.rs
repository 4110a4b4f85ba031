//! Prices, which are the project's plans, so that a plan created in the app can be bought immediately.

use futures_util::future::BoxFuture;
use jiff::{Span, Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

/// A recurring price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// The id, `price_…`.
    pub id: String,
    /// Name of the plan.
    pub product_name: String,
    /// Amount in the currency's smallest unit, such as cents.
    pub unit_amount: i64,
    /// Currency as three lower-case letters.
    pub currency: String,
    /// Billing interval.
    pub interval: Interval,
    /// Whether it can be bought.
    pub active: bool,
}

impl Price {
    /// The product id, `prod_…`, derived from the price's id because a plan has one price.
    pub(crate) fn product_id(&self) -> String {
        format!("prod_{}", self.id.trim_start_matches("price_"))
    }

    /// The amount as text, such as `$29.00`.
    pub(crate) fn amount_text(&self) -> String {
        amount_text(self.unit_amount, &self.currency)
    }
}

/// Formats an amount.
pub(crate) fn amount_text(cents: i64, currency: &str) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let (whole, rest) = (cents.unsigned_abs() / 100, cents.unsigned_abs() % 100);
    match currency {
        "usd" => format!("{sign}${whole}.{rest:02}"),
        other => format!("{sign}{whole}.{rest:02} {}", other.to_uppercase()),
    }
}

/// A billing interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interval {
    /// A day.
    Day,
    /// A week.
    Week,
    /// A month; a period that starts on the 31st ends on the last day of shorter months.
    Month,
    /// A year.
    Year,
}

impl Interval {
    /// The value at Stripe and in `subscription_plans.interval`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Parses an interval.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Day, Self::Week, Self::Month, Self::Year]
            .into_iter()
            .find(|interval| interval.as_str() == word)
    }

    /// The time `count` intervals after `anchor`, in Unix seconds. Counting from the anchor makes 31 January give 28 February and
    /// then 31 March.
    pub(crate) fn after(self, anchor: i64, count: i64) -> i64 {
        let seconds = |days: i64| anchor.saturating_add(count.saturating_mul(days * 86_400));
        let months = match self {
            Self::Day => return seconds(1),
            Self::Week => return seconds(7),
            Self::Month => count,
            Self::Year => count.saturating_mul(12),
        };
        let end = Timestamp::from_second(anchor).ok().and_then(|start| {
            let span = Span::new().try_months(months).ok()?;
            start.to_zoned(TimeZone::UTC).checked_add(span).ok()
        });
        end.map_or_else(|| seconds(months.saturating_mul(30)), |end| end.timestamp().as_second())
    }
}

/// A source of prices.
pub trait Prices: Send + Sync + 'static {
    /// All prices, active or not.
    ///
    /// # Errors
    /// The prices cannot be read; the message says why.
    fn prices(&self) -> BoxFuture<'_, Result<Vec<Price>, String>>;
}

/// A fixed list of prices.
#[derive(Debug, Clone, Default)]
pub struct FixedPrices(pub Vec<Price>);

impl Prices for FixedPrices {
    fn prices(&self) -> BoxFuture<'_, Result<Vec<Price>, String>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    #[test]
    fn short_month_ends_on_its_last_day() {
        let anchor = seconds("2026-01-31T10:00:00Z");
        assert_eq!(Interval::Month.after(anchor, 1), seconds("2026-02-28T10:00:00Z"));
        assert_eq!(Interval::Month.after(anchor, 2), seconds("2026-03-31T10:00:00Z"));
        let leap = seconds("2028-02-29T00:00:00Z");
        assert_eq!(Interval::Year.after(leap, 1), seconds("2029-02-28T00:00:00Z"));
        assert_eq!(Interval::Week.after(anchor, 1) - anchor, 604_800);
    }

    #[test]
    fn formats_amounts() {
        assert_eq!(amount_text(2_905, "usd"), "$29.05");
        assert_eq!(amount_text(5, "eur"), "0.05 EUR");
    }
}
