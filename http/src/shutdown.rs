//! How the server is told to end: gracefully, and then by force.

use std::convert::Infallible;

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
    /// Follows SIGTERM and Ctrl-C for as long as the result is polled: the first asks for a graceful end, the second
    /// forces it. From this call on the signals no longer end the process.
    ///
    /// # Errors
    /// The system does not let signals be heard.
    pub fn follow_signals(&self) -> std::io::Result<impl Future<Output = Infallible> + use<>> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let tokens = [self.graceful.clone(), self.forced.clone()];
        Ok(async move {
            for token in tokens {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                token.cancel();
            }
            std::future::pending().await
        })
    }
}
