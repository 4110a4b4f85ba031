//! The folder of a test process: its location, and its removal after the process has ended.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::statvfs;
use rustix::process::{Pid, geteuid, test_kill_process};

use crate::process;

/// Waits until the test process ends (its end of the pipe closes), then kills the remaining servers and PostgreSQLs and removes
/// their folders. `$1` is the cluster's data directory, `$2` the process's folder.
///
/// Statics are not dropped, and no code runs after SIGKILL; only the end of a pipe is certain.
const REAPER: &str = r#"
stop_postgres() {
  pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
  kill -QUIT "$pid" 2>/dev/null
  n=0; while kill -0 "$pid" 2>/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done
}
read -r _
for server in "$2"/*/server.pid; do
  pid=$(cat "$server" 2>/dev/null) || continue
  # The number may be another process's by now.
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$2" && kill -KILL "$pid"
done
for state in "$2"/*/state; do
  stop_postgres "$state/postgres"
  moved=$(cat "$state/postgres.location" 2>/dev/null) && stop_postgres "$moved/postgres" && rm -rf "$moved"
done
stop_postgres "$1"
rm -rf "$1" "$1.lock" "$2"
"#;

/// The free memory required for clusters in memory: several times what the largest suite needs.
const ROOM: u64 = 3 << 30;

/// The memory file system on Linux.
const MEMORY: &str = "/dev/shm";

/// Creates this process's folder, accessible to PostgreSQL's user, and removes those of dead processes.
///
/// In memory if there is room: a database clone is a thousand small files, which are slow to create on disk after as many were
/// removed (ext4 avoids recently freed inodes for some seconds). Otherwise below the build folder.
pub(crate) fn of_process() -> PathBuf {
    let in_memory = Path::new(MEMORY).join(format!("basalt-testkit-{}", geteuid().as_raw()));
    let on_disk = process::build_dir().join("testkit");
    sweep(&in_memory);
    sweep(&on_disk);
    let home = if has_room(Path::new(MEMORY)) { in_memory } else { on_disk };
    let dir = home.join(std::process::id().to_string());
    fs::create_dir_all(&dir).expect("the test cluster's folder can be made");
    // PostgreSQL's user must enter, and root's umask is often 077.
    for folder in [&home, &dir] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("the folder is ours");
    }
    dir
}

/// Whether the file system and the memory both have [`ROOM`].
fn has_room(memory: &Path) -> bool {
    let in_files = statvfs(memory).map_or(0, |system| system.f_bavail.saturating_mul(system.f_frsize));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"));
    let available = available.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0);
    in_files >= ROOM && available >= ROOM / 1024
}

/// Removes folders of test processes that ended without their reaper, for example in a power failure.
fn sweep(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let owner = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let is_alive = owner.is_some_and(|pid| test_kill_process(pid).is_ok());
        if is_alive {
            continue;
        }
        let state = entry.path().join("state");
        let moved = fs::read_to_string(state.join("postgres.location"));
        let data = moved.map_or(state.join("postgres"), |home| Path::new(home.trim()).join("postgres"));
        // Without input the reaper starts immediately.
        let mut reaper = reap(&data, &entry.path(), Stdio::null());
        let _swept = reaper.wait().expect("sh ends");
    }
}

/// Starts the [`REAPER`] process, which waits for the end of `input`.
pub(crate) fn reap(data_dir: &Path, dir: &Path, input: Stdio) -> Child {
    Command::new("sh")
        .args(["-c", REAPER, "reaper"])
        .args([data_dir, dir])
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("sh runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_system_has_no_room() {
        assert!(!has_room(Path::new("/nowhere")));
        assert!(!has_room(Path::new("/proc")));
    }

    #[test]
    fn sweep_removes_only_folders_of_dead_processes() {
        let home = std::env::temp_dir().join(format!("basalt-testkit-sweep-{}", std::process::id()));
        // Not a possible pid.
        let (dead, alive) = (home.join("2147483647"), home.join(std::process::id().to_string()));
        for dir in [&dead, &alive] {
            fs::create_dir_all(dir.join("state")).unwrap();
        }
        sweep(&home);
        assert!(!dead.exists() && alive.exists());
        fs::remove_dir_all(&home).unwrap();
    }
}
