//! Handlers, one module per path: they read the request and word the answer. What happens in between is in
//! [`crate::grants`], [`crate::sign_up`] and the modules of rows.

pub(crate) mod admin_users;
pub(crate) mod health;
pub(crate) mod jwks;
pub(crate) mod logout;
pub(crate) mod settings;
pub(crate) mod signup;
pub(crate) mod token;
pub(crate) mod user;
