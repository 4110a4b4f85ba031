//! Stripe's test cards and their behaviour.

use serde::{Deserialize, Serialize};

use crate::error::StripeError;

/// A stored card, without its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    /// `pm_…`.
    pub(crate) id: String,
    pub(crate) brand: String,
    pub(crate) last4: String,
    pub(crate) exp_month: i64,
    pub(crate) exp_year: i64,
    pub(crate) fails_later: bool,
}

impl Card {
    /// A description such as `Visa ending in 4242`.
    pub(crate) fn text(&self) -> String {
        let brand = match self.brand.as_str() {
            "mastercard" => "Mastercard",
            "amex" => "American Express",
            _ => "Visa",
        };
        format!("{brand} ending in {}", self.last4)
    }
}

/// The behaviour of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Pays,
    /// Pays now, but fails at each later payment.
    FailsLater,
    /// Requires confirmation by the buyer (3-D Secure), then pays.
    AsksToConfirm,
    /// Declined: code, decline code, message for the buyer.
    Declines(&'static str, Option<&'static str>, &'static str),
}

/// Number, brand, behaviour, description.
pub(crate) const CARDS: [(&str, &str, Behaviour, &str); 9] = {
    use Behaviour::{AsksToConfirm, Declines, FailsLater, Pays};
    const DECLINED: &str = "Your card was declined.";
    [
        ("4242424242424242", "visa", Pays, "pays"),
        ("5555555555554444", "mastercard", Pays, "pays (Mastercard)"),
        ("4000002760003184", "visa", AsksToConfirm, "asks to confirm, then pays"),
        ("4000000000000341", "visa", FailsLater, "pays once, fails at renewal"),
        (
            "4000000000000002",
            "visa",
            Declines("card_declined", Some("generic_decline"), DECLINED),
            "is declined",
        ),
        (
            "4000000000009995",
            "visa",
            Declines("card_declined", Some("insufficient_funds"), "Your card has insufficient funds."),
            "has insufficient funds",
        ),
        ("4000000000000069", "visa", Declines("expired_card", None, "Your card has expired."), "has expired"),
        (
            "4000000000000127",
            "visa",
            Declines("incorrect_cvc", None, "Your card's security code is incorrect."),
            "has another security code",
        ),
        (
            "4000000000000119",
            "visa",
            Declines(
                "processing_error",
                None,
                "An error occurred while processing your card. Try again in a little bit.",
            ),
            "fails in processing",
        ),
    ]
};

/// The buyer's input for a card.
pub(crate) struct TypedCard<'a> {
    pub(crate) number: &'a str,
    /// `MM / YY`.
    pub(crate) expiry: &'a str,
    pub(crate) cvc: &'a str,
}

/// An invalid field of the card, with its error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CardFault {
    pub(crate) field: &'static str,
    pub(crate) message: &'static str,
}

const fn fault(field: &'static str, message: &'static str) -> CardFault {
    CardFault { field, message }
}

impl TypedCard<'_> {
    /// Validates the input; returns the card and its behaviour. `now` is in Unix seconds.
    pub(crate) fn check(&self, now: i64) -> Result<(Card, Behaviour), CardFault> {
        let number: String = self.number.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        if number.is_empty() {
            return Err(fault("number", "Enter a card number."));
        }
        if !number.chars().all(|c| c.is_ascii_digit())
            || !(12..=19).contains(&number.len())
            || !is_luhn(&number)
        {
            return Err(fault("number", "Your card number is invalid."));
        }
        let Some((_, brand, behaviour, _)) = CARDS.iter().find(|(known, ..)| *known == number) else {
            return Err(fault("number", "This is a test page: use one of the test cards, never a real one."));
        };
        let (exp_month, exp_year) =
            expiry(self.expiry).ok_or(fault("expiry", "Enter the expiry date as MM / YY."))?;
        if (exp_year, exp_month) < year_and_month(now) {
            return Err(fault("expiry", "Your card's expiration date is in the past."));
        }
        let cvc = self.cvc.trim();
        if !(3..=4).contains(&cvc.len()) || !cvc.chars().all(|c| c.is_ascii_digit()) {
            return Err(fault("cvc", "Enter the 3-digit security code on the back of the card."));
        }
        let last4 = number.split_at_checked(number.len() - 4).map_or("", |(_, last4)| last4).to_owned();
        let fails_later = *behaviour == Behaviour::FailsLater;
        let id = crate::new_id("pm_");
        Ok((Card { id, brand: (*brand).to_owned(), last4, exp_month, exp_year, fails_later }, *behaviour))
    }
}

impl Behaviour {
    /// The error of a card that is declined immediately.
    pub(crate) fn decline(self) -> Option<StripeError> {
        match self {
            Self::Declines(code, decline_code, message) => {
                Some(StripeError::declined(code, decline_code, message))
            }
            Self::Pays | Self::FailsLater | Self::AsksToConfirm => None,
        }
    }
}

fn expiry(text: &str) -> Option<(i64, i64)> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let (month, year) = match digits.len() {
        3 => digits.split_at_checked(1)?,
        4 | 6 => digits.split_at_checked(2)?,
        _ => return None,
    };
    let (month, year) = (month.parse::<i64>().ok()?, year.parse::<i64>().ok()?);
    (1..=12).contains(&month).then_some((month, if year < 100 { 2_000 + year } else { year }))
}

fn year_and_month(now: i64) -> (i64, i64) {
    let time = jiff::Timestamp::from_second(now).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    (i64::from(time.year()), i64::from(time.month()))
}

/// Whether the check digit (Luhn) is correct.
fn is_luhn(number: &str) -> bool {
    let sum: u32 = number
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit) {
            (1, digit) if digit > 4 => digit * 2 - 9,
            (1, digit) => digit * 2,
            (_, digit) => digit,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_000_000; // November 2026

    fn check(number: &str, expiry: &str, cvc: &str) -> Result<Behaviour, &'static str> {
        TypedCard { number, expiry, cvc }.check(NOW).map(|(_, does)| does).map_err(|fault| fault.field)
    }

    #[test]
    fn test_cards_behave_as_at_stripe() {
        assert_eq!(check("4242 4242 4242 4242", "12 / 30", "123"), Ok(Behaviour::Pays));
        assert!(check("4000000000000002", "1230", "123").unwrap().decline().is_some());
        assert_eq!(check("4000002760003184", "12/2030", "1234"), Ok(Behaviour::AsksToConfirm));
        assert!(CARDS.iter().all(|(number, ..)| is_luhn(number)));
    }

    #[test]
    fn invalid_fields_are_named() {
        assert_eq!(check("", "12 / 30", "123"), Err("number"));
        assert_eq!(check("4242424242424241", "12 / 30", "123"), Err("number"));
        assert_eq!(check("4111111111111111", "12 / 30", "123"), Err("number"), "not a test card");
        for expiry in ["", "13 / 30", "10 / 26", "x"] {
            assert_eq!(check("4242424242424242", expiry, "123"), Err("expiry"), "{expiry}");
        }
        assert_eq!(
            check("4242424242424242", "11 / 26", "123"),
            Ok(Behaviour::Pays),
            "valid until the end of the month"
        );
        assert_eq!(check("4242424242424242", "12 / 30", "12"), Err("cvc"));
    }

    #[test]
    fn number_is_not_stored() {
        let typed = TypedCard { number: "4242424242424242", expiry: "12 / 30", cvc: "123" };
        let (card, _) = typed.check(NOW).unwrap();
        assert_eq!(card.last4, "4242");
        assert!(!serde_json::to_string(&card).unwrap().contains("42424242"));
    }
}
