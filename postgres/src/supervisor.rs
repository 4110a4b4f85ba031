//! The task that keeps PostgreSQL up: it alone waits for the child, starts it again and stops it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::error::EmbeddedError;
use crate::postmaster::{Launch, Postmaster};

/// The first pause before a restart; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After this long without a crash the pause starts over.
const CALM: Duration = Duration::from_secs(60);

/// What the embedded PostgreSQL is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes connections.
    Ready,
    /// It ended and is being started again.
    Restarting {
        /// 1 for the first try since it was last calm.
        attempt: u32,
        /// How it ended, or why the last try failed.
        reason: String,
    },
    /// It was stopped for good.
    Stopped,
}

/// The child's pid while it runs, for a last signal when the owner is dropped without a stop.
///
/// A plain mutex: held for a copy only. The child stays unreaped as long as its pid is in here, so the number
/// cannot belong to anyone else.
#[derive(Clone, Debug, Default)]
pub(super) struct PidSlot(Arc<Mutex<Option<Pid>>>);

impl PidSlot {
    pub(super) fn set(&self, pid: Option<Pid>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    pub(super) fn get(&self) -> Option<Pid> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the server up until `stop`, then stops it.
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
        if up_since.elapsed() >= CALM {
            back_off = BackOff::default();
        }
        let restarted = tokio::select! {
            restarted = restart(&mut launch, &state, &mut back_off, reason) => Some(restarted),
            // A start that is dropped half way only signals its server; its end is waited for below.
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

/// Tries until the server runs again.
///
/// The number of the port is in the socket's name, which every pool knows, so it stays. If another program took the
/// port meanwhile, the server does without: requests go through the socket.
async fn restart(
    launch: &mut Launch,
    state: &watch::Sender<State>,
    back_off: &mut BackOff,
    mut reason: String,
) -> Postmaster {
    loop {
        let pause = back_off.next();
        tracing::warn!(%reason, attempt = back_off.attempt, pause_ms = pause.as_millis(), "PostgreSQL ended; starting it again");
        state.send_replace(State::Restarting { attempt: back_off.attempt, reason });
        sleep(pause).await;
        match launch.start(&mut |step| tracing::info!("{step}")).await {
            Ok(postmaster) => {
                tracing::info!("PostgreSQL runs again");
                return postmaster;
            }
            Err(EmbeddedError::PortTaken { port }) if launch.tcp => {
                launch.tcp = false;
                reason =
                    format!("port {port} was taken meanwhile; going on without it, through the socket alone");
            }
            Err(error) => reason = error.to_string(),
        }
    }
}

/// Ends a server whose start was given up half way.
async fn end_half_started(launch: &Launch) {
    if let Err(error) = super::leftover::end_all(&launch.dirs.data_dir, &mut |_| {}).await {
        tracing::warn!(%error, "PostgreSQL could not be stopped");
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
    fn the_pause_doubles_up_to_its_limit() {
        let mut back_off = BackOff::default();
        let pauses: Vec<u128> = (0..8).map(|_| back_off.next().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        back_off.attempt = u32::MAX;
        assert_eq!(back_off.next(), LONGEST_PAUSE);
    }
}
