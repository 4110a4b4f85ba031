//! A note that a running server keeps in its state folder for commands on the same machine: its address, the fingerprint of its secrets, and an
//! untrusted proxy it has seen. A lock on the file shows that the server is running; the kernel releases it however the server ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::secrets::Secrets;

const FILE: &str = "server.json";
/// Limit on the bytes read.
const MAX_BYTES: u64 = 64 * 1024;

/// The content of the file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Note {
    /// `server.public_url`.
    pub(crate) url: String,
    /// The fingerprint of the server's secrets, which reveals none of them.
    pub(crate) fingerprint: String,
    /// A proxy that sent `X-Forwarded-For` and is not in `server.trusted_proxies`.
    #[serde(default)]
    pub(crate) untrusted_proxy: Option<IpAddr>,
}

/// The note of this server, held until it stops. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RunningNote {
    /// `None` if the folder is not writable or another server holds the note. The mutex is held for short writes only.
    file: Option<Arc<Mutex<(File, Note)>>>,
}

impl RunningNote {
    /// Writes the note. A failure only affects commands, so it is logged.
    pub(crate) fn new(config: &Config, secrets: &Secrets) -> Self {
        let note = Note {
            url: config.server.public_url.to_string(),
            fingerprint: secrets.fingerprint(),
            untrusted_proxy: None,
        };
        let file = open(&config.server.state_dir).and_then(|mut file| {
            write(&mut file, &note)?;
            Ok(Arc::new(Mutex::new((file, note))))
        });
        if let Err(error) = &file {
            tracing::debug!(%error, "cannot write the note of the running server");
        }
        Self { file: file.ok() }
    }

    /// Records an untrusted proxy. Blocks on disk I/O.
    pub(crate) fn note_untrusted_proxy(&self, address: IpAddr) {
        let Some(file) = &self.file else { return };
        let mut guard = file.lock();
        let (file, note) = &mut *guard;
        note.untrusted_proxy = Some(address);
        if let Err(error) = write(file, note) {
            tracing::debug!(%error, "cannot write the note of the running server");
        }
    }
}

fn open(state_dir: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    // Not truncated before the lock is held: it may be another server's note.
    options.create(true).read(true).write(true).truncate(false).mode(0o600);
    let file = options.open(state_dir.join(FILE))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(std::io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn write(file: &mut File, note: &Note) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(serde_json::to_string(note)?.as_bytes())
}

/// The note of the server that is running on this state folder, if any.
pub(crate) fn read(state_dir: &Path) -> Option<Note> {
    let file = File::open(state_dir.join(FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
