//! What a service hands to the gateway, and what the gateway hands to a request.
//!
//! A service states its limits and how it words the failures that happen outside its handlers, so that every error
//! has its protocol's shape (DESIGN §12, "limits and gateway errors").

use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError};
use tokio::time::Instant;

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

/// Reads a whole body; the gateway has bounded it.
///
/// # Errors
/// It passed the limit, or the client left.
pub async fn read_body(body: Body) -> Result<Bytes, BodyError> {
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => {
            let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            while let Some(inner) = cause {
                if inner.is::<LengthLimitError>() {
                    return Err(BodyError::TooLarge);
                }
                cause = inner.source();
            }
            Err(BodyError::Disconnected(error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Limited;

    use super::*;

    #[tokio::test]
    async fn a_body_over_the_limit_is_told_apart_from_a_broken_one() {
        let limited = Body::new(Limited::new(Body::from("four"), 3));
        assert_eq!(read_body(limited).await, Err(BodyError::TooLarge));
        assert_eq!(read_body(Body::from("four")).await.unwrap(), "four");
    }
}
