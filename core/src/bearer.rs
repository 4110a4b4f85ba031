//! Extraction of the token from `Authorization: Bearer`.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Returns what follows the scheme `Bearer`, which is case-insensitive (RFC 9110, section 11.1), and one space.
/// `None` for other schemes, a missing header or a non-text value.
#[must_use]
pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn scheme_is_case_insensitive() {
        let token = |header| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
            bearer_token(&headers).map(str::to_owned)
        };
        for header in ["Bearer a.b.c", "bearer a.b.c", "BEARER a.b.c", "bEaReR a.b.c"] {
            assert_eq!(token(header).as_deref(), Some("a.b.c"), "{header}");
        }
        for header in ["", "Bearer", "Basic a.b.c", "Bearera.b.c", "a.b.c"] {
            assert_eq!(token(header), None, "{header}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
