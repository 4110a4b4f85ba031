//! `auth.custom_oauth_providers`: providers that admins add at run time (auth.md §3.16), and the checks of their fields.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use url::Url;
use uuid::Uuid;

use super::RESERVED;
use crate::database::{column, json_column};
use crate::error::AuthError;
use crate::users::Object;

/// What every identifier starts with.
pub(crate) const PREFIX: &str = "custom:";
/// Longest text of a field, in bytes, and largest list or map.
const MAX_TEXT: usize = 2048;
const MAX_ENTRIES: usize = 50;

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProviderType {
    OAuth2,
    Oidc,
}

impl ProviderType {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::OAuth2, Self::Oidc].into_iter().find(|kind| kind.as_str() == name)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::OAuth2 => "oauth2",
            Self::Oidc => "oidc",
        }
    }
}

/// A custom provider. No `Debug`, so that no log can show the secret.
#[derive(Clone)]
pub(crate) struct CustomProvider {
    pub(crate) id: Uuid,
    pub(crate) kind: ProviderType,
    pub(crate) identifier: String,
    pub(crate) name: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) acceptable_client_ids: Vec<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) uses_pkce: bool,
    /// Our claims by the provider's names: `{"email": "mail"}`.
    pub(crate) attribute_mapping: Object,
    pub(crate) custom_claims_allowlist: Vec<String>,
    pub(crate) authorization_params: Object,
    pub(crate) is_enabled: bool,
    pub(crate) is_email_optional: bool,
    /// Empty for OAuth 2, like the next field.
    pub(crate) issuer: String,
    /// Empty for the one below the issuer.
    pub(crate) discovery_url: String,
    pub(crate) skips_nonce_check: bool,
    /// Of OAuth 2, like the next two.
    pub(crate) authorization_url: String,
    pub(crate) token_url: String,
    pub(crate) userinfo_url: String,
    pub(crate) jwks_uri: String,
    /// The discovery document at the last change; null without one.
    pub(crate) discovery: Value,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// The fields of a creation or change.
#[derive(Default, Deserialize)]
pub(crate) struct ProviderFields {
    provider_type: Option<String>,
    identifier: Option<String>,
    name: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    acceptable_client_ids: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
    pkce_enabled: Option<bool>,
    attribute_mapping: Option<Object>,
    custom_claims_allowlist: Option<Vec<String>>,
    authorization_params: Option<Object>,
    enabled: Option<bool>,
    email_optional: Option<bool>,
    issuer: Option<String>,
    discovery_url: Option<String>,
    skip_nonce_check: Option<bool>,
    authorization_url: Option<String>,
    token_url: Option<String>,
    userinfo_url: Option<String>,
    jwks_uri: Option<String>,
}

impl ProviderFields {
    /// A new provider. `is_private_allowed` admits addresses without TLS.
    pub(crate) fn into_provider(self, is_private_allowed: bool) -> Result<CustomProvider, AuthError> {
        let kind = ProviderType::parse(self.provider_type.as_deref().unwrap_or_default())
            .ok_or(AuthError::validation("provider_type must be either 'oauth2' or 'oidc'"))?;
        let identifier = self.identifier.clone().unwrap_or_default();
        check_identifier(&identifier)?;
        let mut provider = CustomProvider {
            id: random::uuid(),
            kind,
            identifier,
            name: String::new(),
            client_id: String::new(),
            client_secret: String::new(),
            acceptable_client_ids: Vec::new(),
            scopes: Vec::new(),
            uses_pkce: true,
            attribute_mapping: Map::new(),
            custom_claims_allowlist: Vec::new(),
            authorization_params: Map::new(),
            is_enabled: true,
            is_email_optional: false,
            issuer: String::new(),
            discovery_url: String::new(),
            skips_nonce_check: false,
            authorization_url: String::new(),
            token_url: String::new(),
            userinfo_url: String::new(),
            jwks_uri: String::new(),
            discovery: Value::Null,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        };
        self.apply(&mut provider, is_private_allowed)?;
        Ok(provider)
    }

    /// Changes the fields that are present. Type and identifier are fixed.
    pub(crate) fn apply(
        self,
        provider: &mut CustomProvider,
        is_private_allowed: bool,
    ) -> Result<(), AuthError> {
        fn set<T>(field: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *field = value;
            }
        }
        set(&mut provider.name, self.name);
        set(&mut provider.client_id, self.client_id);
        set(&mut provider.client_secret, self.client_secret);
        set(&mut provider.acceptable_client_ids, self.acceptable_client_ids);
        set(&mut provider.scopes, self.scopes);
        set(&mut provider.uses_pkce, self.pkce_enabled);
        set(&mut provider.attribute_mapping, self.attribute_mapping);
        set(&mut provider.custom_claims_allowlist, self.custom_claims_allowlist);
        set(&mut provider.authorization_params, self.authorization_params);
        set(&mut provider.is_enabled, self.enabled);
        set(&mut provider.is_email_optional, self.email_optional);
        set(&mut provider.issuer, self.issuer.map(|issuer| issuer.trim_end_matches('/').to_owned()));
        set(&mut provider.discovery_url, self.discovery_url);
        set(&mut provider.skips_nonce_check, self.skip_nonce_check);
        set(&mut provider.authorization_url, self.authorization_url);
        set(&mut provider.token_url, self.token_url);
        set(&mut provider.userinfo_url, self.userinfo_url);
        set(&mut provider.jwks_uri, self.jwks_uri);
        provider.check(is_private_allowed)
    }
}

/// `custom:` and a name, together at most 50 characters.
fn check_identifier(identifier: &str) -> Result<(), AuthError> {
    let Some(name) = identifier.strip_prefix(PREFIX) else {
        let shown: String = identifier.chars().take(50).collect();
        let text = format!("identifier must start with 'custom:' prefix, e.g. 'custom:{shown}'");
        return Err(AuthError::Validation(text.into()));
    };
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_valid = identifier.len() <= 50
        && name.bytes().all(|byte| is_plain(byte) || matches!(byte, b':' | b'-'))
        && name.bytes().next_back().is_some_and(is_plain);
    if is_valid {
        Ok(())
    } else {
        Err(AuthError::validation(
            "identifier must have at most 50 lower-case letters, digits, colons and hyphens, and end with a letter or digit",
        ))
    }
}

impl CustomProvider {
    fn check(&self, is_private_allowed: bool) -> Result<(), AuthError> {
        let required: &[(&str, &str)] = match self.kind {
            ProviderType::Oidc => &[("issuer", &self.issuer)],
            ProviderType::OAuth2 => &[
                ("authorization_url", &self.authorization_url),
                ("token_url", &self.token_url),
                ("userinfo_url", &self.userinfo_url),
            ],
        };
        let always =
            [("name", &*self.name), ("client_id", &self.client_id), ("client_secret", &self.client_secret)];
        for (field, value) in always.iter().chain(required) {
            if value.is_empty() {
                return Err(AuthError::Validation(format!("{field} is required").into()));
            }
        }
        for (field, url) in [
            ("issuer", &self.issuer),
            ("discovery_url", &self.discovery_url),
            ("authorization_url", &self.authorization_url),
            ("token_url", &self.token_url),
            ("userinfo_url", &self.userinfo_url),
            ("jwks_uri", &self.jwks_uri),
        ] {
            if !url.is_empty() && !is_reachable_url(url, is_private_allowed) {
                return Err(AuthError::Validation(
                    format!("{field} must be an https URL without user name and fragment").into(),
                ));
            }
        }
        let lists = [&self.acceptable_client_ids, &self.scopes, &self.custom_claims_allowlist];
        let maps = [&self.attribute_mapping, &self.authorization_params];
        let is_bounded = lists.iter().all(|list| list.len() <= MAX_ENTRIES)
            && maps.iter().all(|map| map.len() <= MAX_ENTRIES)
            && lists.iter().flat_map(|list| list.iter()).all(|text| text.len() <= MAX_TEXT)
            && maps.iter().flat_map(|map| map.values()).all(|value| value.to_string().len() <= MAX_TEXT)
            && always.iter().all(|(_, text)| text.len() <= MAX_TEXT);
        if !is_bounded {
            return Err(AuthError::validation(
                "a list or map has more than 50 entries, or a text more than 2048 characters",
            ));
        }
        match self
            .authorization_params
            .iter()
            .find(|(name, value)| RESERVED.contains(&name.as_str()) || !value.is_string())
        {
            Some((name, _)) => Err(AuthError::Validation(
                format!("authorization_params cannot have {name:?}: it is reserved or not a string").into(),
            )),
            None => Ok(()),
        }
    }

    /// Maps the provider's claims to ours, and keeps the allowed ones.
    pub(super) fn map_claims(&self, claims: &Value) -> Value {
        let mut mapped = claims.clone();
        let Some(object) = mapped.as_object_mut() else { return mapped };
        for (ours, theirs) in &self.attribute_mapping {
            let found = theirs.as_str().and_then(|name| claims.get(name));
            if let Some(found) = found {
                object.insert(ours.clone(), found.clone());
            }
        }
        // Providers of OAuth 2 have no common name for the id.
        if self.kind == ProviderType::OAuth2
            && !object.contains_key("sub")
            && let Some(id) = claims.get("id")
        {
            object.insert("sub".to_owned(), id.clone());
        }
        mapped
    }

    /// The claims that are kept as they are.
    pub(super) fn custom_claims(&self, claims: &Value) -> Object {
        let allowed = self.custom_claims_allowlist.iter();
        allowed.filter_map(|name| Some((name.clone(), claims.get(name)?.clone()))).collect()
    }
}

/// `https`, without parts that parsers disagree about. Whether its address is public is checked at each connection.
pub(super) fn is_reachable_url(text: &str, is_private_allowed: bool) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let is_scheme = url.scheme() == "https" || (is_private_allowed && url.scheme() == "http");
    text.len() <= MAX_TEXT
        && is_scheme
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
}

macro_rules! provider_columns {
    () => {
        "p.id, p.provider_type, p.identifier, p.name, p.client_id, p.client_secret, p.acceptable_client_ids, p.scopes, \
         p.pkce_enabled, p.attribute_mapping, p.custom_claims_allowlist, p.authorization_params, p.enabled, \
         p.email_optional, coalesce(p.issuer, '') as issuer, coalesce(p.discovery_url, '') as discovery_url, \
         p.skip_nonce_check, coalesce(p.authorization_url, '') as authorization_url, \
         coalesce(p.token_url, '') as token_url, coalesce(p.userinfo_url, '') as userinfo_url, \
         coalesce(p.jwks_uri, '') as jwks_uri, coalesce(p.cached_discovery, 'null') as cached_discovery, p.created_at, \
         p.updated_at"
    };
}

impl CustomProvider {
    fn from_row(row: &Row) -> Result<Self, AuthError> {
        let kind: &str = column(row, "provider_type")?;
        Ok(Self {
            id: column(row, "id")?,
            kind: if kind == "oidc" { ProviderType::Oidc } else { ProviderType::OAuth2 },
            identifier: column(row, "identifier")?,
            name: column(row, "name")?,
            client_id: column(row, "client_id")?,
            client_secret: column(row, "client_secret")?,
            acceptable_client_ids: column(row, "acceptable_client_ids")?,
            scopes: column(row, "scopes")?,
            uses_pkce: column(row, "pkce_enabled")?,
            attribute_mapping: json_column(row, "attribute_mapping")?,
            custom_claims_allowlist: column(row, "custom_claims_allowlist")?,
            authorization_params: json_column(row, "authorization_params")?,
            is_enabled: column(row, "enabled")?,
            is_email_optional: column(row, "email_optional")?,
            issuer: column(row, "issuer")?,
            discovery_url: column(row, "discovery_url")?,
            skips_nonce_check: column(row, "skip_nonce_check")?,
            authorization_url: column(row, "authorization_url")?,
            token_url: column(row, "token_url")?,
            userinfo_url: column(row, "userinfo_url")?,
            jwks_uri: column(row, "jwks_uri")?,
            discovery: json_column(row, "cached_discovery")?,
            created_at: column(row, "created_at")?,
            updated_at: column(row, "updated_at")?,
        })
    }

    /// Stores a new or changed provider.
    pub(crate) async fn save(&mut self, tx: &Tx, now: Timestamp) -> Result<(), AuthError> {
        const SAVE: &str = "\
insert into auth.custom_oauth_providers (id, provider_type, identifier, name, client_id, client_secret, acceptable_client_ids,
  scopes, pkce_enabled, attribute_mapping, custom_claims_allowlist, authorization_params, enabled, email_optional, issuer,
  discovery_url, skip_nonce_check, authorization_url, token_url, userinfo_url, jwks_uri, cached_discovery, discovery_cached_at,
  created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, nullif($15, ''), nullif($16, ''), $17, nullif($18, ''),
  nullif($19, ''), nullif($20, ''), nullif($21, ''), nullif($22::jsonb, 'null'), $23, $23, $23)
on conflict (id) do update
set name = excluded.name, client_id = excluded.client_id, client_secret = excluded.client_secret,
  acceptable_client_ids = excluded.acceptable_client_ids, scopes = excluded.scopes, pkce_enabled = excluded.pkce_enabled,
  attribute_mapping = excluded.attribute_mapping, custom_claims_allowlist = excluded.custom_claims_allowlist,
  authorization_params = excluded.authorization_params, enabled = excluded.enabled, email_optional = excluded.email_optional,
  issuer = excluded.issuer, discovery_url = excluded.discovery_url, skip_nonce_check = excluded.skip_nonce_check,
  authorization_url = excluded.authorization_url, token_url = excluded.token_url, userinfo_url = excluded.userinfo_url,
  jwks_uri = excluded.jwks_uri, cached_discovery = excluded.cached_discovery,
  discovery_cached_at = excluded.discovery_cached_at, updated_at = excluded.updated_at";
        if self.created_at == Timestamp::UNIX_EPOCH {
            self.created_at = now;
        }
        self.updated_at = now;
        tx.execute(
            SAVE,
            &[
                &self.id,
                &self.kind.as_str(),
                &self.identifier,
                &self.name,
                &self.client_id,
                &self.client_secret,
                &self.acceptable_client_ids,
                &self.scopes,
                &self.uses_pkce,
                &Value::Object(self.attribute_mapping.clone()),
                &self.custom_claims_allowlist,
                &Value::Object(self.authorization_params.clone()),
                &self.is_enabled,
                &self.is_email_optional,
                &self.issuer,
                &self.discovery_url,
                &self.skips_nonce_check,
                &self.authorization_url,
                &self.token_url,
                &self.userinfo_url,
                &self.jwks_uri,
                &self.discovery,
                &now,
            ],
        )
        .await?;
        Ok(())
    }
}

/// A provider by its identifier.
pub(crate) async fn find(tx: &Tx, identifier: &str) -> Result<Option<CustomProvider>, AuthError> {
    const FIND: &str = concat!(
        "select ",
        provider_columns!(),
        " from auth.custom_oauth_providers p where p.identifier = $1"
    );
    let row = tx.query_opt(FIND, &[&identifier]).await.map_err(AuthError::querying)?;
    row.as_ref().map(CustomProvider::from_row).transpose()
}

/// All providers, or those of a type.
pub(crate) async fn list(tx: &Tx, kind: Option<ProviderType>) -> Result<Vec<CustomProvider>, AuthError> {
    const LIST: &str = concat!(
        "select ",
        provider_columns!(),
        " from auth.custom_oauth_providers p where $1::text is null or p.provider_type = $1 \
         order by p.created_at, p.id limit 1000"
    );
    let rows = tx.query(LIST, &[&kind.map(ProviderType::as_str)]).await.map_err(AuthError::querying)?;
    rows.iter().map(CustomProvider::from_row).collect()
}

/// The number of providers. Locks the table against concurrent creations.
pub(crate) async fn count_locked(tx: &Tx) -> Result<i64, AuthError> {
    const LOCK: &str = "lock table auth.custom_oauth_providers in share row exclusive mode";
    const COUNT: &str = "select count(*) as providers from auth.custom_oauth_providers";
    tx.execute(LOCK, &[]).await?;
    column(&tx.query_one(COUNT, &[]).await?, "providers")
}

/// Deletes a provider; `false` if there is none. Identities of it stay.
pub(crate) async fn delete(tx: &Tx, identifier: &str) -> Result<bool, AuthError> {
    const DELETE: &str = "delete from auth.custom_oauth_providers where identifier = $1";
    Ok(tx.execute(DELETE, &[&identifier]).await? > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn created(changes: &Value) -> Result<CustomProvider, String> {
        let mut body = json!({
            "provider_type": "oidc", "identifier": "custom:acme", "name": "Acme", "client_id": "app",
            "client_secret": "secret", "issuer": "https://login.acme.test"
        });
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        let fields: ProviderFields = serde_json::from_value(body).unwrap();
        fields.into_provider(false).map_err(|error| error.to_string())
    }

    #[test]
    fn identifiers_have_the_prefix_and_few_characters() {
        for identifier in ["custom:acme", "custom:a", "custom:acme:eu-1"] {
            assert!(created(&json!({ "identifier": identifier })).is_ok(), "{identifier}");
        }
        for identifier in ["acme", "google", "custom:", "custom:Acme", "custom:a-", "custom:a b", ""] {
            assert!(created(&json!({ "identifier": identifier })).is_err(), "{identifier}");
        }
        let prefix = created(&json!({ "identifier": "acme" })).err().unwrap();
        assert_eq!(prefix, "identifier must start with 'custom:' prefix, e.g. 'custom:acme'");
    }

    #[test]
    fn each_type_requires_its_fields() {
        for name in ["name", "client_id", "client_secret", "issuer"] {
            assert_eq!(created(&json!({ name: "" })).err().unwrap(), format!("{name} is required"));
        }
        let oauth2 = json!({ "provider_type": "oauth2" });
        assert_eq!(created(&oauth2).err().unwrap(), "authorization_url is required");
        let oauth2 = json!({
            "provider_type": "oauth2", "authorization_url": "https://a.test/a", "token_url": "https://a.test/t",
            "userinfo_url": "https://a.test/u"
        });
        assert!(created(&oauth2).is_ok());
        assert!(created(&json!({ "provider_type": "saml" })).is_err());
    }

    #[test]
    fn urls_must_be_https() {
        for url in
            ["http://login.acme.test", "file:///etc/passwd", "https://u@a.test", "https://a.test/#x", "x"]
        {
            let error = created(&json!({ "issuer": url })).err().unwrap();
            assert!(error.starts_with("issuer must be an https URL"), "{url}: {error}");
        }
    }

    #[test]
    fn reserved_parameters_and_large_maps_are_rejected() {
        assert!(created(&json!({ "authorization_params": { "prompt": "login" } })).is_ok());
        for params in [json!({ "redirect_uri": "x" }), json!({ "state": "x" }), json!({ "prompt": 1 })] {
            assert!(created(&json!({ "authorization_params": params })).is_err(), "{params}");
        }
        assert!(created(&json!({ "scopes": vec!["a"; 51] })).is_err());
    }

    #[test]
    fn claims_are_mapped_and_kept() {
        let provider = created(&json!({
            "attribute_mapping": { "email": "mail", "name": "missing" }, "custom_claims_allowlist": ["groups"]
        }))
        .unwrap();
        let claims = json!({ "sub": "1", "mail": "ada@example.org", "name": "Ada", "groups": ["a"] });
        let mapped = provider.map_claims(&claims);
        assert_eq!((&mapped["email"], &mapped["name"]), (&json!("ada@example.org"), &json!("Ada")));
        assert_eq!(Value::Object(provider.custom_claims(&claims)), json!({ "groups": ["a"] }));
    }
}
