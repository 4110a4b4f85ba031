//! A server configured only by environment variables.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Request, Response, free_port};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A running server, stopped on drop.
pub(crate) struct Server {
    child: Child,
    port: u16,
    dir: TempDir,
}

/// The program in an empty folder with only these variables.
pub(crate) fn program(dir: &TempDir, variables: &[(&str, &str)]) -> Command {
    let mut command = Basalt::command(dir.path());
    command.envs(variables.iter().copied()).args(["serve", "--only", "auth"]).stdin(Stdio::null());
    command
}

impl Server {
    /// Starts the server without waiting. Adds `PORT` and `API_EXTERNAL_URL` to the variables.
    pub(crate) fn launch(variables: &[(&str, &str)]) -> Self {
        let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
        let log = File::create(dir.path().join("log")).unwrap();
        let mut command = program(&dir, variables);
        command
            .env("PORT", port.to_string())
            .env("API_EXTERNAL_URL", format!("http://localhost:{port}"))
            .stdout(Stdio::null())
            .stderr(log);
        Self { child: command.spawn().unwrap(), port, dir }
    }

    /// Waits until `/health` responds as GoTrue's does.
    pub(crate) async fn ready(mut self) -> Self {
        let started = Instant::now();
        loop {
            if let Ok(response) = self.request(Method::GET, "/health").try_send().await {
                assert_eq!(response.status.as_u16(), 200, "{}", response.text());
                assert_eq!(response.json()["name"], "GoTrue");
                return self;
            }
            if self.child.try_wait().unwrap().is_some() || started.elapsed() > Duration::from_secs(90) {
                panic!("the server did not get ready:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> Request {
        Request::new(method, format!("http://127.0.0.1:{}{path}", self.port))
            .header("x-supabase-api-version", "2024-01-01")
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Response {
        self.request(Method::GET, path).bearer(token).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.request(Method::POST, path).json(body).send().await
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _gone = pid.map(|pid| kill_process(pid, Signal::TERM));
        let _status = self.child.wait();
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failed test prints the server's log")]
            {
                eprintln!("the server's log:\n{}", self.log());
            }
        }
    }
}
