//! Connections to one worker: kept alive between requests, and dropped with a request that does not end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Idle connections kept for one worker.
const MAX_IDLE: usize = 32;
/// Servers made with `node:http` close a connection that was idle for 5 s, and a request that crosses the close cannot be repeated.
const MAX_IDLE_TIME: Duration = Duration::from_secs(4);

/// See the module.
#[derive(Debug)]
pub(crate) struct Connections {
    socket: PathBuf,
    idle: Mutex<Vec<(SendRequest<Body>, Instant)>>,
    tracker: TaskTracker,
}

/// The reason for a missing response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// No byte was written: another worker may get the request.
    Unsent(Box<Request<Body>>),
    /// The connection ended before the response's head.
    Broken(hyper::Error),
}

impl Connections {
    pub(crate) fn new(socket: PathBuf, tracker: TaskTracker) -> Arc<Self> {
        Arc::new(Self { socket, idle: Mutex::default(), tracker })
    }

    /// Sends a request. The connection is put back when the response's body has ended.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, SendRequest<Body>), SendError> {
        while let Some(mut connection) = self.take() {
            if connection.ready().await.is_err() {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
        let Some(mut connection) = self.connect().await else {
            return Err(SendError::Unsent(Box::new(request)));
        };
        match connection.try_send_request(request).await {
            Ok(response) => Ok((response, connection)),
            Err(mut error) => Err(match error.take_message() {
                Some(unsent) => SendError::Unsent(Box::new(unsent)),
                None => SendError::Broken(error.into_error()),
            }),
        }
    }

    fn take(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock();
        while let Some((connection, since)) = idle.pop() {
            if since.elapsed() < MAX_IDLE_TIME {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose response has ended.
    pub(crate) fn put_back(&self, connection: SendRequest<Body>) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE && !connection.is_closed() {
            idle.push((connection, Instant::now()));
        }
    }

    async fn connect(&self) -> Option<SendRequest<Body>> {
        let stream = UnixStream::connect(&self.socket).await.ok()?;
        let (connection, driver) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        self.tracker.spawn(async move {
            if let Err(error) = driver.with_upgrades().await {
                tracing::debug!(%error, "a connection to a function's worker ended");
            }
        });
        Some(connection)
    }
}
