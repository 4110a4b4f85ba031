//! Accepting connections and ending them: HTTP/1.1 and HTTP/2 on one port, with bounds on what a slow or hostile
//! peer may hold, and an orderly end.

mod client_stream;
mod framing;
mod streams;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use metrics::Counter;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bind::{Listening, Stream};
use crate::pace::Pace;
use client_stream::ClientStream;
use streams::{Activity, StreamExecutor};

/// Request line and headers; a request line of 64 KiB must fit (rest.md §5, 46).
const MAX_HEADER_BYTES: usize = 160 * 1024;
/// The most that the HTTP library holds on its stack: one more costs every request two allocations of kilobytes.
const MAX_HEADERS: usize = 100;

/// What connections may take.
pub(crate) struct Limits {
    /// One permit each. Without one, newcomers are not accepted and wait in the system's queue: they are served late,
    /// where a closed connection would look like a server that fell. Idle ones make room within `idle_timeout`.
    pub(crate) connections: Arc<Semaphore>,
    /// The head of a connection's first or next request must have arrived after this.
    pub(crate) idle_timeout: Duration,
    /// At which a client must take its answers.
    pub(crate) pace: Pace,
    /// Time for requests in flight when the server stops.
    pub(crate) drain: Duration,
}

/// Serves connections of `listener` through `handle` until `shutdown`; then refuses new ones, lets requests in
/// flight finish and returns.
pub(crate) async fn run<H, F>(listener: Listening, handle: H, limits: Limits, shutdown: CancellationToken)
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let handle = Arc::new(handle);
    let connections = TaskTracker::new();
    let Limits { connections: permits, idle_timeout, pace, drain } = limits;
    let late = metrics::counter!("basalt_http_connections_delayed_total");
    loop {
        let Some(accepted) = shutdown.run_until_cancelled(accept(&listener, &permits, &late)).await else {
            break;
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let handle = Arc::clone(&handle);
        let service = service_fn(move |request| {
            let answer = handle(request, peer);
            async move { Ok::<_, Infallible>(streams::watched(answer.await)) }
        });
        let activity = Activity::new();
        let stream = ClientStream::new(stream, idle_timeout, pace, Arc::clone(&activity));
        let builder = builder(idle_timeout, StreamExecutor { pace, activity: Arc::clone(&activity) });
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = shutdown.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
                () = activity.idle(idle_timeout) => {
                    connection.as_mut().graceful_shutdown();
                    // What was answered may still be on its way; a stream that nobody takes never ends.
                    tokio::time::timeout(pace.window, connection).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                // A peer that hangs up or talks no HTTP is its own business.
                tracing::debug!(%error, %peer, "connection ended");
            }
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!("some connections did not finish within {} s; closing them", drain.as_secs());
    }
}

/// A client was given up because it does not take its answer.
fn count_untaken_answer() {
    metrics::counter!("basalt_http_slow_clients_total", "what" => "answer").increment(1);
}

type Accepted = (Stream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

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

fn builder(idle_timeout: Duration, executor: StreamExecutor) -> auto::Builder<StreamExecutor> {
    let mut builder = auto::Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle_timeout)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
