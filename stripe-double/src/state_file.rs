//! Stores the state across restarts in a JSON file, replaced atomically at most once a second. The file contains names and e-mail addresses, so
//! only its owner can read it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Double;
use crate::state::State;

const PAUSE: Duration = Duration::from_secs(1);

/// Reads the file. If it cannot be read, starts with an empty state, because losing it is better than not starting.
pub(crate) fn read(path: &Path) -> State {
    // An earlier release created the file with the process's umask.
    let is_open = fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if is_open && let Err(error) = fs::set_permissions(path, Permissions::from_mode(0o600)) {
        tracing::warn!(%error, path = %path.display(), "other users can read the state file of the Stripe double: run chmod 600 on it");
    }
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return State::default(),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot read the state of the Stripe double; starting with an empty state");
            return State::default();
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "cannot parse the state of the Stripe double; starting with an empty state");
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

/// Writes the file, if one is configured.
pub(crate) async fn write_now(double: &Double) {
    let Some(path) = double.0.config.state_file.clone() else { return };
    let text = match serde_json::to_vec(&double.lock().state) {
        Ok(text) => text,
        Err(error) => return tracing::warn!(%error, "cannot serialise the state of the Stripe double"),
    };
    let written = tokio::task::spawn_blocking(move || write(&path, &text));
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "cannot write the state of the Stripe double"),
        Err(error) => tracing::warn!(%error, "cannot write the state of the Stripe double"),
    }
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    // A temporary file left by a crash keeps its mode when it is opened again.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?.write_all(text)?;
    fs::rename(&draft, path)
}
