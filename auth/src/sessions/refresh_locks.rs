//! Queues refreshes of a session before they take a connection, so that many of them cannot exhaust the pool. Per process; across
//! servers the session row decides ([`super::advance`]).

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::error::AuthError;

/// One queue per group of sessions, chosen by the session id. Refreshes of one session are serialised; different sessions rarely
/// share a queue.
pub(crate) struct RefreshLocks(Vec<Mutex<()>>);

/// Time limit of waiting. The error is a 503, since a 4xx would sign the client out (auth.md §5.2).
const TURN_LIMIT: Duration = Duration::from_secs(5);

impl RefreshLocks {
    pub(crate) fn new() -> Self {
        Self(std::iter::repeat_with(|| Mutex::new(())).take(256).collect())
    }

    /// Waits in the session's queue.
    pub(crate) async fn take(&self, session_id: Uuid) -> Result<Option<MutexGuard<'_, ()>>, AuthError> {
        let [.., last] = *session_id.as_bytes();
        let Some(turn) = self.0.get(usize::from(last)) else { return Ok(None) };
        match tokio::time::timeout(TURN_LIMIT, turn.lock()).await {
            Ok(guard) => Ok(Some(guard)),
            Err(_elapsed) => Err(AuthError::Overloaded),
        }
    }
}
