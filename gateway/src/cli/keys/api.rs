//! `basalt keys`: finds, creates, rotates, revokes and prints API keys.

use std::io::{self, Write};

use basalt_core::keys::{ApiKeyKind, DEFAULT_NAME, NewApiKey, StoredApiKey, StoredKeys};
use basalt_core::settings::Value as Written;
use basalt_core::settings::kinds::read_time;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{Create, Keys, Revoke, Rotate};
use crate::cli::terminal::{confirm, table, time};
use crate::secrets;

/// An API key, and whether it has a row in the database.
pub(super) struct Listed {
    pub(super) key: StoredApiKey,
    has_row: bool,
}

impl Keys<'_> {
    pub(super) async fn create_api(&self, kind: ApiKeyKind, create: &Create) -> anyhow::Result<()> {
        let name = create.name.clone().unwrap_or_default();
        if name.trim().is_empty() || name == DEFAULT_NAME {
            anyhow::bail!("an API key needs a name: add --name, for example --name reports");
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
        self.print_new(&key, create.json)
    }

    pub(super) async fn revoke_api(&self, stored: &StoredKeys, revoke: &Revoke) -> anyhow::Result<()> {
        let key = self.find(stored, &revoke.key)?;
        let what = format!("{} key {}", key.kind.as_str(), key.name);
        confirm(&format!("Revoke the {what}?"), revoke.yes)?;
        self.store.revoke_api_key(&key, self.now).await?;
        writeln!(io::stdout(), "revoked the {what}")?;
        Ok(())
    }

    pub(super) async fn rotate_api(&self, rotate: &Rotate) -> anyhow::Result<()> {
        let stored = self.store.read().await?;
        let old = self.find(&stored, &rotate.key)?;
        let what = format!("{} key {}", old.kind.as_str(), old.name);
        let old_ends = rotate.grace.as_deref().map(|text| self.later(text)).transpose()?;
        if old_ends.is_none() {
            confirm(
                &format!(
                    "Replace the {what}? The old key stops working at once; use --grace to keep it valid for a while."
                ),
                rotate.yes,
            )?;
        }
        let new = self.store.rotate_api_key(&old, old_ends, self.now).await?;
        if let (Some(old), Some(new)) = (&old.key, &new.key) {
            // Keep the state folder of this machine current; other machines read the new key from the database.
            secrets::replace_api_key(&self.config.server.state_dir, old, new)?;
        }
        match old_ends {
            Some(ends) => writeln!(
                io::stderr(),
                "replaced the {what}; the old key is valid until {} UTC",
                time(Some(ends))
            )?,
            None => writeln!(io::stderr(), "replaced the {what}; the old key is no longer valid")?,
        }
        let configured = match old.kind {
            ApiKeyKind::Publishable => (&self.config.jwt.publishable_key, "jwt.publishable_key"),
            ApiKeyKind::Secret | ApiKeyKind::Legacy => (&self.config.jwt.secret_key, "jwt.secret_key"),
        };
        if let ((Some(given), setting), Some(old)) = (configured, &old.key)
            && given.expose_secret() == old.expose_secret()
        {
            writeln!(io::stderr(), "{setting} still has the old key: replace it with the new one")?;
        }
        self.print_new(&new, rotate.json)
    }

    /// Prints only the new key to standard output.
    fn print_new(&self, key: &StoredApiKey, as_json: bool) -> anyhow::Result<()> {
        let mut out = io::stdout();
        if as_json {
            let listed = Listed { key: key.clone(), has_row: true };
            writeln!(out, "{:#}", self.api_as_json(&listed, true))?;
        } else {
            writeln!(out, "{}", key.key.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default())?;
            if key.kind == ApiKeyKind::Secret {
                writeln!(
                    io::stderr(),
                    "Keep it secret: it bypasses every policy that its role bypasses. `basalt keys list --show` shows it again."
                )?;
            }
        }
        Ok(())
    }

    /// The keys of this machine without a row, followed by the rows.
    pub(super) fn api_keys(&self, stored: &StoredKeys) -> Vec<Listed> {
        let own = &self.material.api_keys;
        let publishable = SecretString::from(own.publishable.as_str());
        let mut keys: Vec<Listed> =
            [(ApiKeyKind::Publishable, &publishable), (ApiKeyKind::Secret, &own.secret)]
                .into_iter()
                .filter(|(_, key)| !key.expose_secret().is_empty())
                .map(|(kind, key)| StoredApiKey::from_material(kind, key, self.now))
                .filter(|key| !stored.api.iter().any(|row| row.hash == key.hash))
                .map(|key| Listed { key, has_row: false })
                .collect();
        keys.extend(stored.api.iter().map(|key| Listed { key: key.clone(), has_row: true }));
        keys
    }

    /// The one active key that matches `word`: a kind, a name, or the start of an id.
    fn find(&self, stored: &StoredKeys, word: &str) -> anyhow::Result<StoredApiKey> {
        const SHORTEST_ID: usize = 8;
        let active: Vec<StoredApiKey> = self
            .api_keys(stored)
            .into_iter()
            .map(|listed| listed.key)
            .filter(|key| key.is_active(self.now))
            .collect();
        let matches_word = |key: &StoredApiKey| match ApiKeyKind::from_name(word) {
            Some(kind) => key.kind == kind && key.name == DEFAULT_NAME,
            None => key.name == word || word.len() >= SHORTEST_ID && key.id.to_string().starts_with(word),
        };
        // A key that is about to expire was replaced by another key of the same name; prefer that one.
        let mut found: Vec<StoredApiKey> = active.iter().filter(|key| matches_word(key)).cloned().collect();
        if found.iter().any(|key| key.expires_at.is_none()) && found.len() > 1 {
            found.retain(|key| key.expires_at.is_none());
        }
        match (found.pop(), found.is_empty()) {
            (Some(key), true) => Ok(key),
            (Some(_), false) => {
                anyhow::bail!(
                    "several keys match {word}: use the id, or `publishable` or `secret` for the default key; `basalt keys list` shows them"
                )
            }
            (None, _) => {
                anyhow::bail!("no active key matches {word}: `basalt keys list` shows the keys")
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

    /// The table for the terminal; `show` prints secret keys in full.
    pub(super) fn api_table(&self, api: &[Listed], show: bool) -> String {
        let rows: Vec<Vec<String>> = api
            .iter()
            .map(|listed| {
                let key = &listed.key;
                vec![
                    key.name.clone(),
                    key.kind.as_str().to_owned(),
                    key.role.clone(),
                    shown(key, show),
                    self.state(key).to_owned(),
                    time(Some(key.created_at).filter(|_| listed.has_row)),
                    time(key.expires_at),
                    time(key.last_used_at),
                    if listed.has_row { short(&key.id.to_string()) } else { "-".to_owned() },
                ]
            })
            .collect();
        let header = ["NAME", "TYPE", "ROLE", "KEY", "STATE", "CREATED", "EXPIRES", "LAST USED", "ID"];
        table(&header, &rows)
    }

    /// The JSON for scripts.
    pub(super) fn api_as_json(&self, listed: &Listed, show: bool) -> Value {
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

    /// Parses a duration such as `90d` and adds it to the current time.
    fn later(&self, text: &str) -> anyhow::Result<Timestamp> {
        let span = read_time(&Written::Bare(text.to_owned()));
        let span = span.ok_or_else(|| anyhow::anyhow!("invalid duration \"{text}\": use 30m, 24h or 90d"))?;
        Ok(self.now.checked_add(jiff::SignedDuration::try_from(span)?)?)
    }

    /// Parses a duration from now, or a date.
    fn moment(&self, text: &str) -> anyhow::Result<Timestamp> {
        let date = text.parse::<Timestamp>().ok().or_else(|| {
            let date: jiff::civil::Date = text.parse().ok()?;
            Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        });
        let moment = match date {
            Some(date) => date,
            None => self
                .later(text)
                .map_err(|_| anyhow::anyhow!("invalid time \"{text}\": use 90d, or 2030-12-31"))?,
        };
        if moment <= self.now {
            anyhow::bail!("{text} is in the past");
        }
        Ok(moment)
    }
}

/// The key as printed: publishable keys in full, secret keys shortened to a recognisable prefix.
fn shown(key: &StoredApiKey, show: bool) -> String {
    const VISIBLE_CHARS: usize = 5;
    let Some(text) = &key.key else { return "(encrypted with another master key)".to_owned() };
    let text = text.expose_secret();
    if show || key.kind == ApiKeyKind::Publishable {
        return text.to_owned();
    }
    text.chars().take(key.kind.prefix().len() + VISIBLE_CHARS).chain(['…']).collect()
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
