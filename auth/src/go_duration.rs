//! Durations in the format of Go's `time.ParseDuration`: `24h30m`, `1.5h`, `300ms`.

use jiff::SignedDuration;

/// Parses a duration; `None` if it is invalid or exceeds 64 bits of nanoseconds.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: f64 = 0.0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.bytes().take_while(|byte| !byte.is_ascii_digit() && *byte != b'.').count();
        total += number * seconds_of(rest.get(..letters)?)?;
        rest = rest.get(letters..)?;
    }
    let duration = SignedDuration::try_from_secs_f64(total).ok()?;
    // Go's limit of 64 bits of nanoseconds: about 292 years.
    let counts = i64::try_from(duration.as_nanos()).is_ok();
    counts.then_some(if is_negative { -duration } else { duration })
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_like_go() {
        for (text, seconds) in [
            ("24h30m", 88_200),
            ("1.5h", 5_400),
            ("90s", 90),
            ("0", 0),
            ("-1h", -3_600),
            ("+2m", 120),
            ("876000h", 3_153_600_000),
        ] {
            assert_eq!(parse(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("300ms"), Some(SignedDuration::from_millis(300)));
        for text in ["", "-", "1", "h", "1d", "1h-2m", "1..5h", "99999999999h", "forever", "1 h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
