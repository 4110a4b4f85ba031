//! Fields of the access log (target `basalt::access`). Values are masked, because a request target may contain
//! tokens, passwords, addresses and data.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use basalt_core::claims::Claims;
use basalt_core::keys::Keys;
use http::header::{AUTHORIZATION, HeaderMap};
use http::uri::PathAndQuery;

/// Target of the log events.
pub(super) const TARGET: &str = "basalt::access";

const MASK: &str = "***";
/// Path segments of this length or more are masked; names are shorter, tokens are not.
const MASKED_SEGMENT_BYTES: usize = 64;
/// Maximum length of the logged path.
const MAX_TARGET_BYTES: usize = 2048;

/// Fields of one log event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) path: String,
    pub(super) client: IpAddr,
    /// Claim `sub` of a valid token.
    pub(super) user: Option<String>,
    /// Claim `role` of the valid token or key that the request was admitted with.
    pub(super) role: Option<String>,
}

impl Caller {
    /// Reads the fields from the headers as sent by the client; `None` if the access log is disabled.
    pub(super) fn read(
        target: &PathAndQuery,
        headers: &HeaderMap,
        client: IpAddr,
        keys: &Arc<Keys>,
    ) -> Option<Self> {
        if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return None;
        }
        let user = claims(headers, keys).and_then(|claims| claims.sub().map(str::to_owned));
        Some(Self { path: mask_target(target), client, user, role: None })
    }

    /// Reads the role from the headers of the admitted request, in which a key has become a token.
    pub(super) fn read_role(&mut self, headers: &HeaderMap, keys: &Arc<Keys>) {
        self.role = claims(headers, keys).and_then(|claims| claims.role().map(str::to_owned));
    }
}

/// The claims of a valid bearer token.
fn claims(headers: &HeaderMap, keys: &Arc<Keys>) -> Option<Arc<Claims>> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    keys.verify(token.trim()).ok()
}

/// Masks possible secrets in the target: all values of the query, and path segments that contain an address or look
/// like a token.
fn mask_target(target: &PathAndQuery) -> String {
    let mut out = String::new();
    for (index, segment) in target.path().split('/').enumerate() {
        if index > 0 {
            out.push('/');
        }
        out.push_str(if is_secret(segment) { MASK } else { segment });
    }
    for (index, pair) in target.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        out.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if !is_secret(name) => {
                let _written = write!(out, "{name}={MASK}");
            }
            _ => out.push_str(MASK),
        }
    }
    if out.len() > MAX_TARGET_BYTES {
        // A request target is ASCII.
        out.truncate(MAX_TARGET_BYTES);
        out.push('…');
    }
    out
}

fn is_secret(text: &str) -> bool {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    decoded.len() >= MASKED_SEGMENT_BYTES
        || decoded.contains('@')
        || ["eyJ", "sb_secret_", "sb_publishable_"].iter().any(|prefix| decoded.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_and_tokens_are_masked() {
        let long = "a".repeat(MASKED_SEGMENT_BYTES);
        for (target, expected) in [
            ("/rest/v1/plans", "/rest/v1/plans"),
            ("/rest/v1/plans?select=id&or=(a.eq.1)", "/rest/v1/plans?select=***&or=***"),
            ("/functions/v1/hello?secret&=x&a@b=1", "/functions/v1/hello?***&=***&***"),
            ("/storage/v1/object/b/ada%40example.org/f.png", "/storage/v1/object/b/***/f.png"),
            ("/storage/v1/object/b/eyJhbGciOi.x.y", "/storage/v1/object/b/***"),
            (&format!("/storage/v1/upload/resumable/{long}"), "/storage/v1/upload/resumable/***"),
            ("/x?", "/x?***"),
        ] {
            assert_eq!(mask_target(&target.parse().unwrap()), expected, "{target}");
        }
        let many = format!("/x?{}", "a=1&".repeat(2000));
        assert!(mask_target(&many.parse().unwrap()).len() < MAX_TARGET_BYTES + 8);
    }
}
