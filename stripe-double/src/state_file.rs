//! State over a restart: one JSON file, written whole and renamed, at most once a second.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Double;
use crate::state::State;

const PAUSE: Duration = Duration::from_secs(1);

/// The state of that file. A file that cannot be read starts an empty state: nothing in it is worth a refused start.
pub(crate) fn read(path: &Path) -> State {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return State::default(),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the state of the Stripe double cannot be read; it starts empty");
            return State::default();
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "the state of the Stripe double is not readable; it starts empty");
        State::default()
    })
}

/// Writes the file after changes, until `shutdown`.
pub(crate) async fn keep(double: &Double, shutdown: &CancellationToken) {
    if double.0.config.state_file.is_none() {
        return;
    }
    let mut written = double.lock().version;
    while shutdown.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let version = double.lock().version;
        if version != written {
            write_now(double).await;
            written = version;
        }
    }
}

/// Writes the file, if there is to be one.
pub(crate) async fn write_now(double: &Double) {
    let Some(path) = double.0.config.state_file.clone() else { return };
    let text = match serde_json::to_vec(&double.lock().state) {
        Ok(text) => text,
        Err(error) => return tracing::warn!(%error, "the state of the Stripe double cannot be written"),
    };
    let written = tokio::task::spawn_blocking(move || {
        let draft = path.with_extension("new");
        std::fs::write(&draft, text)?;
        std::fs::rename(&draft, &path)
    });
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the state of the Stripe double cannot be written"),
        Err(error) => tracing::warn!(%error, "the state of the Stripe double was not written"),
    }
}
