//! Lookup of breached passwords with k-anonymity (auth.md §3.17): only the first five of forty digits of the password's SHA-1
//! are sent, which hundreds of passwords share. Disabled by default. If the list is unavailable the password is accepted with
//! a warning: sign-up must not depend on a third party.

use std::num::NonZeroUsize;
use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use basalt_core::http_client::{HttpClient, Reach};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

const PREFIX_DIGITS: usize = 5;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest response. A range has about 40 kB, with padding a little more.
const RANGE_BYTES: usize = 256 * 1024;
/// Cached ranges: a few megabytes.
const CACHED_RANGES: NonZeroUsize = match NonZeroUsize::new(64) {
    Some(ranges) => ranges,
    None => NonZeroUsize::MIN,
};
/// The list grows by a few breaches a month.
const CACHE_TTL: Duration = Duration::from_secs(3600);

/// The list of breached passwords.
pub(crate) struct Breaches {
    client: HttpClient,
    url: String,
    /// Bodies by prefix, with the time of their fetch. Never held across an await.
    ranges: Mutex<LruCache<String, (Instant, Bytes)>>,
}

impl Breaches {
    /// `url` is the range endpoint; the prefix of a hash is appended to it.
    pub(crate) fn new(url: &str) -> Self {
        Self {
            client: HttpClient::new(Reach::Anywhere),
            url: url.to_owned(),
            ranges: Mutex::new(LruCache::new(CACHED_RANGES)),
        }
    }

    /// Whether the list contains the password; `false` if it is unavailable.
    pub(crate) async fn contains(&self, password: &str) -> bool {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let Some((prefix, suffix)) = hash.split_at_checked(PREFIX_DIGITS) else { return false };
        let range = match self.cached(prefix) {
            Some(range) => range,
            None => match self.fetch(prefix).await {
                Ok(range) => range,
                Err(reason) => {
                    crate::metrics::breach_list_failed();
                    tracing::warn!(
                        reason,
                        "list of breached passwords unavailable; password accepted without the check"
                    );
                    return false;
                }
            },
        };
        lists(&range, suffix)
    }

    fn cached(&self, prefix: &str) -> Option<Bytes> {
        let mut ranges = self.ranges.lock();
        ranges
            .get(prefix)
            .filter(|(fetched_at, _)| fetched_at.elapsed() < CACHE_TTL)
            .map(|(_, range)| range.clone())
    }

    async fn fetch(&self, prefix: &str) -> Result<Bytes, String> {
        let url: Url = format!("{}{prefix}", self.url).parse().map_err(|error| format!("{error}"))?;
        // Padding rows with count 0 equalise response sizes, so that an eavesdropper cannot guess the prefix.
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("add-padding"),
            HeaderValue::from_static("true"),
        )]);
        let response = self.client.get(&url, headers, RANGE_BYTES, Instant::now() + TIMEOUT).await;
        let response = response.map_err(|error| error.to_string())?;
        if !response.status.is_success() {
            return Err(format!("status {}", response.status));
        }
        let kept = (Instant::now(), response.body.clone());
        self.ranges.lock().put(prefix.to_owned(), kept);
        Ok(response.body)
    }
}

/// Whether a range (lines of `SUFFIX:COUNT`) contains `suffix`. A count of 0 is padding.
fn lists(range: &[u8], suffix: &str) -> bool {
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
    fn ignores_padding() {
        let range =
            b"00000000000000000000000000000000AAA:0\r\n1E4C9B93F3F0682250B6CF8331B7EE68FD8:9\r\nx\r\n";
        assert!(lists(range, "1E4C9B93F3F0682250B6CF8331B7EE68FD8"));
        assert!(!lists(range, "00000000000000000000000000000000AAA"));
        assert!(!lists(range, "2E4C9B93F3F0682250B6CF8331B7EE68FD8"));
    }
}
