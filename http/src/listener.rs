//! Accepts connections and serves HTTP/1.1 and HTTP/2 on one port, with limits on what a slow or hostile peer can hold,
//! and a graceful shutdown.

mod client_stream;
mod framing;
mod streams;

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::response::Response;
use basalt_core::convert::saturating;
use basalt_core::service::Draining;
use http::StatusCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use metrics::{Counter, Gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::bind::{Listening, Stream};
use crate::layers::bounds::{self, HeadLimits};
use crate::pace::Pace;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;
use client_stream::ClientStream;
use streams::{Activity, StreamExecutor};

/// Time for an HTTP/2 connection without streams to close after a graceful shutdown has started. The library waits for
/// the client to acknowledge it, which a client that is gone does not do.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of an HTTP/2 header list, whatever `server.max_header_bytes` is: a header that arrives as a single byte
/// (HPACK) takes about a hundred bytes of memory, but counts as 32. A request target of up to 65,534 bytes still fits.
const MAX_HEADER_LIST: u32 = 72 * 1024;

/// Limits on connections.
pub struct Limits {
    /// One permit per connection. Without a free permit, further connections wait in the system's accept queue and are
    /// served late, because closing them would look like a crashed server. Idle ones are closed after `idle_timeout`.
    pub connections: Arc<Semaphore>,
    /// Maximum time until the head of a connection's first or next request has arrived.
    pub idle_timeout: Duration,
    /// Limits on request heads.
    pub heads: HeadLimits,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub max_streams: u32,
    /// Minimum rate at which clients must read responses.
    pub pace: Pace,
    /// Time for requests in flight to finish during a graceful shutdown.
    pub drain: Duration,
    /// Encrypts the connections, if set.
    pub tls: Option<Acceptor>,
}

impl Limits {
    fn builder(&self, executor: StreamExecutor) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(executor);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.idle_timeout)
            .max_buf_size(saturating::<usize>(self.heads.bytes))
            .max_headers(self.heads.headers);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(self.heads.bytes.min(MAX_HEADER_LIST))
            .max_concurrent_streams(self.max_streams)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        builder
    }
}

/// Held by a connection until its socket is closed, also after an upgrade, when a handler owns the socket.
struct ConnectionGuard {
    _permit: OwnedSemaphorePermit,
    _token: TaskTrackerToken,
    is_upgraded: Arc<AtomicBool>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if self.is_upgraded.load(Ordering::Relaxed) {
            upgraded_connections().decrement(1.0);
        }
    }
}

/// Serves connections of `listener` through `handle` until the graceful shutdown starts. Then it stops accepting
/// connections, notifies upgraded ones ([`Draining`]), and returns when requests in flight have finished, or after
/// `limits.drain`.
pub async fn run<H, F>(listener: Listening, handle: H, limits: Limits, shutdown: &Shutdown)
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    register_metrics();
    let server = Server {
        handle: Arc::new(handle),
        limits,
        connections: TaskTracker::new(),
        graceful: shutdown.graceful.clone(),
        oversized_heads: bounds::refused("max_header_bytes"),
    };
    let _cancelled = shutdown.graceful.run_until_cancelled(server.accept_connections(&listener)).await;
    drop(listener);
    server.drain(&shutdown.forced).await;
}

/// Exports the counters with 0 from the start.
fn register_metrics() {
    slow_readers().increment(0);
    handshake_failures().increment(0);
    upgraded_connections().increment(0.0);
}

/// A listener's open connections, and what they need.
struct Server<H> {
    handle: Arc<H>,
    limits: Limits,
    connections: TaskTracker,
    graceful: CancellationToken,
    /// Requests rejected because their head is too large.
    oversized_heads: Counter,
}

impl<H, F> Server<H>
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    #[expect(clippy::infinite_loop, reason = "the caller cancels it at shutdown")]
    async fn accept_connections(&self, listener: &Listening) {
        let delayed = metrics::counter!("basalt_http_connections_delayed_total");
        loop {
            if let Some((stream, peer, permit)) = accept(listener, &self.limits.connections, &delayed).await {
                self.spawn_connection(stream, peer, permit);
            }
        }
    }

    fn spawn_connection(&self, stream: Stream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        let pace = self.limits.pace;
        let activity = Activity::new();
        let is_upgraded = Arc::new(AtomicBool::new(false));
        let guard = ConnectionGuard {
            _permit: permit,
            _token: self.connections.token(),
            is_upgraded: Arc::clone(&is_upgraded),
        };
        let service = self.request_service(peer, Arc::clone(&activity), is_upgraded);
        let executor =
            StreamExecutor { pace, activity: Arc::clone(&activity), tracker: self.connections.clone() };
        let builder = self.limits.builder(executor);
        let tls = self.limits.tls.clone();
        let lifetime = Lifetime {
            activity: Arc::clone(&activity),
            graceful: self.graceful.clone(),
            idle_timeout: self.limits.idle_timeout,
            stall_timeout: pace.window,
        };
        let oversized_heads = self.oversized_heads.clone();
        self.connections.spawn(async move {
            let stream = match encrypted(tls, stream).await {
                Ok(Some(stream)) => ClientStream::new(stream, pace, activity, guard),
                Ok(None) => return,
                Err(error) => {
                    handshake_failures().increment(1);
                    tracing::debug!(%error, %peer, "TLS handshake failed");
                    return;
                }
            };
            if let Err(error) = serve_connection(builder, stream, service, lifetime).await {
                if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large) {
                    oversized_heads.increment(1);
                }
                // Peers that disconnect or do not speak HTTP are not worth more than a debug event.
                tracing::debug!(%error, %peer, "connection ended");
            }
        });
    }

    /// Passes the requests of one connection to the handler, and counts the connection once it is upgraded.
    fn request_service(
        &self,
        peer: SocketAddr,
        activity: Arc<Activity>,
        is_upgraded: Arc<AtomicBool>,
    ) -> impl RequestService + use<H, F> {
        let handle = Arc::clone(&self.handle);
        let draining = Draining(self.graceful.clone());
        service_fn(move |mut request: Request<Incoming>| {
            activity.record_request(request.version());
            request.extensions_mut().insert(draining.clone());
            let (response, is_upgraded) = (handle(request, peer), Arc::clone(&is_upgraded));
            async move {
                let response = response.await;
                if response.status() == StatusCode::SWITCHING_PROTOCOLS
                    && !is_upgraded.swap(true, Ordering::Relaxed)
                {
                    upgraded_connections().increment(1.0);
                }
                Ok::<_, Infallible>(streams::track_progress(response))
            }
        })
    }

    /// Waits for open connections to finish, for at most the drain time or until the shutdown is forced.
    async fn drain(&self, forced: &CancellationToken) {
        let drain = self.limits.drain;
        self.connections.close();
        let drained = tokio::time::timeout(drain, self.connections.wait());
        if let Some(Err(_elapsed)) = forced.run_until_cancelled(drained).await {
            tracing::warn!("some connections did not finish within {} s; closing them", drain.as_secs());
        }
    }
}

/// A connection with or without TLS. The state of TLS is large.
type MaybeTls = Either<Stream, Box<TlsStream<Stream>>>;

/// Performs the handshake, if the port has TLS; `None` if nothing follows it.
async fn encrypted(tls: Option<Acceptor>, stream: Stream) -> std::io::Result<Option<MaybeTls>> {
    match tls {
        None => Ok(Some(Either::Left(stream))),
        Some(tls) => Ok(tls.accept(stream).await?.map(|stream| Either::Right(Box::new(stream)))),
    }
}

fn handshake_failures() -> Counter {
    metrics::counter!("basalt_tls_handshake_failures_total")
}

/// The service of one connection.
trait RequestService:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static> + Send + 'static
{
}

impl<S> RequestService for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static>
        + Send
        + 'static
{
}

/// What ends a connection.
struct Lifetime {
    activity: Arc<Activity>,
    graceful: CancellationToken,
    idle_timeout: Duration,
    stall_timeout: Duration,
}

/// Serves a connection until it is closed, has been idle for too long, or the graceful shutdown starts.
async fn serve_connection(
    builder: auto::Builder<StreamExecutor>,
    stream: ClientStream<MaybeTls, ConnectionGuard>,
    service: impl RequestService,
    lifetime: Lifetime,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let Lifetime { activity, graceful, idle_timeout, stall_timeout } = lifetime;
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        result = activity.count_polls(connection.as_mut()) => result,
        () = graceful.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let without_streams = async {
                tokio::time::sleep(CLOSE_TIMEOUT).await;
                activity.idle(CLOSE_TIMEOUT).await;
            };
            tokio::select! {
                result = activity.count_polls(connection) => result,
                () = without_streams => Ok(()),
            }
        }
        () = activity.idle(idle_timeout) => {
            connection.as_mut().graceful_shutdown();
            // Responses may still be in transit; a stream that the client does not read never ends.
            tokio::time::timeout(stall_timeout, activity.count_polls(connection)).await.unwrap_or(Ok(()))
        }
    }
}

/// Connections that a handler has taken over: websockets.
fn upgraded_connections() -> Gauge {
    metrics::gauge!("basalt_http_upgraded_connections")
}

/// Counts a client that was disconnected because it does not read its response.
fn count_slow_reader() {
    slow_readers().increment(1);
}

fn slow_readers() -> Counter {
    metrics::counter!("basalt_http_slow_clients_total", "what" => "answer")
}

type Accepted = (Stream, SocketAddr, OwnedSemaphorePermit);

/// Accepts a connection once a permit is free; `None` if accepting failed.
async fn accept(listener: &Listening, permits: &Arc<Semaphore>, delayed: &Counter) -> Option<Accepted> {
    let permit = match Arc::clone(permits).try_acquire_owned() {
        Ok(permit) => permit,
        Err(_full) => {
            let permit = Arc::clone(permits).acquire_owned().await.ok()?;
            delayed.increment(1);
            permit
        }
    };
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            // Most likely no file descriptors are left; existing connections must end before more can be accepted.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
