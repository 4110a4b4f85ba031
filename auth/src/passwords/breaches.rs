//! Passwords known from breaches (auth.md §3.17), asked for by k-anonymity: the first five of the forty digits of a
//! password's SHA-1 leave this machine, and hundreds of passwords share them. Off unless configured; where the list
//! cannot be had the password is taken, with a warning: sign-up must not depend on a third party's server.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use basalt_core::http_client::HttpClient;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use lru::LruCache;
use tokio::time::Instant;
use url::Url;

const PREFIX_DIGITS: usize = 5;
/// Longest wait for the list.
const LIMIT: Duration = Duration::from_secs(5);
/// A range has 40 kB, with padding a little more.
const RANGE_BYTES: usize = 256 * 1024;
/// Ranges kept: a few megabytes.
const RANGES: NonZeroUsize = match NonZeroUsize::new(64) {
    Some(ranges) => ranges,
    None => NonZeroUsize::MIN,
};
/// How long a range is kept: the list grows by a few breaches a month.
const KEPT: Duration = Duration::from_secs(3600);

/// The list of breached passwords.
pub(crate) struct Breaches {
    client: HttpClient,
    url: String,
    /// Bodies by prefix, with when they came. Held for one look-up, never across an await.
    ranges: Mutex<LruCache<String, (Instant, Bytes)>>,
}

impl Breaches {
    /// `url` is the range endpoint; the prefix of a hash is appended to it.
    pub(crate) fn new(url: &str) -> Self {
        Self { client: HttpClient::default(), url: url.to_owned(), ranges: Mutex::new(LruCache::new(RANGES)) }
    }

    /// Whether the list has the password; `false` where it cannot be had.
    pub(crate) async fn has(&self, password: &str) -> bool {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let Some((prefix, suffix)) = hash.split_at_checked(PREFIX_DIGITS) else { return false };
        let range = match self.kept(prefix) {
            Some(range) => range,
            None => match self.ask(prefix).await {
                Ok(range) => range,
                Err(reason) => {
                    crate::metrics::breach_list_failed();
                    tracing::warn!(
                        reason,
                        "the list of breached passwords cannot be had; a password was taken unchecked"
                    );
                    return false;
                }
            },
        };
        holds(&range, suffix)
    }

    fn kept(&self, prefix: &str) -> Option<Bytes> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.get(prefix).filter(|(came, _)| came.elapsed() < KEPT).map(|(_, range)| range.clone())
    }

    async fn ask(&self, prefix: &str) -> Result<Bytes, String> {
        let url: Url = format!("{}{prefix}", self.url).parse().map_err(|error| format!("{error}"))?;
        // Rows with count 0 make all answers about equally long, so that a listener cannot guess the prefix.
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("add-padding"),
            HeaderValue::from_static("true"),
        )]);
        let answer = self.client.get(&url, headers, RANGE_BYTES, Instant::now() + LIMIT).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if !answer.status.is_success() {
            return Err(format!("status {}", answer.status));
        }
        let kept = (Instant::now(), answer.body.clone());
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner).put(prefix.to_owned(), kept);
        Ok(answer.body)
    }
}

/// Whether a range (`SUFFIX:COUNT` in lines) has a row for `suffix` that is no padding.
fn holds(range: &[u8], suffix: &str) -> bool {
    range.split(|byte| *byte == b'\n').any(|line| {
        let Ok(line) = std::str::from_utf8(line) else { return false };
        let Some((row, count)) = line.trim().split_once(':') else { return false };
        row.eq_ignore_ascii_case(suffix) && count.parse::<u64>().is_ok_and(|count| count > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_no_breach() {
        let range =
            b"00000000000000000000000000000000AAA:0\r\n1E4C9B93F3F0682250B6CF8331B7EE68FD8:9\r\nx\r\n";
        assert!(holds(range, "1E4C9B93F3F0682250B6CF8331B7EE68FD8"));
        assert!(!holds(range, "00000000000000000000000000000000AAA"));
        assert!(!holds(range, "2E4C9B93F3F0682250B6CF8331B7EE68FD8"));
    }
}
