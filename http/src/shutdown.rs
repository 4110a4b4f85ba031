//! Shutdown of the server: graceful first, then forced.

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancellation tokens for both stages. Cheap to clone; all clones share them.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Stop accepting connections; requests in flight may finish within `server.shutdown_timeout`.
    pub graceful: CancellationToken,
    /// Stop waiting for requests. Cleanup still happens: pools are closed and PostgreSQL is stopped, which would
    /// otherwise have to recover.
    pub forced: CancellationToken,
}

impl Shutdown {
    /// Handles [`EndSignals`] while the returned future is polled: the first starts a graceful shutdown, the second
    /// forces it. From this call on the signals no longer terminate the process.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
    pub fn follow_signals(
        &self,
        hangup: Hangup,
    ) -> std::io::Result<impl Future<Output = Infallible> + use<>> {
        let mut signals = EndSignals::new(hangup)?;
        let tokens = [self.graceful.clone(), self.forced.clone()];
        Ok(async move {
            for token in tokens {
                let _number = signals.next().await;
                token.cancel();
            }
            std::future::pending().await
        })
    }
}

/// What SIGHUP means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// The terminal was closed.
    Ends,
    /// Something else handles it: a reload.
    IsHandled,
}

/// Signals that request termination: SIGTERM, SIGINT (Ctrl-C), SIGQUIT (Ctrl-\) and SIGHUP (the terminal closed),
/// except a SIGHUP that the process was started to ignore, as by `nohup`.
#[derive(Debug)]
pub struct EndSignals(Vec<(i32, Signal)>);

impl EndSignals {
    /// Installs the signal handlers; from now on these signals do not terminate the process.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
    pub fn new(hangup: Hangup) -> std::io::Result<Self> {
        let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt(), SignalKind::quit()];
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if hangup == Hangup::Ends && !ignores(&status, SignalKind::hangup()) {
            kinds.push(SignalKind::hangup());
        }
        kinds
            .into_iter()
            .map(|kind| Ok((kind.as_raw_value(), signal(kind)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Waits for the next signal and returns its number.
    pub async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            let received = self.0.iter_mut().find_map(|(number, signal)| {
                matches!(signal.poll_recv(context), Poll::Ready(Some(()))).then_some(*number)
            });
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Whether a process with this `/proc/PID/status` ignores the signal. A missing file counts as not ignored.
fn ignores(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_parsed_from_mask() {
        let hangup = SignalKind::hangup();
        assert!(ignores("Name:\tbasalt\nSigIgn:\t0000000000001001\n", hangup));
        assert!(!ignores("Name:\tbasalt\nSigIgn:\t0000000000001000\n", hangup));
        assert!(ignores("SigIgn:\t0000000000004000\n", SignalKind::terminate()));
        assert!(!ignores("", hangup));
    }
}
