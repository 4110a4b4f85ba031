//! `basalt keys …`: API keys and signing keys, with or without a server running; running servers hear of a change at
//! once. What a script wants is on standard output, what a person is told besides on standard error.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use basalt_core::keys::{
    ApiKeyKind, ApiKeys, DEFAULT_NAME, KeyMaterial, KeyStatus, KeyStore, NewApiKey, SigningKeyInfo,
    StoredApiKey, StoredKeys,
};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::reach::Reached;
use super::terminal::{confirm, table, time};
use crate::config::Config;
use crate::config::value::{Setting, Value as Written};
use crate::secrets;

/// What to do with keys. Without a word: prints the project's URL and keys as an environment file.
#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Lists API keys and signing keys.
    List(List),
    /// Makes an API key, or a signing key on standby.
    Create(Create),
    /// Refuses a key, and what it signed, from now on.
    Revoke(Revoke),
    /// Makes a key that takes another's place.
    Rotate(Rotate),
}

/// A kind of key that can be made.
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
    /// Also those that are revoked or have expired.
    #[arg(long)]
    all: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// What to make.
    kind: Kind,
    /// What to call an API key.
    #[arg(long)]
    name: Option<String>,
    /// What it is for.
    #[arg(long, default_value = "")]
    description: String,
    /// The database role of its requests [default: anon for publishable keys, service_role for secret ones].
    #[arg(long)]
    role: Option<String>,
    /// When it ends: a time from now such as 90d, or a date.
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    /// Of a signing key: ES256, RS256, EdDSA or HS256.
    #[arg(long, default_value = "ES256", value_parser = ["ES256", "RS256", "EdDSA", "HS256"])]
    algorithm: String,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Name or id of an API key, or kid of a signing key; `publishable` and `secret` for the default ones.
    key: String,
    /// Without asking.
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Rotate {
    /// Name or id of an API key, `publishable` or `secret` for the default ones, or `signing`.
    key: String,
    /// How long the old API key still holds, such as 1h or 7d [default: not at all].
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Of a new signing key, when none is on standby: ES256, RS256, EdDSA or HS256.
    #[arg(long, default_value = "ES256", value_parser = ["ES256", "RS256", "EdDSA", "HS256"])]
    algorithm: String,
    /// Without asking.
    #[arg(long)]
    yes: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Does what was asked.
pub(super) async fn run(config: &Config, command: &KeysCommand) -> anyhow::Result<()> {
    let mut reached = Reached::open(config).await?;
    let keys =
        Keys { store: reached.key_store(), material: reached.material(), config, now: Timestamp::now() };
    let done = match command {
        KeysCommand::List(list) => keys.list(list).await,
        KeysCommand::Create(create) => keys.create(create).await,
        KeysCommand::Revoke(revoke) => keys.revoke(revoke).await,
        KeysCommand::Rotate(rotate) => keys.rotate(rotate).await,
    };
    drop(keys);
    reached.close().await;
    done
}

/// The project's keys as a server hands them out: those of this machine, unless the database knows better.
pub(super) async fn in_force(config: &Config, secrets: &secrets::Secrets) -> Arc<ApiKeys> {
    let own = || Arc::new(secrets.api_keys().clone());
    let Some(mut reached) = Reached::if_running(config).await else { return own() };
    let stored = reached.key_store().read().await;
    let material = reached.material();
    reached.close().await;
    let now = Timestamp::now().as_second();
    let keys = basalt_core::keys::Keys::new(material).ok();
    match (keys, stored) {
        (Some(keys), Ok(stored)) if keys.update(&stored, now).is_ok() => keys.api_keys(),
        _ => own(),
    }
}

struct Keys<'a> {
    store: KeyStore,
    material: KeyMaterial,
    config: &'a Config,
    now: Timestamp,
}

/// An API key with or without a row.
struct Listed {
    key: StoredApiKey,
    has_row: bool,
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
            let signing: Vec<Value> = signing.iter().map(signing_as_json).collect();
            writeln!(out, "{:#}", json!({ "api_keys": api, "signing_keys": signing }))?;
            return Ok(());
        }
        let rows: Vec<Vec<String>> = api
            .iter()
            .map(|listed| {
                let key = &listed.key;
                vec![
                    key.name.clone(),
                    key.kind.as_str().to_owned(),
                    key.role.clone(),
                    shown(key, list.show),
                    self.state(key).to_owned(),
                    time(Some(key.created_at).filter(|_| listed.has_row)),
                    time(key.expires_at),
                    time(key.last_used_at),
                    if listed.has_row { short(&key.id.to_string()) } else { "-".to_owned() },
                ]
            })
            .collect();
        let header = ["NAME", "TYPE", "ROLE", "KEY", "STATE", "CREATED", "EXPIRES", "LAST USED", "ID"];
        out.write_all(table(&header, &rows).as_bytes())?;
        let rows: Vec<Vec<String>> = signing
            .iter()
            .map(|key| {
                let since = time(key.updated_at);
                vec![key.kid.clone(), key.algorithm.clone(), in_words(key.status).to_owned(), since]
            })
            .collect();
        writeln!(out)?;
        out.write_all(table(&["SIGNING KEY", "ALGORITHM", "STATE", "SINCE"], &rows).as_bytes())?;
        Ok(())
    }

    async fn create(&self, create: &Create) -> anyhow::Result<()> {
        let kind = match create.kind {
            Kind::Publishable => ApiKeyKind::Publishable,
            Kind::Secret => ApiKeyKind::Secret,
            Kind::Signing => return self.create_signing(create).await,
        };
        let name = create.name.clone().unwrap_or_default();
        if name.trim().is_empty() || name == DEFAULT_NAME {
            anyhow::bail!("an API key has a name that says who uses it: add --name, such as --name reports");
        }
        let expires_at = create.expires.as_deref().map(|text| self.moment(text)).transpose()?;
        let new = NewApiKey {
            kind,
            name,
            description: create.description.clone(),
            role: create.role.clone().unwrap_or_else(|| kind.role().to_owned()),
            expires_at,
        };
        let key = self.store.create_api_key(&new, self.now).await?;
        writeln!(io::stderr(), "created the {} key {}, role {}", kind.as_str(), key.name, key.role)?;
        self.tell_new(&key, create.json)
    }

    async fn create_signing(&self, create: &Create) -> anyhow::Result<()> {
        let key = self.store.create_signing_key(&self.material, &create.algorithm, self.now).await?;
        let mut out = io::stdout();
        if create.json {
            writeln!(out, "{:#}", signing_as_json(&key))?;
        } else {
            writeln!(out, "{}", key.kid)?;
            writeln!(
                io::stderr(),
                "created an {} signing key on standby. Verifiers know it within 10 minutes; then `basalt keys rotate signing`.",
                key.algorithm
            )?;
        }
        Ok(())
    }

    async fn revoke(&self, revoke: &Revoke) -> anyhow::Result<()> {
        let stored = self.store.read().await?;
        let signing = self.material.signing_keys(&stored)?;
        if let Some(key) = signing.iter().find(|key| key.kid == revoke.key) {
            let own = self.material.own_keys()?;
            let is_secret =
                own.iter().any(|(kid, jwk, _)| *kid == key.kid && jwk.get("kty") == Some(&json!("oct")));
            let legacy =
                if is_secret { " The legacy keys anon and service_role are signed by it." } else { "" };
            if matches!(key.status, KeyStatus::Standby | KeyStatus::PreviouslyUsed) {
                let question = format!("Refuse everything that {} signed?{legacy}", key.kid);
                confirm(&question, revoke.yes)?;
            }
            self.store.revoke_signing_key(&self.material, &key.kid, self.now).await?;
            writeln!(io::stdout(), "revoked the signing key {}", key.kid)?;
            return Ok(());
        }
        let key = self.find(&stored, &revoke.key)?;
        let what = format!("{} key {}", key.kind.as_str(), key.name);
        confirm(&format!("Refuse the {what} from now on?"), revoke.yes)?;
        self.store.revoke_api_key(&key, self.now).await?;
        writeln!(io::stdout(), "revoked the {what}")?;
        Ok(())
    }

    async fn rotate(&self, rotate: &Rotate) -> anyhow::Result<()> {
        if rotate.key == "signing" {
            return self.rotate_signing(rotate).await;
        }
        let stored = self.store.read().await?;
        let old = self.find(&stored, &rotate.key)?;
        let what = format!("{} key {}", old.kind.as_str(), old.name);
        let old_ends = rotate.grace.as_deref().map(|text| self.later(text)).transpose()?;
        if old_ends.is_none() {
            confirm(
                &format!("Replace the {what}? The old one is refused at once; --grace lets it go on."),
                rotate.yes,
            )?;
        }
        let new = self.store.rotate_api_key(&old, old_ends, self.now).await?;
        if let (Some(old), Some(new)) = (&old.key, &new.key) {
            // What this machine hands out must hold; other machines learn it from the database.
            secrets::replace_api_key(&self.config.server.state_dir, old, new)?;
        }
        match old_ends {
            Some(ends) => writeln!(
                io::stderr(),
                "replaced the {what}; the old one holds until {} UTC",
                time(Some(ends))
            )?,
            None => writeln!(io::stderr(), "replaced the {what}; the old one is refused")?,
        }
        let configured = match old.kind {
            ApiKeyKind::Publishable => (&self.config.jwt.publishable_key, "jwt.publishable_key"),
            ApiKeyKind::Secret | ApiKeyKind::Legacy => (&self.config.jwt.secret_key, "jwt.secret_key"),
        };
        if let ((Some(given), setting), Some(old)) = (configured, &old.key)
            && given.expose_secret() == old.expose_secret()
        {
            writeln!(io::stderr(), "{setting} still names the old one: put the new one there")?;
        }
        self.tell_new(&new, rotate.json)
    }

    async fn rotate_signing(&self, rotate: &Rotate) -> anyhow::Result<()> {
        /// Until every server has heard of a key that was made a moment ago.
        const SETTLE: Duration = Duration::from_secs(2);
        let infos = self.material.signing_keys(&self.store.read().await?)?;
        let standby = infos.iter().find(|key| key.status == KeyStatus::Standby).map(|key| key.kid.clone());
        let was_known = standby.is_some();
        if !was_known && self.material.rotates {
            let question = "No signing key is on standby. Verifiers elsewhere that keep the public keys for 10 minutes will refuse \
                            tokens of a new one until then; `basalt keys create signing` and a wait avoid that. Go on?";
            confirm(question, rotate.yes)?;
        }
        let kid = match standby {
            Some(kid) => kid,
            None => {
                let key = self.store.create_signing_key(&self.material, &rotate.algorithm, self.now).await?;
                tokio::time::sleep(SETTLE).await;
                key.kid
            }
        };
        self.store.use_signing_key(&self.material, &kid, self.now).await?;
        let infos = self.material.signing_keys(&self.store.read().await?)?;
        let mut out = io::stdout();
        if rotate.json {
            let infos: Vec<Value> = infos.iter().map(signing_as_json).collect();
            writeln!(out, "{:#}", json!({ "signing_keys": infos }))?;
        } else {
            writeln!(out, "{kid}")?;
            let exp = self.config.auth.jwt.exp.div_ceil(60);
            writeln!(
                io::stderr(),
                "{kid} signs from now on. What the key before it signed holds until it expires (at most {exp} minutes); then revoke that key."
            )?;
        }
        Ok(())
    }

    /// The new key alone on standard output: it is shown now and when asked for.
    fn tell_new(&self, key: &StoredApiKey, as_json: bool) -> anyhow::Result<()> {
        let mut out = io::stdout();
        if as_json {
            let listed = Listed { key: key.clone(), has_row: true };
            writeln!(out, "{:#}", self.api_as_json(&listed, true))?;
        } else {
            writeln!(out, "{}", key.key.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default())?;
            if key.kind == ApiKeyKind::Secret {
                writeln!(
                    io::stderr(),
                    "Keep it secret: it bypasses every policy its role does. `basalt keys list --show` shows it again."
                )?;
            }
        }
        Ok(())
    }

    /// The keys of this machine that have no row, then the rows.
    fn api_keys(&self, stored: &StoredKeys) -> Vec<Listed> {
        let own = &self.material.api_keys;
        let publishable = SecretString::from(own.publishable.as_str());
        let mut keys: Vec<Listed> =
            [(ApiKeyKind::Publishable, &publishable), (ApiKeyKind::Secret, &own.secret)]
                .into_iter()
                .filter(|(_, key)| !key.expose_secret().is_empty())
                .map(|(kind, key)| StoredApiKey::of_material(kind, key, self.now))
                .filter(|key| !stored.api.iter().any(|row| row.hash == key.hash))
                .map(|key| Listed { key, has_row: false })
                .collect();
        keys.extend(stored.api.iter().map(|key| Listed { key: key.clone(), has_row: true }));
        keys
    }

    /// The one active key that `word` means.
    fn find(&self, stored: &StoredKeys, word: &str) -> anyhow::Result<StoredApiKey> {
        const SHORTEST_ID: usize = 8;
        let active: Vec<StoredApiKey> = self
            .api_keys(stored)
            .into_iter()
            .map(|listed| listed.key)
            .filter(|key| key.is_active(self.now))
            .collect();
        let means = |key: &StoredApiKey| match ApiKeyKind::from_name(word) {
            Some(kind) => key.kind == kind && key.name == DEFAULT_NAME,
            None => key.name == word || word.len() >= SHORTEST_ID && key.id.to_string().starts_with(word),
        };
        // One that is about to end has been replaced by another of its name.
        let mut found: Vec<StoredApiKey> = active.iter().filter(|key| means(key)).cloned().collect();
        if found.iter().any(|key| key.expires_at.is_none()) && found.len() > 1 {
            found.retain(|key| key.expires_at.is_none());
        }
        match (found.pop(), found.is_empty()) {
            (Some(key), true) => Ok(key),
            (Some(_), false) => {
                anyhow::bail!(
                    "several keys are called {word}: name one by its id, or say publishable or secret; `basalt keys list` shows them"
                )
            }
            (None, _) => {
                anyhow::bail!("there is no active key {word}: `basalt keys list` shows those there are")
            }
        }
    }

    fn state(&self, key: &StoredApiKey) -> &'static str {
        if key.revoked_at.is_some() {
            "revoked"
        } else if !key.is_active(self.now) {
            "expired"
        } else {
            "active"
        }
    }

    fn api_as_json(&self, listed: &Listed, show: bool) -> Value {
        let key = &listed.key;
        json!({
            "id": listed.has_row.then(|| key.id.to_string()),
            "name": key.name,
            "type": key.kind.as_str(),
            "description": key.description,
            "role": key.role,
            "api_key": shown(key, show),
            "state": self.state(key),
            "created_at": listed.has_row.then_some(key.created_at),
            "expires_at": key.expires_at,
            "last_used_at": key.last_used_at,
            "revoked_at": key.revoked_at,
        })
    }

    /// `90d` from now.
    fn later(&self, text: &str) -> anyhow::Result<Timestamp> {
        let span = Duration::read(&Written::Bare(text.to_owned()));
        let span =
            span.ok_or_else(|| anyhow::anyhow!("{text} is no time from now: write 30m, 24h or 90d"))?;
        Ok(self.now.checked_add(jiff::SignedDuration::try_from(span)?)?)
    }

    /// A time from now, or a date.
    fn moment(&self, text: &str) -> anyhow::Result<Timestamp> {
        let date = text.parse::<Timestamp>().ok().or_else(|| {
            let date: jiff::civil::Date = text.parse().ok()?;
            Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        });
        let moment = match date {
            Some(date) => date,
            None => self
                .later(text)
                .map_err(|_| anyhow::anyhow!("{text} is no time: write 90d, or 2030-12-31"))?,
        };
        if moment <= self.now {
            anyhow::bail!("{text} is over already");
        }
        Ok(moment)
    }
}

fn signing_as_json(key: &SigningKeyInfo) -> Value {
    json!({
        "kid": key.kid,
        "algorithm": key.algorithm,
        "status": key.status.as_str(),
        "created_at": key.created_at,
        "updated_at": key.updated_at,
    })
}

const fn in_words(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::Standby => "standby",
        KeyStatus::InUse => "in use",
        KeyStatus::PreviouslyUsed => "previously used",
        KeyStatus::Revoked => "revoked",
    }
}

/// Publishable keys are no secret; of a secret one enough to know it by.
fn shown(key: &StoredApiKey, show: bool) -> String {
    const KNOWN_BY: usize = 5;
    let Some(text) = &key.key else { return "(sealed under another master key)".to_owned() };
    let text = text.expose_secret();
    if show || key.kind == ApiKeyKind::Publishable {
        return text.to_owned();
    }
    text.chars().take(key.kind.prefix().len() + KNOWN_BY).chain(['…']).collect()
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
