//! The secrets of a server. Configured secrets win; the others are generated once and stored in
//! `<state folder>/secrets.json` (mode 0600, in a folder of mode 0700). This module also derives from them the legacy API
//! keys, the passwords of our login roles, and the fingerprint that identifies servers sharing one database.
//!
//! [`basalt_core::keys`] signs and verifies with the key material from here. A damaged file is an error and is never
//! replaced: new secrets end all sessions and make encrypted data unreadable.

mod file;
mod print;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use aws_lc_rs::{digest, hmac};
use basalt_core::clock::Clock;
use basalt_core::keys::{ApiKeys, KeyError, KeyMaterial, Keys, legacy_key, read_jwks, signs};
use basalt_core::random;
use basalt_postgres::Embedded;
use basalt_storage::S3ProtocolConfig;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde_json::Value;
use tokio_postgres::GenericClient;

use crate::config::{Config, Jwt, Only};
use file::Stored;
pub use file::replace_api_key;
pub use print::{print_keys, print_s3_keys};

/// Why the secrets cannot be loaded. Each message names the remedy; none contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The file cannot be read or written.
    #[error("cannot {verb} the secrets at {path} ({source}): {remedy}")]
    Io {
        /// `read` or `write`.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// The file exists but its content is invalid.
    #[error(
        "the secrets in {path} are damaged ({problem}): restore the file from a backup. Without a backup, move the file away and start \
         again: new secrets are generated, all users have to sign in again, and API keys change"
    )]
    Damaged {
        /// The path of `secrets.json`.
        path: PathBuf,
        /// What is wrong, and the line; contains no part of a secret.
        problem: String,
    },
    /// The secrets that the embedded database was set up with are missing.
    #[error(
        "the secrets of the database in {data_dir} are lost ({problem}). Restore {path} from a backup, or configure the previous secrets. \
         Without a backup, `basalt secrets reset` generates new ones and lists what becomes invalid. To start with an empty database instead, \
         remove {data_dir}",
        data_dir = data_dir.display(), path = path.display()
    )]
    Lost {
        /// What is missing or differs.
        problem: String,
        /// The path of `secrets.json`.
        path: PathBuf,
        /// PostgreSQL's data folder.
        data_dir: PathBuf,
    },
    /// Another process has held the lock for too long.
    #[error("another process is writing {path}: wait for it to end, or stop it")]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The key material is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A configured API key does not belong to this project.
    #[error("{setting} does not match: {problem}")]
    ApiKey {
        /// The setting.
        setting: &'static str,
        /// What is wrong, and what the operator can do.
        problem: &'static str,
    },
    /// The database belongs to a server with other secrets.
    #[error(
        "this database was set up by a server with another {}: give this server the same secrets (copy its secrets.json, or set \
         server.master_key, jwt.secret and jwt.keys alike). If you changed them on purpose, run: \
         update basalt.instance set fingerprint = null",
        .0.join(" and another ")
    )]
    OtherInstance(
        /// The secrets that differ.
        Vec<String>,
    ),
    /// The fingerprint in the database could not be read.
    #[error("cannot read the database's fingerprint: {0}")]
    Database(#[from] tokio_postgres::Error),
}

/// All secrets of this server, and what derives from them.
pub struct Secrets {
    master_key: SecretString,
    jwks: Vec<Value>,
    jwt_secret: Option<SecretSlice<u8>>,
    key_id: Option<String>,
    strict_kid: bool,
    /// Whether signing keys in the database replace these; false for configured keys.
    rotates: bool,
    api_keys: ApiKeys,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Takes configured secrets, and the others from the state folder, where the first start generates them.
    /// Two processes that start at the same time end up with the same secrets. Blocks on disk I/O.
    ///
    /// Under `--only rest` with `server.require_apikey = false` nothing is generated: a PostgREST without a secret verifies
    /// no tokens (rest.md 3.15).
    ///
    /// # Errors
    /// The file is unreadable or damaged, the folder cannot be written, or configured keys do not match each other.
    /// [`SecretsError::Lost`] if the embedded database exists but the file with its master key does not.
    pub fn load(config: &Config) -> Result<Self, SecretsError> {
        if config.is_embedded()
            && config.server.master_key.is_none()
            && Embedded::has_cluster(&config.server.state_dir, &config.database.data_dir)
            && !file::has_master_key(&config.server.state_dir)?
        {
            return Err(SecretsError::Lost {
                problem: "the master key is missing".to_owned(),
                path: file::path(&config.server.state_dir),
                data_dir: current_data_dir(config),
            });
        }
        Self::load_or_generate(config)
    }

    /// Like [`Secrets::load`], but generates missing secrets even if the database exists: for `basalt secrets reset`.
    ///
    /// # Errors
    /// As for [`Secrets::load`], except [`SecretsError::Lost`].
    pub fn load_or_generate(config: &Config) -> Result<Self, SecretsError> {
        Self::load_at(config, &Clock::system())
    }

    fn load_at(config: &Config, clock: &Clock) -> Result<Self, SecretsError> {
        let jwt = &config.jwt;
        let strict_kid = config.only == Some(Only::Rest);
        let stored = if strict_kid && !config.server.require_apikey {
            Stored::default()
        } else {
            file::load(&config.server.state_dir, &missing(config), clock)?
        };
        let configured = jwt.keys.as_ref().map(|json| read_jwks(json.expose_secret()));
        let jwks = match configured {
            Some(jwks) => jwks.map_err(KeyError::Invalid)?,
            // A configured secret without keys signs tokens itself (auth.md 3.18).
            None if jwt.decoded_secret.is_some() => Vec::new(),
            None => stored.jwt_signing_key.clone().into_iter().collect(),
        };
        let jwt_secret = jwt
            .decoded_secret
            .clone()
            .or_else(|| stored.jwt_secret.clone().map(|text| text.into_bytes().into()));
        let issued_at = stored.issued_at.unwrap_or_else(|| clock.unix_seconds());
        let legacy = |configured: &Option<SecretString>, role: &str| match (configured, &jwt_secret) {
            (Some(key), _) => Ok(key.clone()),
            (None, Some(secret)) => {
                legacy_key(secret, jwt.key_id.as_deref(), role, issued_at).map(Into::into)
            }
            (None, None) => Ok(SecretString::default()),
        };
        let opaque = |configured: &Option<SecretString>, stored: &Option<String>| {
            configured.clone().or_else(|| stored.clone().map(Into::into)).unwrap_or_default()
        };
        let api_keys = ApiKeys {
            anon: legacy(&jwt.anon_key, "anon")?.expose_secret().to_owned(),
            service: legacy(&jwt.service_key, "service_role")?,
            publishable: opaque(&jwt.publishable_key, &stored.publishable_key).expose_secret().to_owned(),
            secret: opaque(&jwt.secret_key, &stored.secret_key),
        };
        let secrets = Self {
            master_key: config
                .server
                .master_key
                .clone()
                .or_else(|| stored.master_key.map(Into::into))
                // Missing only if nothing is encrypted or derived with it; a random key is safe in any case.
                .unwrap_or_else(|| random::token(48).into()),
            jwks,
            jwt_secret,
            key_id: jwt.key_id.clone(),
            strict_kid,
            rotates: jwt.keys.is_none() && !strict_kid && !config.is_guest(),
            api_keys,
        };
        secrets.check_legacy_keys(jwt)?;
        Ok(secrets)
    }

    /// The material for [`Keys`].
    #[must_use]
    pub fn key_material(&self) -> KeyMaterial {
        KeyMaterial {
            jwks: self.jwks.clone(),
            secret: self.jwt_secret.clone(),
            secret_kid: self.key_id.clone(),
            strict_kid: self.strict_kid,
            rotates: self.rotates,
            api_keys: self.api_keys.clone(),
        }
    }

    /// The project's API keys.
    #[must_use]
    pub const fn api_keys(&self) -> &ApiKeys {
        &self.api_keys
    }

    /// The master key, which encrypts stored secrets.
    #[must_use]
    pub const fn master_key(&self) -> &SecretString {
        &self.master_key
    }

    /// The password of one of our login roles. It is the same on every server with this master key, and different for each
    /// role.
    #[must_use]
    pub fn role_password(&self, role: &str) -> SecretString {
        self.derived(&format!("basalt login role: {role}")).into()
    }

    /// The key of the extension `supabase_vault`, which the embedded PostgreSQL keeps outside its database.
    #[must_use]
    pub fn vault_key(&self) -> SecretString {
        self.derived("basalt vault key").into()
    }

    /// The S3 protocol settings. Without a configured key pair, a development server derives a stable one from the master
    /// key; a production server has none, because an unrequested pair would be an additional attack surface.
    #[must_use]
    pub fn s3_protocol(&self, config: &Config) -> S3ProtocolConfig {
        let mut protocol = config.storage.s3_protocol.clone();
        if protocol.access_key_id.is_none() && config.is_development() {
            protocol.access_key_id = Some(self.derived("basalt S3 access key id"));
            protocol.secret_access_key = Some(self.derived("basalt S3 secret access key").into());
        }
        protocol
    }

    /// A name shared by all servers of this project and by no other project. It is not secret.
    #[must_use]
    pub fn project_name(&self) -> String {
        self.derived("basalt project name").chars().take(16).collect()
    }

    /// Derives a value that only servers with this master key can compute.
    fn derived(&self, purpose: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.master_key.expose_secret().as_bytes());
        URL_SAFE_NO_PAD.encode(hmac::sign(&key, purpose.as_bytes()).as_ref())
    }

    /// Identifies this server's secrets without revealing them, for `basalt.instance`: `name:digest` entries, separated by
    /// blanks.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let signing: Vec<String> = self
            .jwks
            .iter()
            .filter(|jwk| signs(jwk))
            .filter_map(|jwk| basalt_core::keys::thumbprint(jwk).ok())
            .collect();
        [
            ("master_key", Some(self.master_key.expose_secret().as_bytes())),
            ("jwt_secret", self.jwt_secret.as_ref().map(ExposeSecret::expose_secret)),
            ("signing_key", signing.first().map(String::as_bytes)),
        ]
        .into_iter()
        .filter_map(|(name, secret)| secret.map(|secret| (name, secret)))
        .map(|(name, secret)| {
            // Secrets have at least 128 bits of entropy, so a 64-bit digest does not help to guess one.
            let text = [b"basalt.instance ", name.as_bytes(), b" ", secret].concat();
            let digest = digest::digest(&digest::SHA256, &text);
            format!("{name}:{}", URL_SAFE_NO_PAD.encode(digest.as_ref().get(..8).unwrap_or_default()))
        })
        .collect::<Vec<_>>()
        .join(" ")
    }

    /// The names of the secrets that differ from those of a stored fingerprint.
    #[must_use]
    pub fn differences(&self, stored: &str) -> Vec<String> {
        let ours = self.fingerprint();
        let ours: Vec<&str> = ours.split(' ').collect();
        stored
            .split(' ')
            .filter(|entry| !entry.is_empty() && !ours.contains(entry))
            .map(|entry| entry.split(':').next().unwrap_or(entry).replace('_', " "))
            .collect()
    }

    /// Ensures that all servers of the database use the same secrets: the first stores its fingerprint, the others compare.
    ///
    /// # Errors
    /// [`SecretsError::OtherInstance`], or the database fails. `basalt.instance` must exist.
    pub async fn check_instance(&self, client: &tokio_postgres::Client) -> Result<(), SecretsError> {
        // One statement decides which server is first; the others read its fingerprint below.
        client
            .execute(
                "update basalt.instance set fingerprint = $1 where fingerprint is null",
                &[&self.fingerprint()],
            )
            .await?;
        let differences = self.differences_in(client).await?;
        if differences.is_empty() { Ok(()) } else { Err(SecretsError::OtherInstance(differences)) }
    }

    /// Ensures that the embedded database is used with the secrets it was set up with. Configured token keys may change; a
    /// different master key, or a different key from the state folder, means that the secrets were lost.
    ///
    /// # Errors
    /// [`SecretsError::Lost`], or the database fails. `basalt.instance` must exist.
    pub async fn check_embedded(
        &self,
        config: &Config,
        client: &tokio_postgres::Client,
    ) -> Result<(), SecretsError> {
        let Config { jwt, server, .. } = config;
        let mut lost = self.differences_in(client).await?;
        lost.retain(|name| match name.as_str() {
            "jwt secret" => jwt.secret.is_none(),
            "signing key" => jwt.secret.is_none() && jwt.keys.is_none(),
            _ => true,
        });
        if lost.is_empty() {
            return self.claim(client).await;
        }
        Err(SecretsError::Lost {
            problem: format!("it was set up with another {}", lost.join(" and another ")),
            path: file::path(&server.state_dir),
            data_dir: current_data_dir(config),
        })
    }

    /// The names of the secrets that differ from those the database was set up with.
    ///
    /// # Errors
    /// The database fails. `basalt.instance` must exist.
    pub async fn differences_in<C: GenericClient>(&self, client: &C) -> Result<Vec<String>, SecretsError> {
        let row = client.query_opt("select fingerprint from basalt.instance", &[]).await?;
        let stored: Option<String> = row.map(|row| row.try_get(0)).transpose()?.flatten();
        Ok(stored.map(|stored| self.differences(&stored)).unwrap_or_default())
    }

    /// Stores the fingerprint of these secrets in the database.
    ///
    /// # Errors
    /// The database fails. `basalt.instance` must exist.
    pub async fn claim<C: GenericClient>(&self, client: &C) -> Result<(), SecretsError> {
        let statement = "update basalt.instance set fingerprint = $1 where fingerprint is distinct from $1";
        client.execute(statement, &[&self.fingerprint()]).await?;
        Ok(())
    }

    /// Checks that configured legacy keys verify with our keys and have the expected role. Otherwise every request would fail
    /// for a reason that is hard to find.
    fn check_legacy_keys(&self, jwt: &Jwt) -> Result<(), SecretsError> {
        let keys = Keys::new(self.key_material())?;
        for (setting, key, role) in
            [("jwt.anon_key", &jwt.anon_key, "anon"), ("jwt.service_key", &jwt.service_key, "service_role")]
        {
            let Some(key) = key else { continue };
            let wrong = |problem| SecretsError::ApiKey { setting, problem };
            let claims = keys.verify(key.expose_secret()).map_err(|_refused| {
                wrong("jwt.secret and jwt.keys do not verify it; use a key and a secret of the same project")
            })?;
            if claims.role() != Some(role) {
                return Err(wrong("it has another role; jwt.anon_key and jwt.service_key may be swapped"));
            }
        }
        Ok(())
    }
}

/// The path of `secrets.json` in a state folder.
#[must_use]
pub fn file_path(state_dir: &std::path::Path) -> PathBuf {
    file::path(state_dir)
}

/// The master key in a state folder, if it can be read.
#[must_use]
pub fn stored_master_key(state_dir: &std::path::Path) -> Option<SecretString> {
    file::master_key(state_dir).ok().flatten()
}

fn current_data_dir(config: &Config) -> PathBuf {
    Embedded::current_data_dir(&config.server.state_dir, &config.database.data_dir)
}

/// The secrets that are not configured.
fn missing(config: &Config) -> file::Missing {
    let jwt = &config.jwt;
    file::Missing {
        master_key: config.server.master_key.is_none(),
        jwt_secret: jwt.secret.is_none(),
        jwt_signing_key: jwt.secret.is_none() && jwt.keys.is_none(),
        issued_at: jwt.anon_key.is_none() || jwt.service_key.is_none(),
        publishable_key: jwt.publishable_key.is_none(),
        secret_key: jwt.secret_key.is_none(),
    }
}
