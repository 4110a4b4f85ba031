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

/// Private memory of one backend. What it has touched of the shared buffers comes on top in its RSS.
const USUAL: u64 = 192 << 20;
/// More of it for each byte of a large body. Rows of text take 6 to 13 bytes each, rows of small JSON values 85.
const FOR_EACH_BYTE: u64 = 64;
/// Enough for the largest body that REST accepts, 50 MiB, with defaults filled in: 617 MB were measured.
const MOST: u64 = 640 << 20;

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

    /// A request whose values have no more bytes needs no more than the usual limit.
    pub const USUAL_VALUES: usize = 1 << 20;

    /// Limits the backend with this process id, which is to take `values` bytes of values. The first failure is logged.
    pub async fn apply(&self, backend: i32, values: usize) {
        if let Err(error) = self.set(backend, limit_for(values)).await
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
        let result = self.set(pid.ok_or(io::ErrorKind::NotFound)?, USUAL).await;
        child.kill().await?;
        result
    }

    async fn set(&self, backend: i32, bytes: u64) -> io::Result<()> {
        match set_directly(backend, bytes) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => return result,
        }
        // Root without CAP_SYS_RESOURCE may not, the backend's own user may.
        let mut command = Command::new("prlimit");
        self.account.apply(&mut command);
        let command = command.arg("--pid").arg(backend.to_string()).arg(format!("--data={bytes}:"));
        let output = command.current_dir("/").stdin(Stdio::null()).kill_on_drop(true).output().await?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn limit_for(values: usize) -> u64 {
    if values <= MemoryLimit::USUAL_VALUES {
        return USUAL;
    }
    let more = u64::try_from(values).unwrap_or(u64::MAX).saturating_mul(FOR_EACH_BYTE);
    more.saturating_add(USUAL).min(MOST)
}

#[cfg(target_os = "linux")]
fn set_directly(backend: i32, bytes: u64) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let pid = Pid::from_raw(backend).ok_or(io::ErrorKind::NotFound)?;
    // Theirs is the same. An operator's, it may not be lifted.
    let maximum = getrlimit(Resource::Data).maximum;
    let current = Some(maximum.map_or(bytes, |maximum| maximum.min(bytes)));
    prlimit(Some(pid), Resource::Data, Rlimit { current, maximum })?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_directly(_backend: i32, _bytes: u64) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_body_raises_the_limit_up_to_a_bound() {
        let megabytes = |values: usize| limit_for(values) >> 20;
        assert_eq!([0, 1 << 20, 2 << 20, 50 << 20, usize::MAX].map(megabytes), [192, 192, 320, 640, 640]);
    }

    #[tokio::test]
    async fn a_process_of_the_account_is_limited() {
        let account = Account::choose(std::path::Path::new("/nowhere"));
        MemoryLimit::new(account).check().await.unwrap();
    }
}
