//! Limits on sessions (auth.md §3.23). They are checked at refresh; no timer ends a session.

use std::time::Duration;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Amr, Session, aal};
use crate::config::AuthConfig;
use crate::database::column;
use crate::error::AuthError;

/// The configured limits. Times are in seconds; 0 sets no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLimits<'a> {
    timebox: u64,
    inactivity: u64,
    low_aal: u64,
    is_single_per_user: bool,
    tags: &'a [String],
}

impl<'a> SessionLimits<'a> {
    pub(crate) fn new(config: &'a AuthConfig) -> Self {
        Self {
            timebox: config.sessions_timebox,
            inactivity: config.sessions_inactivity_timeout,
            low_aal: config.sessions_allow_low_aal,
            is_single_per_user: config.sessions_single_per_user,
            tags: &config.sessions_tags,
        }
    }
}

impl Session {
    /// Time of the last refresh, or of creation.
    pub(crate) fn last_refresh(&self) -> Option<Timestamp> {
        self.refreshed_at.max(self.created_at)
    }

    /// Whether the session may still refresh.
    ///
    /// # Errors
    /// It is too old, was idle too long, or lacks the user's second factor.
    pub(crate) fn check_life(
        &self,
        limits: SessionLimits<'_>,
        has_verified_factor: bool,
        amr: &[Amr],
        now: Timestamp,
    ) -> Result<(), AuthError> {
        let is_past = |start: Option<Timestamp>, seconds: u64| {
            seconds > 0 && start.is_some_and(|start| age(start, now) >= Duration::from_secs(seconds))
        };
        if self.not_after.is_some_and(|end| end <= now) || is_past(self.created_at, limits.timebox) {
            return Err(AuthError::SessionExpired(""));
        }
        if is_past(self.last_refresh(), limits.inactivity) {
            return Err(AuthError::SessionExpired(" (Inactivity)"));
        }
        if has_verified_factor && aal(amr) == "aal1" && is_past(self.created_at, limits.low_aal) {
            return Err(AuthError::SessionExpired(" (Low AAL: User Needs MFA Verification)"));
        }
        Ok(())
    }
}

fn age(start: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO)
}

/// Whether another session of the user was used later (`sessions.single_per_user`); with `sessions.tags`, another one with the
/// same tag. An unknown tag counts as the first. Sessions of OAuth clients neither count nor are superseded.
pub(crate) async fn is_superseded(
    tx: &Tx,
    limits: SessionLimits<'_>,
    session: &Session,
) -> Result<bool, AuthError> {
    const NEWEST: &str = "\
select s.id
from auth.sessions s
where s.user_id = $1 and s.oauth_client_id is null and (cardinality($2::text[]) = 0
  or (case when s.tag = any($2) then s.tag else $2[1] end) = (case when $3::text = any($2) then $3 else $2[1] end))
order by greatest(s.refreshed_at at time zone 'utc', s.created_at) desc nulls last, s.id
limit 1";
    if !limits.is_single_per_user || session.oauth_client_id.is_some() {
        return Ok(false);
    }
    let row = tx.query_opt(NEWEST, &[&session.user_id, &limits.tags, &session.tag]).await?;
    let newest: Option<Uuid> = row.as_ref().map(|row| column(row, "id")).transpose()?;
    Ok(newest.is_some_and(|newest| newest != session.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(created: i64, refreshed: Option<i64>) -> Session {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        Session {
            id: Uuid::nil(),
            user_id: Uuid::nil(),
            created_at: Some(at(created)),
            refreshed_at: refreshed.map(at),
            not_after: None,
            tag: None,
            oauth_client_id: None,
            scopes: None,
            hmac_key: None,
            counter: 0,
        }
    }

    fn life(config: &AuthConfig, session: &Session, has_factor: bool, now: i64) -> Option<String> {
        let amr = [Amr { method: "password".to_owned(), timestamp: 0 }];
        let now = Timestamp::from_second(now).unwrap();
        session
            .check_life(SessionLimits::new(config), has_factor, &amr, now)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn sessions_never_expire_by_default() {
        assert_eq!(life(&AuthConfig::default(), &session(0, None), true, 4_000_000_000), None);
    }

    #[test]
    fn each_limit_has_its_own_message() {
        let config = AuthConfig {
            sessions_timebox: 1000,
            sessions_inactivity_timeout: 100,
            sessions_allow_low_aal: 50,
            ..AuthConfig::default()
        };
        let text = |suffix: &str| Some(format!("Invalid Refresh Token: Session Expired{suffix}"));
        assert_eq!(life(&config, &session(0, Some(990)), false, 1000), text(""));
        assert_eq!(life(&config, &session(0, Some(10)), false, 110), text(" (Inactivity)"));
        assert_eq!(
            life(&config, &session(0, Some(50)), true, 60),
            text(" (Low AAL: User Needs MFA Verification)")
        );
        assert_eq!(life(&config, &session(0, Some(50)), false, 60), None);
        let ended = Session { not_after: Timestamp::from_second(5).ok(), ..session(0, None) };
        assert_eq!(life(&config, &ended, false, 5), text(""));
    }
}
