//! The HTTP layer: handlers, extractors, request bodies and success bodies. [`crate::error`] renders errors.

pub(crate) mod bearer;
mod location;
pub(crate) mod pagination;
pub(crate) mod protected;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod wire;
