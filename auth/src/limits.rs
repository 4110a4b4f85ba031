//! Rate limits per client address, per account and per server.

pub(crate) mod email_rate;
pub(crate) mod rate_limit;
pub(crate) mod sms_rate;
