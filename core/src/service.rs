//! What a service hands to the gateway, and what the gateway hands to a request.
//!
//! A service states its limits and how it words the failures that happen outside its handlers, so that every error
//! has its protocol's shape (DESIGN §12, "limits and gateway errors").

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

/// One mounted service.
pub struct Service {
    /// Short name: `rest`, `auth`… It is what `--only` takes and what logs and metrics carry.
    pub name: &'static str,
    /// Usual mount point, such as `/rest/v1`.
    pub prefix: &'static str,
    /// Handlers; they see paths without the prefix.
    pub router: Router,
    /// How the body of this request comes. The path has lost the prefix.
    pub bodies: fn(&Request<Body>) -> BodyMode,
    /// Limit of a buffered body, in bytes. The service limits what it streams.
    pub body_limit: usize,
    /// Time from the request's head to the response's head; while a streamed body comes, time without progress.
    pub deadline: Duration,
    /// Whether JSON and CSV answers are compressed for clients that ask for it.
    pub compresses: bool,
    /// What CORS answers name for this service.
    pub cors: Cors,
    /// Preflights that the service answers itself; `None` for none. Its own CORS headers win on every answer.
    pub own_preflight: Option<Predicate>,
    /// Chooses who words a failure of this request outside the handlers, in the service's protocol.
    pub renderer: fn(&Request<Body>) -> Renderer,
}

/// How the body of a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMode {
    /// The service reads it whole: the gateway counts it against `server.body_memory` before the service starts, and
    /// ends the request at `Service::deadline`.
    Buffered,
    /// The service passes it on as it comes, however long it is. The gateway reserves nothing and sets no total
    /// deadline; the client must keep the pace. The service counts what it buffers, with [`BodyLease::fresh`] of the
    /// request extension [`BodyLease`].
    Streamed,
}

/// A question about a request whose path has lost the prefix.
pub type Predicate = Box<dyn Fn(&Request<Body>) -> bool + Send + Sync>;

/// Words a failure. A function that captures nothing costs no allocation.
pub type Renderer = Box<dyn Fn(Fault) -> Response + Send + Sync>;

/// A service's handlers as one function, without a router before them.
pub type Handler = Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Response> + Send + Sync>;

/// The service's part of CORS; origins, requested headers and max-age are the gateway's.
#[derive(Debug, Clone, Copy)]
pub struct Cors {
    /// `Access-Control-Allow-Methods`.
    pub methods: &'static str,
    /// `Access-Control-Expose-Headers`.
    pub expose: &'static str,
    /// Status of a preflight answer.
    pub preflight_status: StatusCode,
}

/// A failure that no handler saw.
#[derive(Debug, Clone)]
pub enum Fault {
    /// No such route.
    NotFound,
    /// The route exists, the method does not.
    MethodNotAllowed,
    /// The body passed the limit, in bytes.
    BodyTooLarge {
        /// The limit.
        limit: usize,
    },
    /// The deadline passed.
    Timeout,
    /// A handler panicked; the id is in the log.
    Panic {
        /// Request id.
        id: String,
    },
    /// The request could not be read.
    BadRequest(String),
    /// The body came too slowly: the client stopped sending, or nearly; 408.
    SlowBody,
    /// The server has more to do than it may take on; 503 with `Retry-After`.
    Overloaded,
}

/// Request extension: when the handler must have finished, or its next database step.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    time: Duration,
}

impl Deadline {
    /// `time` from `start`.
    #[must_use]
    pub fn new(start: Instant, time: Duration) -> Self {
        Self { at: start + time, time }
    }

    /// The moment.
    #[must_use]
    pub const fn at(self) -> Instant {
        self.at
    }

    /// The same time from now on, for the next database step of a request with a streamed body: the stream took as long
    /// as the client needed. A request with a buffered body ends at its first deadline all the same.
    #[must_use]
    pub fn renewed(self) -> Self {
        Self::new(Instant::now(), self.time)
    }
}

/// Request extension: the request's address as the client sent it, before the prefix and the key are taken out.
/// Signatures (S3), `Location` (TUS) and the URLs that functions see are made of it.
#[derive(Debug, Clone)]
pub struct Original {
    /// `http`, or what a trusted proxy says in `X-Forwarded-Proto`.
    pub scheme: Scheme,
    /// `Host`, or `:authority` on HTTP/2; `None` when the client sent neither.
    pub authority: Option<HeaderValue>,
    /// Path and query. `"`, `<`, `>` and backticks are escaped: clients that sign requests escape them too.
    pub target: PathAndQuery,
    /// Where the service is mounted; `""` at the root.
    pub prefix: Arc<str>,
}

/// Request extension: cancelled when the server begins to shut down. Handlers of upgraded connections and of endless
/// answers say goodbye then; the server waits for them until its drain ends.
#[derive(Debug, Clone)]
pub struct Draining(pub CancellationToken);

/// Request extension: a browser sends the request, where secret keys do not count. For services that judge keys themselves.
#[derive(Debug, Clone, Copy)]
pub struct WithoutSecretKeys;

/// Request extension: the id that the log and the `x-request-id` response header carry.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Request extension: the client's address, as far as it can be trusted (DESIGN §12, "client address").
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than the service's limit.
    #[error("the request body is too large")]
    TooLarge,
    /// The client stopped sending.
    #[error("the request body ended early: {0}")]
    Disconnected(String),
}

/// Reads a whole body; the gateway has bounded it. `hold` is its share of the server's memory ([`BodyLease`], a request
/// extension), which goes with the bytes.
///
/// # Errors
/// It passed the limit, or the client left.
pub async fn read_body(mut body: Body, hold: Option<&BodyLease>) -> Result<Bytes, BodyError> {
    /// Announced is not sent: more is made room for as it comes.
    const FIRST_BYTES: u64 = 1024 * 1024;
    let mut first = Bytes::new();
    // A second frame makes it a copy, into one buffer that grows: pieces joined at the end would be held twice.
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| refusal(&error))?.into_data() else { continue };
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
    Ok(match hold {
        Some(hold) => hold.keep(bytes),
        None => bytes,
    })
}

fn refusal(error: &axum::Error) -> BodyError {
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
    async fn a_body_over_the_limit_is_told_apart_from_a_broken_one() {
        let limited = Body::new(Limited::new(Body::from("four"), 3));
        assert_eq!(read_body(limited, None).await, Err(BodyError::TooLarge));
        assert_eq!(read_body(Body::from("four"), None).await.unwrap(), "four");
    }

    #[tokio::test]
    async fn pieces_are_joined_in_order() {
        for count in [0, 1, 2, 300] {
            let pieces: Vec<String> = (0..count).map(|number| format!("{number};")).collect();
            let body = Body::from_stream(stream::iter(pieces.clone().into_iter().map(Ok::<_, Infallible>)));
            assert_eq!(read_body(body, None).await.unwrap(), pieces.concat());
        }
    }
}
