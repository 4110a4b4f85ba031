//! What `/token` grants: one module per `grant_type`. Each answers with an account, its session and a refresh token;
//! [`crate::http::routes::token`] makes the body of them.

pub(crate) mod password;
pub(crate) mod pkce;
pub(crate) mod refresh;
pub(crate) mod switched_off;
