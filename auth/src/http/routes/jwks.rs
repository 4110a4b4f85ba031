//! `GET /.well-known/jwks.json`: the public keys that verify our tokens, without symmetric ones (auth.md §3.14). The only
//! cacheable response.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;

use crate::state::Auth;

pub(crate) async fn get(State(auth): State<Arc<Auth>>) -> Response {
    ([(header::CACHE_CONTROL, "public, max-age=600")], Json(auth.keys.jwks())).into_response()
}
