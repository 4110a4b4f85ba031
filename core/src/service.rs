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
use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError};
use tokio::time::Instant;

use crate::memory::Hold;

/// One mounted service.
pub struct Service {
    /// Short name: `rest`, `auth`… It is what `--only` takes and what logs and metrics carry.
    pub name: &'static str,
    /// Usual mount point, such as `/rest/v1`.
    pub prefix: &'static str,
    /// Handlers; they see paths without the prefix.
    pub router: Router,
    /// Request body limit in bytes.
    pub body_limit: usize,
    /// Time from the request's head to the response's head.
    pub deadline: Duration,
    /// What CORS answers name for this service.
    pub cors: Cors,
    /// Words a failure outside the handlers in the service's protocol.
    pub render: fn(Fault) -> Response,
}

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

/// Request extension: when the gateway stops waiting for the handler.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Instant);

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

/// Reads a whole body; the gateway has bounded it. `hold` is its share of the server's memory ([`Hold`], a request
/// extension), which goes with the bytes.
///
/// # Errors
/// It passed the limit, or the client left.
pub async fn read_body(mut body: Body, hold: Option<&Hold>) -> Result<Bytes, BodyError> {
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
