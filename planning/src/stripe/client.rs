//! The HTTP client for Stripe. Requests are forms, responses are JSON and parsed leniently; every request names its API version.
//! Requests that create something carry an idempotency key, which retries reuse.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::http_client::{Answer, HttpClient, HttpError, Outgoing, Reach};
use basalt_core::random;
use basalt_functions::secrets::Secrets;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use url::Url;

use super::error::{Reason, StripeError};
use crate::config::StripeConfig;

/// The API version that our parameters are written for.
const VERSION: HeaderValue = HeaderValue::from_static("2026-09-30.endive");
const STRIPE_VERSION: HeaderName = HeaderName::from_static("stripe-version");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// The address of Stripe's API.
pub(crate) const API: &str = "https://api.stripe.com";

/// Largest response: an invoice with many lines takes some hundred KB, a list ten times as much.
const RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// The name of the secret that holds the key if `stripe.secret_key` is not set.
const KEY_NAME: &str = "STRIPE_SECRET_KEY";

/// Limits on attempts and time of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryLimits {
    attempts: u32,
    attempt_time: Duration,
    total_time: Duration,
}

/// For calls that a user waits for.
pub(crate) const INTERACTIVE: RetryLimits =
    RetryLimits { attempts: 3, attempt_time: Duration::from_secs(10), total_time: Duration::from_secs(20) };
/// For jobs, which are retried later.
pub(crate) const BACKGROUND: RetryLimits =
    RetryLimits { attempts: 1, attempt_time: Duration::from_secs(3), total_time: Duration::from_secs(3) };

/// The Stripe account in use.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The address of the API, without `/v1`.
    base: Url,
    /// `sk_…` or `rk_…`.
    key: SecretString,
}

impl Access {
    /// Whether the key belongs to live mode.
    pub(crate) fn is_live(&self) -> bool {
        let key = self.key.expose_secret();
        key.starts_with("sk_live_") || key.starts_with("rk_live_")
    }

    fn is_loopback(&self) -> bool {
        match self.base.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }
}

/// The parameters of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Adds a parameter, such as `line_items[0][price]`.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    fn finish(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}

/// A client for the calls that the app makes.
pub(crate) struct Stripe {
    http: HttpClient,
    /// `stripe.secret_key`.
    key: Option<SecretString>,
    /// `stripe.api_base`.
    base: Option<Url>,
    secrets: Arc<Secrets>,
    is_development: bool,
    /// The earliest start of the next call of a background job. Never held across an await.
    next_call: Mutex<Instant>,
}

impl Stripe {
    /// Creates a client for the account of `stripe.secret_key`, or of the secret `STRIPE_SECRET_KEY`.
    /// `is_development`: see [`StripeError::NotConfigured`].
    pub(crate) fn new(config: &StripeConfig, secrets: Arc<Secrets>, is_development: bool) -> Self {
        Self {
            http: HttpClient::new(if config.api_base.is_some() { Reach::Anywhere } else { Reach::Public }),
            key: config.secret_key.clone(),
            base: config.api_base.as_ref().map(|base| base.url().clone()),
            secrets,
            is_development,
            next_call: Mutex::new(Instant::now()),
        }
    }

    /// The account currently in use.
    pub(crate) fn access(&self) -> Result<Access, StripeError> {
        let key = self.key.clone().or_else(|| self.secrets.get(KEY_NAME));
        let key = key.filter(|key| !key.expose_secret().is_empty()).ok_or(self.not_configured())?;
        let base = match &self.base {
            Some(base) => base.clone(),
            None => API.parse().map_err(|_| self.not_configured())?,
        };
        Ok(Access { base, key })
    }

    fn not_configured(&self) -> StripeError {
        StripeError::NotConfigured { names_remedy: self.is_development }
    }

    /// `GET /v1/{path}`; `path` may include a query.
    pub(crate) async fn get(&self, path: &str, limits: RetryLimits) -> Result<Value, StripeError> {
        self.call(Method::GET, path, String::new(), None, limits).await
    }

    /// `POST /v1/{path}` with an idempotency key, which retries reuse.
    pub(crate) async fn post(&self, path: &str, form: Form, key: &str) -> Result<Value, StripeError> {
        self.call(Method::POST, path, form.finish(), Some(key), INTERACTIVE).await
    }

    /// [`Stripe::post`] without an idempotency key, for requests that are safe to repeat.
    pub(crate) async fn post_repeatable(&self, path: &str, form: Form) -> Result<Value, StripeError> {
        self.call(Method::POST, path, form.finish(), None, INTERACTIVE).await
    }

    /// Delays a job's next call: at most 20 calls per second, 5 with a test key, so that many renewals at once stay below Stripe's rate limits.
    /// There is no delay for a Stripe double on this machine.
    pub(crate) async fn pace(&self) {
        let interval = match self.access() {
            Ok(access) if access.is_loopback() => return,
            Ok(access) if access.is_live() => Duration::from_millis(50),
            Ok(_) => Duration::from_millis(200),
            Err(_) => return,
        };
        let start = {
            let mut next = self.next_call.lock();
            let start = (*next).max(Instant::now());
            *next = start + interval;
            start
        };
        sleep_until(start).await;
    }

    /// [`Stripe::post_repeatable`] without retries, for jobs, which are retried as a whole.
    pub(crate) async fn post_once(&self, path: &str, form: Form) -> Result<Value, StripeError> {
        self.call(Method::POST, path, form.finish(), None, BACKGROUND).await
    }

    /// `DELETE /v1/{path}`, which cancels a subscription.
    pub(crate) async fn delete(&self, path: &str, limits: RetryLimits) -> Result<Value, StripeError> {
        self.call(Method::DELETE, path, String::new(), None, limits).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: String,
        key: Option<&str>,
        limits: RetryLimits,
    ) -> Result<Value, StripeError> {
        let access = self.access()?;
        let started = Instant::now();
        let end = started + limits.total_time;
        let mut attempt = 1;
        let result = loop {
            let deadline = (Instant::now() + limits.attempt_time).min(end);
            let response = self.attempt(&access, &method, path, &body, key, deadline).await;
            let (error, may_retry) = match response {
                Ok(value) => break Ok(value),
                Err(failed) => failed,
            };
            let pause = back_off(attempt);
            if !may_retry || attempt >= limits.attempts || Instant::now() + pause >= end {
                break Err(error);
            }
            attempt += 1;
            sleep(pause).await;
        };
        let outcome = match &result {
            Ok(_) => "ok",
            Err(StripeError::NotConfigured { .. } | StripeError::Key(_)) => "key",
            Err(StripeError::Unreachable(_)) => "unreachable",
            Err(StripeError::Busy) => "busy",
            Err(StripeError::Refused(_)) => "refused",
        };
        crate::metrics::stripe_called(outcome, started.elapsed());
        result
    }

    /// One attempt. An error says whether a retry is allowed.
    async fn attempt(
        &self,
        access: &Access,
        method: &Method,
        path: &str,
        body: &str,
        key: Option<&str>,
        deadline: Instant,
    ) -> Result<Value, (StripeError, bool)> {
        let permanent = |message: &str| (StripeError::Unreachable(message.to_owned()), false);
        let url = format!("{}/v1/{path}", access.base.as_str().trim_end_matches('/'));
        let url: Url = url.parse().map_err(|_| permanent("its address is not a URL"))?;
        let mut headers = HeaderMap::new();
        let bearer = HeaderValue::try_from(format!("Bearer {}", access.key.expose_secret()));
        let mut bearer = bearer.map_err(|_| (StripeError::Key(0), false))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(STRIPE_VERSION, VERSION);
        if *method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        if let Some(key) = key.and_then(|key| HeaderValue::try_from(key).ok()) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let body = bytes::Bytes::copy_from_slice(body.as_bytes());
        let request = Outgoing { method: method.clone(), url: &url, headers, body, limit: RESPONSE_BYTES };
        match self.http.send(request, deadline).await {
            Ok(answer) if answer.status.is_success() => serde_json::from_slice(&answer.body)
                .ok()
                .filter(Value::is_object)
                .ok_or_else(|| (StripeError::Unreachable("its response is not valid JSON".to_owned()), true)),
            Ok(answer) => Err(refusal(&answer)),
            Err(error @ (HttpError::Url | HttpError::NotPublic | HttpError::TooLarge(_))) => {
                Err(permanent(&error.to_string()))
            }
            Err(error @ (HttpError::Deadline | HttpError::Connection(_))) => {
                Err((StripeError::Unreachable(error.to_string()), true))
            }
        }
    }
}

fn refusal(answer: &Answer) -> (StripeError, bool) {
    #[derive(Deserialize, Default)]
    struct Body {
        #[serde(default)]
        error: Reason,
    }
    let status = answer.status.as_u16();
    let Body { error } = serde_json::from_slice(&answer.body).unwrap_or_default();
    let reason = Reason { status, ..error };
    let header = |name: &HeaderName| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let Reason { kind, code, param, .. } = &reason;
    tracing::info!(
        status,
        kind,
        code,
        param,
        stripe_request = header(&REQUEST_ID).unwrap_or_default(),
        "Stripe rejected a request"
    );
    let is_locked = status == 409 || (status == 429 && code == "lock_timeout");
    let by_default = is_locked || status == 429 || status >= 500;
    let may_retry = match header(&SHOULD_RETRY) {
        Some("true") => true,
        Some("false") => false,
        _ => by_default,
    };
    let error = match status {
        401 | 403 => StripeError::Key(status),
        429 => StripeError::Busy,
        409 if code == "lock_timeout" || code == "idempotency_key_in_use" => StripeError::Busy,
        500.. => StripeError::Unreachable(format!("it responded with {status}")),
        _ => StripeError::Refused(reason),
    };
    (error, may_retry)
}

/// Half a second, doubled with each attempt up to two seconds, with 25 % jitter.
fn back_off(attempt: u32) -> Duration {
    let [jitter] = random::bytes::<1>();
    let pause = Duration::from_millis(500) * 2_u32.pow((attempt - 1).min(2));
    pause.mul_f64(0.75 + f64::from(jitter) / 510.0)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn parameters_are_form_encoded() {
        let form = Form::default()
            .with("line_items[0][price]", "price_1")
            .with("success_url", "https://a/b?c={D}&e");
        assert_eq!(
            form.finish(),
            "line_items%5B0%5D%5Bprice%5D=price_1&success_url=https%3A%2F%2Fa%2Fb%3Fc%3D%7BD%7D%26e"
        );
    }

    #[test]
    fn classifies_error_responses() {
        let refused = |status: u16, body: &str, should_retry: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = should_retry {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static(value));
            }
            let status = StatusCode::from_u16(status).unwrap();
            refusal(&Answer { status, headers, body: body.to_owned().into() })
        };
        let unreachable = StripeError::Unreachable("it responded with 500".to_owned());
        assert_eq!(refused(500, "<html>", None), (unreachable.clone(), true));
        assert_eq!(refused(500, "{}", Some("false")), (unreachable, false));
        assert_eq!(refused(429, "{}", None), (StripeError::Busy, true));
        assert_eq!(refused(401, "{}", None), (StripeError::Key(401), false));
        let locked = r#"{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}"#;
        assert_eq!(refused(409, locked, None), (StripeError::Busy, true));
        let missing = r#"{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such customer","param":"customer"}}"#;
        let (error, may_retry) = refused(400, missing, None);
        assert!(error.is_missing() && error.is_missing_customer() && !may_retry);
        assert!(!error.sentence().contains("No such"));
        let used = r#"{"error":{"type":"idempotency_error","message":"Keys"}}"#;
        assert!(refused(400, used, None).0.is_used_key());
    }
}
