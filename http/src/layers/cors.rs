//! The CORS policy of all services (DESIGN §12). Preflights are handled here, before API keys are checked; every
//! response to a request with an `Origin` has the headers, errors included.

use axum::body::Body;
use axum::response::Response;
use basalt_core::service::Cors;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, HeaderMap, HeaderValue,
    ORIGIN, VARY,
};
use http::{Method, Request};

/// Origins that may read responses.
#[derive(Debug, Clone)]
pub enum CorsPolicy {
    /// All origins: `*`, without credentials. This is safe because sessions are not stored in cookies.
    Any,
    /// Listed origins, echoed with credentials. Others get no CORS headers.
    Listed(Vec<String>),
}

/// Whether the request is `OPTIONS` with `Origin` and `Access-Control-Request-Method`. Other `OPTIONS` requests go to
/// the service.
#[must_use]
pub fn is_preflight(request: &Request<Body>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

impl CorsPolicy {
    /// Creates the policy from `server.cors_origins`: `*` alone, or a list.
    #[must_use]
    pub fn new(origins: &[String]) -> Self {
        if origins.iter().any(|origin| origin == "*") {
            Self::Any
        } else {
            Self::Listed(origins.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect())
        }
    }

    /// Response to a preflight: echoes the requested headers, and may be cached for a day.
    #[must_use]
    pub fn preflight(&self, service: &Cors, request: &Request<Body>) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = service.preflight_status;
        let headers = response.headers_mut();
        if let Some(origin) = request.headers().get(ORIGIN) {
            self.allow(origin, headers);
        }
        if headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(service.methods));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(request.headers()));
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        }
        if service.preflight_status != http::StatusCode::NO_CONTENT {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        response
    }

    /// Adds the headers that let a browser read the response. Headers set by the service are kept (functions.md
    /// §3.2).
    pub fn decorate(&self, service: &Cors, origin: &HeaderValue, headers: &mut HeaderMap) {
        if !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            self.allow(origin, headers);
        }
        if headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) && !service.expose.is_empty() {
            headers.entry(ACCESS_CONTROL_EXPOSE_HEADERS).or_insert(HeaderValue::from_static(service.expose));
        }
    }

    fn allow(&self, origin: &HeaderValue, headers: &mut HeaderMap) {
        match self {
            Self::Any => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            }
            Self::Listed(origins) => {
                headers.append(VARY, HeaderValue::from_static("Origin"));
                if origins.iter().any(|listed| listed.as_bytes() == origin.as_bytes()) {
                    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
                    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
                } else {
                    headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
                }
            }
        }
    }
}

/// Value of `Access-Control-Allow-Headers`: `Authorization, <requested headers>, Accept, Accept-Language,
/// Content-Language` (rest.md §3.13).
fn allowed_headers(request: &HeaderMap) -> HeaderValue {
    const ALWAYS: &str = "Authorization, Accept, Accept-Language, Content-Language";
    let requested = request.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    requested
        .filter(|requested| !requested.trim().is_empty())
        .and_then(|requested| {
            let text = format!("Authorization, {requested}, Accept, Accept-Language, Content-Language");
            HeaderValue::from_str(&text).ok()
        })
        .unwrap_or(HeaderValue::from_static(ALWAYS))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    const SERVICE: Cors =
        Cors { methods: "GET, POST", expose: "Content-Range", preflight_status: StatusCode::OK };

    fn preflight() -> Request<Body> {
        Request::builder()
            .method("OPTIONS")
            .header("origin", "https://a.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "apikey, x-client-info")
            .body(Body::empty())
            .unwrap()
    }

    #[test]
    fn preflight_echoes_requested_headers() {
        let response = CorsPolicy::Any.preflight(&SERVICE, &preflight());
        let headers = response.headers();
        assert_eq!(headers["access-control-allow-origin"], "*");
        assert_eq!(headers["access-control-allow-methods"], "GET, POST");
        assert_eq!(
            headers["access-control-allow-headers"],
            "Authorization, apikey, x-client-info, Accept, Accept-Language, Content-Language"
        );
        assert_eq!(headers["access-control-max-age"], "86400");
        assert!(!headers.contains_key("access-control-allow-credentials"));
    }

    #[test]
    fn only_listed_origins_are_echoed_with_credentials() {
        let listed = CorsPolicy::new(&["https://a.example/".to_owned()]);
        let response = listed.preflight(&SERVICE, &preflight());
        assert_eq!(response.headers()["access-control-allow-origin"], "https://a.example");
        assert_eq!(response.headers()["access-control-allow-credentials"], "true");
        let other = CorsPolicy::new(&["https://b.example".to_owned()]).preflight(&SERVICE, &preflight());
        assert_eq!(other.status(), StatusCode::OK);
        assert!(!other.headers().contains_key("access-control-allow-origin"));
    }

    #[test]
    fn headers_set_by_service_are_kept() {
        let origin = HeaderValue::from_static("https://a.example");
        let mut headers = HeaderMap::new();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("https://b.example"));
        CorsPolicy::Any.decorate(&SERVICE, &origin, &mut headers);
        assert_eq!(headers["access-control-allow-origin"], "https://b.example");
        assert_eq!(headers["access-control-expose-headers"], "Content-Range");
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-mine"));
        CorsPolicy::Any.decorate(&SERVICE, &origin, &mut headers);
        assert_eq!(headers["access-control-expose-headers"], "x-mine");
    }

    #[test]
    fn options_without_requested_method_is_no_preflight() {
        let mut request = preflight();
        request.headers_mut().remove(ACCESS_CONTROL_REQUEST_METHOD);
        assert!(!is_preflight(&request));
    }
}
