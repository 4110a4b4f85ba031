//! Refreshes of one session queue here before they take a connection, so that a storm on one session cannot occupy the
//! pool. Within one process; between servers the row decides ([`super::step`]).

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::error::AuthError;

/// One queue per group of sessions: a session's id decides its group, so refreshes of one session come one after
/// the other, and those of others hardly ever meet.
pub(crate) struct RefreshLocks(Vec<Mutex<()>>);

/// How long a refresh waits for its turn; then the server is too busy and says so, since a 4xx would sign the
/// client out (auth.md §5.2).
const TURN_LIMIT: Duration = Duration::from_secs(5);

impl RefreshLocks {
    pub(crate) fn new() -> Self {
        Self(std::iter::repeat_with(|| Mutex::new(())).take(256).collect())
    }

    /// Waits for this session's turn.
    pub(crate) async fn take(&self, session_id: Uuid) -> Result<Option<MutexGuard<'_, ()>>, AuthError> {
        let [.., last] = *session_id.as_bytes();
        let Some(turn) = self.0.get(usize::from(last)) else { return Ok(None) };
        match tokio::time::timeout(TURN_LIMIT, turn.lock()).await {
            Ok(guard) => Ok(Some(guard)),
            Err(_elapsed) => Err(AuthError::Overloaded),
        }
    }
}
