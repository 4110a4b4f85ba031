//! Names and labels of auth's metrics. Labels come from closed sets, never from requests.

/// A request was refused by a per-address limiter.
pub(crate) fn rate_limited(bucket: &'static str) {
    metrics::counter!("basalt_auth_rate_limited_total", "bucket" => bucket).increment(1);
}

/// A grant ended: `outcome` is `ok` or the error code.
pub(crate) fn grant(grant: &'static str, outcome: &'static str) {
    metrics::counter!("basalt_auth_grants_total", "grant" => grant, "outcome" => outcome).increment(1);
}

/// A late refresh token came back and its session was ended.
pub(crate) fn reuse_detected() {
    metrics::counter!("basalt_auth_refresh_reuse_total").increment(1);
}

/// An imported or outdated password hash was replaced at sign-in.
pub(crate) fn rehashed() {
    metrics::counter!("basalt_auth_rehashed_total").increment(1);
}

/// Addresses that one limiter remembers.
pub(crate) fn rate_limit_addresses(bucket: &'static str) -> metrics::Gauge {
    metrics::gauge!("basalt_auth_rate_limit_addresses", "bucket" => bucket)
}

/// The most that it may remember.
pub(crate) fn rate_limit_addresses_limit(bucket: &'static str, limit: usize) {
    metrics::gauge!("basalt_auth_rate_limit_addresses_limit", "bucket" => bucket).set(count(limit));
}

/// Accounts with wrong passwords that are remembered, of those that may be.
pub(crate) fn accounts(remembered: usize, limit: usize) {
    metrics::gauge!("basalt_auth_rate_limit_accounts").set(count(remembered));
    metrics::gauge!("basalt_auth_rate_limit_accounts_limit").set(count(limit));
}

/// A pending code died of wrong guesses.
pub(crate) fn code_died() {
    metrics::counter!("basalt_auth_codes_died_total").increment(1);
}

/// A code or link was given back: `outcome` is `ok` or the error code.
pub(crate) fn verify(verification_type: &'static str, outcome: &'static str) {
    metrics::counter!("basalt_auth_verifications_total", "type" => verification_type, "outcome" => outcome)
        .increment(1);
}

/// The list of breached passwords did not answer.
pub(crate) fn breach_list_failed() {
    metrics::counter!("basalt_auth_breach_list_failures_total").increment(1);
}

/// Rows of a table that had expired were removed.
pub(crate) fn cleaned_up(table: &'static str, rows: u64) {
    metrics::counter!("basalt_auth_cleaned_up_total", "table" => table).increment(rows);
}

/// A clean-up did not come to its end.
pub(crate) fn cleanup_failed() {
    metrics::counter!("basalt_auth_cleanup_failures_total").increment(1);
}

/// A password hash was computed.
pub(crate) fn password_hashed(took: std::time::Duration) {
    metrics::histogram!("basalt_auth_password_hash_seconds").record(took);
}

/// Password hashes that run or wait, of `limit` that may.
pub(crate) fn password_hashes(limit: usize) -> metrics::Gauge {
    metrics::gauge!("basalt_auth_password_hashes_limit").set(count(limit));
    metrics::gauge!("basalt_auth_password_hashes")
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
