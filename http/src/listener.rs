//! Accepting connections and ending them: HTTP/1.1 and HTTP/2 on one port, with bounds on what a slow or hostile
//! peer may hold, and an orderly end.

mod client_stream;
mod frames;
mod framing;
mod streams;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use metrics::Counter;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::bind::{Listening, Stream};
use crate::layers::bounds;
use crate::layers::heads::HeadLimits;
use crate::layers::heads::HeadMemory;
use crate::pace::Pace;
use crate::shutdown::Shutdown;
use client_stream::{ClientStream, Heads};
use streams::{Activity, StreamExecutor};

/// How long an HTTP/2 connection without streams may take to say goodbye when the server stops: the library waits for
/// the client's word, and one that is gone does not give it.
const GOODBYE: Duration = Duration::from_secs(1);

/// What connections may take.
pub struct Limits {
    /// One permit each. Without one, newcomers are not accepted and wait in the system's queue: they are served late,
    /// where a closed connection would look like a server that fell. Idle ones make room within `idle_timeout`.
    pub connections: Arc<Semaphore>,
    /// The head of a connection's first or next request must have arrived after this.
    pub idle_timeout: Duration,
    /// How large a request's head may be.
    pub heads: HeadLimits,
    /// What heads may hold together that are not whole yet.
    pub head_memory: HeadMemory,
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
            .max_header_list_size(self.heads.bytes)
            .max_concurrent_streams(self.max_streams)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        builder
    }
}

/// Serves connections of `listener` through `handle` until it is told to `stop`; then refuses new ones, lets requests
/// in flight finish and returns.
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
    loop {
        let Some(accepted) =
            shutdown.graceful.run_until_cancelled(accept(&listener, &limits.connections, &late)).await
        else {
            break;
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let handle = Arc::clone(&handle);
        let service = service_fn(move |request| {
            let answer = handle(request, peer);
            async move { Ok::<_, Infallible>(streams::watched(answer.await)) }
        });
        let activity = Activity::new();
        let heads = Heads::new(limits.heads, limits.head_memory.share());
        let stream = ClientStream::new(stream, idle_timeout, pace, Arc::clone(&activity), heads);
        let builder = limits.builder(StreamExecutor { pace, activity: Arc::clone(&activity) });
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
                    // What was answered may still be on its way; a stream that nobody takes never ends.
                    tokio::time::timeout(pace.window, activity.in_turns(connection)).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                // What found no room is counted as that.
                let is_large =
                    error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large)
                        && !activity.had_no_room.load(Ordering::Relaxed);
                if is_large || activity.had_too_many_headers.load(Ordering::Relaxed) {
                    large_heads.increment(1);
                }
                // A peer that hangs up or talks no HTTP is its own business.
                tracing::debug!(%error, %peer, "connection ended");
            }
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    let drained = tokio::time::timeout(drain, connections.wait());
    if let Some(Err(_elapsed)) = shutdown.forced.run_until_cancelled(drained).await {
        tracing::warn!("some connections did not finish within {} s; closing them", drain.as_secs());
    }
}

/// A client was given up because it does not take its answer.
fn count_untaken_answer() {
    untaken_answers().increment(1);
}

fn untaken_answers() -> Counter {
    metrics::counter!("basalt_http_slow_clients_total", "what" => "answer")
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
