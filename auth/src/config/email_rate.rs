//! The type of `auth.rate_limit_email_sent`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use basalt_core::settings::kinds::{Value, fits, quote};
use basalt_core::settings::{InvalidValue, Kind};

use crate::go_duration;

const HOUR: Duration = Duration::from_secs(3600);

/// `auth.rate_limit_email_sent`: mails per period, written `30` (per hour) or `30/10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmailRate {
    /// Number of mails; 0 for no limit.
    pub mails: u32,
    /// The period.
    pub period: Duration,
}

impl Default for EmailRate {
    fn default() -> Self {
        Self { mails: 30, period: HOUR }
    }
}

impl fmt::Display for EmailRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mails)?;
        match self.period.as_secs() {
            3600 => Ok(()),
            seconds if seconds % 60 == 0 => write!(f, "/{}m", seconds / 60),
            seconds => write!(f, "/{seconds}s"),
        }
    }
}

/// The text is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of mails for each hour such as 30, or with the time they are for such as 30/10m")]
pub struct ParseEmailRateError;

impl FromStr for EmailRate {
    type Err = ParseEmailRateError;

    fn from_str(text: &str) -> Result<Self, ParseEmailRateError> {
        let (mails, period) = match text.trim().split_once('/') {
            Some((mails, period)) => {
                let period = go_duration::parse(period.trim()).ok_or(ParseEmailRateError)?;
                (mails, Duration::try_from(period).map_err(|_negative| ParseEmailRateError)?)
            }
            None => (text, HOUR),
        };
        if period < Duration::from_secs(1) {
            return Err(ParseEmailRateError);
        }
        let mails = mails.trim().parse().map_err(|_not_a_number| ParseEmailRateError)?;
        Ok(Self { mails, period: Duration::from_secs(period.as_secs()) })
    }
}

impl Kind<Self> for EmailRate {
    fn expected() -> String {
        "a number of mails for each hour such as 30, or with the time they are for such as \"30/10m\""
            .to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let number = value.whole().map(|mails| mails.to_string());
        let text = number.as_deref().or_else(|| value.text());
        fits(text.and_then(|text| text.parse().ok()), |rate: &Self| {
            let text = rate.to_string();
            if text.contains('/') { quote(&text) } else { text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_rates_like_upstream() {
        let rate = |mails, seconds| Ok(EmailRate { mails, period: Duration::from_secs(seconds) });
        assert_eq!("30".parse(), rate(30, 3600));
        assert_eq!("30/10m".parse(), rate(30, 600));
        assert_eq!(" 5 / 1h30m ".parse(), rate(5, 5400));
        assert_eq!("0".parse(), rate(0, 3600));
        for text in ["", "x", "30/", "/1h", "30/0s", "30/-1h", "30/10", "-1", "1.5"] {
            assert_eq!(text.parse::<EmailRate>(), Err(ParseEmailRateError), "{text}");
        }
        for text in ["30", "30/10m", "7/90s"] {
            assert_eq!(text.parse::<EmailRate>().unwrap().to_string(), text);
        }
    }
}
