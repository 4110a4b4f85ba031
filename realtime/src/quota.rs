//! Limits what the channels of one socket may use together: number of bindings and filter conditions, and
//! bytes.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::changes::filter;
use crate::join::Join;

/// Bindings of all channels of a socket.
const MAX_BINDINGS: usize = 1000;
/// Filter conditions of all bindings of a socket.
const MAX_CONDITIONS: usize = 1000;
/// Estimated memory of all channels of a socket.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Estimated size of a channel without its strings.
const CHANNEL_BYTES: usize = 2048;
/// The topic is stored by the socket, the channel and the hub.
const COPIES_OF_TOPIC: usize = 6;
/// Estimated size of a binding and its index entries.
const BINDING_BYTES: usize = 640;
/// Estimated size of a condition, or of one value of an `in` list.
const VALUE_BYTES: usize = 192;

/// Estimated usage of one channel, or of all channels of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    bindings: usize,
    conditions: usize,
    bytes: usize,
}

impl Usage {
    /// Usage of a channel about to be joined; `payload` is the join's raw payload.
    pub(crate) fn for_join(topic: &str, payload: &str, join: &Join) -> Self {
        let bindings = join.changes.bindings.as_deref().unwrap_or_default();
        let filters = bindings.iter().filter_map(|binding| binding.filter.as_deref());
        let commas = filters.clone().flat_map(str::bytes).filter(|byte| *byte == b',').count();
        let selected: usize = bindings.iter().flat_map(|binding| &binding.select).map(Vec::len).sum();
        let values = bindings.len() + commas + selected;
        let bytes = CHANNEL_BYTES
            + COPIES_OF_TOPIC * topic.len()
            + payload.len()
            + BINDING_BYTES * bindings.len()
            + VALUE_BYTES * values;
        Self { bindings: bindings.len(), conditions: filters.map(filter::count).sum(), bytes }
    }
}

/// Usage of one socket.
#[derive(Debug, Default)]
pub(crate) struct Quota(Mutex<Usage>);

/// Usage of one channel; released on drop.
#[derive(Debug)]
pub(crate) struct QuotaShare {
    quota: Arc<Quota>,
    usage: Usage,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Bindings,
    Conditions,
    Bytes,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bindings => write!(f, "more than {MAX_BINDINGS} postgres_changes"),
            Self::Conditions => write!(f, "more than {MAX_CONDITIONS} conditions in filters"),
            Self::Bytes => write!(f, "more than {MAX_BYTES} bytes of topics and join payloads"),
        }
    }
}

impl Quota {
    pub(crate) fn reserve(self: &Arc<Self>, usage: Usage) -> Result<QuotaShare, Exceeded> {
        let mut used = self.used();
        let sum = Usage {
            bindings: used.bindings + usage.bindings,
            conditions: used.conditions + usage.conditions,
            bytes: used.bytes + usage.bytes,
        };
        if sum.bindings > MAX_BINDINGS {
            return Err(Exceeded::Bindings);
        }
        if sum.conditions > MAX_CONDITIONS {
            return Err(Exceeded::Conditions);
        }
        if sum.bytes > MAX_BYTES {
            return Err(Exceeded::Bytes);
        }
        *used = sum;
        drop(used);
        Ok(QuotaShare { quota: Arc::clone(self), usage })
    }

    fn used(&self) -> MutexGuard<'_, Usage> {
        self.0.lock()
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut used = self.quota.used();
        used.bindings -= self.usage.bindings;
        used.conditions -= self.usage.conditions;
        used.bytes -= self.usage.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(payload: &str) -> Usage {
        Usage::for_join("room", payload, &Join::read(payload))
    }

    fn bindings(count: usize, filter: &str) -> String {
        let binding = format!(r#"{{"table":"t","filter":"{filter}"}}"#);
        format!(r#"{{"config":{{"postgres_changes":[{}]}}}}"#, vec![binding; count].join(","))
    }

    #[test]
    fn channels_share_the_quota_and_release_it() {
        let quota = Arc::new(Quota::default());
        let first = quota.reserve(usage(&bindings(600, ""))).unwrap();
        assert_eq!(quota.reserve(usage(&bindings(401, ""))).unwrap_err(), Exceeded::Bindings);
        let conditions = ["a=eq.1"; 40].join(",");
        assert_eq!(quota.reserve(usage(&bindings(26, &conditions))).unwrap_err(), Exceeded::Conditions);
        drop(first);
        let _all = quota.reserve(usage(&bindings(1000, "a=eq.1"))).unwrap();
        drop(_all);
        assert_eq!(*quota.used(), Usage::default());
    }

    #[test]
    fn topics_lists_and_payloads_count_as_bytes() {
        let quota = Arc::new(Quota::default());
        let list = format!("a=in.({})", vec!["1"; 100].join(","));
        let lists: Vec<_> = (0..20).map(|_| quota.reserve(usage(&bindings(10, &list)))).collect();
        assert!(lists.iter().any(|share| matches!(share, Err(Exceeded::Bytes))));
        drop(lists);
        let join = Join::read("{}");
        let long = Usage::for_join(&"x".repeat(400_000), "{}", &join);
        assert_eq!(quota.reserve(long).unwrap_err(), Exceeded::Bytes);
        let shares: Vec<_> = (0..100).map(|_| quota.reserve(usage(&bindings(3, "plan_id=eq.7")))).collect();
        assert!(shares.iter().all(Result::is_ok), "100 ordinary channels fit");
    }
}
