//! Limits per client address, per account and per server, and the durations they are written in.

pub(crate) mod email_rate;
pub(crate) mod go_duration;
pub(crate) mod rate_limit;
