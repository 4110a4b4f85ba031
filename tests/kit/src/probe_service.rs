//! A small service behind the gateway's listener and layers, in the test process, that uses every gateway feature: streamed
//! bodies, upgrades, its own errors and preflights.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, options, post};
use axum::{Json, Router};
use basalt_core::clock::Clock;
use basalt_core::keys::{ApiKeys, KeyMaterial, Keys};
use basalt_core::memory::BodyLease;
use basalt_core::service::{
    BodyMode, ClientAddress, Cors, Deadline, Draining, Fault, Original, Renderer, Service, read_body,
};
use basalt_http::address::ListenHost;
use basalt_http::bind::Listening;
use basalt_http::layers::api_key::{Gate, KeyGate, SecretKeysInBrowsers};
use basalt_http::layers::bounds::{self, Bounds, HeadLimits};
use basalt_http::layers::cors::CorsPolicy;
use basalt_http::layers::{self, Client, Mount, RequestIds, Shared};
use basalt_http::listener::{self, Limits};
use basalt_http::open_files;
use basalt_http::pace::Pace;
use basalt_http::shutdown::Shutdown;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, UPGRADE,
};
use http::uri::Scheme;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, frame::coding::CloseCode};
use tokio_util::task::TaskTracker;

use crate::http::Request as ClientRequest;
use crate::runtime::on_runtime;
use crate::websocket::WebSocket;

/// The probe's mounts; [`BUFFERED`] has buffered bodies and compressed responses, like REST.
const STREAMED: &str = "/probe/v1";
const BUFFERED: &str = "/buffered/v1";

/// The limits of the probe's gateway.
#[derive(Clone, Copy, Debug)]
pub struct ProbeLimits {
    /// `server.max_connections`
    pub max_connections: usize,
    /// `server.body_memory`
    pub body_memory: u64,
    /// `server.stall_timeout`, with a rate of 1 KiB a second
    pub stall_timeout: Duration,
    /// `Service::deadline`
    pub deadline: Duration,
    /// `server.shutdown_timeout`
    pub drain: Duration,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            body_memory: 8 * 1024 * 1024,
            stall_timeout: Duration::from_secs(10),
            deadline: Duration::from_secs(10),
            drain: Duration::from_secs(10),
        }
    }
}

/// A gateway with the probe, on a free port.
pub struct ProbeServer {
    port: u16,
    limits: ProbeLimits,
    bounds: Arc<Bounds>,
    shutdown: Shutdown,
    running: JoinHandle<()>,
}

struct Gateway {
    shared: Shared,
    mounts: [Mount; 2],
}

impl ProbeServer {
    /// Starts the server.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(limits: ProbeLimits) -> Self {
        let _limit = open_files::raise();
        let tracker = TaskTracker::new();
        let shutdown = Shutdown::default();
        let pace = Pace { window: limits.stall_timeout, bytes_per_second: 1024 };
        let heads = HeadLimits { bytes: 160 * 1024, headers: 100 };
        let bounds = Arc::new(Bounds::new(bounds::Limits {
            max_requests: 4096,
            body_memory: limits.body_memory,
            body_wait: Duration::from_secs(5),
            max_connections: limits.max_connections,
            heads,
            max_streams: 256,
            pace,
            answers: bounds::answer_memory(64 * 1024 * 1024),
        }));
        let mounts = [(STREAMED, true), (BUFFERED, false)].map(|(prefix, streams)| {
            Mount::new(prefix, service(limits.deadline, streams, &tracker), Gate::Rewrite)
        });
        let shared = Shared {
            request_ids: RequestIds::default(),
            cors: CorsPolicy::Any,
            key_gate: KeyGate::new(keys(), Clock::system(), false, SecretKeysInBrowsers::Refused),
            bounds: Arc::clone(&bounds),
        };
        let gateway = Arc::new(Gateway { shared, mounts });
        let handle = move |request: http::Request<Incoming>, peer: SocketAddr| {
            let gateway = Arc::clone(&gateway);
            async move { gateway.answer(request.map(Body::new), peer).await }
        };
        let listener_limits = Limits {
            tls: None,
            connections: Arc::clone(&bounds.connections),
            idle_timeout: Duration::from_secs(60),
            heads,
            max_streams: 256,
            pace,
            drain: limits.drain,
        };
        let host = ListenHost::Address(Ipv4Addr::LOCALHOST.into());
        let (port, running) = on_runtime({
            let shutdown = shutdown.clone();
            async move {
                let listening = Listening::tcp(&host, 0, false).await.expect("a port is free");
                let port = listening.port().expect("TCP has one");
                let run = async move { listener::run(listening, handle, listener_limits, &shutdown).await };
                (port, tokio::spawn(run))
            }
        })
        .await;
        Self { port, limits, bounds, shutdown, running }
    }

    /// A URL of the streaming mount.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{STREAMED}{path}", self.port)
    }

    /// A request to the streaming mount.
    pub fn request(&self, method: Method, path: &str) -> ClientRequest {
        ClientRequest::new(method, self.url(path))
    }

    /// A request to the mount with buffered bodies.
    pub fn buffered(&self, method: Method, path: &str) -> ClientRequest {
        ClientRequest::new(method, format!("http://127.0.0.1:{}{BUFFERED}{path}", self.port))
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// An echo socket.
    ///
    /// # Panics
    /// If the upgrade is rejected.
    pub async fn websocket(&self) -> WebSocket {
        let opened = WebSocket::open(self.url("/socket"), http::HeaderMap::new()).await;
        opened.unwrap_or_else(|response| panic!("{} {}", response.status, response.text()))
    }

    /// The number of open connections. Below the limit, the listener holds one permit for the next connection.
    #[must_use]
    pub fn connections(&self) -> usize {
        let taken = self.limits.max_connections - self.bounds.connections.available_permits();
        taken.saturating_sub(1)
    }

    /// Starts a graceful shutdown; the returned task ends with the drain.
    pub fn stop(self) -> JoinHandle<()> {
        self.shutdown.graceful.cancel();
        self.running
    }
}

impl Gateway {
    async fn answer(&self, request: Request, peer: SocketAddr) -> Response {
        let mount = self.mounts.iter().find(|mount| request.uri().path().starts_with(&*mount.prefix));
        let Some(mount) = mount else { return StatusCode::NOT_FOUND.into_response() };
        let client = Client { address: ClientAddress(peer.ip()), scheme: Scheme::HTTP };
        Box::pin(layers::serve(&self.shared, mount, request, client)).await
    }
}

fn keys() -> Arc<Keys> {
    let api_keys = ApiKeys { publishable: "sb_publishable_probe".to_owned(), ..ApiKeys::default() };
    let secret = b"a secret of the probe's, of more than thirty-two bytes".to_vec();
    let material = KeyMaterial {
        jwks: Vec::new(),
        secret: Some(secret.into()),
        secret_kid: None,
        strict_kid: false,
        rotates: false,
        api_keys,
    };
    Arc::new(Keys::new(material).expect("the secret is long enough"))
}

/// JSON requests are buffered on the streaming mount too: a service may need both modes.
fn mode(request: &Request) -> BodyMode {
    let is_json = request.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    if is_json { BodyMode::Buffered } else { BodyMode::Streamed }
}

fn service(deadline: Duration, streams: bool, tracker: &TaskTracker) -> Service {
    let router = Router::new()
        .route("/upload", post(upload))
        .route("/steps", post(steps))
        .route("/parts", post(parts))
        .route("/whole", post(whole))
        .route("/extract", post(|body: Bytes| async move { Json(json!({ "bytes": body.len() })) }))
        .route("/original", any(original))
        .route("/large", get(|| async { Json(json!({ "text": "basalt ".repeat(1000) })) }))
        .route("/hang", post(|_body: Body| std::future::pending::<()>()))
        .route("/panic", get(|| async { panic!("on request") as StatusCode }))
        .route("/socket", get(socket))
        .route("/own/cors", options(own_cors).get(own_cors))
        .fallback(any(|| async { StatusCode::NOT_FOUND }))
        .with_state(tracker.clone());
    Service {
        name: if streams { "probe" } else { "buffered" },
        prefix: if streams { STREAMED } else { BUFFERED },
        router,
        bodies: if streams { mode } else { |_| BodyMode::Buffered },
        body_limit: 50 * 1024 * 1024,
        deadline,
        compresses: !streams,
        cors: Cors { methods: "GET, POST", expose: "x-probe", preflight_status: StatusCode::NO_CONTENT },
        own_preflight: Some(Box::new(|request| request.uri().path().starts_with("/own/"))),
        renderer,
    }
}

/// XML for S3, plain text for TUS, JSON for the rest.
fn renderer(request: &Request) -> Renderer {
    let what = format!("{} {}", request.method(), request.uri().path());
    let is_s3 = request.headers().contains_key("x-amz-date");
    let is_tus = request.headers().contains_key("tus-resumable");
    Box::new(move |fault| {
        let (status, word) = match fault {
            Fault::NotFound => (StatusCode::NOT_FOUND, "not found"),
            Fault::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method"),
            Fault::BodyTooLarge { limit: _ } => (StatusCode::PAYLOAD_TOO_LARGE, "too large"),
            Fault::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            Fault::Panic { id: _ } => (StatusCode::INTERNAL_SERVER_ERROR, "panic"),
            Fault::BadRequest(_) => (StatusCode::BAD_REQUEST, "bad"),
            Fault::SlowBody => (StatusCode::REQUEST_TIMEOUT, "slow"),
            Fault::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        };
        let (content_type, body) = match (is_s3, is_tus) {
            (true, _) => {
                ("application/xml", format!("<Error><Code>{word}</Code><Resource>{what}</Resource></Error>"))
            }
            (false, true) => ("text/plain", format!("{word}: {what}")),
            (false, false) => ("application/json", json!({ "error": word, "request": what }).to_string()),
        };
        (status, [(CONTENT_TYPE, content_type)], body).into_response()
    })
}

/// Reads a stream without keeping it.
async fn upload(request: Request) -> Response {
    let mut body = request.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return StatusCode::BAD_REQUEST.into_response() };
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    Json(json!({ "bytes": bytes })).into_response()
}

/// A step with a renewed deadline after a stream that outlasts the first.
async fn steps(request: Request) -> Response {
    let first = *request.extensions().get::<Deadline>().expect("the gateway sets it");
    drop(to_bytes(request.into_body(), usize::MAX).await);
    let next = first.renewed();
    Json(json!({ "first_is_over": first.at() < Instant::now(), "next_is_over": next.at() < Instant::now() }))
        .into_response()
}

/// Buffers a stream in pieces of 1 MiB, each counted while it exists.
async fn parts(request: Request) -> Response {
    let hold = request.extensions().get::<BodyLease>().cloned().expect("the gateway sets it");
    let keep = request.headers().contains_key("x-keep");
    let mut body = request.into_body();
    let (mut share, mut filled, mut kept) = (hold.fresh(), 0, Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return StatusCode::BAD_REQUEST.into_response() };
        let length = frame.data_ref().map_or(0, Bytes::len);
        if !share.grow(length) {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        filled += length;
        if filled >= 1024 * 1024 {
            filled = 0;
            let full = std::mem::replace(&mut share, hold.fresh());
            kept.extend(keep.then_some(full));
        }
    }
    StatusCode::OK.into_response()
}

async fn whole(request: Request) -> Response {
    let (head, body) = request.into_parts();
    match read_body(body, head.extensions.get::<BodyLease>()).await {
        Ok(bytes) => Json(json!({ "bytes": bytes.len() })).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn original(request: Request) -> Response {
    let original = request.extensions().get::<Original>().expect("the gateway sets it");
    let authority = original.authority.as_ref().and_then(|value| value.to_str().ok());
    Json(json!({
        "scheme": original.scheme.as_str(),
        "authority": authority,
        "target": original.target.as_str(),
        "prefix": &*original.prefix,
        "seen": request.uri().to_string(),
    }))
    .into_response()
}

async fn own_cors() -> Response {
    ([(ACCESS_CONTROL_ALLOW_ORIGIN, "https://own.example")], "own").into_response()
}

/// Upgrades to a WebSocket; its task is in the service's tracker.
async fn socket(State(tracker): State<TaskTracker>, mut request: Request) -> Response {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("base64");
    let Draining(draining) = request.extensions().get().cloned().expect("the listener sets it");
    let upgrade = hyper::upgrade::on(&mut request);
    tracker.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            talk(upgraded, &draining).await;
        }
    });
    let headers = [
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Echoes messages, and closes with 1012 at shutdown.
async fn talk(upgraded: Upgraded, draining: &tokio_util::sync::CancellationToken) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    loop {
        let received = tokio::select! {
            received = socket.next() => received,
            () = draining.cancelled() => {
                let frame = CloseFrame { code: CloseCode::Restart, reason: "".into() };
                let _gone = socket.close(Some(frame)).await;
                // Wait for the client's close frame.
                while let Some(Ok(_)) = socket.next().await {}
                return;
            }
        };
        match received {
            Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_))) => {}
            Some(Err(_)) | None => return,
        }
    }
}

impl std::fmt::Debug for ProbeServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProbeServer(:{})", self.port)
    }
}
