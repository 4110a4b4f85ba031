//! The real binary, started like PostgREST: only `PGRST_*` variables and a `postgrest.conf`.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use aws_lc_rs::hmac;
use basalt_testkit::{Basalt, Cluster, Request, Response, TestDatabase, free_port};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// HS256.
pub(crate) const SECRET: &str = "a secret of at least thirty-two characters";
/// The login role's password.
pub(crate) const PASSWORD: &str = "drop-in";
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A database without Basalt's schemas, as a PostgREST user has it.
pub(crate) async fn database() -> TestDatabase {
    let database = Cluster::get().await.empty_database().await;
    let _rows = database.admin_sql(include_str!("schema.sql")).await;
    database
}

/// The connection URI of the login role.
pub(crate) fn uri(database: &TestDatabase) -> String {
    uri_at(database, database.cluster().port())
}

pub(crate) fn uri_at(database: &TestDatabase, port: u16) -> String {
    format!("postgresql://plain_login:{PASSWORD}@127.0.0.1:{port}/{}", database.name())
}

/// A token without a kid, as other services sign it.
pub(crate) fn token(claims: &Value) -> String {
    signed(claims, SECRET)
}

pub(crate) fn signed(claims: &Value, secret: &str) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", encode(r#"{"alg":"HS256","typ":"JWT"}"#), encode(&claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

/// A running server in its own folder.
pub(crate) struct Server {
    child: Child,
    pub(crate) dir: tempfile::TempDir,
    log: tempfile::NamedTempFile,
    port: u16,
}

impl Server {
    /// Starts `basalt serve --only rest` with these variables and optionally this `postgrest.conf`.
    pub(crate) fn spawn(variables: &[(&str, &str)], file: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        let port = variables.iter().find(|(name, _)| *name == "PGRST_SERVER_PORT");
        let port = port.map_or(0, |(_, port)| port.parse().unwrap());
        let mut command = Basalt::command(dir.path());
        let _command = command.args(["serve", "--only", "rest"]).envs(variables.iter().copied());
        if let Some(text) = file {
            fs::write(dir.path().join("postgrest.conf"), text).unwrap();
            let _command = command.arg("postgrest.conf");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen().unwrap());
        Self { child: child.spawn().unwrap(), dir, log, port }
    }

    /// As [`Server::spawn`], and waits until the server responds.
    pub(crate) async fn start(variables: &[(&str, &str)], file: Option<&str>) -> Self {
        let port = free_port().to_string();
        let mut all = vec![("PGRST_SERVER_HOST", "127.0.0.1"), ("PGRST_SERVER_PORT", port.as_str())];
        all.extend_from_slice(variables);
        let server = Self::spawn(&all, file);
        let _ready = server.until(&server.get("/"), |response| response.status != 503).await;
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> Request {
        Request::new(method, format!("http://127.0.0.1:{}{path}", self.port))
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    /// Repeats the request until the response satisfies `wanted`.
    pub(crate) async fn until(&self, request: &Request, wanted: impl Fn(&Response) -> bool) -> Response {
        until(request, wanted).await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the server with SIGTERM, as a container runtime does.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log.path()).unwrap()
    }

    /// The files in its folder except `postgrest.conf`.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        names(self.dir.path()).into_iter().filter(|name| name != "postgrest.conf").collect()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already stopped, or the test failed; ignore errors.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Repeats the request until the response satisfies `wanted`.
pub(crate) async fn until(request: &Request, wanted: impl Fn(&Response) -> bool) -> Response {
    let deadline = Instant::now() + SOON;
    loop {
        match request.clone().try_send().await {
            Ok(response) if wanted(&response) => return response,
            other => assert!(Instant::now() < deadline, "still {other:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}
