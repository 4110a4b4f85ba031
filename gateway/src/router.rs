//! Routes a request to a mounted service, one of the server's own routes, or the app.
//!
//! `/{rest,auth,storage,realtime,functions,graphql}/v1` never falls back to the app (DESIGN §12), so that clients of a
//! service that is not running receive an error instead of a page.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::uri::Scheme;
use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::running::RunningNote;
use crate::system_routes::SystemRoutes;
use crate::welcome;
use basalt_http::address::IpRange;
use basalt_http::layers::{self, Client, Mount, Shared, client_address};
use basalt_http::local_only;
use basalt_http::static_app::StaticApp;
use basalt_mail::mailbox::{self, Mailbox};

const API_PREFIXES: [&str; 6] =
    ["/rest/v1", "/auth/v1", "/storage/v1", "/realtime/v1", "/functions/v1", "/graphql/v1"];

/// The routes and shared state of the server.
pub struct Gateway {
    /// State shared by all services.
    pub shared: Shared,
    /// The mounted services.
    pub mounts: Vec<Mount>,
    /// `/health`, `/ready`, `/metrics`, `/app-config.json`.
    pub system: SystemRoutes,
    /// The development mailbox, if mail goes there.
    pub mailbox: Option<Mailbox>,
    /// The single-page app, if there is one.
    pub app: Option<StaticApp>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpRange>,
    /// Whether the public port itself speaks HTTPS.
    pub has_tls: bool,
    /// The first proxy seen that is not trusted.
    pub(crate) untrusted_proxy: OnceLock<IpAddr>,
    /// Records that proxy for `doctor`.
    pub(crate) note: RunningNote,
}

impl Gateway {
    /// Handles a request to the public port.
    pub async fn handle(&self, request: Request<Incoming>, peer: SocketAddr) -> Response {
        let request = request.map(Body::new);
        let path = request.uri().path();
        if let Some(mount) = self.mounts.iter().find(|mount| is_below(&mount.prefix, path)) {
            // Boxed because a service's future is large and idle connections should not hold it.
            let client = self.client(peer.ip(), &request);
            return Box::pin(layers::serve(&self.shared, mount, request, client)).await;
        }
        if API_PREFIXES.iter().any(|prefix| is_below(prefix, path)) {
            return not_running(path);
        }
        if let Some(answer) = self.system.answer(&request, false) {
            return answer.await;
        }
        if is_below(mailbox::PATH, path) {
            return self.mailbox(request, peer, mailbox::PATH).await;
        }
        match &self.app {
            Some(app) if request.uri().path() != "/" || app.is_built() => app.serve(request).await,
            _ if request.uri().path() == "/" => self.welcome(&request),
            Some(_) | None => not_found(),
        }
    }

    fn welcome(&self, request: &Request<Body>) -> Response {
        let keys = self.system.keys.api_keys();
        welcome::answer(request, &self.system.public_url, &keys.publishable, self.mailbox.is_some())
    }

    /// Handles a request to the admin port: only the server's own routes, with metrics that require no key.
    pub async fn handle_private(&self, request: Request<Incoming>) -> Response {
        match self.system.answer(&request.map(Body::new), true) {
            Some(answer) => answer.await,
            None => not_found(),
        }
    }

    /// Handles a request to the mailbox at the path `base`.
    pub async fn mailbox(&self, request: Request<Body>, peer: SocketAddr, base: &'static str) -> Response {
        let Some(mailbox) = &self.mailbox else { return not_found() };
        match local_only::refusal(peer.ip(), &request, &self.trusted_proxies) {
            Some(refusal) => refusal,
            None => Box::pin(mailbox.answer(request, base)).await,
        }
    }

    fn client(&self, peer: IpAddr, request: &Request<Body>) -> Client {
        let (headers, trusted) = (request.headers(), &self.trusted_proxies);
        if let Some(proxy) = client_address::untrusted_proxy(peer, headers, trusted)
            && self.untrusted_proxy.set(proxy).is_ok()
        {
            tracing::warn!(
                "requests arrive through a proxy at {proxy} that is not in server.trusted_proxies: all its clients share one address, in rate limits and in \
                 the audit log. Add the address to the setting"
            );
            let note = self.note.clone();
            // Not awaited: the response does not depend on it.
            let _writing = tokio::task::spawn_blocking(move || note.note_untrusted_proxy(proxy));
        }
        Client {
            address: client_address::resolve(peer, headers, trusted),
            scheme: if self.has_tls { Scheme::HTTPS } else { client_address::scheme(peer, headers, trusted) },
        }
    }
}

/// Whether `path` is `prefix` or below it (`/rest/v1/…`, but not `/rest/v10`). The empty prefix matches every path.
fn is_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

fn not_running(path: &str) -> Response {
    let name = path.split('/').nth(1).unwrap_or_default();
    let body = serde_json::json!({ "message": format!("The {name} service does not run on this server.") });
    (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "application/json; charset=utf-8")], body.to_string())
        .into_response()
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "text/plain; charset=utf-8")], "Not found\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_matches_whole_segments() {
        assert!(is_below("/rest/v1", "/rest/v1"));
        assert!(is_below("/rest/v1", "/rest/v1/plans"));
        assert!(!is_below("/rest/v1", "/rest/v10"));
        assert!(is_below("", "/plans"));
    }
}
