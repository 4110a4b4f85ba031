//! Rows and rules of the OAuth 2.1 server (auth.md §3.22): clients, authorization requests, consents, scopes. Of client secrets and
//! authorization codes only the SHA-256 is stored: both are random, so a slow hash would add nothing.

pub(crate) mod authorizations;
pub(crate) mod clients;
pub(crate) mod consents;
pub(crate) mod metadata;
pub(crate) mod scopes;

use aws_lc_rs::digest::{SHA256, digest};
use basalt_core::random;

/// Length of codes, secrets and authorization ids: 190 bits.
const TOKEN_CHARACTERS: usize = 32;

/// A random code, secret or id.
fn generate() -> String {
    random::token(TOKEN_CHARACTERS)
}

/// The stored form of a code or secret.
fn stored(text: &str) -> String {
    hex::encode(digest(&SHA256, text.as_bytes()))
}
