//! The task that keeps PostgreSQL running. It alone waits for the child, restarts it and stops it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Pid;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::error::EmbeddedError;
use crate::postmaster::{Launch, Postmaster};

/// The delay before the first restart; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The delay is reset after this long without a crash.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The state of the embedded PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It accepts connections.
    Ready,
    /// It ended and is being restarted.
    Restarting {
        /// Number of the attempt since PostgreSQL was last stable, from 1.
        attempt: u32,
        /// How it ended, or why the last attempt failed.
        reason: String,
    },
    /// It was stopped permanently.
    Stopped,
}

/// The child's pid while it runs, to signal it when the owner is dropped without a stop.
///
/// The mutex is held only for a copy. The child is not reaped while its pid is stored here, so the pid cannot belong to
/// another process.
#[derive(Clone, Debug, Default)]
pub(super) struct PidSlot(Arc<Mutex<Option<Pid>>>);

impl PidSlot {
    pub(super) fn set(&self, pid: Option<Pid>) {
        *self.0.lock() = pid;
    }

    pub(super) fn get(&self) -> Option<Pid> {
        *self.0.lock()
    }
}

/// Keeps the server running until `stop`, then stops it.
pub(super) async fn keep(
    mut launch: Launch,
    mut postmaster: Postmaster,
    state: watch::Sender<State>,
    stop: CancellationToken,
    pid: PidSlot,
) {
    let mut back_off = BackOff::default();
    loop {
        let up_since = Instant::now();
        pid.set(postmaster.pid());
        state.send_replace(State::Ready);
        let ended = tokio::select! {
            ended = postmaster.ended() => Some(ended),
            () = stop.cancelled() => None,
        };
        let Some(reason) = ended else { break };
        pid.set(None);
        if up_since.elapsed() >= STABLE_AFTER {
            back_off = BackOff::default();
        }
        let restarted = tokio::select! {
            restarted = restart(&mut launch, &state, &mut back_off, reason) => Some(restarted),
            // Cancelling a start only signals its server; `end_half_started` waits for its end.
            () = stop.cancelled() => None,
        };
        let Some(next) = restarted else {
            end_half_started(&launch).await;
            state.send_replace(State::Stopped);
            return;
        };
        postmaster = next;
    }
    postmaster.stop().await;
    pid.set(None);
    state.send_replace(State::Stopped);
}

/// Retries until the server runs again.
///
/// The port stays the same, because it is part of the socket's name, which every pool knows. If another program has
/// taken the port, the server listens on the socket only, which is what requests use.
async fn restart(
    launch: &mut Launch,
    state: &watch::Sender<State>,
    back_off: &mut BackOff,
    mut reason: String,
) -> Postmaster {
    loop {
        let pause = back_off.next();
        tracing::warn!(%reason, attempt = back_off.attempt, pause_ms = pause.as_millis(), "PostgreSQL ended; restarting it");
        state.send_replace(State::Restarting { attempt: back_off.attempt, reason });
        sleep(pause).await;
        match launch.start(&mut |step| tracing::info!("{step}")).await {
            Ok(postmaster) => {
                tracing::info!("PostgreSQL is running again");
                return postmaster;
            }
            Err(EmbeddedError::PortTaken { port }) if launch.tcp => {
                launch.tcp = false;
                reason =
                    format!("port {port} is now in use by another program; continuing with the socket only");
            }
            Err(error) => reason = error.to_string(),
        }
    }
}

/// Stops a server whose start was cancelled.
async fn end_half_started(launch: &Launch) {
    if let Err(error) = super::leftover::end_all(&launch.dirs.data_dir, &mut |_| {}).await {
        tracing::warn!(%error, "cannot stop PostgreSQL");
    }
}

#[derive(Debug, Default)]
struct BackOff {
    attempt: u32,
}

impl BackOff {
    fn next(&mut self) -> Duration {
        let factor = 2_u32.saturating_pow(self.attempt);
        self.attempt = self.attempt.saturating_add(1);
        FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_limit() {
        let mut back_off = BackOff::default();
        let pauses: Vec<u128> = (0..8).map(|_| back_off.next().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        back_off.attempt = u32::MAX;
        assert_eq!(back_off.next(), LONGEST_PAUSE);
    }
}
