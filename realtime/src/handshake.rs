//! `GET /websocket`: upgrades an HTTP request to a socket (realtime.md 3.1).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use basalt_core::service::{ClientAddress, Draining};
use basalt_pg::request_settings::headers_json;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::CancellationToken;

use crate::Realtime;
use crate::channels::Peer;
use crate::error;
use crate::frames::Version;
use crate::socket;
use crate::token::{Client, Token};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Maximum size of the handshake headers kept for policies; larger ones are replaced by `{}`.
const KEPT_HEADER_BYTES: usize = 8 * 1024;

/// Answers 101 and spawns the socket's task, or returns an error response.
pub(crate) async fn handle(State(realtime): State<Arc<Realtime>>, mut request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let Some(version) = version(query) else { return StatusCode::FORBIDDEN.into_response() };
    let Some(accept) = accept_key(request.method(), request.headers()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let client = Client::from_extensions(request.extensions());
    let token = match authenticate(&realtime, query, request.headers(), client) {
        Ok(token) => token,
        Err(refusal) => return *refusal,
    };
    let draining =
        request.extensions().get::<Draining>().map_or_else(CancellationToken::new, |it| it.0.clone());
    let headers = kept_headers(request.headers());
    let address = request.extensions().get::<ClientAddress>().map(|client| client.0);
    let upgrade = hyper::upgrade::on(&mut request);
    let tracker = realtime.tracker.clone();
    let peer = Peer { version, client, token, headers, address, draining };
    // Boxed: the task stays small while the upgrade is pending, and the socket's state is not moved onto its
    // stack.
    tracker.spawn(async move {
        match upgrade.await {
            Ok(upgraded) => Box::pin(socket::run(realtime, upgraded, peer)).await,
            Err(error) => tracing::debug!(%error, "WebSocket upgrade failed"),
        }
    });
    let headers = [
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

fn authenticate(
    realtime: &Realtime,
    query: &str,
    headers: &HeaderMap,
    client: Client,
) -> Result<Token, Box<Response>> {
    let header = headers.get(X_API_KEY).and_then(|value| value.to_str().ok());
    let key = header.map(str::to_owned).or_else(|| parameter(query, "apikey")).filter(|key| !key.is_empty());
    let Some(key) = key else { return Err(Box::new(error::unauthorized("API key is missing"))) };
    let token = realtime
        .tokens
        .verify(&key, client)
        .map_err(|fault| Box::new(error::unauthorized(&fault.handshake_text())))?;
    if !realtime.limits.has_room_for_user() {
        return Err(Box::new(error::too_many("Too many connected users")));
    }
    if !realtime.limits.joins.has_room() {
        return Err(Box::new(error::too_many("Too many joins per second")));
    }
    Ok(token)
}

/// The default is 1.0.0.
fn version(query: &str) -> Option<Version> {
    parameter(query, "vsn").map_or(Some(Version::V1), |vsn| Version::parse(&vsn))
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// Value of `Sec-WebSocket-Accept`; `None` if the request is not a WebSocket handshake.
fn accept_key(method: &Method, headers: &HeaderMap) -> Option<HeaderValue> {
    let has = |name: HeaderName, word: &str| {
        headers.get_all(name).iter().any(|value| {
            value
                .to_str()
                .is_ok_and(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
        })
    };
    let is_websocket = method == Method::GET
        && has(CONNECTION, "upgrade")
        && has(UPGRADE, "websocket")
        && has(SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_websocket)?;
    HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok()
}

/// `request.headers` for this socket's policies: only `x-*`, without the API key.
fn kept_headers(headers: &HeaderMap) -> Arc<str> {
    let kept: HeaderMap = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-") && *name != X_API_KEY)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let json = headers_json(&kept);
    if json.len() > KEPT_HEADER_BYTES { "{}".into() } else { json.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_complete_websocket_handshakes() {
        let headers = |pairs: &[(HeaderName, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
        };
        let all = [
            (CONNECTION, "keep-alive, Upgrade"),
            (UPGRADE, "WebSocket"),
            (SEC_WEBSOCKET_VERSION, "13"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let accepted = accept_key(&Method::GET, &headers(&all)).unwrap();
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(accept_key(&Method::POST, &headers(&all)).is_none());
        for missing in 0..all.len() {
            let some: Vec<_> =
                all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, it)| it.clone()).collect();
            assert!(accept_key(&Method::GET, &headers(&some)).is_none(), "without {}", all[missing].0);
        }
    }

    #[test]
    fn keeps_x_headers_except_the_api_key() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("x-api-key", "secret"), ("x-tenant", "a"), ("authorization", "secret"), ("origin", "b")]
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
        assert_eq!(&*kept_headers(&headers), r#"{"x-tenant":"a"}"#);
        headers.insert("x-long", HeaderValue::from_str(&"a".repeat(KEPT_HEADER_BYTES)).unwrap());
        assert_eq!(&*kept_headers(&headers), "{}");
    }

    #[test]
    fn version_defaults_to_v1() {
        assert_eq!(version("apikey=a"), Some(Version::V1));
        assert_eq!(version("apikey=a&vsn=2.0.0"), Some(Version::V2));
        assert_eq!(version("vsn=9.0.0"), None);
    }
}
