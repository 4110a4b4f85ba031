//! Accepting connections and ending them: HTTP/1.1 and HTTP/2 on one port, with bounds on what a slow or hostile
//! peer may hold, and an orderly end.

mod client_stream;
mod framing;
mod streams;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::response::Response;
use basalt_core::service::Draining;
use http::StatusCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use metrics::{Counter, Gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::bind::{Listening, Stream};
use crate::layers::bounds;
use crate::pace::Pace;
use crate::shutdown::Shutdown;
use client_stream::ClientStream;
use streams::{Activity, StreamExecutor};

/// How long an HTTP/2 connection without streams may take to say goodbye when the server stops: the library waits for
/// the client's word, and one that is gone does not give it.
const GOODBYE: Duration = Duration::from_secs(1);
/// Most bytes of an HTTP/2 header list, whatever `server.max_header_bytes` says: the library makes about a hundred bytes
/// of a header that came as one (HPACK), and counts 32 for it. A request target fits in, which is at most 65,534 bytes.
const MAX_HEADER_LIST: u32 = 72 * 1024;

/// `server.max_header_bytes` and `server.max_headers`.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of request line and headers together.
    pub bytes: u32,
    /// Headers on HTTP/1.1.
    pub headers: usize,
}

/// What connections may take.
pub struct Limits {
    /// One permit each. Without one, newcomers are not accepted and wait in the system's queue: they are served late,
    /// where a closed connection would look like a server that fell. Idle ones make room within `idle_timeout`.
    pub connections: Arc<Semaphore>,
    /// The head of a connection's first or next request must have arrived after this.
    pub idle_timeout: Duration,
    /// How large a request's head may be.
    pub heads: HeadLimits,
    /// Requests in flight on one HTTP/2 connection.
    pub max_streams: u32,
    /// At which a client must take its answers.
    pub pace: Pace,
    /// Time for requests in flight when the server stops.
    pub drain: Duration,
}

impl Limits {
    fn builder(&self, executor: StreamExecutor) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(executor);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.idle_timeout)
            .max_buf_size(usize::try_from(self.heads.bytes).unwrap_or(usize::MAX))
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

/// What a connection holds until its socket is closed, also after an upgrade, when a handler owns the socket.
struct ConnectionGuard {
    _permit: OwnedSemaphorePermit,
    _token: TaskTrackerToken,
    is_upgraded: Arc<AtomicBool>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if self.is_upgraded.load(Ordering::Relaxed) {
            upgraded().decrement(1.0);
        }
    }
}

/// Serves connections of `listener` through `handle` until the graceful shutdown; then refuses new ones, tells upgraded
/// ones ([`Draining`]), lets requests in flight finish and returns.
pub async fn run<H, F>(listener: Listening, handle: H, limits: Limits, shutdown: &Shutdown)
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let handle = Arc::new(handle);
    let connections = TaskTracker::new();
    let Limits { idle_timeout, pace, drain, .. } = limits;
    let late = metrics::counter!("basalt_http_connections_delayed_total");
    let large_heads = bounds::refused("max_header_bytes");
    // Shown from the start.
    untaken_answers().increment(0);
    upgraded().increment(0.0);
    loop {
        let Some(accepted) =
            shutdown.graceful.run_until_cancelled(accept(&listener, &limits.connections, &late)).await
        else {
            break;
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let activity = Activity::new();
        let is_upgraded = Arc::new(AtomicBool::new(false));
        let place = ConnectionGuard {
            _permit: permit,
            _token: connections.token(),
            is_upgraded: Arc::clone(&is_upgraded),
        };
        let service = {
            let (handle, activity) = (Arc::clone(&handle), Arc::clone(&activity));
            let draining = Draining(shutdown.graceful.clone());
            service_fn(move |mut request: Request<Incoming>| {
                activity.note(request.version());
                request.extensions_mut().insert(draining.clone());
                let (answer, is_upgraded) = (handle(request, peer), Arc::clone(&is_upgraded));
                async move {
                    let answer = answer.await;
                    if answer.status() == StatusCode::SWITCHING_PROTOCOLS
                        && !is_upgraded.swap(true, Ordering::Relaxed)
                    {
                        upgraded().increment(1.0);
                    }
                    Ok::<_, Infallible>(streams::watched(answer))
                }
            })
        };
        let executor = StreamExecutor { pace, activity: Arc::clone(&activity), tracker: connections.clone() };
        let builder = limits.builder(executor);
        let stream = ClientStream::new(stream, pace, Arc::clone(&activity), place);
        let large_heads = large_heads.clone();
        let graceful = shutdown.graceful.clone();
        connections.spawn(async move {
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = activity.in_turns(connection.as_mut()) => ended,
                () = graceful.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let without_streams = async {
                        tokio::time::sleep(GOODBYE).await;
                        activity.idle(GOODBYE).await;
                    };
                    tokio::select! {
                        ended = activity.in_turns(connection) => ended,
                        () = without_streams => Ok(()),
                    }
                }
                () = activity.idle(idle_timeout) => {
                    connection.as_mut().graceful_shutdown();
                    // What was answered may still be on its way; a stream that the client does not take never ends.
                    tokio::time::timeout(pace.window, activity.in_turns(connection)).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large) {
                    large_heads.increment(1);
                }
                // A peer that hangs up or talks no HTTP is its own business.
                tracing::debug!(%error, %peer, "connection ended");
            }
        });
    }
    drop(listener);
    connections.close();
    let drained = tokio::time::timeout(drain, connections.wait());
    if let Some(Err(_elapsed)) = shutdown.forced.run_until_cancelled(drained).await {
        tracing::warn!("some connections did not finish within {} s; closing them", drain.as_secs());
    }
}

/// Connections that a handler has taken over: websockets.
fn upgraded() -> Gauge {
    metrics::gauge!("basalt_http_upgraded_connections")
}

/// A client was given up because it does not take its answer.
fn count_untaken_answer() {
    untaken_answers().increment(1);
}

fn untaken_answers() -> Counter {
    metrics::counter!("basalt_http_slow_clients_total", "what" => "answer")
}

type Accepted = (Stream, SocketAddr, OwnedSemaphorePermit);

async fn accept(listener: &Listening, permits: &Arc<Semaphore>, late: &Counter) -> Option<Accepted> {
    let permit = match Arc::clone(permits).try_acquire_owned() {
        Ok(permit) => permit,
        Err(_full) => {
            let permit = Arc::clone(permits).acquire_owned().await.ok()?;
            late.increment(1);
            permit
        }
    };
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            // Out of file descriptors, most likely: existing connections must end before more can be taken.
            tracing::warn!(%error, "accepting a connection failed");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
