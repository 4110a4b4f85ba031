//! The interface between the gateway and the services.
//!
//! A service states its limits and how it renders failures that occur outside of its handlers, so that every error
//! has the shape of its protocol (DESIGN §12, "limits and gateway errors").

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::HeaderValue;
use http::uri::{PathAndQuery, Scheme};
use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::memory::BodyLease;

/// A service, as it is mounted by the gateway.
pub struct Service {
    /// Short name such as `rest` or `auth`, as used by `--only`, logs and metrics.
    pub name: &'static str,
    /// Default mount point, such as `/rest/v1`.
    pub prefix: &'static str,
    /// The handlers. They see paths without the prefix.
    pub router: Router,
    /// How the request's body is delivered. The prefix has been removed from the path.
    pub bodies: fn(&Request<Body>) -> BodyMode,
    /// Maximum size of a buffered body, in bytes. The service itself limits what it streams.
    pub body_limit: usize,
    /// Maximum time from the request's head to the response's head; while a streamed body arrives, maximum time
    /// without progress.
    pub deadline: Duration,
    /// Whether JSON and CSV responses are compressed for clients that accept it.
    pub compresses: bool,
    /// CORS headers of this service.
    pub cors: Cors,
    /// Selects preflights that the service answers itself; `None` for none. The service's own CORS headers take
    /// precedence on all responses.
    pub own_preflight: Option<Predicate>,
    /// Returns the renderer for failures of this request outside of the handlers.
    pub renderer: fn(&Request<Body>) -> Renderer,
}

/// How the body of a request is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMode {
    /// The service reads the complete body: the gateway charges it to `server.body_memory` before the service starts,
    /// and ends the request at `Service::deadline`.
    Buffered,
    /// The service processes the body as it arrives, whatever its length. The gateway reserves no memory and sets no
    /// total deadline, but requires progress. The service charges what it buffers, with [`BodyLease::fresh`] of the
    /// request extension [`BodyLease`].
    Streamed,
}

/// A predicate on a request whose path has had the prefix removed.
pub type Predicate = Box<dyn Fn(&Request<Body>) -> bool + Send + Sync>;

/// Renders a failure as a response. A function that captures nothing is not allocated.
pub type Renderer = Box<dyn Fn(Fault) -> Response + Send + Sync>;

/// A service's handlers as one function, bypassing the router.
pub type Handler = Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Response> + Send + Sync>;

/// The service-specific part of CORS. Origins, requested headers and max-age are up to the gateway.
#[derive(Debug, Clone, Copy)]
pub struct Cors {
    /// Value of `Access-Control-Allow-Methods`.
    pub methods: &'static str,
    /// Value of `Access-Control-Expose-Headers`.
    pub expose: &'static str,
    /// Status of the response to a preflight.
    pub preflight_status: StatusCode,
}

/// A failure outside of the service's handlers.
#[derive(Debug, Clone)]
pub enum Fault {
    /// No such route.
    NotFound,
    /// The route exists, but not for this method.
    MethodNotAllowed,
    /// The body exceeds the limit.
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The request's deadline has passed.
    Timeout,
    /// A handler panicked. The log contains the id.
    Panic {
        /// Request id.
        id: String,
    },
    /// The request is malformed; contains the reason.
    BadRequest(String),
    /// The body arrived too slowly, or the client stopped sending; 408.
    SlowBody,
    /// The server is at capacity; 503 with `Retry-After`.
    Overloaded,
}

/// Request extension: when the handler, or its next database step, must have finished.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    time: Duration,
}

impl Deadline {
    /// A deadline `time` after `start`.
    #[must_use]
    pub fn new(start: Instant, time: Duration) -> Self {
        Self { at: start + time, time }
    }

    /// The instant at which the deadline passes.
    #[must_use]
    pub const fn at(self) -> Instant {
        self.at
    }

    /// The same time limit starting now, for the next database step of a request with a streamed body: the stream may
    /// have taken any time. For a buffered body the first deadline still applies.
    #[must_use]
    pub fn renewed(self) -> Self {
        Self::new(Instant::now(), self.time)
    }
}

/// Request extension: the request's URL as the client sent it, before prefix and key were removed. Used for
/// signatures (S3), `Location` (TUS) and the URLs that functions see.
#[derive(Debug, Clone)]
pub struct Original {
    /// `http`, or the `X-Forwarded-Proto` of a trusted proxy.
    pub scheme: Scheme,
    /// `Host`, or `:authority` on HTTP/2; `None` if the client sent neither.
    pub authority: Option<HeaderValue>,
    /// Path and query. `"`, `<`, `>` and backticks are escaped, as they are by clients that sign requests.
    pub target: PathAndQuery,
    /// Mount point of the service; `""` at the root.
    pub prefix: Arc<str>,
}

/// Request extension: cancelled when the server begins to shut down. Handlers of upgraded connections and endless
/// responses then say goodbye; the server waits for them until its drain timeout.
#[derive(Debug, Clone)]
pub struct Draining(pub CancellationToken);

/// Request extension: the request comes from a browser, where secret keys are not accepted. For services that check
/// keys themselves.
#[derive(Debug, Clone, Copy)]
pub struct WithoutSecretKeys;

/// Request extension: the id in the log and in the `x-request-id` response header.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Request extension: the client's address, as far as it can be trusted (DESIGN §12, "client address").
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body exceeds the service's limit.
    #[error("the request body is too large")]
    TooLarge,
    /// The client stopped sending; contains the reason.
    #[error("the request body ended early: {0}")]
    Disconnected(String),
}

/// Reads a complete body, whose size the gateway has limited. `lease` is the body's share of the server's memory (the
/// request extension [`BodyLease`]); the returned bytes keep it.
///
/// # Errors
/// The body exceeded the limit, or the client disconnected.
pub async fn read_body(mut body: Body, lease: Option<&BodyLease>) -> Result<Bytes, BodyError> {
    /// A declared length proves nothing: beyond this, the buffer grows as data arrives.
    const FIRST_BYTES: u64 = 1024 * 1024;
    let mut first = Bytes::new();
    // Only a second frame requires a copy. It goes into one growing buffer, because joining the frames at the end
    // would hold them twice.
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| body_error(&error))?.into_data() else { continue };
        if first.is_empty() && joined.is_empty() {
            first = data;
            continue;
        }
        if joined.is_empty() {
            let announced = body.size_hint().lower().min(FIRST_BYTES);
            let rest = usize::try_from(announced).unwrap_or(0).max(data.len());
            joined.reserve(first.len() + rest);
            joined.extend_from_slice(&std::mem::take(&mut first));
        }
        joined.extend_from_slice(&data);
    }
    let bytes = if joined.is_empty() { first } else { joined.freeze() };
    Ok(match lease {
        Some(lease) => lease.keep(bytes),
        None => bytes,
    })
}

fn body_error(error: &axum::Error) -> BodyError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if inner.is::<LengthLimitError>() {
            return BodyError::TooLarge;
        }
        cause = inner.source();
    }
    BodyError::Disconnected(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::Limited;

    use super::*;

    #[tokio::test]
    async fn a_body_over_the_limit_is_too_large() {
        let limited = Body::new(Limited::new(Body::from("four"), 3));
        assert_eq!(read_body(limited, None).await, Err(BodyError::TooLarge));
        assert_eq!(read_body(Body::from("four"), None).await.unwrap(), "four");
    }

    #[tokio::test]
    async fn frames_are_joined_in_order() {
        for count in [0, 1, 2, 300] {
            let pieces: Vec<String> = (0..count).map(|number| format!("{number};")).collect();
            let body = Body::from_stream(stream::iter(pieces.clone().into_iter().map(Ok::<_, Infallible>)));
            assert_eq!(read_body(body, None).await.unwrap(), pieces.concat());
        }
    }
}
