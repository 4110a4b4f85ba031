//! Settings stored in the database, applied over the configured ones (rest.md §4.5).
//!
//! They are set by `ALTER ROLE authenticator SET pgrst.NAME`, the same `IN DATABASE`, or `rest.pre_config`. A typo
//! there must not take the service down: an invalid value is reported, and the previous one stays in effect.

use std::collections::HashMap;
use std::fmt;

use basalt_core::keys::KeyMaterial;
use basalt_core::settings::Value;
use basalt_core::settings::kinds::read_as;

use super::{ConfigError, RestConfig, split_identifiers, split_verbatim};

/// Names of the settings accepted from the database, without prefix; a pre-config function may set them too.
pub const DATABASE_SETTINGS: [&str; 22] = [
    "db_schemas",
    "db_extra_search_path",
    "db_max_rows",
    "db_anon_role",
    "db_pre_request",
    "db_root_spec",
    "db_aggregates_enabled",
    "db_plan_enabled",
    "db_tx_end",
    "db_hoisted_tx_settings",
    "jwt_aud",
    "jwt_role_claim_key",
    "jwt_secret",
    "jwt_secret_is_base64",
    "server_cors_allowed_origins",
    "server_timing_enabled",
    "server_trace_header",
    "openapi_mode",
    "openapi_server_proxy_uri",
    "openapi_security_active",
    "url_use_legacy_target_names",
    "client_error_verbosity",
];

const NOT_IN_DATABASE: &str = "cannot be set in the database, only in the server's configuration";

/// Settings that PostgREST does not accept from a database either.
const ONLY_CONFIGURED: [&str; 18] = [
    "db_uri",
    "db_config",
    "db_pre_config",
    "db_channel",
    "db_channel_enabled",
    "db_pool",
    "db_pool_acquisition_timeout",
    "db_pool_max_lifetime",
    "db_pool_max_idletime",
    "db_pool_automatic_recovery",
    "server_host",
    "server_port",
    "server_unix_socket",
    "server_unix_socket_mode",
    "admin_server_host",
    "admin_server_port",
    "log_level",
    "log_query",
];

/// `pgrst.jwt_secret`: a plain or base64 secret, a JWK or a JWK set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct JwtSecret {
    /// Secret as stored.
    pub text: String,
    /// `pgrst.jwt_secret_is_base64`
    pub is_base64: bool,
}

impl fmt::Debug for JwtSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JwtSecret")
    }
}

impl JwtSecret {
    /// The keys that the secret stands for; a token with a `kid` is verified by that key only.
    ///
    /// # Errors
    /// The secret is too short, not base64, or not a supported key.
    pub fn key_material(&self) -> Result<KeyMaterial, ConfigError> {
        Ok(KeyMaterial::from_jwt_secret(&self.text, self.is_base64)?)
    }
}

/// Result of applying stored settings to a configuration.
#[derive(Debug)]
pub struct Stored {
    /// Resulting configuration.
    pub config: RestConfig,
    /// Accepted settings, kept in case they become invalid.
    pub accepted: HashMap<String, String>,
    /// Messages about rejected settings, for the log.
    pub warnings: Vec<String>,
}

impl RestConfig {
    /// Applies settings stored in the database to this configuration.
    ///
    /// `settings` are name and value pairs without the `pgrst.` prefix; later ones take precedence. `before` are the
    /// settings accepted by the previous load.
    #[must_use]
    pub fn with_database_settings(
        &self,
        settings: &[(String, String)],
        before: &HashMap<String, String>,
    ) -> Stored {
        let mut config = self.clone();
        let mut accepted = HashMap::new();
        let mut warnings = Vec::new();
        // Whether the secret is base64 must be known before it is parsed.
        let mut settings: Vec<&(String, String)> = settings.iter().collect();
        settings.sort_by_key(|(name, _)| name == "jwt_secret");
        for (name, value) in settings {
            let Err(problem) = config.set_stored(name, value) else {
                let _older = accepted.insert(name.clone(), value.clone());
                continue;
            };
            let kept = before.get(name).filter(|old| config.set_stored(name, old).is_ok());
            if let Some(old) = kept {
                let _older = accepted.insert(name.clone(), old.clone());
            }
            warnings.push(format!("pgrst.{name} in the database {problem}; keeping the previous value"));
        }
        Stored { config, accepted, warnings }
    }

    /// Sets one value under its name in rest.md §4.5; on error nothing has changed. The error message continues after
    /// the name.
    fn set_stored(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = value.trim();
        let optional = || (!value.is_empty()).then(|| value.to_owned());
        let invalid = |error: ConfigError| format!("is invalid: {error}");
        match name {
            "db_max_rows" | "max_rows" if value.is_empty() => self.max_rows = None,
            "jwt_secret" => {
                let is_base64 = self.jwt_secret.as_ref().is_some_and(|secret| secret.is_base64);
                let secret = optional().map(|text| JwtSecret { text, is_base64 });
                if let Some(secret) = &secret {
                    let _usable = secret.key_material().map_err(invalid)?;
                }
                self.jwt_secret = secret;
            }
            "jwt_secret_is_base64" | "secret_is_base64" => {
                let is_base64 = flag(value)?;
                self.jwt_secret = Some(JwtSecret { is_base64, ..self.jwt_secret.take().unwrap_or_default() });
            }
            "server_cors_allowed_origins" => {
                let origins = split_identifiers(value, ',');
                self.cors_origins = Some(origins).filter(|origins| !origins.is_empty());
            }
            "openapi_server_proxy_uri" => {
                self.openapi_server_proxy_uri = optional().map(address).transpose().map_err(invalid)?;
            }
            // Connections exist before the database is queried.
            "db_prepared_statements" if !flag(value)? => return Err(NOT_IN_DATABASE.to_owned()),
            // Verified tokens are always cached, which does not affect responses.
            "db_prepared_statements" => {}
            "jwt_cache_max_lifetime" | "jwt_cache_max_entries" | "raw_media_types" => {}
            other => return self.set_other(other, value),
        }
        Ok(())
    }

    /// Sets a setting whose values are written as in the server's configuration, or a custom `app.settings` value.
    fn set_other(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(own) = ["app.settings.", "app_settings_"].iter().find_map(|p| name.strip_prefix(p)) {
            self.app_settings.retain(|(known, _)| known != own);
            self.app_settings.push((own.to_owned(), value.to_owned()));
            return Ok(());
        }
        if ONLY_CONFIGURED.contains(&name) {
            return Err(NOT_IN_DATABASE.to_owned());
        }
        let key = match name {
            "db_schema" => "schemas",
            "db_aggregates_enabled" => "aggregates",
            "jwt_role_claim_key" | "role_claim_key" => "role_claim",
            "max_rows" | "pre_request" | "root_spec" => name,
            known if DATABASE_SETTINGS.contains(&known) => {
                known.strip_prefix("db_").or_else(|| known.strip_prefix("server_")).unwrap_or(known)
            }
            _ => return Err("is not a setting listed in protocols/rest.md section 4.5".to_owned()),
        };
        let value = match key {
            "schemas" | "extra_search_path" => {
                Value::List(split_verbatim(value).into_iter().map(Value::Text).collect())
            }
            _ => Value::Bare(value.to_owned()),
        };
        self.set(&format!("rest.{key}"), &value)
    }
}

/// Parses a boolean in any of the spellings that PostgREST accepts.
fn flag(text: &str) -> Result<bool, String> {
    read_as::<bool, bool>(&Value::Bare(text.to_owned()))
}

/// Validates an absolute `http` or `https` address.
fn address(text: String) -> Result<String, ConfigError> {
    let is_address = text.parse::<http::Uri>().is_ok_and(|uri| {
        uri.host().is_some_and(|host| !host.is_empty()) && matches!(uri.scheme_str(), Some("http" | "https"))
    });
    if is_address { Ok(text) } else { Err(ConfigError::Address(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TxEnd;

    fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn stored(settings: &[(&str, &str)]) -> Stored {
        RestConfig::default().with_database_settings(&pairs(settings), &HashMap::new())
    }

    #[test]
    fn valid_settings_apply_and_typos_do_not() {
        let settings = [
            ("db_schemas", "api, My Schema,SPECIAL \"@/\\#~_-"),
            ("db_max_rows", "5"),
            ("db_tx_end", "perhaps"),
            ("db_schema_s", "x"),
            ("db_pool", "5"),
            ("jwt_cache_max_lifetime", "3600"),
        ];
        let Stored { config, warnings, .. } = stored(&settings);
        assert_eq!(config.schemas, ["api", "My Schema", "SPECIAL \"@/\\#~_-"], "verbatim");
        assert_eq!(config.max_rows, Some(5));
        assert_eq!(config.tx_end, TxEnd::default());
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }

    #[test]
    fn empty_search_path_is_accepted() {
        let Stored { config, warnings, .. } = stored(&[("db_extra_search_path", "")]);
        assert_eq!((config.extra_search_path, warnings.len()), (Vec::new(), 0));
    }

    #[test]
    fn invalid_value_keeps_previous_one() {
        let first = stored(&[("db_max_rows", "5"), ("db_anon_role", "guest")]);
        let base = RestConfig::default();
        let bad = pairs(&[("db_max_rows", "many"), ("db_anon_role", "")]);
        let second = base.with_database_settings(&bad, &first.accepted);
        assert_eq!((second.config.max_rows, second.config.anon_role), (Some(5), None));
        assert_eq!(second.warnings.len(), 1);
        let third = base.with_database_settings(&bad, &second.accepted);
        assert_eq!(third.config.max_rows, Some(5), "and again");
        assert_eq!(base.with_database_settings(&[], &third.accepted).config.max_rows, Some(1000), "gone");
    }

    #[test]
    fn base64_secret_is_independent_of_order() {
        let secret = "YSBzZWNyZXQgb2YgYXQgbGVhc3QgdGhpcnR5LXR3byBieXRlcw==";
        let settings = [("jwt_secret", secret), ("jwt_secret_is_base64", "true")];
        let Stored { config, warnings, .. } = stored(&settings);
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(config.jwt_secret, Some(JwtSecret { text: secret.to_owned(), is_base64: true }));
        let short = stored(&[("jwt_secret", "too short")]);
        assert_eq!(short.config.jwt_secret, None);
        assert!(!short.warnings[0].contains("too short"), "{:?}", short.warnings);
    }

    #[test]
    fn invalid_values_are_rejected() {
        for (name, value) in [
            ("db_max_rows", "-1"),
            ("db_schemas", "public, pg_catalog"),
            ("db_schemas", " "),
            ("db_aggregates_enabled", "perhaps"),
            ("server_trace_header", "X Y"),
            ("openapi_server_proxy_uri", "example.com"),
            ("openapi_mode", "secret"),
            ("jwt_role_claim_key", "role"),
            ("db_pre_request", "a.b.c"),
            ("client_error_verbosity", "loud"),
        ] {
            let Stored { config, warnings, .. } = stored(&[(name, value)]);
            assert_eq!(config, RestConfig::default(), "{name}");
            assert_eq!(warnings.len(), 1, "{name}");
        }
        for name in DATABASE_SETTINGS {
            let unknown = stored(&[(name, "\u{1}")]).warnings;
            assert!(unknown.iter().all(|complaint| !complaint.contains("section 4.5")), "{unknown:?}");
        }
    }
}
