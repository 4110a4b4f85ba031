//! Limits the memory of a backend (docs/decisions/0051).
//!
//! PostgreSQL has no such setting: `work_mem` limits sorts and hashes, but a `json_agg` uses what it needs. The kernel's
//! `RLIMIT_DATA` limits a process's private memory; a backend that reaches it reports `53200 out of memory` and keeps running.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;

use crate::account::Account;

/// Private memory of a backend. Its RSS also includes the shared buffers that it has touched.
const DEFAULT_BYTES: u64 = 192 << 20;
/// Additional memory per byte of a large body. Text rows take 6 to 13 bytes per byte, rows of small JSON values 85.
const BYTES_PER_VALUE_BYTE: u64 = 64;
/// Enough for the largest body that REST accepts (50 MiB) with defaults filled in: 617 MB were measured.
const MAX_BYTES: u64 = 640 << 20;

/// Limits the memory of the embedded PostgreSQL's backends. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryLimit {
    account: Account,
    has_failed: Arc<AtomicBool>,
}

impl MemoryLimit {
    pub(super) fn new(account: Account) -> Self {
        Self { account, has_failed: Arc::default() }
    }

    /// Up to this size of its values, a request needs only the default limit.
    pub const USUAL_VALUES: usize = 1 << 20;

    /// Limits the backend with this process id, which is about to receive `values` bytes. Logs only the first failure.
    pub async fn apply(&self, backend: i32, values: usize) {
        if let Err(error) = self.set(backend, limit_for(values)).await
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "one request can use all memory of this machine, because PostgreSQL's backends cannot be limited ({error}): install \
                 util-linux (its program prlimit), or give this program CAP_SYS_RESOURCE"
            );
        }
    }

    /// Tries the limit on a process of the same account.
    pub(super) async fn check(&self) -> io::Result<()> {
        let mut command = Command::new("sleep");
        self.account.apply(&mut command);
        let mut child = command.arg("10").stdin(Stdio::null()).kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let result = self.set(pid.ok_or(io::ErrorKind::NotFound)?, DEFAULT_BYTES).await;
        child.kill().await?;
        result
    }

    async fn set(&self, backend: i32, bytes: u64) -> io::Result<()> {
        match set_directly(backend, bytes) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => return result,
        }
        // Root without CAP_SYS_RESOURCE has no permission, but the backend's own user does.
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
        return DEFAULT_BYTES;
    }
    let more = u64::try_from(values).unwrap_or(u64::MAX).saturating_mul(BYTES_PER_VALUE_BYTE);
    more.saturating_add(DEFAULT_BYTES).min(MAX_BYTES)
}

#[cfg(target_os = "linux")]
fn set_directly(backend: i32, bytes: u64) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let pid = Pid::from_raw(backend).ok_or(io::ErrorKind::NotFound)?;
    // The backend inherited this hard limit, which an operator may have set, so keep it.
    let maximum = getrlimit(Resource::Data).maximum;
    let current = Some(maximum.map_or(bytes, |maximum| maximum.min(bytes)));
    prlimit(Some(pid), Resource::Data, Rlimit { current, maximum })?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_directly(_backend: i32, _bytes: u64) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "not supported on this system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_body_raises_limit_up_to_maximum() {
        let megabytes = |values: usize| limit_for(values) >> 20;
        assert_eq!([0, 1 << 20, 2 << 20, 50 << 20, usize::MAX].map(megabytes), [192, 192, 320, 640, 640]);
    }

    #[tokio::test]
    async fn limits_process_of_the_account() {
        let account = Account::choose(std::path::Path::new("/nowhere"));
        MemoryLimit::new(account).check().await.unwrap();
    }
}
