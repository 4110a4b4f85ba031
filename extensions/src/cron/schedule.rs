//! When a job runs: five cron fields, in UTC, or every N seconds.

use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A parsed schedule. `cron.schedule` checks the text first, so that a mistake is an error there.
#[derive(Debug)]
pub(super) enum Schedule {
    Every(SignedDuration),
    Fields(Box<Cron>),
}

/// The text is not a schedule.
#[derive(Debug)]
pub(super) struct InvalidSchedule;

impl FromStr for Schedule {
    type Err = InvalidSchedule;

    fn from_str(text: &str) -> Result<Self, InvalidSchedule> {
        let text = text.trim().to_ascii_lowercase();
        if let Some(number) = text.strip_suffix("seconds").or_else(|| text.strip_suffix("second")) {
            let seconds: i64 = number.trim().parse().map_err(|_| InvalidSchedule)?;
            return if (1..60).contains(&seconds) {
                Ok(Self::Every(SignedDuration::from_secs(seconds)))
            } else {
                Err(InvalidSchedule)
            };
        }
        // pg_cron writes the last day of the month as `$`.
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(&text.replace('$', "L")).map_err(|_| InvalidSchedule)?;
        Ok(Self::Fields(Box::new(cron)))
    }
}

impl Schedule {
    /// The first time after `now`; `None` for a date that does not exist, such as 30 February.
    pub(super) fn first(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(interval) => now.checked_add(*interval).ok(),
            Self::Fields(cron) => {
                let now = now.to_zoned(TimeZone::UTC).datetime();
                let next = cron.find_next_occurrence(&now, false).ok()?;
                Some(next.to_zoned(TimeZone::UTC).ok()?.timestamp())
            }
        }
    }

    /// The next time after the run that was due at `due` and ended at `now`. Of the times that passed during the run,
    /// only the latest is made up for: a job never runs beside itself, and a slow one does not fall behind forever.
    pub(super) fn next(&self, due: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let next = match self {
            Self::Every(interval) => due.checked_add(*interval).ok()?,
            Self::Fields(_) => self.first(due)?,
        };
        if next > now {
            return Some(next);
        }
        match self {
            Self::Every(interval) => {
                let passed = now.duration_since(due).as_secs() / interval.as_secs();
                due.checked_add(SignedDuration::from_secs(passed * interval.as_secs())).ok()
            }
            Self::Fields(cron) => {
                let now = now.to_zoned(TimeZone::UTC).datetime();
                let latest = cron.find_previous_occurrence(&now, true).ok()?;
                Some(latest.to_zoned(TimeZone::UTC).ok()?.timestamp())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn first(schedule: &str, now: &str) -> Option<String> {
        schedule.parse::<Schedule>().unwrap().first(at(now)).map(|time| time.to_string())
    }

    #[test]
    fn cron_fields_are_in_utc() {
        let now = "2026-02-27T23:59:30Z";
        for (schedule, next) in [
            ("* * * * *", "2026-02-28T00:00:00Z"),
            ("*/15 * * * *", "2026-02-28T00:00:00Z"),
            ("30 3 * * *", "2026-02-28T03:30:00Z"),
            ("0 0 1 * *", "2026-03-01T00:00:00Z"),
            ("0 12 $ * *", "2026-02-28T12:00:00Z"),
            ("0 0 * * 0", "2026-03-01T00:00:00Z"),
            ("0 0 * * 7", "2026-03-01T00:00:00Z"),
            ("0 0 * * mon-fri", "2026-03-02T00:00:00Z"),
            ("5 0-6/2,12 * * *", "2026-02-28T00:05:00Z"),
            // Both restricted: either of them suffices.
            ("0 0 15 * 6", "2026-02-28T00:00:00Z"),
            ("@hourly", "2026-02-28T00:00:00Z"),
            ("@daily", "2026-02-28T00:00:00Z"),
        ] {
            assert_eq!(first(schedule, now).as_deref(), Some(next), "{schedule}");
        }
        assert_eq!(first("0 0 30 2 *", now), None);
    }

    #[test]
    fn seconds_count_from_the_previous_time() {
        let schedule: Schedule = "10 seconds".parse().unwrap();
        let due = at("2026-01-01T00:00:00Z");
        let next = |now: &str| schedule.next(due, at(now)).unwrap().to_string();
        assert_eq!(next("2026-01-01T00:00:03Z"), "2026-01-01T00:00:10Z");
        assert_eq!(next("2026-01-01T00:00:10Z"), "2026-01-01T00:00:10Z");
        // Two times passed during the run.
        assert_eq!(next("2026-01-01T00:00:25Z"), "2026-01-01T00:00:20Z");
    }

    #[test]
    fn slow_run_makes_up_for_the_latest_time_only() {
        let schedule: Schedule = "* * * * *".parse().unwrap();
        let due = at("2026-01-01T00:00:00Z");
        let next = |now: &str| schedule.next(due, at(now)).unwrap().to_string();
        assert_eq!(next("2026-01-01T00:00:59Z"), "2026-01-01T00:01:00Z");
        assert_eq!(next("2026-01-01T00:05:30Z"), "2026-01-01T00:05:00Z");
    }

    #[test]
    fn other_texts_are_not_schedules() {
        for text in [
            "",
            "60 seconds",
            "0 seconds",
            "-1 seconds",
            "* * * *",
            "* * * * * *",
            "61 * * * *",
            "soon",
            "@reboot",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
