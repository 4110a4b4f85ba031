//! Verification of captchas by hCaptcha or Turnstile (auth.md §3.1). If the service is unavailable the request fails: otherwise an
//! attacker would only have to disturb it.

use std::net::IpAddr;
use std::time::Duration;

use basalt_core::http_client::{HttpClient, Outgoing, Reach};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::config::AuthConfig;
use crate::config::secret::SecretSetting;
use crate::error::AuthError;

/// The services, with the addresses of their APIs.
const PROVIDERS: [(&str, &str); 2] = [
    ("hcaptcha", "https://hcaptcha.com/siteverify"),
    ("turnstile", "https://challenges.cloudflare.com/turnstile/v0/siteverify"),
];
const ANSWER_BYTES: usize = 64 * 1024;
/// Longest token that is passed on. Turnstile's have up to 2048 characters, hCaptcha's a few thousand.
const TOKEN_BYTES: usize = 16 * 1024;
/// Longest list of error codes that the client gets.
const CODES_CHARS: usize = 200;

/// The address of a provider's API; `None` for an unknown provider.
fn provider_url(provider: &str) -> Option<&'static str> {
    PROVIDERS.iter().find(|(name, _)| *name == provider).map(|(_, url)| *url)
}

/// The captcha service.
pub(crate) struct Captcha {
    client: HttpClient,
    url: String,
    secret: SecretSetting,
    timeout: Duration,
}

#[derive(Deserialize)]
struct Verdict {
    #[serde(default)]
    success: bool,
    #[serde(default, rename = "error-codes")]
    codes: Vec<String>,
}

impl Captcha {
    /// `None` if captchas are disabled.
    pub(crate) fn new(config: &AuthConfig) -> Option<Self> {
        if !config.security_captcha_enabled {
            return None;
        }
        let own = || provider_url(&config.security_captcha_provider).map(str::to_owned);
        Some(Self {
            // The operator configured the address.
            client: HttpClient::new(Reach::Anywhere),
            url: config.security_captcha_url.clone().or_else(own).unwrap_or_default(),
            secret: config.security_captcha_secret.clone().unwrap_or_default(),
            timeout: Duration::from_secs(config.security_captcha_timeout),
        })
    }

    /// Checks the token that the widget gave to the client.
    ///
    /// # Errors
    /// The token is missing or refused, or the service is unavailable.
    pub(crate) async fn verify(
        &self,
        token: &str,
        client: IpAddr,
        deadline: Instant,
    ) -> Result<(), AuthError> {
        let token = token.trim();
        if token.is_empty() {
            return Err(AuthError::CaptchaFailed("no captcha_token found".to_owned()));
        }
        if token.len() > TOKEN_BYTES {
            return Err(AuthError::CaptchaFailed("invalid-input-response".to_owned()));
        }
        let Verdict { success, codes } =
            self.ask(token, client, deadline).await.map_err(AuthError::CaptchaUnavailable)?;
        if success {
            return Ok(());
        }
        Err(AuthError::CaptchaFailed(codes.join(", ").chars().take(CODES_CHARS).collect()))
    }

    async fn ask(&self, token: &str, client: IpAddr, deadline: Instant) -> Result<Verdict, String> {
        let url = Url::parse(&self.url).map_err(|error| error.to_string())?;
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, form_type)]);
        let body = Bytes::from(self.form(token, client));
        let request = Outgoing { method: Method::POST, url: &url, headers, body, limit: ANSWER_BYTES };
        let deadline = deadline.min(Instant::now() + self.timeout);
        let answer = self.client.send(request, deadline).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer.body)
            .map_err(|error| format!("status {}, {error}", answer.status.as_u16()))
    }

    fn form(&self, token: &str, client: IpAddr) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("secret", self.secret.expose())
            .append_pair("response", token)
            .append_pair("remoteip", &client.to_string())
            .finish()
    }
}
