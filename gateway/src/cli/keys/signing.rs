//! `basalt keys`: creates, activates, revokes and prints signing keys.

use std::io::{self, Write};
use std::time::Duration;

use basalt_core::keys::{KeyStatus, SigningKeyInfo};
use serde_json::{Value, json};

use super::{Create, Keys, Rotate};
use crate::cli::terminal::{self, confirm, time};

impl Keys<'_> {
    pub(super) async fn create_signing(&self, create: &Create) -> anyhow::Result<()> {
        let key = self.store.create_signing_key(&self.material, &create.algorithm, self.now).await?;
        let mut out = io::stdout();
        if create.json {
            writeln!(out, "{:#}", as_json(&key))?;
        } else {
            writeln!(out, "{}", key.kid)?;
            writeln!(
                io::stderr(),
                "created a standby {} signing key. Wait 10 minutes until verifiers have fetched it, then run `basalt keys rotate signing`.",
                key.algorithm
            )?;
        }
        Ok(())
    }

    pub(super) async fn revoke_signing(&self, key: &SigningKeyInfo, yes: bool) -> anyhow::Result<()> {
        let own = self.material.own_keys()?;
        let is_secret =
            own.iter().any(|(kid, jwk, _)| *kid == key.kid && jwk.get("kty") == Some(&json!("oct")));
        let legacy = if is_secret { " It signed the legacy keys anon and service_role." } else { "" };
        if matches!(key.status, KeyStatus::Standby | KeyStatus::PreviouslyUsed) {
            let question = format!("Reject all tokens signed by {}?{legacy}", key.kid);
            confirm(&question, yes)?;
        }
        self.store.revoke_signing_key(&self.material, &key.kid, self.now).await?;
        writeln!(io::stdout(), "revoked the signing key {}", key.kid)?;
        Ok(())
    }

    pub(super) async fn rotate_signing(&self, rotate: &Rotate) -> anyhow::Result<()> {
        /// Time for every server to learn of a key that was just created.
        const PROPAGATION: Duration = Duration::from_secs(2);
        let infos = self.material.signing_keys(&self.store.read().await?)?;
        let standby = infos.iter().find(|key| key.status == KeyStatus::Standby).map(|key| key.kid.clone());
        let was_known = standby.is_some();
        if !was_known && self.material.rotates {
            let question = "No signing key is on standby. Verifiers that cache the public keys for 10 minutes will reject tokens signed by a new \
                            key until then; to avoid that, run `basalt keys create signing` first and wait. Continue?";
            confirm(question, rotate.yes)?;
        }
        let kid = match standby {
            Some(kid) => kid,
            None => {
                let key = self.store.create_signing_key(&self.material, &rotate.algorithm, self.now).await?;
                tokio::time::sleep(PROPAGATION).await;
                key.kid
            }
        };
        self.store.use_signing_key(&self.material, &kid, self.now).await?;
        let infos = self.material.signing_keys(&self.store.read().await?)?;
        let mut out = io::stdout();
        if rotate.json {
            let infos: Vec<Value> = infos.iter().map(as_json).collect();
            writeln!(out, "{:#}", json!({ "signing_keys": infos }))?;
        } else {
            writeln!(out, "{kid}")?;
            let exp = self.config.auth.jwt.exp.div_ceil(60);
            writeln!(
                io::stderr(),
                "{kid} now signs tokens. Tokens signed by the previous key stay valid until they expire (at most {exp} minutes); then revoke that key."
            )?;
        }
        Ok(())
    }
}

/// The table for the terminal.
pub(super) fn table(signing: &[SigningKeyInfo]) -> String {
    let rows: Vec<Vec<String>> = signing
        .iter()
        .map(|key| {
            let since = time(key.updated_at);
            vec![key.kid.clone(), key.algorithm.clone(), status_label(key.status).to_owned(), since]
        })
        .collect();
    terminal::table(&["SIGNING KEY", "ALGORITHM", "STATE", "SINCE"], &rows)
}

/// The JSON for scripts.
pub(super) fn as_json(key: &SigningKeyInfo) -> Value {
    json!({
        "kid": key.kid,
        "algorithm": key.algorithm,
        "status": key.status.as_str(),
        "created_at": key.created_at,
        "updated_at": key.updated_at,
    })
}

const fn status_label(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::Standby => "standby",
        KeyStatus::InUse => "in use",
        KeyStatus::PreviouslyUsed => "previously used",
        KeyStatus::Revoked => "revoked",
    }
}
