//! Names and labels of auth's metrics. Labels come from closed sets, never from requests.

use basalt_core::convert::saturating;

/// A rate limiter rejected a request.
pub(crate) fn rate_limited(bucket: &'static str) {
    metrics::counter!("basalt_auth_rate_limited_total", "bucket" => bucket).increment(1);
}

/// A grant finished; `outcome` is `ok` or the error code.
pub(crate) fn grant(grant: &'static str, outcome: &'static str) {
    metrics::counter!("basalt_auth_grants_total", "grant" => grant, "outcome" => outcome).increment(1);
}

/// A reused refresh token ended its session.
pub(crate) fn reuse_detected() {
    metrics::counter!("basalt_auth_refresh_reuse_total").increment(1);
}

/// An imported or outdated password hash was replaced at sign-in.
pub(crate) fn rehashed() {
    metrics::counter!("basalt_auth_rehashed_total").increment(1);
}

/// Number of addresses that a limiter tracks.
pub(crate) fn rate_limit_addresses(bucket: &'static str) -> metrics::Gauge {
    metrics::gauge!("basalt_auth_rate_limit_addresses", "bucket" => bucket)
}

/// Maximum number of addresses that a limiter tracks.
pub(crate) fn rate_limit_addresses_limit(bucket: &'static str, limit: usize) {
    metrics::gauge!("basalt_auth_rate_limit_addresses_limit", "bucket" => bucket).set(count(limit));
}

/// Number of accounts tracked for wrong passwords, and its maximum.
pub(crate) fn accounts(remembered: usize, limit: usize) {
    metrics::gauge!("basalt_auth_rate_limit_accounts").set(count(remembered));
    metrics::gauge!("basalt_auth_rate_limit_accounts_limit").set(count(limit));
}

/// Wrong guesses invalidated a pending code.
pub(crate) fn code_invalidated() {
    metrics::counter!("basalt_auth_codes_died_total").increment(1);
}

/// A code or link was redeemed; `outcome` is `ok` or the error code.
pub(crate) fn verify(verification_type: &'static str, outcome: &'static str) {
    metrics::counter!("basalt_auth_verifications_total", "type" => verification_type, "outcome" => outcome)
        .increment(1);
}

/// A hook ran; `outcome` is `ok`, `rejected` or `failed`.
pub(crate) fn hook(hook: &'static str, outcome: &'static str) {
    metrics::counter!("basalt_auth_hooks_total", "hook" => hook, "outcome" => outcome).increment(1);
}

/// A text message was given to the provider; `outcome` is `ok` or `failed`.
pub(crate) fn sms_sent(kind: &'static str, outcome: &'static str) {
    metrics::counter!("basalt_auth_sms_total", "kind" => kind, "outcome" => outcome).increment(1);
}

/// The list of breached passwords was unavailable.
pub(crate) fn breach_list_failed() {
    metrics::counter!("basalt_auth_breach_list_failures_total").increment(1);
}

/// Expired rows of a table were removed.
pub(crate) fn cleaned_up(table: &'static str, rows: u64) {
    metrics::counter!("basalt_auth_cleaned_up_total", "table" => table).increment(rows);
}

/// A clean-up failed.
pub(crate) fn cleanup_failed() {
    metrics::counter!("basalt_auth_cleanup_failures_total").increment(1);
}

/// A password hash was computed.
pub(crate) fn password_hashed(took: std::time::Duration) {
    metrics::histogram!("basalt_auth_password_hash_seconds").record(took);
}

/// Gauge of password hashes that run or wait; also sets its limit.
pub(crate) fn password_hashes(limit: usize) -> metrics::Gauge {
    metrics::gauge!("basalt_auth_password_hashes_limit").set(count(limit));
    metrics::gauge!("basalt_auth_password_hashes")
}

fn count(number: usize) -> f64 {
    f64::from(saturating::<u32>(number))
}
