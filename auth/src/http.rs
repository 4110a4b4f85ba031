//! What the routes share with HTTP: how a request is read, who sends it, what a success looks like, and the handlers.
//! Errors become answers in [`crate::error`].

pub(crate) mod bearer;
pub(crate) mod feature;
pub(crate) mod pagination;
pub(crate) mod redirect;
pub(crate) mod request;
pub(crate) mod response_padding;
pub(crate) mod routes;
pub(crate) mod wire;
