//! Security headers of the app's pages (DESIGN section 12, "CSP of the app").

use http::header::{
    CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use basalt_core::settings::BaseUrl;

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// Headers built once and added to every response.
#[derive(Debug)]
pub(super) struct PageHeaders(Vec<(HeaderName, HeaderValue)>);

impl PageHeaders {
    pub(super) fn new(public_url: &BaseUrl) -> Self {
        let mut headers = vec![
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
            (REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin")),
            (
                PERMISSIONS_POLICY,
                HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
            ),
        ];
        // An ASCII origin is always a valid header value.
        headers.extend(
            HeaderValue::try_from(policy(public_url)).ok().map(|policy| (CONTENT_SECURITY_POLICY, policy)),
        );
        if public_url.is_https() {
            headers.push((STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000")));
        }
        Self(headers)
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.insert(name, value.clone());
        }
    }
}

/// Content security policy of the app. Inline styles are allowed, because radix and sonner insert style elements;
/// inline scripts are not.
fn policy(public_url: &BaseUrl) -> String {
    let http = public_url.url().origin().ascii_serialization();
    // `https` becomes `wss`, `http` becomes `ws`.
    let socket = http.replacen("http", "ws", 1);
    format!(
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob: https:; \
         connect-src 'self' {http} {socket}; font-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; \
         frame-ancestors 'none'"
    )
}
