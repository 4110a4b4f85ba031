//! How the server is told to end: gracefully, and then by force.

use tokio_util::sync::CancellationToken;

/// Cheap to clone; all clones are told together.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// No more connections; requests in flight finish, within `server.shutdown_timeout`.
    pub graceful: CancellationToken,
    /// They are not waited for any longer. What follows is done all the same: pools are closed and PostgreSQL is
    /// stopped, which would have to recover otherwise.
    pub forced: CancellationToken,
}

impl Shutdown {
    /// Told by SIGTERM and Ctrl-C: the first asks, the second hurries.
    ///
    /// # Errors
    /// The system does not let signals be heard.
    pub fn on_signals() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = Self::default();
        let told = stop.clone();
        tokio::spawn(async move {
            for token in [told.graceful, told.forced] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                token.cancel();
            }
        });
        Ok(stop)
    }
}
