//! Configures a test server: project, settings, database.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use parking_lot::Mutex;

use crate::chaos_proxy::ChaosProxy;
use crate::cluster::Cluster;
use crate::database::TestDatabase;
use crate::keys::Keys;
use crate::ports::free_port;
use crate::process;
use crate::server::Basalt;
use crate::stripe_double::{KEY, StripeDouble, WEBHOOK_SECRET};

/// How to start a server.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    settings: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    project: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    only: Option<String>,
    expected_logs: Vec<String>,
    database: DatabaseChoice,
    proxied: bool,
    has_stripe_double: bool,
}

#[derive(Debug)]
enum DatabaseChoice {
    /// A clone of the project's template.
    Clone,
    /// The server's own embedded PostgreSQL, in its own state folder.
    Embedded,
    /// An existing database, owned by the caller.
    Given(String),
    /// The database in PostgREST's variables, owned by the caller.
    Named,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            settings: BTreeMap::new(),
            variables: BTreeMap::new(),
            project: None,
            state_dir: None,
            only: None,
            expected_logs: Vec::new(),
            database: DatabaseChoice::Clone,
            proxied: false,
            has_stripe_double: false,
        }
    }

    /// Sets a configuration key: `.config("rest.max_rows", "10")`.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        let _before = self.settings.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a variable of the server's environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        let _before = self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The project folder; by default an empty one.
    pub fn project(mut self, dir: impl Into<PathBuf>) -> Self {
        self.project = Some(dir.into());
        self
    }

    /// The state folder; by default one that is removed with the test process.
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// The repository itself: the app's migrations and policies.
    pub fn app(self) -> Self {
        self.project(process::checkout())
    }

    /// Runs only one service.
    pub fn only(mut self, service: &str) -> Self {
        self.only = Some(service.to_owned());
        self
    }

    /// Allows WARN and ERROR lines that contain `text`.
    pub fn expect_log(mut self, text: &str) -> Self {
        self.expected_logs.push(text.to_owned());
        self
    }

    /// The server starts its own embedded PostgreSQL, with durability, as for a user.
    pub fn embedded(mut self) -> Self {
        self.database = DatabaseChoice::Embedded;
        self
    }

    /// Uses an existing database.
    pub fn database_url(mut self, url: &str) -> Self {
        self.database = DatabaseChoice::Given(url.to_owned());
        self
    }

    /// Runs only REST, configured by PostgREST's variables (`PGRST_DB_URI` and so on) and nothing else that affects
    /// responses.
    pub fn postgrest(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.only = Some("rest".to_owned());
        self.database = DatabaseChoice::Named;
        self.variables = variables.into_iter().collect();
        self
    }

    /// Puts a [`ChaosProxy`] between the server and PostgreSQL.
    pub fn through_proxy(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// Starts `basalt-stripe-double` for the server's payments.
    pub fn stripe_double(mut self) -> Self {
        self.has_stripe_double = true;
        self
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready; the message contains its log.
    pub async fn start(self) -> Basalt {
        let cluster = Cluster::get().await;
        let dir = cluster.fresh_dir("server");
        let project = self.project.clone().unwrap_or_else(|| made(dir.join("project")));
        let state_dir = made(self.state_dir.clone().unwrap_or_else(|| dir.join("state")));
        // Roles are cluster-wide, so all servers share the secrets from which their passwords are derived.
        let secrets_dir = cluster.secrets_dir().await;
        let copied = fs::copy(secrets_dir.join("secrets.json"), state_dir.join("secrets.json"));
        let _bytes = copied.expect("the shared secrets can be copied");

        let database = match &self.database {
            DatabaseChoice::Clone => Some(cluster.database(&project).await),
            DatabaseChoice::Embedded | DatabaseChoice::Given(_) | DatabaseChoice::Named => None,
        };
        let proxy = if self.proxied {
            Some(ChaosProxy::start((Ipv4Addr::LOCALHOST, cluster.port()).into()).await)
        } else {
            None
        };
        let mut settings = self.all_settings(cluster, database.as_ref(), proxy.as_ref());
        let double = self.has_stripe_double.then(free_port);
        if let Some(port) = double {
            settings.extend(
                [
                    ("stripe.secret_key", KEY.to_owned()),
                    ("stripe.webhook_secret", WEBHOOK_SECRET.to_owned()),
                    ("stripe.api_base", format!("http://127.0.0.1:{port}")),
                ]
                .map(|(key, value)| (key.to_owned(), value)),
            );
        }
        let has_own_keys = settings.keys().any(|key| key.starts_with("jwt."));
        let keys = if has_own_keys {
            Keys::read(&project, &state_dir, &settings)
        } else {
            cluster.keys().await.clone()
        };
        let mut server = Basalt {
            running: None,
            port: free_port(),
            project,
            state_dir,
            settings,
            variables: self.variables,
            only: self.only,
            expected_logs: Mutex::new(self.expected_logs),
            read_mails: Mutex::default(),
            keys,
            database,
            proxy,
            stripe_double: None,
        };
        server.start_again().await;
        server.stripe_double =
            double.map(|port| StripeDouble::start(port, &server.url(""), server.secret_key()));
        server
    }

    /// The test defaults, overridden by the test's settings.
    fn all_settings(
        &self,
        cluster: &Cluster,
        database: Option<&TestDatabase>,
        proxy: Option<&ChaosProxy>,
    ) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> = [
            ("server.log_format", "json"),
            ("server.app_dir", ""),
            // Many servers share the cluster's connections.
            ("database.pool_size", "5"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let mut set = |key: &str, value: String| {
            let _before = settings.insert(key.to_owned(), value);
        };
        if let Some(database) = database {
            let port = proxy.map_or(cluster.port(), ChaosProxy::port);
            if self.only.as_deref() == Some("rest") {
                let url = Cluster::url("standalone_authenticator", port, database.name());
                set("database.authenticator_url", url);
            } else {
                set("database.url", Cluster::url("supabase_admin", port, database.name()));
            }
        }
        match &self.database {
            DatabaseChoice::Clone | DatabaseChoice::Named => {}
            DatabaseChoice::Given(url) => set("database.url", url.clone()),
            DatabaseChoice::Embedded => set("database.bin_dir", cluster.bin_dir().display().to_string()),
        }
        settings.extend(self.settings.clone());
        settings
    }
}

fn made(dir: PathBuf) -> PathBuf {
    fs::create_dir_all(&dir).expect("a folder of ours can be made");
    dir
}
