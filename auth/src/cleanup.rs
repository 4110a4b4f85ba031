//! Removes expired rows in the background (auth.md §3.23, §6). Upstream does so within requests, if at all.
//!
//! Several servers can clean up concurrently: a batch skips rows that another server has locked. Rows are kept for a day after
//! they expire ([`GRACE`]), so that requests about them still get a specific error and a lost response can be repeated.

use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::random;
use basalt_pg::pool::{ServicePool, Tx};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::config::AuthConfig;
use crate::database;
use crate::database::column;
use crate::error::AuthError;

/// Rows per statement. Keeps statements, and waits for their locks, short.
const BATCH: i64 = 1000;
/// Batches per table and clean-up; the next clean-up continues.
const BATCHES: u32 = 100;
/// Pause between batches, to leave I/O for requests.
const PAUSE: Duration = Duration::from_millis(20);
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);
/// Latest start of the first clean-up, so that servers which restart often also clean up.
const FIRST: Duration = Duration::from_secs(60);
/// How long expired rows are kept.
const GRACE: SignedDuration = SignedDuration::from_hours(24);

/// Age at which an OAuth client that no user has used is removed.
const UNUSED_CLIENT_AGE: SignedDuration = SignedDuration::from_hours(24 * 30);

/// A statement that deletes a batch of a table's expired rows: those older than `$1`.
struct Expired {
    table: &'static str,
    delete: &'static str,
    before: Timestamp,
}

macro_rules! delete {
    ($table:literal, $condition:literal) => {
        concat!(
            "delete from ",
            $table,
            " where ctid = any (array(select t.ctid from ",
            $table,
            " t where ",
            $condition,
            " limit $2 for update skip locked))"
        )
    };
}

/// Cleans up periodically and never returns. Failures are logged, counted, and retried at the next interval.
#[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
pub(crate) async fn run_periodically(config: AuthConfig, pool: ServicePool, clock: Clock) {
    let interval = Duration::from_secs(config.db_cleanup_interval);
    sleep(interval.min(FIRST)).await;
    loop {
        if let Err(error) = clean_up(&config, &pool, &clock).await {
            crate::metrics::cleanup_failed();
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(
                cause,
                "cannot remove expired rows of schema auth; retrying at the next interval: {error}"
            );
        }
        // Jitter: servers that started together should not clean up simultaneously.
        let [jitter] = random::bytes::<1>();
        sleep(interval.mul_f64(0.9 + f64::from(jitter) / 1280.0)).await;
    }
}

/// Runs one clean-up and returns the number of rows removed per table.
///
/// # Errors
/// The database fails. Batches that were removed before are committed.
pub async fn clean_up(
    config: &AuthConfig,
    pool: &ServicePool,
    clock: &Clock,
) -> Result<Vec<(&'static str, u64)>, AuthError> {
    let now = clock.now();
    let mut removed = Vec::new();
    for expired in expired(config, now) {
        let mut rows = 0_u64;
        for _ in 0..BATCHES {
            let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
            let batch = tx.execute(expired.delete, &[&expired.before, &BATCH]).await.map_err(Into::into);
            let batch = database::finish(tx, batch).await?;
            rows = rows.saturating_add(batch);
            if batch < BATCH.unsigned_abs() {
                break;
            }
            sleep(PAUSE).await;
        }
        note(&mut removed, expired.table, rows);
    }
    if let Some(before) = before(now, config.db_cleanup_anonymous_users_after) {
        let users = anonymous_users(pool, before).await?;
        note(&mut removed, "users", users);
    }
    Ok(removed)
}

fn note(removed: &mut Vec<(&'static str, u64)>, table: &'static str, rows: u64) {
    if rows > 0 {
        crate::metrics::cleaned_up(table, rows);
        removed.push((table, rows));
    }
}

/// `seconds` before `now`; `None` for 0, which means "never".
fn before(now: Timestamp, seconds: u64) -> Option<Timestamp> {
    let age = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
    if age.is_zero() { None } else { now.checked_sub(age).ok() }
}

fn expired(config: &AuthConfig, now: Timestamp) -> Vec<Expired> {
    let yesterday = now.checked_sub(GRACE).unwrap_or(now);
    let code_life = config.mailer_otp_exp.max(config.sms_otp_exp).max(1);
    let rows =
        |table, delete, before: Option<Timestamp>| before.map(|before| Expired { table, delete, before });
    [
        rows(
            "one_time_tokens",
            delete!("auth.one_time_tokens", "t.created_at < $1::timestamptz at time zone 'utc'"),
            before(yesterday, code_life),
        ),
        // A flow must outlive its link and the exchange that follows.
        rows(
            "flow_state",
            delete!("auth.flow_state", "greatest(t.auth_code_issued_at, t.created_at) < $1"),
            before(now, code_life).min(Some(yesterday)),
        ),
        rows(
            "refresh_tokens",
            delete!("auth.refresh_tokens", "t.revoked and t.updated_at < $1"),
            Some(yesterday),
        ),
        rows("sessions", delete!("auth.sessions", "t.not_after < $1"), Some(yesterday)),
        rows(
            "sessions",
            delete!("auth.sessions", "t.created_at < $1"),
            before(yesterday, config.sessions_timebox),
        ),
        rows(
            "sessions",
            delete!("auth.sessions", "greatest(t.refreshed_at at time zone 'utc', t.created_at) < $1"),
            before(yesterday, config.sessions_inactivity_timeout),
        ),
        rows(
            "audit_log_entries",
            delete!("auth.audit_log_entries", "t.created_at < $1"),
            before(now, config.audit_log_retention),
        ),
        // Imported rows of features that are not implemented expire, too.
        rows("mfa_challenges", delete!("auth.mfa_challenges", "t.created_at < $1"), Some(yesterday)),
        rows(
            "webauthn_challenges",
            delete!("auth.webauthn_challenges", "t.expires_at < $1"),
            Some(yesterday),
        ),
        rows(
            "oauth_client_states",
            delete!("auth.oauth_client_states", "t.created_at < $1"),
            Some(yesterday),
        ),
        rows(
            "oauth_authorizations",
            delete!("auth.oauth_authorizations", "t.expires_at < $1"),
            Some(yesterday),
        ),
        // Clients that registered themselves, but no user has ever consented to.
        rows(
            "oauth_clients",
            delete!(
                "auth.oauth_clients",
                "t.registration_type = 'dynamic' and t.updated_at < $1 \
                 and not exists (select from auth.oauth_consents k where k.client_id = t.id) \
                 and not exists (select from auth.oauth_authorizations a where a.client_id = t.id)"
            ),
            now.checked_sub(UNUSED_CLIENT_AGE).ok(),
        ),
        rows("saml_relay_states", delete!("auth.saml_relay_states", "t.created_at < $1"), Some(yesterday)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Deletes users one by one, so that a foreign key without cascade keeps only its own user.
async fn anonymous_users(pool: &ServicePool, before: Timestamp) -> Result<u64, AuthError> {
    const OLDEST: &str = "\
select u.id
from auth.users u
where u.is_anonymous and u.created_at < $1 and u.id <> all ($2)
order by u.created_at
limit $3";
    const DELETE: &str = "delete from auth.users where id = $1 and is_anonymous";
    let (mut removed, mut kept) = (0_u64, Vec::<Uuid>::new());
    for _ in 0..BATCHES {
        let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let batch = delete_batch(&tx, OLDEST, DELETE, before, &mut kept).await;
        let (found, gone) = database::finish(tx, batch).await?;
        removed = removed.saturating_add(gone);
        if found < BATCH.unsigned_abs() {
            break;
        }
        sleep(PAUSE).await;
    }
    if !kept.is_empty() {
        tracing::info!(users = kept.len(), "anonymous users kept: rows of the project reference them");
    }
    Ok(removed)
}

async fn delete_batch(
    tx: &Tx,
    oldest: &str,
    delete: &str,
    before: Timestamp,
    kept: &mut Vec<Uuid>,
) -> Result<(u64, u64), AuthError> {
    let rows = tx.query(oldest, &[&before, &*kept, &BATCH]).await?;
    let (mut found, mut gone) = (0_u64, 0_u64);
    for row in &rows {
        let id: Uuid = column(row, "id")?;
        found = found.saturating_add(1);
        match tx.execute(delete, &[&id]).await.map_err(AuthError::deleting) {
            Ok(rows) => gone = gone.saturating_add(rows),
            Err(AuthError::DeletingUser(_)) => kept.push(id),
            Err(error) => return Err(error),
        }
    }
    Ok((found, gone))
}
