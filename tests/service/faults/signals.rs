//! Signals that end the program, including SIGHUP: PostgreSQL never outlives it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Cluster, Request};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(60);

/// A project whose state directory PostgreSQL's user can enter.
struct Project {
    dir: tempfile::TempDir,
    bin_dir: String,
    port: u16,
}

impl Project {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let bin_dir = Cluster::get().await.bin_dir().display().to_string();
        Self { dir, bin_dir, port: basalt_testkit::free_port() }
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.path().join("state/postgres/postmaster.pid")
    }

    fn command(&self, arguments: &[&str], wrapper: Option<&str>) -> Command {
        let plain = Basalt::command(self.dir.path());
        let mut command = match wrapper {
            Some(wrapper) => {
                let mut command = Command::new(wrapper);
                command.arg(plain.get_program()).args(plain.get_args()).current_dir(self.dir.path());
                command
            }
            None => plain,
        };
        command
            .args(arguments)
            .env("BASALT_SERVER_STATE_DIR", "state")
            .env("BASALT_SERVER_PORT", self.port.to_string())
            .env("BASALT_DATABASE_BIN_DIR", &self.bin_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a server, waits until it is ready, and returns it with its standard error.
    fn serve(&self, wrapper: Option<&str>) -> (Child, BufReader<std::process::ChildStderr>) {
        let mut child = self.command(&["serve"], wrapper).spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let mut output = String::new();
        while !output.contains("is ready") {
            assert!(reader.read_line(&mut output).unwrap() > 0, "it ended: {output}");
        }
        (child, reader)
    }

    fn postgres(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.pid_file()).ok()?;
        Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
    }
}

fn is_alive(pid: Pid) -> bool {
    Path::new(&format!("/proc/{}/exe", pid.as_raw_nonzero())).read_link().is_ok()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn ended(child: &mut Child) -> std::process::ExitStatus {
    until("the program ends", || child.try_wait().unwrap().is_some()).await;
    child.wait().unwrap()
}

#[tokio::test]
async fn postgres_never_outlives_the_program() {
    let project = Project::new().await;
    for ending in [Signal::QUIT, Signal::HUP] {
        let (mut child, stderr) = project.serve(None);
        let postgres = project.postgres().unwrap();
        if ending == Signal::HUP {
            // The terminal is gone: standard error cannot be written.
            drop(stderr);
        }
        signal(&child, ending);
        let status = ended(&mut child).await;
        assert!(status.success(), "{ending:?}: {status}");
        assert!(!is_alive(postgres), "{ending:?}");
    }

    // Under nohup the program survives SIGHUP.
    let (mut child, _stderr) = project.serve(Some("nohup"));
    signal(&child, Signal::HUP);
    let health = Request::new(Method::GET, format!("http://127.0.0.1:{}/health", project.port));
    health.send().await.expect(200);
    let postgres = project.postgres().unwrap();
    signal(&child, Signal::TERM);
    assert!(ended(&mut child).await.success());
    assert!(!is_alive(postgres));

    // At random moments of a start, and while a command runs.
    for arguments in [&["serve"][..], &["migrate"]] {
        let mut child = project.command(arguments, None).spawn().unwrap();
        let mut postgres = None;
        until("PostgreSQL starts", || {
            postgres = project.postgres();
            postgres.is_some()
        })
        .await;
        signal(&child, Signal::HUP);
        ended(&mut child).await;
        until("PostgreSQL ends", || !is_alive(postgres.unwrap())).await;
    }
}
