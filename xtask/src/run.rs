//! Child processes, each in its own process group, which are always stopped.
//!
//! An interrupted run (Ctrl-C, or a SIGTERM from CI to this process only) must not leave a server, a PostgreSQL or a browser running. Every child
//! leads a process group; running groups are listed here, signals are forwarded to all of them, and dropping a [`Running`] stops its group.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::{Mutex, MutexGuard};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ui;

/// Time for a child to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// The running process groups.
static ALIVE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Set by the first signal; no child is started afterwards.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn alive() -> MutexGuard<'static, Vec<u32>> {
    ALIVE.lock()
}

/// Forwards SIGINT, SIGTERM and SIGHUP to every child, and exits once they have ended.
pub(crate) fn forward_signals() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if INTERRUPTED.swap(true, Ordering::SeqCst) {
                kill("KILL", &alive());
                end(signal);
            }
            ui::error("interrupted; stopping child processes (interrupt again to kill them)");
            kill("TERM", &alive());
            std::thread::spawn(move || {
                let deadline = Instant::now() + STOP_TIMEOUT;
                while !alive().is_empty() && Instant::now() < deadline {
                    pause(Duration::from_millis(50));
                }
                kill("KILL", &alive());
                end(signal);
            });
        }
    });
}

#[expect(clippy::exit, reason = "the main thread may be waiting for a child")]
fn end(signal: i32) -> ! {
    std::process::exit(128 + signal)
}

#[expect(clippy::disallowed_methods, reason = "there is no async runtime to block")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Signals process groups with the shell's built-in `kill`: slim systems lack the program, and std has no such call.
fn kill(signal: &str, groups: &[u32]) {
    if groups.is_empty() {
        return;
    }
    let targets: Vec<String> = groups.iter().map(|group| format!("-{group}")).collect();
    drop(shell(&format!("kill -{signal} {}", targets.join(" "))).status());
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A child in its own process group, stopped on drop.
pub(crate) struct Running {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        if INTERRUPTED.load(Ordering::SeqCst) {
            bail!("interrupted");
        }
        // In its own group the child is in the background, where reading from the terminal would stop it.
        let child =
            command.stdin(Stdio::null()).process_group(0).spawn().with_context(|| start_error(command))?;
        alive().push(child.id());
        Ok(Self { child, ended: None })
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let status = self.child.wait().context("cannot wait for a child process")?;
        self.note_end(status);
        Ok(status)
    }

    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().context("cannot check a child process")?
        {
            self.note_end(status);
        }
        Ok(self.ended)
    }

    fn note_end(&mut self, status: ExitStatus) {
        self.ended = Some(status);
        let group = self.child.id();
        alive().retain(|other| *other != group);
        // Kill processes that the child has left behind.
        kill("KILL", &[group]);
    }

    /// Sends SIGTERM to the child only, waits, then kills its group: a server stops its own PostgreSQL in order.
    pub(crate) fn stop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let pid = self.child.id();
        drop(shell(&format!("kill -TERM {pid}")).status());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if matches!(self.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            pause(Duration::from_millis(20));
        }
        ui::error(&format!("process {pid} did not stop within {} s; killed", STOP_TIMEOUT.as_secs()));
        kill("KILL", &[pid]);
        drop(self.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a command with its output on the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = Running::spawn(command)?.wait()?;
    if status.success() {
        return Ok(());
    }
    bail!("`{}` failed ({status})", line(command))
}

/// Runs a command with its output on the terminal, and passes each line without colours to `read`. Returns whether it succeeded.
pub(crate) fn run_reading(command: &mut Command, mut read: impl FnMut(&str)) -> Result<bool> {
    // One pipe for both streams, because their order matters: cargo names a test binary on one and libtest prints its result on the other.
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    command.stdout(writer.try_clone().context("cannot create a pipe")?).stderr(writer);
    let mut running = Running::spawn(command)?;
    // Drop the command's copies of the writing end; otherwise the reader would never reach the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).context("cannot read the output of a child process")? > 0 {
        let mut out = std::io::stdout().lock();
        drop(out.write_all(&bytes).and_then(|()| out.flush()));
        drop(out);
        read(without_colours(&String::from_utf8_lossy(&bytes)).trim_end());
        bytes.clear();
    }
    Ok(running.wait()?.success())
}

/// Runs a command silently and returns its standard output if it succeeded.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Creates a file that only its owner can read, replacing an old one: a server's log contains personal data.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The command line as typed by a user.
pub(crate) fn line(command: &Command) -> String {
    let name = command.get_program();
    let name = Path::new(name).file_name().unwrap_or(name);
    std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

fn start_error(command: &Command) -> String {
    format!("cannot start `{}`", line(command))
}

/// Removes `ESC [ … letter` sequences.
pub(crate) fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            for inner in characters.by_ref() {
                if inner.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_colours() {
        assert_eq!(without_colours("\u{1b}[1;32mok\u{1b}[0m done"), "ok done");
    }

    #[test]
    fn reads_both_streams_in_order() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let success = run_reading(&mut command, |line| lines.push(line.to_owned())).unwrap();
        assert!(!success);
        assert_eq!(lines, ["one", "two", "three"]);
    }

    #[test]
    fn kills_processes_left_by_a_child() {
        let file = std::env::temp_dir().join(format!("xtask-group-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; exit 0", file.display());
        let mut running = Running::spawn(Command::new("sh").args(["-c", &script])).unwrap();
        running.wait().unwrap();
        let pid = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let alive = || shell(&format!("kill -0 {}", pid.trim())).status().unwrap().success();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while alive() && Instant::now() < deadline {
            pause(Duration::from_millis(10));
        }
        assert!(!alive());
    }

    #[test]
    fn private_file_replaces_old_one() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("xtask-private-{}", std::process::id()));
        fs::write(&path, "old").unwrap();
        drop(private_file(&path).unwrap());
        let data = fs::metadata(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!((data.permissions().mode() & 0o777, data.len()), (0o600, 0));
    }

    #[test]
    fn dropping_stops_the_child() {
        let running = Running::spawn(Command::new("sleep").arg("600")).unwrap();
        let pid = running.child.id();
        drop(running);
        assert!(!shell(&format!("kill -0 {pid}")).status().unwrap().success());
    }
}
