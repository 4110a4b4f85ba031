//! A whole server, as a test talks to it. How its process begins and ends is in `server/life.rs`.

mod life;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
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
    pub(crate) stripe_double: Option<StripeDouble>,
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

    /// The double of [`Builder::stripe_double`].
    ///
    /// # Panics
    /// It was not asked for.
    #[must_use]
    pub fn stripe_double(&self) -> &StripeDouble {
        self.stripe_double.as_ref().expect("this server was not started with a double of Stripe")
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
    /// None was within a minute.
    pub async fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.log().iter().any(|line| line.raw.contains(text)) {
            assert!(Instant::now() < deadline, "the server did not log {text:?}");
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
}
