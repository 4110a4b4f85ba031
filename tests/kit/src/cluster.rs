//! The PostgreSQL of a test process: started with the first server, without durability, and removed by a small reaper process
//! when the test process ends for any reason.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use basalt_postgres::{Embedded, EmbeddedConfig};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio_postgres::{Config, NoTls};

use crate::database::{Connection, Rows, TestDatabase};
use crate::folder;
use crate::keys::Keys;
use crate::ports::free_port;
use crate::process;
use crate::runtime::on_runtime;

/// PostgreSQL's log in the data directory; the logging collector changes the extension for JSON.
const LOG_DIR: &str = "log";
const LOG_FILE: &str = "cluster.log";

/// The superuser's password in test clusters.
const PASSWORD: &str = "testkit";

/// Names of template databases. The mutex is held only for lookups; the cell serialises creation.
type Templates<K> = Mutex<HashMap<K, Arc<OnceCell<String>>>>;

/// The project files that `basalt migrate` reads, by path.
type ProjectFiles = BTreeMap<PathBuf, Vec<u8>>;

/// A PostgreSQL with template databases for cloning.
#[derive(Debug)]
pub struct Cluster {
    embedded: Embedded,
    dir: PathBuf,
    created: AtomicU32,
    /// Templates by project folder: a test that edits its files starts its next server on the database of the first.
    templates: Templates<PathBuf>,
    /// Templates by file contents: each server without a project has its own empty folder.
    templates_by_files: Templates<ProjectFiles>,
    /// Idle connections to database `postgres`. Opening a new one costs a third as much as dropping a database.
    idle: Mutex<Vec<Connection>>,
    secrets: OnceCell<PathBuf>,
    keys: OnceCell<Keys>,
    /// The reaper waits for the end of its standard input.
    _reaper: Child,
}

impl Cluster {
    /// The cluster of this process.
    pub async fn get() -> &'static Self {
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        CLUSTER.get_or_init(|| on_runtime(Self::start(folder::of_process()))).await
    }

    /// A separate cluster, for tests that change cluster-wide state such as roles. It lives as long as the process.
    pub async fn another() -> &'static Self {
        let dir = Self::get().await.fresh_dir("cluster");
        Box::leak(Box::new(on_runtime(Self::start(dir)).await))
    }

    async fn start(dir: PathBuf) -> Self {
        let mut config = EmbeddedConfig::new(dir.join("state"), PASSWORD.into());
        config.project_dir = process::checkout();
        config.bin_dir = std::env::var_os("BASALT_TEST_POSTGRES_BIN").map(PathBuf::from);
        // Other processes that start at the same time would choose the same first free port, and the start fails: with the logging
        // collector, PostgreSQL's output does not report the conflict.
        config.port = Some(free_port());
        config.durable = false;
        config.vault_key = Some("testkit".into());
        config.settings = vec![
            ("max_connections".to_owned(), "400".to_owned()),
            // Replication slots are cluster-wide, and every server that streams changes has one.
            ("max_replication_slots".to_owned(), "100".to_owned()),
            ("max_wal_senders".to_owned(), "100".to_owned()),
            // A clone by file copy needs two checkpoints; less data makes them short.
            ("shared_buffers".to_owned(), "64MB".to_owned()),
            // The cluster may be in memory: keep little WAL.
            ("max_wal_size".to_owned(), "256MB".to_owned()),
            ("autovacuum".to_owned(), "off".to_owned()),
            // Log to a file, for databases with statement logging; see `executed`.
            ("logging_collector".to_owned(), "on".to_owned()),
            ("log_destination".to_owned(), "jsonlog".to_owned()),
            ("log_directory".to_owned(), LOG_DIR.to_owned()),
            ("log_filename".to_owned(), LOG_FILE.to_owned()),
            ("log_rotation_age".to_owned(), "0".to_owned()),
            ("log_rotation_size".to_owned(), "0".to_owned()),
        ];
        let embedded = Embedded::start(config, |_| {}).await.unwrap_or_else(|error| panic!("{error}"));
        let reaper = folder::reap(embedded.data_dir(), &dir, Stdio::piped());
        Self {
            embedded,
            dir,
            created: AtomicU32::new(0),
            templates: Mutex::default(),
            templates_by_files: Mutex::default(),
            idle: Mutex::default(),
            secrets: OnceCell::new(),
            keys: OnceCell::new(),
            _reaper: reaper,
        }
    }

    /// `18.4`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.embedded.version()
    }

    /// Its loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.embedded.port()
    }

    /// The directory of its programs.
    #[must_use]
    pub fn bin_dir(&self) -> &Path {
        self.embedded.bin_dir()
    }

    /// Its data folder, which belongs to the account that PostgreSQL runs as.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.embedded.data_dir()
    }

    /// Its log: one JSON object per line.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.embedded.data_dir().join(LOG_DIR).join(LOG_FILE).with_extension("json")
    }

    /// A database with the migrations and policies of `project`; for an empty folder only the system migrations.
    pub async fn database(&'static self, project: &Path) -> TestDatabase {
        let template = self.template(project).await;
        let name = self.fresh_name("test");
        // Copying files is faster than logging every page, without durability. Database privileges are not copied; with the
        // right owner the server has nothing to repair.
        let statement =
            format!("create database {name} template {template} owner postgres strategy file_copy");
        self.create(statement).await;
        TestDatabase::new(self, name, Some("postgres"))
    }

    /// An empty database.
    pub async fn empty_database(&'static self) -> TestDatabase {
        let name = self.fresh_name("empty");
        self.create(format!("create database {name}")).await;
        TestDatabase::new(self, name, None)
    }

    /// A copy of a database that has no open sessions.
    pub async fn twin(&'static self, database: &TestDatabase) -> TestDatabase {
        let name = self.fresh_name("twin");
        let statement = format!("create database {name} template {}", database.name());
        self.create(statement).await;
        TestDatabase::new(self, name, None)
    }

    async fn create(&'static self, statement: String) {
        let _no_rows = self.run(statement).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs a statement as superuser in database `postgres`; errors contain the statement.
    pub(crate) async fn run(&'static self, statement: String) -> Result<Rows, String> {
        let idle = || self.idle.lock();
        on_runtime(async move {
            let taken = idle().pop().filter(Connection::is_open);
            let connection = match taken {
                Some(connection) => connection,
                None => Connection::open(self.config("postgres")).await,
            };
            let rows = connection.try_run(&statement).await?;
            idle().push(connection);
            Ok(rows)
        })
        .await
    }

    /// The folder with the `secrets.json` shared by all servers of this cluster: roles and their passwords are cluster-wide.
    pub async fn secrets_dir(&self) -> &Path {
        self.secrets
            .get_or_init(|| async {
                let dir = self.dir.join("secrets");
                fs::create_dir_all(dir.join("project")).expect("the folder can be made");
                let output =
                    process::basalt(&dir.join("project")).arg("keys").arg("--data").arg(&dir).output();
                process::succeeded("basalt keys", output);
                dir
            })
            .await
    }

    /// The keys of the shared secrets.
    pub(crate) async fn keys(&self) -> &Keys {
        let dir = self.secrets_dir().await;
        self.keys.get_or_init(|| async { Keys::read(&dir.join("project"), dir, &BTreeMap::new()) }).await
    }

    /// A new folder, `kind_NUMBER`, next to the cluster's data, in memory if the cluster is. Removed with the process.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn fresh_dir(&self, kind: &str) -> PathBuf {
        let dir = self.dir.join(self.fresh_name(kind));
        fs::create_dir_all(&dir).expect("a folder can be made in the cluster's");
        dir
    }

    /// Configuration of a superuser connection to `database` over the socket.
    pub(crate) fn config(&self, database: &str) -> Config {
        let mut config = self.embedded.connect_config();
        config.dbname(database).application_name("testkit");
        config
    }

    /// The URL for `role` at a local `port`, which may be a proxy's.
    pub(crate) fn url(role: &str, port: u16, database: &str) -> String {
        format!("postgresql://{role}:{PASSWORD}@127.0.0.1:{port}/{database}")
    }

    fn fresh_name(&self, kind: &str) -> String {
        format!("{kind}_{}", self.created.fetch_add(1, Ordering::Relaxed))
    }

    /// The template with `project`'s migrations and policies, created once for all folders with the same files.
    async fn template(&'static self, project: &Path) -> String {
        let by_folder = cell(&self.templates, project.to_path_buf());
        let name = by_folder.get_or_init(|| async {
            let files = project_files(project);
            let base = if files.is_empty() { None } else { Some(self.system_template().await) };
            let by_files = cell(&self.templates_by_files, files);
            by_files.get_or_init(|| self.make_template(project, base.as_deref())).await.clone()
        });
        name.await.clone()
    }

    /// The template of an empty project, from which all other templates are cloned.
    async fn system_template(&'static self) -> String {
        let by_files = cell(&self.templates_by_files, ProjectFiles::new());
        let make = || async {
            let dir = self.fresh_dir("project");
            self.make_template(&dir, None).await
        };
        by_files.get_or_init(make).await.clone()
    }

    async fn make_template(&self, project: &Path, base: Option<&str>) -> String {
        let name = self.fresh_name("template");
        let admin = Connection::open(self.config("postgres")).await;
        let source = base.map(|base| format!("template {base} strategy file_copy")).unwrap_or_default();
        admin.run(&format!("create database {name} {source}")).await;
        let state = self.secrets_dir().await.to_path_buf();
        let output = process::basalt(project)
            .arg("migrate")
            .arg("--data")
            .arg(&state)
            .env("BASALT_DATABASE_URL", Self::url("supabase_admin", self.port(), &name))
            .output();
        process::succeeded("basalt migrate", output);
        admin.run(STANDALONE_LOGIN).await;
        name
    }
}

/// The cell of `key`.
fn cell<K: Eq + std::hash::Hash>(templates: &Templates<K>, key: K) -> Arc<OnceCell<String>> {
    Arc::clone(templates.lock().entry(key).or_default())
}

/// The settings and SQL files of a project; other files do not affect the template.
fn project_files(project: &Path) -> ProjectFiles {
    let mut files = ProjectFiles::new();
    for name in ["basalt.toml", "seed.sql"] {
        match fs::read(project.join(name)) {
            Ok(content) => drop(files.insert(PathBuf::from(name), content)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    for folder in ["migrations", "policies"] {
        let Ok(entries) = fs::read_dir(project.join(folder)) else { continue };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
            let content = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.strip_prefix(project).expect("the folder's own entry").to_path_buf();
            files.insert(name, content);
        }
    }
    files
}

/// A login role as in PostgREST's documentation, for servers with only one service.
const STANDALONE_LOGIN: &str = "
do $$ begin
  if not exists (select from pg_roles where rolname = 'standalone_authenticator') then
    create role standalone_authenticator login noinherit password 'testkit';
    grant anon, authenticated, service_role to standalone_authenticator;
  end if;
exception when unique_violation or duplicate_object then
  null; -- another template's making did it meanwhile
end $$";

/// Opens and drives a connection.
pub(crate) async fn connect(config: Config) -> tokio_postgres::Client {
    let (client, connection) = config.connect(NoTls).await.expect("the test cluster takes connections");
    let _driver = tokio::spawn(connection);
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn databases_are_separate_and_dropped_with_their_value() {
        let cluster = Cluster::get().await;
        let (first, second) = (cluster.empty_database().await, cluster.empty_database().await);
        let _made = first
            .admin_sql("create table only_here (id int); insert into only_here values (7), (null)")
            .await;
        assert_eq!(first.admin_sql("table only_here").await, [vec![Some("7".to_owned())], vec![None]]);
        assert_eq!(second.value("select count(*) from pg_class where relname = 'only_here'").await, "0");
        let name = first.name().to_owned();
        drop(first);
        let left = second.value(&format!("select count(*) from pg_database where datname = '{name}'")).await;
        assert_eq!(left, "0");
    }

    #[tokio::test]
    async fn folders_with_equal_files_share_a_template() {
        let cluster = Cluster::get().await;
        let folder = |sql: &str| {
            let dir = cluster.fresh_dir("project");
            fs::create_dir(dir.join("migrations")).unwrap();
            fs::write(dir.join("migrations/0001_a.sql"), sql).unwrap();
            dir
        };
        let (one, same) = (folder("create table a ();"), folder("create table a ();"));
        let other = folder("create table b ();");
        let name = cluster.template(&one).await;
        assert_eq!(cluster.template(&same).await, name);
        assert_ne!(cluster.template(&other).await, name);
        // A test that edits its project expects the database from before the edit.
        fs::write(one.join("migrations/0001_a.sql"), "create table c ();").unwrap();
        assert_eq!(cluster.template(&one).await, name);
        let empty = [cluster.fresh_dir("project"), cluster.fresh_dir("project")];
        assert_eq!(cluster.template(&empty[0]).await, cluster.template(&empty[1]).await);
    }

    /// The reaper's pipe closes with the process; in this test when it is dropped.
    #[tokio::test]
    async fn reaper_stops_postgres_and_removes_its_folder() {
        let dir = Cluster::get().await.fresh_dir("reaped");
        let mut config = EmbeddedConfig::new(&dir, PASSWORD.into());
        config.project_dir = process::checkout();
        config.bin_dir = std::env::var_os("BASALT_TEST_POSTGRES_BIN").map(PathBuf::from);
        config.durable = false;
        let embedded = Embedded::start(config, |_| {}).await.unwrap();
        let mut connection = embedded.connect_config();
        connection.application_name("testkit");
        let mut reaper = folder::reap(embedded.data_dir(), &dir, Stdio::piped());
        // Stop the supervisor, which would restart PostgreSQL; normally the reaper runs after this process.
        embedded.stop().await;
        drop(reaper.stdin.take());
        assert!(reaper.wait().unwrap().success());
        assert!(!dir.exists());
    }
}
