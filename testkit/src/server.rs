//! A whole server: the real binary in a process of its own, and the checks at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::builder::Builder;
use crate::chaos_proxy::ChaosProxy;
use crate::database::{TestDatabase, eprintln_line};
use crate::http::{Request, Response};
use crate::keys::Keys;
use crate::log::{Log, LogLine};
use crate::process;
use crate::runtime::block_on;

/// From the start to `/ready`; a first start initialises PostgreSQL while other tests use both cores.
const READY_LIMIT: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// A server and its database. When it is dropped it is stopped and checked.
#[derive(Debug)]
pub struct Basalt {
    pub(crate) running: Option<Running>,
    pub(crate) port: u16,
    pub(crate) project: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) settings: BTreeMap<String, String>,
    /// Of PostgREST.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) only: Option<String>,
    /// Held to read or push, never across an await.
    pub(crate) expected_logs: Mutex<Vec<String>>,
    /// Mails that were returned to a test; never held across an await.
    pub(crate) read_mails: Mutex<BTreeSet<String>>,
    pub(crate) keys: Keys,
    /// Dropped after the process has ended.
    pub(crate) database: Option<TestDatabase>,
    pub(crate) proxy: Option<ChaosProxy>,
}

#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    log: Log,
}

impl Basalt {
    /// A server on its own database with the system's migrations and nothing else.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// The choices.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The program itself, to be run in `project` without a kit around it; nothing of our environment configures it.
    #[must_use]
    pub fn command(project: &Path) -> Command {
        process::basalt(project)
    }

    /// The program with this server's project, settings and state, for a command beside it.
    #[must_use]
    pub fn same_settings(&self) -> Command {
        let mut command = process::basalt(&self.project);
        let _configured = process::configure(&mut command, &self.settings)
            .env("BASALT_SERVER_PUBLIC_URL", self.url(""))
            .envs(&self.variables)
            .arg("--data")
            .arg(&self.state_dir);
        command
    }

    /// `http://127.0.0.1:PORT` and `path`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A request to `path`, without any header.
    pub fn request(&self, method: Method, path: &str) -> Request {
        Request::new(method, self.url(path))
    }

    /// GET.
    pub fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    /// POST.
    pub fn post(&self, path: &str) -> Request {
        self.request(Method::POST, path)
    }

    /// PATCH.
    pub fn patch(&self, path: &str) -> Request {
        self.request(Method::PATCH, path)
    }

    /// PUT.
    pub fn put(&self, path: &str) -> Request {
        self.request(Method::PUT, path)
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> Request {
        self.request(Method::DELETE, path)
    }

    /// The legacy anonymous key.
    #[must_use]
    pub fn anon_key(&self) -> &str {
        &self.keys.anon
    }

    /// The legacy service key.
    #[must_use]
    pub fn service_key(&self) -> &str {
        &self.keys.service
    }

    /// `sb_publishable_…`.
    #[must_use]
    pub fn publishable_key(&self) -> &str {
        &self.keys.publishable
    }

    /// `sb_secret_…`.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        &self.keys.secret
    }

    /// The HS256 secret that the server accepts tokens of.
    #[must_use]
    pub fn jwt_secret(&self) -> &str {
        &self.keys.jwt_secret
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its state folder.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Its database in the test cluster.
    ///
    /// # Panics
    /// It has its own PostgreSQL or a given URL.
    #[must_use]
    pub fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("this server's database is not the kit's")
    }

    /// The proxy of [`Builder::through_proxy`].
    ///
    /// # Panics
    /// It was not asked for.
    #[must_use]
    pub fn proxy(&self) -> &ChaosProxy {
        self.proxy.as_ref().expect("this server was not started through a proxy")
    }

    /// Runs statements as `postgres` on its database; see [`TestDatabase::sql`].
    ///
    /// # Panics
    /// A statement fails.
    pub async fn sql(&self, statements: &str) -> Vec<Vec<Option<String>>> {
        self.database().sql(statements).await
    }

    /// A WARN or ERROR line that contains `text` does not fail the test, from now on and before.
    pub fn expect_log(&self, text: &str) {
        self.expected_logs.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// Notes that a mail is returned; `false` when it was before.
    pub(crate) fn reads(&self, mail: &str) -> bool {
        self.read_mails.lock().unwrap_or_else(PoisonError::into_inner).insert(mail.to_owned())
    }

    /// Everything logged since the last start.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.running.as_ref().map(|running| running.log.lines()).unwrap_or_default()
    }

    /// Waits until a line whose message contains `text` was logged.
    ///
    /// # Panics
    /// None was within half a minute.
    pub async fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.log().iter().any(|line| line.raw.contains(text)) {
            assert!(Instant::now() < deadline, "nobody logged {text:?}");
            sleep(POLL).await;
        }
    }

    /// Asks until the answer satisfies `wanted`; the last answer.
    ///
    /// # Panics
    /// It does not within `limit`.
    pub async fn until(
        &self,
        limit: Duration,
        request: &Request,
        wanted: impl Fn(&Response) -> bool,
    ) -> Response {
        let deadline = Instant::now() + limit;
        loop {
            let answer = request.clone().try_send().await;
            match answer {
                Ok(response) if wanted(&response) => return response,
                other => assert!(Instant::now() < deadline, "still {other:?}"),
            }
            sleep(POLL).await;
        }
    }

    /// The server's process id.
    ///
    /// # Panics
    /// It does not run.
    #[must_use]
    pub fn pid(&self) -> Pid {
        let running = self.running.as_ref().expect("the server runs");
        pid_of(&running.child)
    }

    /// The process id of its embedded PostgreSQL, if that has written one.
    #[must_use]
    pub fn postgres_pid(&self) -> Option<Pid> {
        let moved = fs::read_to_string(self.state_dir.join("postgres.location"));
        let data =
            moved.map_or(self.state_dir.join("postgres"), |home| Path::new(home.trim()).join("postgres"));
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
    }

    /// kill -9 of the server alone.
    ///
    /// # Panics
    /// It does not run.
    pub fn kill(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        running.child.kill().expect("a child of ours can be killed");
        let _status = running.child.wait().expect("a killed child ends");
        // Its log ends later: the PostgreSQL it leaves behind does not hold it, since that has a pipe of its own.
        running.log.finish();
        let expected = self.expected_logs.lock().unwrap_or_else(PoisonError::into_inner);
        let unexpected = running.log.unexpected(&expected);
        assert!(unexpected.is_empty(), "logged before the kill: {unexpected:#?}");
    }

    /// kill -9 of its embedded PostgreSQL.
    ///
    /// # Panics
    /// There is none.
    pub fn kill_postgres(&self) {
        let pid = self.postgres_pid().expect("PostgreSQL runs");
        kill_process(pid, Signal::KILL).expect("PostgreSQL can be killed");
    }

    /// Starts the server again after [`kill`](Self::kill) or [`stop`](Self::stop), on the same state, and waits
    /// until it is ready.
    ///
    /// # Panics
    /// It does not get ready.
    pub async fn start_again(&mut self) {
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
        // For the cluster's reaper, should this process be killed.
        let pid_file = self.state_dir.with_file_name("server.pid");
        fs::write(pid_file, child.id().to_string()).expect("the server's folder can be written");
        let log = Log::read(child.stderr.take().expect("it was asked for"));
        self.running = Some(Running { child, log });
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + READY_LIMIT;
        let alone_at_root = self.only.is_some()
            && (!self.variables.is_empty()
                || self.settings.get("server.prefix").is_some_and(String::is_empty));
        loop {
            if let Some(running) = &mut self.running
                && let Some(status) = running.child.try_wait().expect("a child of ours can be asked")
            {
                running.log.finish();
                let text = running.log.text();
                self.running = None;
                panic!("the server ended at its start ({status}):\n{text}");
            }
            // Alone at the root every path is the service's own, and its log says when it is ready.
            let is_ready = if alone_at_root {
                self.log().iter().any(|line| line.message == "ready")
            } else {
                self.get("/ready").try_send().await.is_ok_and(|answer| answer.status == 200)
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

    /// Stops the server as an operator would and checks how it went.
    ///
    /// # Panics
    /// It does not stop, exits with an error, logged what was not expected, or leaves connections open.
    pub async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let expected = self.expected_logs.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
        // Stopping has no effect on what was killed: its PostgreSQL may still run.
        if let Some(pid) = self.postgres_pid() {
            let _stopped = kill_process(pid, Signal::QUIT);
        }
    }
}

/// SIGTERM, and what is wrong about the end.
async fn end(mut running: Running, expected: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    if let Err(error) = kill_process(pid_of(&running.child), Signal::TERM) {
        faults.push(format!("the server was gone before it was stopped ({error})"));
    }
    let deadline = Instant::now() + STOP_LIMIT;
    let status = loop {
        match running.child.try_wait().expect("a child of ours can be asked") {
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

/// Connections a moment after the end: a backend needs one to notice.
async fn open_connections(database: &TestDatabase) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
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
