//! PostgreSQL processes that an earlier run left on our data folder.
//!
//! A server that was killed leaves its postmaster running; a postmaster that was killed leaves backends running for
//! a moment, and these keep the shared memory that the next postmaster needs. Both are ended before we start:
//! never adopted (we would not own their exit) and never doubled. A pid alone proves nothing, since numbers are
//! used again: a process counts only if it is a PostgreSQL program that works in the folder or was told to.
//!
//! The caller holds the folder's [`OwnerLock`](super::owner::OwnerLock): no other basalt can own these processes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::error::EmbeddedError;

/// Time for a fast shutdown, its checkpoint included.
const FAST_LIMIT: Duration = Duration::from_secs(20);
/// Time for an immediate one, and for the kernel after SIGKILL.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Ends every PostgreSQL process on `data_dir` and removes a `postmaster.pid` that no longer belongs to any.
pub(super) async fn end_all(
    data_dir: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<(), EmbeddedError> {
    let pid_file = data_dir.join("postmaster.pid");
    let mut running = processes_on(data_dir);
    if !running.is_empty() {
        progress("stopping a PostgreSQL that an earlier run left behind");
        let postmaster = recorded_pid(&pid_file).filter(|pid| running.contains(pid));
        if let Some(postmaster) = postmaster {
            signal(&[postmaster], Signal::INT);
            running = gone_within(data_dir, FAST_LIMIT).await;
        }
        if !running.is_empty() {
            signal(&running, Signal::QUIT);
            running = gone_within(data_dir, IMMEDIATE_LIMIT).await;
        }
        if !running.is_empty() {
            signal(&running, Signal::KILL);
            running = gone_within(data_dir, IMMEDIATE_LIMIT).await;
        }
        if let Some(pid) = running.first() {
            let pid = pid.as_raw_nonzero().get();
            return Err(EmbeddedError::Orphan { pid, data_dir: data_dir.to_path_buf() });
        }
    }
    // PostgreSQL takes a recorded pid that some other process of this user now has for a running server.
    match fs::remove_file(&pid_file) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(EmbeddedError::io("remove", &pid_file, error)),
    }
}

/// Kills whatever works on `folder`, for a folder that is about to be removed.
pub(super) async fn kill_all(folder: &Path) -> Result<(), EmbeddedError> {
    let running = processes_on(folder);
    if running.is_empty() {
        return Ok(());
    }
    signal(&running, Signal::KILL);
    match gone_within(folder, IMMEDIATE_LIMIT).await.first() {
        None => Ok(()),
        Some(pid) => {
            Err(EmbeddedError::Orphan { pid: pid.as_raw_nonzero().get(), data_dir: folder.to_path_buf() })
        }
    }
}

/// The pid in the first line of `postmaster.pid`; single-user mode writes it negative.
fn recorded_pid(pid_file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(pid_file).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse::<i32>().ok()?.checked_abs()?)
}

fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // A process that ended in between is what we want.
        if let Err(error) = kill_process(*pid, signal) {
            tracing::debug!(pid = pid.as_raw_nonzero().get(), %error, "could not signal a leftover process");
        }
    }
}

/// Waits until no process is left, at most `limit`; what remains.
async fn gone_within(folder: &Path, limit: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + limit;
    loop {
        let running = processes_on(folder);
        if running.is_empty() || Instant::now() >= deadline {
            return running;
        }
        sleep(POLL).await;
    }
}

/// PostgreSQL programs that work in `folder` or have it as an argument.
///
/// A zombie has no working directory and no arguments, so it does not count.
#[cfg(target_os = "linux")]
pub(super) fn processes_on(folder: &Path) -> Vec<Pid> {
    use std::os::unix::ffi::OsStrExt;

    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let wanted = folder.as_os_str().as_bytes();
    let is_ours = |process: &Path| {
        let program = fs::read_to_string(process.join("comm")).unwrap_or_default();
        if !matches!(program.trim(), "postgres" | "postmaster" | "initdb") {
            return false;
        }
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
            || fs::read(process.join("cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).any(|argument| argument == wanted))
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            is_ours(&entry.path()).then_some(Pid::from_raw(pid)?)
        })
        .collect()
}

/// PostgreSQL programs that have `folder` as an argument: other systems show us no working directory.
#[cfg(not(target_os = "linux"))]
pub(super) fn processes_on(folder: &Path) -> Vec<Pid> {
    let Ok(output) = std::process::Command::new("ps").args(["-axo", "pid=,args="]).output() else {
        return Vec::new();
    };
    let folder = folder.display().to_string();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains("postgres") || line.contains("initdb"))
        .filter(|line| line.split_whitespace().any(|word| word == folder))
        .filter_map(|line| Pid::from_raw(line.split_whitespace().next()?.parse().ok()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_recorded_pid_of_another_program_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("postmaster.pid");
        // Our own pid: alive, and no PostgreSQL.
        fs::write(&pid_file, format!("{}\n{}\n", std::process::id(), dir.path().display())).unwrap();
        end_all(dir.path(), &mut |_| {}).await.unwrap();
        assert!(!pid_file.exists(), "a stale file is removed");
    }

    #[test]
    fn single_user_mode_records_a_negative_pid() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("postmaster.pid");
        fs::write(&pid_file, "-42\n/data\n").unwrap();
        assert_eq!(recorded_pid(&pid_file), Pid::from_raw(42));
        fs::write(&pid_file, "").unwrap();
        assert_eq!(recorded_pid(&pid_file), None);
    }
}
