//! The variables that functions see (functions.md 3.5): the platform's, and the project's secrets.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use basalt_core::keys::Keys;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use uuid::Uuid;

use super::source::Source;
use crate::config::FunctionsConfig;
use crate::secrets::{Names, Secrets, check, parse_env_file};

/// What the variables are made of.
pub(crate) struct Environment {
    pub(crate) keys: Arc<Keys>,
    pub(crate) secrets: Arc<Secrets>,
    /// `SUPABASE_URL`.
    pub(crate) url: String,
    /// `SUPABASE_DB_URL`.
    pub(crate) database_url: Option<SecretString>,
    pub(crate) region: String,
}

impl Environment {
    /// The variables of one worker. Project secrets never replace the platform's variables.
    pub(crate) fn variables(
        &self,
        config: &FunctionsConfig,
        source: &Source,
        id: Uuid,
        version: &str,
    ) -> BTreeMap<String, String> {
        let mut variables = file_secrets(config);
        let secrets = self.secrets.every();
        variables.extend(secrets.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())));
        variables.extend(source.settings.env.0.iter().cloned());
        variables.extend(self.platform(source.name(), id, version));
        variables
    }

    fn platform(&self, name: &str, id: Uuid, version: &str) -> Vec<(String, String)> {
        let keys = self.keys.api_keys();
        let default = |key: &str| json!({ "default": key }).to_string();
        let mut variables = vec![
            ("SUPABASE_URL", self.url.clone()),
            ("SUPABASE_ANON_KEY", keys.anon.clone()),
            ("SUPABASE_SERVICE_ROLE_KEY", keys.service.expose_secret().to_owned()),
            ("SUPABASE_PUBLISHABLE_KEYS", default(&keys.publishable)),
            ("SUPABASE_SECRET_KEYS", default(keys.secret.expose_secret())),
            ("SUPABASE_JWKS", self.jwks().to_string()),
            ("SB_EXECUTION_ID", id.to_string()),
            ("SB_REGION", self.region.clone()),
            ("DENO_DEPLOYMENT_ID", format!("basalt_{name}_{version}")),
        ];
        let database = self.database_url.as_ref();
        variables.extend(database.map(|url| ("SUPABASE_DB_URL", url.expose_secret().to_owned())));
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The keys that verify tokens. `@supabase/server` needs the HS256 secret with `kid` and `alg`.
    fn jwks(&self) -> Value {
        let mut jwks = self.keys.jwks();
        if let (Some(secret), Some(keys)) =
            (self.keys.secret_jwk(), jwks.get_mut("keys").and_then(Value::as_array_mut))
        {
            keys.push(secret);
        }
        jwks
    }
}

/// The secrets in `functions/.env`. A file that cannot be used is logged and skipped.
fn file_secrets(config: &FunctionsConfig) -> BTreeMap<String, String> {
    let path = config.dir.join(".env");
    let Ok(text) = fs::read_to_string(&path) else { return BTreeMap::new() };
    let read = parse_env_file(&text).map_err(|line| format!("line {line} is not NAME=value"));
    let checked = read.and_then(|pairs| {
        let named = pairs.iter().map(|(name, value)| (name.as_str(), value.expose_secret()));
        check(named, Names::Project)?;
        Ok(pairs)
    });
    match checked {
        Ok(pairs) => {
            pairs.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
        }
        Err(problem) => {
            tracing::warn!("{} is not used: {problem}", path.display());
            BTreeMap::new()
        }
    }
}
