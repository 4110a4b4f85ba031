//! External sign-in providers (auth.md §3.16): where to send the browser, and who comes back. Addresses and formats are
//! [`mod@presets`], users [`mod@external_user`], ID tokens [`mod@id_token`].
//!
//! One random secret per flow, in `auth.oauth_client_states`, yields three values: the PKCE verifier towards the provider, the
//! nonce of the ID token, and the cookie that binds the flow to the browser that began it.

pub(crate) mod custom;
mod external_user;
mod id_token;
mod presets;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use basalt_core::http_client::{Answer, HttpClient, Outgoing, Reach};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::config::providers::ProviderSettings;
use crate::error::AuthError;
use custom::{CustomProvider, ProviderType};
use external_user::Context;
pub(crate) use external_user::ExternalUser;
pub(crate) use id_token::NonceCheck;
use id_token::{Issuer, Issuers};
use presets::{CUSTOM_OAUTH2, CUSTOM_OIDC, ClientAuth, DISCOVERED, PRESETS, Preset, UserSource};

/// Time for one request to a provider.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest response of a provider.
const ANSWER_BYTES: usize = 512 * 1024;
/// Longest list of scopes or parameter that is passed on.
const MAX_PARAMETER_BYTES: usize = 2048;
/// Marks a request that was sent on to the public address.
pub(crate) const SENT_ON: &str = "sb_public";
/// Parameters of the authorization request that clients cannot set.
const RESERVED: [&str; 17] = [
    SENT_ON,
    "client_id",
    "client_secret",
    "redirect_uri",
    "response_type",
    "response_mode",
    "state",
    "code_challenge",
    "code_challenge_method",
    "code_verifier",
    "scope",
    "scopes",
    "provider",
    "redirect_to",
    "invite_token",
    "skip_http_redirect",
    "apikey",
];

/// All enabled providers.
pub(crate) struct Providers {
    providers: Vec<Arc<Provider>>,
    client: HttpClient,
    /// For custom providers, whose addresses are not the operator's choice.
    custom_client: HttpClient,
    is_private_allowed: bool,
    external_url: String,
    issuers: Issuers,
}

/// An enabled provider.
pub(crate) struct Provider {
    preset: &'static Preset,
    settings: ProviderSettings,
    redirect_uri: String,
    /// Base address, without a trailing slash.
    base: String,
    /// A provider that an admin added; its preset has the defaults.
    custom: Option<Box<CustomProvider>>,
}

/// First character of the secret of a flow that is bound to a browser.
const BOUND: &str = "b";

/// The secret of a flow.
#[derive(Clone)]
pub(crate) struct FlowSecret(pub(crate) String);

/// The tokens of the provider, which the app gets once.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProviderTokens {
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
}

impl FlowSecret {
    /// A new secret. Only the browser that gets the cookie of a bound one can finish the flow.
    pub(crate) fn generate(is_bound: bool) -> Self {
        let mark = if is_bound { BOUND } else { "u" };
        Self(format!("{mark}{}", URL_SAFE_NO_PAD.encode(basalt_core::random::bytes::<32>())))
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.0.starts_with(BOUND)
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.0.as_bytes()))
    }

    fn derive(&self, purpose: &str) -> String {
        hex::encode(digest(&SHA256, format!("{purpose} {}", self.0).as_bytes()))
    }

    fn nonce(&self) -> String {
        self.derive("nonce")
    }

    /// The cookie's value.
    pub(crate) fn cookie(&self) -> String {
        self.derive("cookie")
    }
}

impl Providers {
    /// `external_url` is the public URL of this service. `is_private_allowed` lets custom providers be on private addresses.
    pub(crate) fn new(
        settings: &[(&'static str, ProviderSettings)],
        external_url: &str,
        is_private_allowed: bool,
    ) -> Self {
        let enabled = settings.iter().filter(|(_, settings)| settings.enabled);
        let providers = enabled.filter_map(|(name, settings)| {
            let preset = PRESETS.iter().find(|preset| preset.name == *name)?;
            let redirect_uri = if settings.redirect_uri.is_empty() {
                format!("{external_url}/callback")
            } else {
                settings.redirect_uri.clone()
            };
            let base = if settings.url.is_empty() { preset.base } else { &settings.url };
            let (base, settings) = (base.to_owned(), settings.clone());
            Some(Arc::new(Provider { preset, redirect_uri, base, settings, custom: None }))
        });
        Self {
            providers: providers.collect(),
            // The operator configured the addresses.
            client: HttpClient::new(Reach::Anywhere),
            custom_client: HttpClient::new(if is_private_allowed { Reach::Anywhere } else { Reach::Public }),
            is_private_allowed,
            external_url: external_url.to_owned(),
            issuers: Issuers::default(),
        }
    }

    /// An enabled provider of the settings.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Provider>> {
        self.providers.iter().find(|provider| provider.preset.name == name).cloned()
    }

    /// A custom provider, ready to be used.
    pub(crate) fn custom(&self, custom: CustomProvider) -> Arc<Provider> {
        let mut client_ids = vec![custom.client_id.clone()];
        client_ids.extend(custom.acceptable_client_ids.iter().cloned());
        let settings = ProviderSettings {
            enabled: custom.is_enabled,
            client_ids,
            secret: custom.client_secret.clone().into(),
            redirect_uri: String::new(),
            url: String::new(),
            skip_nonce_check: custom.skips_nonce_check,
            email_optional: custom.is_email_optional,
        };
        Arc::new(Provider {
            preset: match custom.kind {
                ProviderType::Oidc => &CUSTOM_OIDC,
                ProviderType::OAuth2 => &CUSTOM_OAUTH2,
            },
            settings,
            redirect_uri: format!("{}/callback", self.external_url),
            base: custom.issuer.clone(),
            custom: Some(Box::new(custom)),
        })
    }

    /// Fetches and checks the discovery document of a custom provider, which is shown to admins.
    ///
    /// # Errors
    /// The document is unreachable or invalid, or names another issuer.
    pub(crate) async fn refresh_discovery(&self, custom: &mut CustomProvider) -> Result<(), AuthError> {
        if custom.kind == ProviderType::OAuth2 {
            return Ok(());
        }
        let provider = self.custom(custom.clone());
        let Some(issuer) = provider.issuer() else { return Ok(()) };
        let fetched = self.issuers.refresh(&self.custom_client, &issuer).await;
        custom.discovery = fetched.map_err(|error| {
            let reason = if let AuthError::ProviderFailed { reason, .. } = &error {
                reason.clone()
            } else {
                error.to_string()
            };
            AuthError::Validation(format!("The discovery document cannot be used: {reason}").into())
        })?;
        Ok(())
    }

    /// The client for requests to a provider.
    fn client_for(&self, provider: &Provider) -> &HttpClient {
        if provider.custom.is_some() { &self.custom_client } else { &self.client }
    }

    /// The URL that asks the user to sign in at the provider.
    ///
    /// # Errors
    /// The provider's discovery document is unavailable.
    pub(crate) async fn authorization_url(
        &self,
        provider: &Provider,
        state: &str,
        secret: &FlowSecret,
        scopes: Option<&str>,
        parameters: &[(&str, &str)],
    ) -> Result<String, AuthError> {
        let endpoint = match provider.issuer() {
            Some(issuer) if provider.is_discovered() => {
                let discovery = self.issuers.discover(self.client_for(provider), issuer).await?;
                discovery.authorization_endpoint.clone()
            }
            Some(_) | None => provider.authorize_url(),
        };
        let mut url = Url::parse(&endpoint).map_err(|error| unusable(provider, &error.to_string()))?;
        let mut query = url.query_pairs_mut();
        for (name, value) in parameters {
            if !RESERVED.contains(name) && name.len().saturating_add(value.len()) <= MAX_PARAMETER_BYTES {
                query.append_pair(name, value);
            }
        }
        query
            .append_pair("client_id", provider.client_id())
            .append_pair("redirect_uri", &provider.redirect_uri)
            .append_pair("response_type", "code")
            .append_pair("state", state);
        let scopes = all_scopes(&provider.scopes(), scopes.unwrap_or_default());
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes);
        }
        if matches!(provider.preset.source, UserSource::IdToken(_))
            && !parameters.iter().any(|(name, _)| *name == "nonce")
        {
            query.append_pair("nonce", &secret.nonce());
        }
        if provider.uses_pkce() {
            query
                .append_pair("code_challenge", &secret.challenge())
                .append_pair("code_challenge_method", "S256");
        }
        query.extend_pairs(provider.preset.extra);
        if let Some(custom) = &provider.custom {
            let parameters = custom.authorization_params.iter();
            query.extend_pairs(parameters.filter_map(|(name, value)| Some((name, value.as_str()?))));
        }
        drop(query);
        Ok(url.into())
    }

    /// Exchanges the provider's authorization code, and asks who the user is. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The provider rejects the code, is unavailable, or responds with something else.
    pub(crate) async fn exchange(
        &self,
        provider: &Provider,
        code: &str,
        secret: &FlowSecret,
        now: i64,
    ) -> Result<(ExternalUser, ProviderTokens), AuthError> {
        let answer = self.token_request(provider, code, secret).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let tokens = ProviderTokens {
            access_token: text("access_token").unwrap_or_default().to_owned(),
            refresh_token: text("refresh_token").map(str::to_owned),
        };
        let (user, emails) = match provider.preset.source {
            UserSource::IdToken(_) => {
                let token = text("id_token").ok_or_else(|| unusable(provider, "no id_token"))?;
                let issuer = provider.issuer().ok_or_else(|| unusable(provider, "no issuer"))?;
                let nonce = if provider.settings.skip_nonce_check {
                    NonceCheck::Skip
                } else {
                    NonceCheck::IfPresent(secret.nonce())
                };
                let clients = &provider.settings.client_ids;
                let client = self.client_for(provider);
                let claims = self.issuers.verify(client, issuer.clone(), token, clients, nonce, now).await?;
                (self.with_userinfo(provider, issuer, claims, &tokens).await?, Value::Null)
            }
            UserSource::Endpoint(path) => (self.read(provider, path, &tokens).await?, Value::Null),
            UserSource::EndpointAndEmails(path, emails) => {
                (self.read(provider, path, &tokens).await?, self.read(provider, emails, &tokens).await?)
            }
        };
        let user = provider.convert(&user, &emails);
        Ok((user.ok_or_else(|| unusable(provider, "no id of the user"))?, tokens))
    }

    /// Verifies an ID token that the app got from the provider itself, and returns its user.
    ///
    /// # Errors
    /// The token is invalid, or the provider has no ID tokens.
    pub(crate) async fn verify_id_token(
        &self,
        provider: &Provider,
        token: &str,
        nonce: Option<&str>,
        now: i64,
    ) -> Result<ExternalUser, AuthError> {
        let issuer = provider.issuer().ok_or(AuthError::InvalidRequest("Bad ID token"))?;
        let nonce = match nonce {
            _ if provider.settings.skip_nonce_check => NonceCheck::Skip,
            nonce => NonceCheck::Hashed(nonce.map(|nonce| hex::encode(digest(&SHA256, nonce.as_bytes())))),
        };
        let clients = &provider.settings.client_ids;
        let client = self.client_for(provider);
        let claims = self.issuers.verify(client, issuer, token, clients, nonce, now).await?;
        let user = if provider.preset.name == "azure" || provider.custom.is_some() {
            provider.convert(&claims, &Value::Null)
        } else {
            external_user::openid(&claims, &Context { base: &provider.base, emails: &Value::Null })
        };
        user.ok_or(AuthError::InvalidRequest("Missing sub claim in id_token"))
    }

    /// Adds the claims of the userinfo endpoint if a custom provider's ID token has no address: providers may put it there only
    /// (OpenID Connect Core §5.4).
    async fn with_userinfo(
        &self,
        provider: &Provider,
        issuer: Issuer,
        claims: Value,
        tokens: &ProviderTokens,
    ) -> Result<Value, AuthError> {
        if provider.custom.is_none() || claims.get("email").is_some() || tokens.access_token.is_empty() {
            return Ok(claims);
        }
        let discovery = self.issuers.discover(self.client_for(provider), issuer).await?;
        let Some(url) = &discovery.userinfo_endpoint else { return Ok(claims) };
        let info = self.read(provider, url, tokens).await?;
        // The access token may be another user's (§5.3.2).
        if info.get("sub") != claims.get("sub") {
            return Err(unusable(provider, "the userinfo endpoint reports another user"));
        }
        let (Value::Object(mut all), Value::Object(claims)) = (info, claims) else {
            return Err(unusable(provider, "the userinfo endpoint does not return an object"));
        };
        all.extend(claims);
        Ok(Value::Object(all))
    }

    async fn token_request(
        &self,
        provider: &Provider,
        code: &str,
        secret: &FlowSecret,
    ) -> Result<Value, AuthError> {
        let mut method = provider.preset.auth;
        let endpoint = match provider.issuer() {
            Some(issuer) if provider.is_discovered() => {
                let discovery = self.issuers.discover(self.client_for(provider), issuer).await?;
                if provider.custom.is_some() && !discovery.accepts_secret_in_form() {
                    method = ClientAuth::Basic;
                }
                discovery.token_endpoint.clone()
            }
            Some(_) | None => provider.token_url(),
        };
        let (headers, body) = provider.token_form(method, code, secret);
        let answer = self.send(provider, Method::POST, &endpoint, headers, body).await?;
        let answer = json(provider, &answer)?;
        // GitHub reports a rejected code with status 200.
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(unusable(provider, &format!("the token endpoint rejected the code: {error}"))),
            None => Ok(answer),
        }
    }

    /// Reads JSON about the user.
    async fn read(
        &self,
        provider: &Provider,
        path: &str,
        tokens: &ProviderTokens,
    ) -> Result<Value, AuthError> {
        let mut headers = HeaderMap::new();
        insert(&mut headers, header::AUTHORIZATION, &format!("Bearer {}", tokens.access_token));
        match provider.preset.name {
            "twitch" => insert(&mut headers, HeaderName::from_static("client-id"), provider.client_id()),
            "notion" => insert(&mut headers, HeaderName::from_static("notion-version"), "2022-06-28"),
            _ => {}
        }
        let url = provider.user_address(path);
        let answer = self.send(provider, Method::GET, &url, headers, Bytes::new()).await?;
        json(provider, &answer)
    }

    async fn send(
        &self,
        provider: &Provider,
        method: Method,
        url: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, AuthError> {
        if provider.custom.is_some() && !custom::is_reachable_url(url, self.is_private_allowed) {
            return Err(unusable(provider, "an endpoint is not an https URL"));
        }
        let url = Url::parse(url).map_err(|error| unusable(provider, &error.to_string()))?;
        insert(&mut headers, header::ACCEPT, "application/json");
        let request = Outgoing { method, url: &url, headers, body, limit: ANSWER_BYTES };
        let answer = self.client_for(provider).send(request, Instant::now() + TIMEOUT).await;
        let answer = answer.map_err(|error| unusable(provider, &error.to_string()))?;
        if answer.status.is_success() {
            Ok(answer)
        } else {
            Err(unusable(provider, &format!("{} responded with {}", url.path(), answer.status)))
        }
    }
}

impl Provider {
    pub(crate) fn name(&self) -> &str {
        self.custom.as_ref().map_or(self.preset.name, |custom| &custom.identifier)
    }

    fn uses_pkce(&self) -> bool {
        self.custom.as_ref().map_or(self.preset.pkce, |custom| custom.uses_pkce)
    }

    /// The scopes that are always requested.
    fn scopes(&self) -> String {
        match &self.custom {
            Some(custom) if !custom.scopes.is_empty() => {
                let openid = if custom.kind == ProviderType::Oidc { "openid" } else { "" };
                all_scopes(openid, &custom.scopes.join(" "))
            }
            Some(_) | None => self.preset.scopes.to_owned(),
        }
    }

    fn authorize_url(&self) -> String {
        let custom = self.custom.as_ref().map(|custom| custom.authorization_url.clone());
        custom.unwrap_or_else(|| self.address(self.preset.authorize))
    }

    fn token_url(&self) -> String {
        let custom = self.custom.as_ref().map(|custom| custom.token_url.clone());
        custom.unwrap_or_else(|| self.address(self.preset.token))
    }

    /// The user from the provider's format.
    fn convert(&self, user: &Value, emails: &Value) -> Option<ExternalUser> {
        let context = Context { base: &self.base, emails };
        let Some(custom) = &self.custom else { return (self.preset.user)(user, &context) };
        let mut converted = (self.preset.user)(&custom.map_claims(user), &context)?;
        let kept = custom.custom_claims(user);
        converted.claims.remove("custom_claims");
        if !kept.is_empty() {
            converted.claims.insert("custom_claims".to_owned(), Value::Object(kept));
        }
        Some(converted)
    }

    /// What is missing in the settings, if anything. Not checked at the start: projects enable providers whose secrets are set
    /// only in production.
    pub(crate) fn missing_setting(&self) -> Option<&'static str> {
        if self.client_id().is_empty() {
            Some("missing OAuth client ID")
        } else if self.settings.secret.expose_secret().is_empty() {
            Some("missing OAuth secret")
        } else if self.base.is_empty() && self.custom.is_none() {
            Some("missing OAuth URL")
        } else {
            None
        }
    }

    pub(crate) fn is_email_optional(&self) -> bool {
        self.settings.email_optional
    }

    /// Headers and body of the request for tokens.
    fn token_form(&self, method: ClientAuth, code: &str, secret: &FlowSecret) -> (HeaderMap, Bytes) {
        let client_secret = self.settings.secret.expose_secret();
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri);
        let mut headers = HeaderMap::new();
        match method {
            ClientAuth::Form => {
                form.append_pair("client_id", self.client_id()).append_pair("client_secret", client_secret);
            }
            ClientAuth::Basic => {
                let login = STANDARD.encode(format!("{}:{client_secret}", self.client_id()));
                insert(&mut headers, header::AUTHORIZATION, &format!("Basic {login}"));
            }
        }
        if self.uses_pkce() {
            form.append_pair("code_verifier", &secret.0);
        }
        insert(&mut headers, header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        (headers, Bytes::from(form.finish()))
    }

    fn client_id(&self) -> &str {
        self.settings.client_ids.first().map(String::as_str).unwrap_or_default()
    }

    /// Whether the endpoints come from the discovery document of a configured issuer.
    fn is_discovered(&self) -> bool {
        match &self.custom {
            Some(custom) => custom.kind == ProviderType::Oidc,
            None => !self.settings.url.is_empty() && DISCOVERED.contains(&self.preset.name),
        }
    }

    fn address(&self, path: &str) -> String {
        if path.starts_with('/') { format!("{}{path}", self.base) } else { path.to_owned() }
    }

    /// As [`Self::address`]; the API of a GitHub of one's own is below its base.
    fn user_address(&self, path: &str) -> String {
        if let Some(custom) = self.custom.as_ref().filter(|_custom| path.is_empty()) {
            return custom.userinfo_url.clone();
        }
        match path.strip_prefix("https://api.github.com") {
            Some(path) if !self.settings.url.is_empty() => format!("{}/api/v3{path}", self.base),
            Some(_) | None => self.address(path),
        }
    }

    /// The issuer of the provider's ID tokens.
    fn issuer(&self) -> Option<Issuer> {
        if let Some(custom) = &self.custom {
            let discovery_url = Some(custom.discovery_url.clone()).filter(|url| !url.is_empty());
            let url = custom.issuer.clone();
            return (custom.kind == ProviderType::Oidc).then_some(Issuer {
                url,
                is_template: false,
                discovery_url,
            });
        }
        let (url, is_template) = match (self.preset.name, self.preset.source) {
            ("azure", _) => (format!("{}/v2.0", self.base), true),
            (_, UserSource::IdToken(path)) => (format!("{}{path}", self.base), false),
            ("keycloak" | "kakao", _) => (self.base.clone(), false),
            ("facebook", _) => (self.base.clone(), false),
            _ => return None,
        };
        Some(Issuer { url, is_template, discovery_url: None })
    }
}

/// The default scopes and further ones, which are separated by spaces or commas.
fn all_scopes(defaults: &str, further: &str) -> String {
    let mut scopes: Vec<&str> = defaults.split(' ').filter(|scope| !scope.is_empty()).collect();
    let further = further.get(..further.len().min(MAX_PARAMETER_BYTES)).unwrap_or_default();
    for scope in further.split([' ', ',']).filter(|scope| !scope.is_empty()) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes.join(" ")
}

/// Inserts a header, unless its value has characters that headers cannot have.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn json(provider: &Provider, answer: &Answer) -> Result<Value, AuthError> {
    serde_json::from_slice(&answer.body).map_err(|_error| unusable(provider, "a response is not JSON"))
}

fn unusable(provider: &Provider, reason: &str) -> AuthError {
    AuthError::ProviderFailed { provider: provider.name().to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(name: &'static str, settings: ProviderSettings) -> Providers {
        let settings = ProviderSettings {
            enabled: true,
            client_ids: vec!["app".to_owned(), "ios".to_owned()],
            ..settings
        };
        Providers::new(&[(name, settings)], "https://api.test/auth/v1", false)
    }

    async fn url(name: &'static str, scopes: Option<&str>, parameters: &[(&str, &str)]) -> Url {
        let providers = providers(name, ProviderSettings::default());
        let provider = providers.find(name).unwrap();
        let secret = FlowSecret("secret".to_owned());
        let url = providers.authorization_url(&provider, "state", &secret, scopes, parameters).await.unwrap();
        Url::parse(&url).unwrap()
    }

    fn query(url: &Url, name: &str) -> Option<String> {
        url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    #[tokio::test]
    async fn authorization_request_has_the_parameters_of_oauth() {
        let url = url("google", Some("calendar,email"), &[("prompt", "consent"), ("state", "forged")]).await;
        assert!(url.as_str().starts_with("https://accounts.google.com/o/oauth2/v2/auth?"));
        for (name, value) in [
            ("client_id", "app"),
            ("redirect_uri", "https://api.test/auth/v1/callback"),
            ("response_type", "code"),
            ("state", "state"),
            ("scope", "openid email profile calendar"),
            ("prompt", "consent"),
            ("code_challenge_method", "S256"),
        ] {
            assert_eq!(query(&url, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(url.query_pairs().filter(|(name, _)| name == "state").count(), 1);
        let nonce = query(&url, "nonce").unwrap();
        assert_eq!(nonce, FlowSecret("secret".to_owned()).nonce());
        assert_ne!(nonce, FlowSecret("secret".to_owned()).cookie());
    }

    #[tokio::test]
    async fn apple_posts_its_callback() {
        let url = url("apple", None, &[]).await;
        assert_eq!(query(&url, "response_mode").as_deref(), Some("form_post"));
        assert_eq!(query(&url, "code_challenge"), None);
    }

    #[test]
    fn own_installations_replace_the_address() {
        let settings = ProviderSettings { url: "https://git.test".to_owned(), ..ProviderSettings::default() };
        let providers = providers("github", settings);
        let provider = providers.find("github").unwrap();
        assert_eq!(provider.address(provider.preset.token), "https://git.test/login/oauth/access_token");
        assert_eq!(provider.user_address("https://api.github.com/user"), "https://git.test/api/v3/user");
        assert!(providers.find("google").is_none());
    }

    #[test]
    fn every_configured_provider_has_a_preset() {
        let config = crate::config::AuthConfig::default();
        for (name, _settings) in &config.external {
            assert!(PRESETS.iter().any(|preset| preset.name == *name), "{name}");
        }
        assert_eq!(PRESETS.len(), config.external.len());
    }
}
