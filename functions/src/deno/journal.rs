//! The messages of functions in a file, for `basalt functions logs`: JSON lines in the state folder, in two files of bounded size.

use std::io;
use std::path::{Path, PathBuf};

use basalt_core::clock::Clock;
use serde_json::json;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use super::output::Level;

/// Size at which a file becomes the previous one.
const FILE_BYTES: u64 = 4 << 20;
/// Messages that wait for the disk. Beyond, messages are missing in the file, but not in the server's log.
const QUEUE: usize = 1024;

/// Adds messages to the file.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    queue: Option<mpsc::Sender<String>>,
    clock: Clock,
}

/// The current file, and the one before.
pub(crate) fn files(state_dir: &Path) -> [PathBuf; 2] {
    ["log.jsonl", "log.previous.jsonl"].map(|name| state_dir.join("functions").join(name))
}

impl Journal {
    /// The journal, and the task that writes it until all senders are gone.
    pub(crate) fn new(state_dir: &Path, clock: Clock) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, mut lines) = mpsc::channel::<String>(QUEUE);
        let paths = files(state_dir);
        let write = async move {
            if let Err(error) = write(&paths, &mut lines).await {
                tracing::warn!(
                    "cannot write {}: {error}; `basalt functions logs` shows no new messages",
                    paths[0].display()
                );
            }
        };
        (Self { queue: Some(queue), clock }, write)
    }

    /// A journal that keeps nothing.
    #[cfg(test)]
    pub(crate) fn disabled() -> Self {
        Self { queue: None, clock: Clock::system() }
    }

    pub(crate) fn add(&self, function: &str, level: Level, request_id: &str, message: &str) {
        let Some(queue) = &self.queue else { return };
        let at = self.clock.now().to_string();
        let line = json!({"at": at, "function": function, "level": level.as_str(), "request_id": request_id, "message": message});
        let _full = queue.try_send(format!("{line}\n"));
    }
}

async fn write([path, previous]: &[PathBuf; 2], lines: &mut mpsc::Receiver<String>) -> io::Result<()> {
    let mut file = open(path).await?;
    let mut size = file.metadata().await?.len();
    while let Some(line) = lines.recv().await {
        if size > FILE_BYTES {
            fs::rename(path, previous).await?;
            file = open(path).await?;
            size = 0;
        }
        file.write_all(line.as_bytes()).await?;
        file.flush().await?;
        size += u64::try_from(line.len()).unwrap_or(0);
    }
    Ok(())
}

async fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).await
}
