//! What a running server leaves in its state folder for commands beside it: where it answers, with which secrets, and what it has noticed. A lock on
//! the file says whether the server still runs; the kernel releases it however the server ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::secrets::Secrets;

const FILE: &str = "server.json";
/// More than a note is not read.
const MOST_BYTES: u64 = 64 * 1024;

/// What the file says.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Note {
    /// `server.public_url`.
    pub(crate) url: String,
    /// Of its secrets; tells none of them.
    pub(crate) fingerprint: String,
    /// A proxy that sent `X-Forwarded-For` and is not in `server.trusted_proxies`.
    #[serde(default)]
    pub(crate) untrusted_proxy: Option<IpAddr>,
}

/// The note of this server, as long as it runs. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RunningNote {
    /// `None` where the folder cannot be written or another server's note is there. Held for short writes only.
    file: Option<Arc<Mutex<(File, Note)>>>,
}

impl RunningNote {
    /// Writes the note. Where that fails only commands miss it.
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
            tracing::debug!(%error, "the note of the running server could not be written");
        }
        Self { file: file.ok() }
    }

    /// Adds the address of a proxy that is not trusted. Writes to the disk.
    pub(crate) fn note_untrusted_proxy(&self, address: IpAddr) {
        let Some(file) = &self.file else { return };
        let mut guard = file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, note) = &mut *guard;
        note.untrusted_proxy = Some(address);
        if let Err(error) = write(file, note) {
            tracing::debug!(%error, "the note of the running server could not be written");
        }
    }
}

fn open(state_dir: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    // Another server's note stays as it is: it is emptied under the lock.
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

/// The note of the server that runs on this state folder, if one does.
pub(crate) fn read(state_dir: &Path) -> Option<Note> {
    let file = File::open(state_dir.join(FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
