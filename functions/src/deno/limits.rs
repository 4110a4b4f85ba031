//! Limits a worker without root or cgroups (functions.md 3.10.4), and reads what it uses. Only Linux can do either to a running process;
//! elsewhere the limit of V8's heap and the wall clock remain.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Which limit ended a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Memory,
    Cpu,
    WallClock,
}

impl Limit {
    /// As in `beforeunload` events, metrics and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::WallClock => "wall_clock",
        }
    }
}

/// The limit that a process exceeded, by how it ended. V8 traps when memory cannot be allocated; the kernel's own killer of processes
/// sends SIGKILL.
pub(crate) fn limit_of(status: ExitStatus) -> Option<Limit> {
    const SIGILL: i32 = 4;
    const SIGTRAP: i32 = 5;
    const SIGABRT: i32 = 6;
    const SIGKILL: i32 = 9;
    const SIGXCPU: i32 = 24;
    /// The bootstrap script's own.
    const OUT_OF_MEMORY: i32 = 137;
    if status.code() == Some(OUT_OF_MEMORY) {
        return Some(Limit::Memory);
    }
    match status.signal()? {
        SIGILL | SIGTRAP | SIGABRT | SIGKILL => Some(Limit::Memory),
        SIGXCPU => Some(Limit::Cpu),
        _ => None,
    }
}

/// What a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    /// What `RLIMIT_DATA` counts: private memory, including what was reserved and not touched.
    pub(crate) data_bytes: u64,
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{limit_cpu, limit_data, limit_descriptors, lower_priority, usage};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setpriority_process};

    use super::{Duration, Usage};

    /// Descriptors of a worker: enough for its sockets and files.
    const DESCRIPTORS: u64 = 4096;

    /// Lowers the soft limit. The hard limit stays, because a limit that moves up must not exceed it.
    fn set(pid: u32, resource: Resource, current: u64) -> std::io::Result<()> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::NotFound)?;
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(current, |maximum| maximum.min(current)));
        prlimit(Some(pid), resource, Rlimit { current, maximum })?;
        Ok(())
    }

    /// Ends the process with SIGXCPU when it has used this much processor time since its start, rounded up to a second.
    pub(crate) fn limit_cpu(pid: u32, total: Duration) -> std::io::Result<()> {
        set(pid, Resource::Cpu, total.as_secs() + u64::from(total.subsec_nanos() > 0))
    }

    /// Limits private memory; an allocation beyond it fails, at which V8 ends the process.
    pub(crate) fn limit_data(pid: u32, bytes: u64) -> std::io::Result<()> {
        set(pid, Resource::Data, bytes)
    }

    /// Limits open files, and disables core dumps, which would contain secrets.
    pub(crate) fn limit_descriptors(pid: u32) -> std::io::Result<()> {
        set(pid, Resource::Nofile, DESCRIPTORS)?;
        set(pid, Resource::Core, 0)
    }

    /// Lets the server, its PostgreSQL and other programs run first when all processors are busy (functions.md section 6).
    pub(crate) fn lower_priority(pid: u32) -> std::io::Result<()> {
        const NICE: i32 = 5;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::NotFound)?;
        setpriority_process(Some(pid), NICE)?;
        Ok(())
    }

    /// `None` if the process has ended.
    pub(crate) fn usage(pid: u32) -> Option<Usage> {
        /// Unit of processor time in `/proc`, the same on every architecture that Deno supports.
        const TICKS_PER_SECOND: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name in parentheses, which may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks = number(11)? + number(12)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Usage {
            cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND),
            resident_bytes: kilobytes("VmRSS:")? * 1024,
            data_bytes: kilobytes("VmData:")? * 1024,
        })
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{limit_cpu, limit_data, limit_descriptors, lower_priority, usage};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Duration, Usage};

    pub(crate) fn limit_cpu(_pid: u32, _total: Duration) -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn limit_data(_pid: u32, _bytes: u64) -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn limit_descriptors(_pid: u32) -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn lower_priority(_pid: u32) -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn usage(_pid: u32) -> Option<Usage> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn process_that_loops_ends_at_its_cpu_limit() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        limit_cpu(child.id(), Duration::from_millis(500)).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(limit_of(status), Some(Limit::Cpu));
    }

    #[test]
    fn usage_of_this_process_is_known() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.resident_bytes > 1 << 20 && usage.data_bytes > 1 << 20, "{usage:?}");
        assert!(super::usage(u32::MAX).is_none());
    }
}
