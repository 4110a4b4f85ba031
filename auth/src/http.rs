//! What the routes share with HTTP: how a request is read, who sends it, what a success looks like, and the handlers.
//! Errors become answers in [`crate::error`].

pub(crate) mod bearer;
mod location;
pub(crate) mod pagination;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod wire;
