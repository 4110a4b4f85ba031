//! Stops PostgreSQL processes that an earlier run left on our data folder.
//!
//! A killed server leaves its postmaster running; a killed postmaster leaves backends running for a moment, which hold the
//! shared memory that the next postmaster needs. Both are stopped before a start: they are never adopted (we could not wait
//! for their exit) and never run in parallel. A pid alone proves nothing, because pids are reused: a process counts only
//! if it is a PostgreSQL program whose working directory or argument is the folder.
//!
//! The caller that stops processes holds the folder's [`OwnerLock`](super::owner::OwnerLock), so no other Basalt server owns them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::error::EmbeddedError;

/// Time limit for a fast shutdown, including its checkpoint.
const FAST_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for an immediate shutdown, and for the kernel after SIGKILL.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Stops every PostgreSQL process on `data_dir` and removes a stale `postmaster.pid`.
pub(super) async fn end_all(
    data_dir: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<(), EmbeddedError> {
    let pid_file = data_dir.join("postmaster.pid");
    let mut running = processes_on(data_dir);
    if !running.is_empty() {
        progress("stopping a PostgreSQL of an earlier run");
        let postmaster = recorded_pid(&pid_file).filter(|pid| running.contains(pid));
        if let Some(postmaster) = postmaster {
            signal(&[postmaster], Signal::INT);
            running = remaining_after(data_dir, FAST_LIMIT).await;
        }
        if !running.is_empty() {
            signal(&running, Signal::QUIT);
            running = remaining_after(data_dir, IMMEDIATE_LIMIT).await;
        }
        if !running.is_empty() {
            signal(&running, Signal::KILL);
            running = remaining_after(data_dir, IMMEDIATE_LIMIT).await;
        }
        if let Some(pid) = running.first() {
            let pid = pid.as_raw_nonzero().get();
            return Err(EmbeddedError::Orphan { pid, data_dir: data_dir.to_path_buf() });
        }
    }
    // PostgreSQL takes a recorded pid for a running server if any process of this user has it.
    match fs::remove_file(&pid_file) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(EmbeddedError::io("remove", &pid_file, error)),
    }
}

/// Waits until no process is left on `data_dir`, for at most the time of a fast shutdown.
pub(super) async fn until_ended(data_dir: &Path) {
    let _remaining = remaining_after(data_dir, FAST_LIMIT).await;
}

/// Kills all processes on `folder`, which is about to be removed.
pub(super) async fn kill_all(folder: &Path) -> Result<(), EmbeddedError> {
    let running = processes_on(folder);
    if running.is_empty() {
        return Ok(());
    }
    signal(&running, Signal::KILL);
    match remaining_after(folder, IMMEDIATE_LIMIT).await.first() {
        None => Ok(()),
        Some(pid) => {
            Err(EmbeddedError::Orphan { pid: pid.as_raw_nonzero().get(), data_dir: folder.to_path_buf() })
        }
    }
}

/// The pid in the first line of `postmaster.pid`, which is negative in single-user mode.
fn recorded_pid(pid_file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(pid_file).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse::<i32>().ok()?.checked_abs()?)
}

fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // An error is expected if the process has just ended.
        if let Err(error) = kill_process(*pid, signal) {
            tracing::debug!(pid = pid.as_raw_nonzero().get(), %error, "cannot signal a leftover process");
        }
    }
}

/// Waits at most `limit` until no process is left, and returns the remaining ones.
async fn remaining_after(folder: &Path, limit: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + limit;
    loop {
        let running = processes_on(folder);
        if running.is_empty() || Instant::now() >= deadline {
            return running;
        }
        sleep(POLL).await;
    }
}

/// PostgreSQL programs with `folder` as their working directory or an argument.
///
/// A zombie has neither, so it does not count.
#[cfg(target_os = "linux")]
pub(super) fn processes_on(folder: &Path) -> Vec<Pid> {
    use std::os::unix::ffi::OsStrExt;

    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let expected = folder.as_os_str().as_bytes();
    let is_ours = |process: &Path| {
        let program = fs::read_to_string(process.join("comm")).unwrap_or_default();
        if !matches!(program.trim(), "postgres" | "postmaster" | "initdb") {
            return false;
        }
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
            || fs::read(process.join("cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).any(|argument| argument == expected))
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            is_ours(&entry.path()).then_some(Pid::from_raw(pid)?)
        })
        .collect()
}

/// PostgreSQL programs with `folder` as an argument; other systems do not expose working directories.
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
    async fn ignores_recorded_pid_of_another_program() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("postmaster.pid");
        // Our own pid: a live process that is not PostgreSQL.
        fs::write(&pid_file, format!("{}\n{}\n", std::process::id(), dir.path().display())).unwrap();
        end_all(dir.path(), &mut |_| {}).await.unwrap();
        assert!(!pid_file.exists(), "the stale file remains");
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
