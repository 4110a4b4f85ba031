//! What TypeScript functions and their processes need to know about this server.

use std::net::IpAddr;
use std::path::PathBuf;

use basalt_functions::ServerFacts;
use basalt_postgres::Embedded;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::Host;

use crate::config::Config;
use crate::database_setup;
use crate::secrets::Secrets;

/// Variables with which an operator chooses registries and proxies. They apply to downloads of modules; functions do not see them.
const REGISTRY_VARIABLES: [&str; 10] = [
    "NPM_CONFIG_REGISTRY",
    "JSR_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
];

/// The facts. Without `secrets`, the URL of the embedded database is missing.
pub(crate) fn facts(config: &Config, secrets: Option<&Secrets>) -> ServerFacts {
    let database_url = match &config.database.url {
        Some(url) => Some(SecretString::from(url.expose_secret())),
        None => {
            secrets.and_then(|secrets| database_setup::running_url(config, secrets)).map(SecretString::from)
        }
    };
    let database_address = database_url.as_ref().and_then(|url| {
        let database = database_setup::external("database.url", url.expose_secret(), config).ok()?;
        let port = database.config().get_ports().first().copied().unwrap_or(5432);
        match database.config().get_hosts().first()? {
            Host::Tcp(host) => Some(format!("{host}:{port}")),
            Host::Unix(_) => None,
        }
    });
    let executable = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_path_buf()));
    let mut module_roots = vec![config.project.dir.clone()];
    module_roots.extend(std::env::current_dir().ok());
    module_roots.extend(executable);
    let registry = REGISTRY_VARIABLES.iter().filter_map(|name| {
        let value = std::env::var_os(name)?.into_string().ok()?;
        Some(((*name).to_owned(), value))
    });
    ServerFacts {
        public_url: config.server.public_url.to_string(),
        database_url,
        database_address,
        database_dirs: database_dirs(config, secrets),
        state_dir: config.server.state_dir.clone(),
        project_dir: config.project.dir.clone(),
        module_roots,
        path: std::env::var_os("PATH"),
        registry: registry.collect(),
        private_addresses: admin_addresses(config),
        is_development: config.is_development(),
    }
}

/// The data of the embedded PostgreSQL and, while it runs, the folder of its socket.
fn database_dirs(config: &Config, secrets: Option<&Secrets>) -> Vec<PathBuf> {
    if config.database.url.is_some() {
        return Vec::new();
    }
    let mut dirs = vec![Embedded::current_data_dir(&config.server.state_dir, &config.database.data_dir)];
    let running = secrets.and_then(|secrets| database_setup::running(config, secrets));
    dirs.extend(running.iter().flat_map(|database| database.config().get_hosts()).filter_map(
        |host| match host {
            Host::Unix(folder) => Some(folder.clone()),
            Host::Tcp(_) => None,
        },
    ));
    dirs
}

/// The admin port, under every name that this machine has for itself.
fn admin_addresses(config: &Config) -> Vec<String> {
    let Some(port) = config.server.admin_port else { return Vec::new() };
    let host = config.server.admin_host.to_string();
    let mut hosts =
        vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), "0.0.0.0".to_owned()];
    let is_special = |host: &str| {
        host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified() || address.is_loopback())
    };
    if !is_special(&host) && !hosts.contains(&host) {
        hosts.push(host);
    }
    hosts.into_iter().map(|host| format!("{host}:{port}")).collect()
}
