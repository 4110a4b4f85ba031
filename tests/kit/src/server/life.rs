//! The server's process: started until ready, stopped with SIGTERM, and checked at its end.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::{Basalt, POLL};
use crate::database::{TestDatabase, eprintln_line};
use crate::log::Log;
use crate::process;
use crate::runtime::block_on;

/// Time limit from start to `/ready`; a first start initialises PostgreSQL while other tests use both cores.
const READY_LIMIT: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pub(super) log: Log,
}

impl Basalt {
    /// The server's process id.
    ///
    /// # Panics
    /// If it is not running.
    #[must_use]
    pub fn pid(&self) -> Pid {
        let running = self.running.as_ref().expect("the server runs");
        pid_of(&running.child)
    }

    /// Whether its process was started and neither stopped nor killed.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The pid of its embedded PostgreSQL, from its pid file.
    #[must_use]
    pub fn postgres_pid(&self) -> Option<Pid> {
        Pid::from_raw(self.postgres_pid_file()?.lines().next()?.trim().parse().ok()?)
    }

    /// The port of its embedded PostgreSQL on the loopback address. The pid file of a killed one stays until the next start.
    #[must_use]
    pub fn postgres_port(&self) -> Option<u16> {
        self.postgres_pid_file()?.lines().nth(3)?.trim().parse().ok()
    }

    fn postgres_pid_file(&self) -> Option<String> {
        let moved = fs::read_to_string(self.state_dir.join("postgres.location"));
        let data =
            moved.map_or(self.state_dir.join("postgres"), |home| Path::new(home.trim()).join("postgres"));
        fs::read_to_string(data.join("postmaster.pid")).ok()
    }

    /// Sends SIGKILL to the server only.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        running.child.kill().expect("a child of ours can be killed");
        let _status = running.child.wait().expect("a killed child ends");
        // The orphaned PostgreSQL does not keep the log open: it has its own pipe.
        running.log.finish();
        let expected = self.expected_logs.lock();
        let unexpected = running.log.unexpected(&expected);
        assert!(unexpected.is_empty(), "logged before the kill: {unexpected:#?}");
    }

    /// Sends SIGKILL to its embedded PostgreSQL.
    ///
    /// # Panics
    /// If there is none.
    pub fn kill_postgres(&self) {
        let pid = self.postgres_pid().expect("PostgreSQL runs");
        kill_process(pid, Signal::KILL).expect("PostgreSQL can be killed");
    }

    /// Restarts the server after [`kill`](Self::kill) or [`stop`](Self::stop) on the same state, and waits until it is
    /// ready.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn start_again(&mut self) {
        self.begin_start();
        self.wait_until_ready().await;
    }

    /// As [`start_again`](Self::start_again), without waiting.
    ///
    /// # Panics
    /// If the program cannot be run.
    pub fn begin_start(&mut self) {
        assert!(self.running.is_none(), "the server runs already");
        let mut command = process::basalt(&self.project);
        let _configured = process::configure(&mut command, &self.settings)
            .env("BASALT_SERVER_PUBLIC_URL", self.url(""))
            .envs(&self.variables)
            .arg("serve")
            .arg("--data")
            .arg(&self.state_dir)
            .args(["--port", &self.port.to_string()]);
        if let Some(service) = &self.only {
            let _more = command.args(["--only", service]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server's program runs");
        // For the reaper, in case this process is killed.
        let pid_file = self.state_dir.with_file_name("server.pid");
        fs::write(pid_file, child.id().to_string()).expect("the server's folder can be written");
        let log = Log::read(child.stderr.take().expect("stderr is piped"));
        self.running = Some(Running { child, log });
    }

    async fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + READY_LIMIT;
        let alone_at_root = self.only.is_some()
            && (!self.variables.is_empty()
                || self.settings.get("server.prefix").is_some_and(String::is_empty));
        loop {
            if let Some(running) = &mut self.running
                && let Some(status) = running.child.try_wait().expect("the child can be waited for")
            {
                running.log.finish();
                let text = running.log.text();
                self.running = None;
                panic!("the server ended at its start ({status}):\n{text}");
            }
            // A single service at the root has no `/ready`; use its log.
            let is_ready = if alone_at_root {
                self.log().iter().any(|line| line.message == "ready")
            } else {
                self.get("/ready").try_send().await.is_ok_and(|response| response.status == 200)
            };
            if is_ready {
                return;
            }
            if Instant::now() > deadline {
                let text = self.running.as_ref().map(|running| running.log.text()).unwrap_or_default();
                panic!("the server is not ready after {READY_LIMIT:?}:\n{text}");
            }
            sleep(POLL).await;
        }
    }

    /// Stops the server with SIGTERM and checks its exit.
    ///
    /// # Panics
    /// If it does not stop, exits with an error, logged unexpected lines, or leaves connections open.
    pub async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let expected = self.expected_logs.lock().clone();
        let mut faults = end(running, &expected).await;
        if let Some(database) = &self.database {
            faults.extend(open_connections(database).await);
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

impl Drop for Basalt {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(mut running) = self.running.take() {
                let _gone = running.child.kill().and_then(|()| running.child.wait());
                running.log.finish();
                eprintln_line(&format!("the server's log:\n{}", running.log.text()));
            }
        } else {
            block_on(self.stop());
        }
        // After a kill its PostgreSQL may still run.
        if let Some(pid) = self.postgres_pid() {
            let _stopped = kill_process(pid, Signal::QUIT);
        }
    }
}

/// Sends SIGTERM and returns the faults of the exit.
async fn end(mut running: Running, expected: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    if let Err(error) = kill_process(pid_of(&running.child), Signal::TERM) {
        faults.push(format!("the server had exited before it was stopped ({error})"));
    }
    let deadline = Instant::now() + STOP_LIMIT;
    let status = loop {
        match running.child.try_wait().expect("the child can be waited for") {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => sleep(POLL).await,
        }
    };
    match status {
        Some(status) if status.success() => {}
        Some(status) => faults.push(format!("the server ended with {status}")),
        None => {
            faults.push(format!("the server did not stop within {STOP_LIMIT:?}"));
            let _gone = running.child.kill().and_then(|()| running.child.wait());
        }
    }
    running.log.finish();
    faults.extend(
        running.log.unexpected(expected).into_iter().map(|line| format!("unexpected in the log: {line}")),
    );
    faults
}

/// Connections left after the exit, after some time for the backends to notice.
async fn open_connections(database: &TestDatabase) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let open = database.connections().await;
        if open.is_empty() || Instant::now() > deadline {
            return open.into_iter().map(|what| format!("a connection is left open: {what}")).collect();
        }
        sleep(POLL).await;
    }
}

fn pid_of(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id")
}
