//! Who asked for what, for the access log (target `basalt::access`). Values are masked: a target may hold tokens, passwords, addresses and data.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use basalt_core::keys::Keys;
use http::header::{AUTHORIZATION, HeaderMap};
use http::uri::PathAndQuery;

/// The target of its events.
pub(super) const TARGET: &str = "basalt::access";

const MASK: &str = "***";
/// A longer path segment is masked: names are shorter, tokens are not.
const LONGEST_SEGMENT: usize = 64;
/// The path that is logged is cut at this length.
const MOST_BYTES: usize = 2048;

/// Fields of one event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) path: String,
    pub(super) client: IpAddr,
    /// `sub` of a token whose signature is valid.
    pub(super) user: Option<String>,
}

impl Caller {
    /// `None` where nothing reads the access log. `headers` are those that the client sent.
    pub(super) fn read(
        target: &PathAndQuery,
        headers: &HeaderMap,
        client: IpAddr,
        keys: &Arc<Keys>,
    ) -> Option<Self> {
        if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return None;
        }
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
        let token =
            bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        let claims = token.and_then(|token| keys.verify(token).ok());
        let user = claims.and_then(|claims| claims.sub().map(str::to_owned));
        Some(Self { path: masked(target), client, user })
    }
}

/// The target without what may be secret: of the query the names alone, of the path no addresses and nothing that looks like a token.
fn masked(target: &PathAndQuery) -> String {
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
    if out.len() > MOST_BYTES {
        // A target is ASCII.
        out.truncate(MOST_BYTES);
        out.push('…');
    }
    out
}

fn is_secret(text: &str) -> bool {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    decoded.len() >= LONGEST_SEGMENT
        || decoded.contains('@')
        || ["eyJ", "sb_secret_", "sb_publishable_"].iter().any(|prefix| decoded.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_and_values_go() {
        let long = "a".repeat(LONGEST_SEGMENT);
        for (target, expected) in [
            ("/rest/v1/plans", "/rest/v1/plans"),
            ("/rest/v1/plans?select=id&or=(a.eq.1)", "/rest/v1/plans?select=***&or=***"),
            ("/functions/v1/hello?secret&=x&a@b=1", "/functions/v1/hello?***&=***&***"),
            ("/storage/v1/object/b/ada%40example.org/f.png", "/storage/v1/object/b/***/f.png"),
            ("/storage/v1/object/b/eyJhbGciOi.x.y", "/storage/v1/object/b/***"),
            (&format!("/storage/v1/upload/resumable/{long}"), "/storage/v1/upload/resumable/***"),
            ("/x?", "/x?***"),
        ] {
            assert_eq!(masked(&target.parse().unwrap()), expected, "{target}");
        }
        let many = format!("/x?{}", "a=1&".repeat(2000));
        assert!(masked(&many.parse().unwrap()).len() < MOST_BYTES + 8);
    }
}
