//! A separate PostgreSQL for tests that change cluster-wide state (roles, `pg_hba.conf`, limits).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use basalt_postgres::{Embedded, EmbeddedConfig, SUPERUSER};
use basalt_testkit::{Basalt, Cluster};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::load::DATABASE_AWAY;

/// A PostgreSQL used by one test.
pub(crate) struct OwnPostgres {
    embedded: Embedded,
    client: tokio_postgres::Client,
    pub(crate) url: String,
}

impl OwnPostgres {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let folder = Cluster::get().await.fresh_dir("own");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let mut config = EmbeddedConfig::new(folder.join("state"), "own".into());
        config.bin_dir = std::env::var_os("BASALT_TEST_POSTGRES_BIN").map(Into::into);
        config.project_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        config.settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let embedded = Embedded::start(config, |_| {}).await.unwrap();
        let url = format!("postgresql://{SUPERUSER}:own@127.0.0.1:{}/postgres", embedded.port());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let _driver = tokio::spawn(connection);
        Self { embedded, client, url }
    }

    pub(crate) async fn server(&self, project: &Path, settings: &[(&str, &str)]) -> Basalt {
        let builder = Basalt::builder().database_url(&self.url).project(project);
        let builder = settings.iter().fold(builder, |builder, (key, value)| builder.config(key, value));
        DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await
    }

    /// The first column of the first row, if any.
    pub(crate) async fn sql(&self, statements: &str) -> Option<String> {
        let responses = self.client.simple_query(statements).await.unwrap();
        responses.iter().find_map(|response| match response {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            SimpleQueryMessage::CommandComplete(_) | SimpleQueryMessage::RowDescription(_) | _ => None,
        })
    }

    /// Inserts a line at the start of `pg_hba.conf`.
    pub(crate) async fn admit(&self, line: &str) {
        let path = self.embedded.data_dir().join("pg_hba.conf");
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{line}\n{before}")).unwrap();
        self.sql("select pg_reload_conf()").await;
    }

    /// Removes the first line of `pg_hba.conf`.
    pub(crate) async fn admit_no_longer(&self) {
        let path = self.embedded.data_dir().join("pg_hba.conf");
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, before.split_once('\n').unwrap().1).unwrap();
        self.sql("select pg_reload_conf()").await;
    }

    pub(crate) async fn stop(self) {
        self.embedded.stop().await;
    }
}
