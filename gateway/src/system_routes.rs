//! The server's own routes: liveness, readiness, metrics, and the configuration that the app needs before sign-in. The admin
//! port also has PostgREST's `/live`, `/config` and `/schema_cache` (rest.md §4.5).

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::bearer::bearer_token;
use basalt_core::keys::Keys;
use basalt_core::random::constant_time_eq;
use basalt_http::layers::api_key::SecretKeysInBrowsers;
use basalt_rest::RestHandle;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, ready};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use metrics_exporter_prometheus::PrometheusHandle;
use secrecy::ExposeSecret;

use crate::config::{self, Config};

/// A condition for readiness.
pub struct ReadinessCheck {
    /// Named in the response while the condition is not met.
    pub name: &'static str,
    /// Must be cheap: every `/ready` calls it.
    pub is_ready: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Checks that a dependency, such as a database login, is reachable.
pub struct ReachCheck {
    /// Named in the response while the dependency is unreachable.
    pub name: &'static str,
    /// Queries the dependency at most once per second, however often it is called.
    pub is_reachable: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
}

/// `/health`, `/ready`, `/metrics`, `/app-config.json`.
pub struct SystemRoutes {
    /// For `/metrics` and `/app-config.json`.
    pub keys: Arc<Keys>,
    /// Whether browsers may use secret keys for `/metrics`.
    pub secret_keys_in_browsers: SecretKeysInBrowsers,
    /// `server.public_url`.
    pub public_url: String,
    /// All of these must be ready.
    pub readiness: Vec<ReadinessCheck>,
    /// Checked once all of `readiness` are ready; all must be reachable.
    pub reach: Vec<ReachCheck>,
    /// The REST service with its initial configuration, if it runs.
    pub rest: Option<(RestHandle, Config)>,
    /// Update gauges before metrics are rendered, so that requests do not have to.
    pub gauges: Vec<Box<dyn Fn() + Send + Sync>>,
    /// Renders the metrics; `None` if `server.metrics` is false.
    pub metrics: Option<PrometheusHandle>,
}

impl SystemRoutes {
    /// The response, if the path is one of these routes. On the admin port (`is_private`) metrics require no key.
    #[must_use]
    pub fn answer(&self, request: &Request<Body>, is_private: bool) -> Option<BoxFuture<'_, Response>> {
        type Answer = fn(&SystemRoutes, &Request<Body>, bool) -> Response;
        let answer: Option<Answer> = match request.uri().path() {
            "/health" | "/live" if is_private => {
                Some(|_, _, _| json(StatusCode::OK, &serde_json::json!({ "status": "ok" })))
            }
            "/config" if is_private => Some(|this, _, _| this.config()),
            "/schema_cache" if is_private => Some(|this, _, _| this.schema_cache()),
            "/health" => Some(|_, _, _| json(StatusCode::OK, &serde_json::json!({ "status": "ok" }))),
            // Asynchronous, unlike the others.
            "/ready" => None,
            "/metrics" => Some(Self::render_metrics),
            "/app-config.json" => Some(|this, _, _| this.app_config()),
            _ => return None,
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some(
                ready((StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response()).boxed(),
            );
        }
        Some(match answer {
            Some(answer) => ready(answer(self, request, is_private)).boxed(),
            None => self.ready().boxed(),
        })
    }

    /// Whether all readiness checks pass.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness.iter().all(|check| (check.is_ready)())
    }

    async fn ready(&self) -> Response {
        let mut waiting: Vec<&str> =
            self.readiness.iter().filter(|check| !(check.is_ready)()).map(|check| check.name).collect();
        if waiting.is_empty() {
            let checks = self.reach.iter().map(|check| (check.is_reachable)());
            let answers = join_all(checks).await;
            let lost = self.reach.iter().zip(answers).filter(|(_, is_reachable)| !is_reachable);
            waiting.extend(lost.map(|(check, _)| check.name));
        }
        if waiting.is_empty() {
            return json(StatusCode::OK, &serde_json::json!({ "status": "ready" }));
        }
        let body = serde_json::json!({ "status": "starting", "waiting_for": waiting });
        let mut response = json(StatusCode::SERVICE_UNAVAILABLE, &body);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    fn render_metrics(&self, request: &Request<Body>, is_private: bool) -> Response {
        if !is_private {
            if !self.has_secret_key(request) {
                let message =
                    "Metrics require the secret key as bearer token, or the admin port (server.admin_port).";
                return json(StatusCode::UNAUTHORIZED, &serde_json::json!({ "message": message }));
            }
            if let Some(refusal) = self.secret_keys_in_browsers.refusal(request) {
                return refusal;
            }
        }
        let Some(metrics) = &self.metrics else { return StatusCode::NOT_FOUND.into_response() };
        for set in &self.gauges {
            set();
        }
        let text = metrics.render();
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
    }

    fn has_secret_key(&self, request: &Request<Body>) -> bool {
        let token = bearer_token(request.headers()).unwrap_or_default().as_bytes();
        let keys = self.keys.api_keys();
        [&keys.secret, &keys.service]
            .iter()
            .map(|key| key.expose_secret().as_bytes())
            .any(|key| !key.is_empty() && constant_time_eq(key, token))
    }

    /// The effective configuration in PostgREST's format, without secrets.
    fn config(&self) -> Response {
        let Some((rest, config)) = &self.rest else { return StatusCode::NOT_FOUND.into_response() };
        let text = config::postgrest::print(config, &rest.config());
        ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
    }

    fn schema_cache(&self) -> Response {
        let Some((rest, _)) = &self.rest else { return StatusCode::NOT_FOUND.into_response() };
        rest.schema_cache().map_or_else(
            || StatusCode::SERVICE_UNAVAILABLE.into_response(),
            |cache| json(StatusCode::OK, &cache),
        )
    }

    /// The server's address and publishable key, for browsers.
    fn app_config(&self) -> Response {
        let keys = self.keys.api_keys();
        let body = serde_json::json!({ "url": self.public_url, "anonKey": keys.publishable });
        let mut response = json(StatusCode::OK, &body);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json; charset=utf-8")], body.to_string()).into_response()
}
