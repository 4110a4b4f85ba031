//! How much memory one backend may take (docs/decisions/0051).
//!
//! PostgreSQL has no such setting: `work_mem` bounds sorts and hashes, and a `json_agg` takes what it needs. The kernel's
//! `RLIMIT_DATA` bounds a process's private memory; a backend that reaches it answers `53200 out of memory` and lives on.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;

use crate::account::Account;

/// Private memory of one backend. What it has touched of the shared buffers comes on top in its RSS. PostgreSQL takes up to
/// 480 MB for the largest body that REST accepts, 50 MiB, with defaults filled in.
const BYTES: u64 = 512 << 20;

/// Limits backends of the embedded PostgreSQL. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryLimit {
    account: Account,
    has_failed: Arc<AtomicBool>,
}

impl MemoryLimit {
    pub(super) fn new(account: Account) -> Self {
        Self { account, has_failed: Arc::default() }
    }

    /// Limits the backend with this process id, for as long as it lives. The first failure is logged.
    pub async fn apply(&self, backend: i32) {
        if let Err(error) = self.set(backend).await
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "one request may take all of this machine's memory: PostgreSQL's backends cannot be limited ({error}). Install \
                 util-linux (its program prlimit), or give this program CAP_SYS_RESOURCE"
            );
        }
    }

    /// Tries it on a process like a backend.
    pub(super) async fn check(&self) -> io::Result<()> {
        let mut command = Command::new("sleep");
        self.account.apply(&mut command);
        let mut child = command.arg("10").stdin(Stdio::null()).kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let result = self.set(pid.ok_or(io::ErrorKind::NotFound)?).await;
        child.kill().await?;
        result
    }

    async fn set(&self, backend: i32) -> io::Result<()> {
        match set_directly(backend) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => return result,
        }
        // Root without CAP_SYS_RESOURCE may not, the backend's own user may.
        let mut command = Command::new("prlimit");
        self.account.apply(&mut command);
        let command = command.arg("--pid").arg(backend.to_string()).arg(format!("--data={BYTES}:{BYTES}"));
        let output = command.current_dir("/").stdin(Stdio::null()).kill_on_drop(true).output().await?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

#[cfg(target_os = "linux")]
fn set_directly(backend: i32) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(backend).ok_or(io::ErrorKind::NotFound)?;
    let limit = Rlimit { current: Some(BYTES), maximum: Some(BYTES) };
    prlimit(Some(pid), Resource::Data, limit)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_directly(_backend: i32) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_of_the_account_is_limited() {
        let account = Account::choose(std::path::Path::new("/nowhere"));
        MemoryLimit::new(account).check().await.unwrap();
    }
}
