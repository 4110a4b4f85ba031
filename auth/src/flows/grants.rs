//! The grants of `/token`, one module per `grant_type`. Each returns an account, its session and a refresh token.

pub(crate) mod id_token;
pub(crate) mod password;
pub(crate) mod pkce;
pub(crate) mod refresh;
pub(crate) mod switched_off;
