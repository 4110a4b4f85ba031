//! Child processes: started, measured through `/proc`, and always stopped.

use std::collections::HashMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Ticks of `/proc/*/stat` in a second. The kernel fixes it for user space on every architecture we run on.
const TICKS: f64 = 100.0;

/// A child process, stopped on drop; it stops its own children.
pub(crate) struct Running {
    child: Child,
    name: &'static str,
}

impl Running {
    /// Starts it with its output in a file.
    pub(crate) fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("could not write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("{name} could not be started"))?;
        Ok(Self { child, name })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the process has exited.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} exited ({status})", self.name),
            None => Ok(()),
        }
    }

    /// Sends SIGTERM, waits, and finally kills it. Can be called again.
    pub(crate) fn stop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Asked first: a server stops its PostgreSQL in order. The shell's `kill`, since std can only kill outright.
        let sent = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]).status();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while sent.is_ok() && std::time::Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            pause();
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[expect(clippy::disallowed_methods, reason = "only while a child is stopped, after all measuring")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A free port.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Processor seconds used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// The process itself.
    pub(crate) itself: f64,
    /// Its descendants: for Basalt, PostgreSQL.
    pub(crate) below: f64,
}

/// CPU time of a process and its descendants, including exited PostgreSQL backends, which their parent has reaped.
pub(crate) fn cpu(pid: u32) -> Cpu {
    let all = processes();
    let below = descendants(&all, pid).into_iter().filter_map(|pid| all.get(&pid));
    Cpu {
        itself: all.get(&pid).map_or(0.0, |process| process.seconds),
        below: below.map(|process| process.seconds + process.ended).sum(),
    }
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// The peak since [`forget_peak`].
pub(crate) fn peak_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

/// Resets the peak. Where that is not permitted, the peak is that of the whole lifetime, which is never less.
pub(crate) fn forget_peak(pid: u32) {
    drop(std::fs::write(format!("/proc/{pid}/clear_refs"), "5"));
}

fn status_bytes(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes: Option<u64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

struct Process {
    parent: u32,
    seconds: f64,
    /// Of its children that are gone.
    ended: f64,
}

/// The descendants of a process with this word in their command line.
pub(crate) fn children(pid: u32, word: &str) -> Vec<u32> {
    let mut found = descendants(&processes(), pid);
    found.retain(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(word)
    });
    found
}

fn processes() -> HashMap<u32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain blanks; count the fields after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    let seconds = |user: usize| Some((f64::from(number(user)?) + f64::from(number(user + 1)?)) / TICKS);
    Some(Process { parent: number(1)?, seconds: seconds(11)?, ended: seconds(13)? })
}

fn descendants(all: &HashMap<u32, Process>, pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}
