//! `basalt keys …`: manages API keys and signing keys, with or without a running server; running servers apply changes at
//! once. Results go to standard output, messages to standard error.

mod api;
mod signing;

use std::io::{self, Write};
use std::sync::Arc;

use basalt_core::keys::{ApiKeyKind, ApiKeys, KeyMaterial, KeyStatus, SigningKeyInfo};
use basalt_pg::key_store::KeyStore;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::command_database::CommandDatabase;
use crate::config::Config;
use crate::{probe, running, secrets};
use api::Listed;

/// The subcommands of `basalt keys`. Without one, it prints the project's URL and keys as an environment file.
#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Lists API keys and signing keys.
    List(List),
    /// Creates an API key, or a standby signing key.
    Create(Create),
    /// Revokes a key; tokens that it signed become invalid.
    Revoke(Revoke),
    /// Replaces a key by a new one.
    Rotate(Rotate),
}

/// The kinds of keys that can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// `sb_publishable_…`, for browsers and apps
    Publishable,
    /// `sb_secret_…`, for servers
    Secret,
    /// Signs access tokens
    Signing,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Shows secret keys in full.
    #[arg(long)]
    show: bool,
    /// Includes revoked and expired keys.
    #[arg(long)]
    all: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The kind of key.
    kind: Kind,
    /// Name of the API key.
    #[arg(long)]
    name: Option<String>,
    /// Purpose of the API key.
    #[arg(long, default_value = "")]
    description: String,
    /// Database role of its requests [default: anon for publishable keys, service_role for secret ones].
    #[arg(long)]
    role: Option<String>,
    /// Expiry: a duration such as 90d, or a date.
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    /// Algorithm of a signing key: ES256, RS256, EdDSA or HS256.
    #[arg(long, default_value = "ES256", value_parser = ["ES256", "RS256", "EdDSA", "HS256"])]
    algorithm: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Name or id of an API key, or kid of a signing key; `publishable` and `secret` for the default ones.
    // A kid is base64url and may start with a hyphen.
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Rotate {
    /// Name or id of an API key, `publishable` or `secret` for the default ones, or `signing`.
    key: String,
    /// How long the old API key stays valid, such as 1h or 7d [default: it becomes invalid at once].
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Algorithm of the new signing key if none is on standby: ES256, RS256, EdDSA or HS256.
    #[arg(long, default_value = "ES256", value_parser = ["ES256", "RS256", "EdDSA", "HS256"])]
    algorithm: String,
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `basalt keys`.
pub(super) async fn run(config: &Config, command: &KeysCommand) -> anyhow::Result<()> {
    let mut database = CommandDatabase::open(config).await?;
    let keys =
        Keys { store: database.key_store(), material: database.material(), config, now: Timestamp::now() };
    let done = match command {
        KeysCommand::List(list) => keys.list(list).await,
        KeysCommand::Create(create) => keys.create(create).await,
        KeysCommand::Revoke(revoke) => keys.revoke(revoke).await,
        KeysCommand::Rotate(rotate) => keys.rotate(rotate).await,
    };
    drop(keys);
    database.close().await;
    done
}

/// The project's API keys as a server uses them: those of this machine, updated from the database if it is running.
pub(super) async fn in_force(config: &Config, secrets: &secrets::Secrets) -> Arc<ApiKeys> {
    let own = || Arc::new(secrets.api_keys().clone());
    let Some(mut database) = CommandDatabase::if_running(config).await else { return own() };
    let stored = database.key_store().read().await;
    let material = database.material();
    database.close().await;
    let now = Timestamp::now().as_second();
    let keys = basalt_core::keys::Keys::new(material).ok();
    match (keys, stored) {
        (Some(keys), Ok(stored)) if keys.update(&stored, now).is_ok() => keys.api_keys(),
        _ => own(),
    }
}

/// The address of the server that accepts these keys: the running one, or the configured address. Warns if the running server has
/// other secrets, because these keys are then invalid there.
pub(super) async fn server_url(config: &Config, secrets: &secrets::Secrets, keys: &ApiKeys) -> String {
    let (url, is_same, is_ours) = match running::read(&config.server.state_dir) {
        Some(note) => (note.url, note.fingerprint == secrets.fingerprint(), true),
        None => match probe::app_config(config).await {
            Some((url, key)) => (url, key == keys.publishable, false),
            None => return config.server.public_url.to_string(),
        },
    };
    if !is_same {
        let _closed = writeln!(
            io::stderr(),
            "warning: the server at {url} runs with other secrets, so these keys are not valid there; run this command with that server's settings (--project, \
             --data, variables)"
        );
    }
    if is_same || is_ours { url } else { config.server.public_url.to_string() }
}

struct Keys<'a> {
    store: KeyStore,
    material: KeyMaterial,
    config: &'a Config,
    now: Timestamp,
}

impl Keys<'_> {
    async fn list(&self, list: &List) -> anyhow::Result<()> {
        let stored = self.store.read().await?;
        let api: Vec<Listed> = self
            .api_keys(&stored)
            .into_iter()
            .filter(|key| list.all || key.key.is_active(self.now))
            .collect();
        let signing: Vec<SigningKeyInfo> = self
            .material
            .signing_keys(&stored)?
            .into_iter()
            .filter(|key| list.all || key.status != KeyStatus::Revoked)
            .collect();
        let mut out = io::stdout();
        if list.json {
            let api: Vec<Value> = api.iter().map(|key| self.api_as_json(key, list.show)).collect();
            let signing: Vec<Value> = signing.iter().map(signing::as_json).collect();
            writeln!(out, "{:#}", json!({ "api_keys": api, "signing_keys": signing }))?;
            return Ok(());
        }
        out.write_all(self.api_table(&api, list.show).as_bytes())?;
        writeln!(out)?;
        out.write_all(signing::table(&signing).as_bytes())?;
        Ok(())
    }

    async fn create(&self, create: &Create) -> anyhow::Result<()> {
        match create.kind {
            Kind::Publishable => self.create_api(ApiKeyKind::Publishable, create).await,
            Kind::Secret => self.create_api(ApiKeyKind::Secret, create).await,
            Kind::Signing => self.create_signing(create).await,
        }
    }

    async fn revoke(&self, revoke: &Revoke) -> anyhow::Result<()> {
        let stored = self.store.read().await?;
        let signing = self.material.signing_keys(&stored)?;
        match signing.iter().find(|key| key.kid == revoke.key) {
            Some(key) => self.revoke_signing(key, revoke.yes).await,
            None => self.revoke_api(&stored, revoke).await,
        }
    }

    async fn rotate(&self, rotate: &Rotate) -> anyhow::Result<()> {
        if rotate.key == "signing" {
            self.rotate_signing(rotate).await
        } else {
            self.rotate_api(rotate).await
        }
    }
}
