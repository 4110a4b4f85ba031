//! A test server. Its process is started and stopped in `server/life.rs`.

mod life;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use self::life::Running;
use crate::builder::Builder;
use crate::chaos_proxy::ChaosProxy;
use crate::database::TestDatabase;
use crate::http::{Request, Response};
use crate::keys::Keys;
use crate::log::LogLine;
use crate::process;
use crate::stripe_double::StripeDouble;

const POLL: Duration = Duration::from_millis(5);

/// A server and its database. On drop it is stopped and checked.
#[derive(Debug)]
pub struct Basalt {
    pub(crate) running: Option<Running>,
    pub(crate) port: u16,
    pub(crate) project: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) settings: BTreeMap<String, String>,
    /// PostgREST's variables.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) only: Option<String>,
    /// Never locked across an await.
    pub(crate) expected_logs: Mutex<Vec<String>>,
    /// Mails already returned to the test; never locked across an await.
    pub(crate) read_mails: Mutex<BTreeSet<String>>,
    pub(crate) keys: Keys,
    /// Dropped after the process has exited.
    pub(crate) database: Option<TestDatabase>,
    pub(crate) proxy: Option<ChaosProxy>,
    pub(crate) stripe_double: Option<StripeDouble>,
}

impl Basalt {
    /// A server on its own database with only the system migrations.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Configures a server.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The real program in `project`, without environment variables that would configure it.
    #[must_use]
    pub fn command(project: &Path) -> Command {
        process::basalt(project)
    }

    /// The program with this server's project, settings and state, for commands.
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

    /// A request to `path`, without headers.
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

    /// The HS256 secret of tokens that the server accepts.
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
    /// If it has its own PostgreSQL or a given URL.
    #[must_use]
    pub fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("this server's database is not the kit's")
    }

    /// The proxy of [`Builder::through_proxy`].
    ///
    /// # Panics
    /// If it was not started.
    #[must_use]
    pub fn proxy(&self) -> &ChaosProxy {
        self.proxy.as_ref().expect("this server was not started through a proxy")
    }

    /// The double of [`Builder::stripe_double`].
    ///
    /// # Panics
    /// If it was not started.
    #[must_use]
    pub fn stripe_double(&self) -> &StripeDouble {
        self.stripe_double.as_ref().expect("this server was not started with basalt-stripe-double")
    }

    /// Runs statements as `postgres` on its database; see [`TestDatabase::sql`].
    ///
    /// # Panics
    /// If a statement fails.
    pub async fn sql(&self, statements: &str) -> Vec<Vec<Option<String>>> {
        self.database().sql(statements).await
    }

    /// Allows WARN and ERROR lines that contain `text`, earlier and later ones.
    pub fn expect_log(&self, text: &str) {
        self.expected_logs.lock().push(text.to_owned());
    }

    /// Marks a mail as returned; `false` if it already was.
    pub(crate) fn reads(&self, mail: &str) -> bool {
        self.read_mails.lock().insert(mail.to_owned())
    }

    /// The log since the last start.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.running.as_ref().map(|running| running.log.lines()).unwrap_or_default()
    }

    /// Waits until a line that contains `text` is logged.
    ///
    /// # Panics
    /// If none is within a minute.
    pub async fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.log().iter().any(|line| line.raw.contains(text)) {
            assert!(Instant::now() < deadline, "the server did not log {text:?}");
            sleep(POLL).await;
        }
    }

    /// Repeats the request until the response satisfies `wanted`, and returns it.
    ///
    /// # Panics
    /// If it does not within `limit`.
    pub async fn until(
        &self,
        limit: Duration,
        request: &Request,
        wanted: impl Fn(&Response) -> bool,
    ) -> Response {
        let deadline = Instant::now() + limit;
        loop {
            let response = request.clone().try_send().await;
            match response {
                Ok(response) if wanted(&response) => return response,
                other => assert!(Instant::now() < deadline, "still {other:?}"),
            }
            sleep(POLL).await;
        }
    }
}
