//! Pagination of lists and its headers (auth.md §3.13). The client parses only what follows the first `=` of a link, so `page`
//! must be its first parameter.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::form_urlencoded::Serializer;

use crate::database::Window;
use crate::error::AuthError;
use crate::http::request::RequestContext;
use crate::users::list::Direction;

const DEFAULT_PER_PAGE: i64 = 50;
/// Responses are bounded (STYLE, invariant 6).
const MAX_PER_PAGE: i64 = 1000;
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// Starts at 1.
    number: i64,
    per_page: i64,
}

impl Page {
    /// `page` and `per_page` of the query.
    pub(crate) fn read(request: &RequestContext) -> Result<Self, AuthError> {
        let page = number(request, "page", 1)?.max(1);
        Ok(Self { number: page, per_page: bounded(number(request, "per_page", DEFAULT_PER_PAGE)?) })
    }

    pub(crate) const fn window(&self) -> Window {
        Window { limit: self.per_page, offset: (self.number - 1) * self.per_page }
    }

    /// `X-Total-Count` and `Link`.
    pub(crate) fn add_headers(
        &self,
        headers: &mut HeaderMap,
        path: &str,
        request: &RequestContext,
        total: i64,
    ) {
        let last = (total + self.per_page - 1) / self.per_page;
        let mut links = Vec::new();
        if last > self.number {
            links.push(format!("<{}>; rel=\"next\"", link(path, request, self.number + 1)));
        }
        links.push(format!("<{}>; rel=\"last\"", link(path, request, last)));
        headers.insert(TOTAL, HeaderValue::from(total));
        if let Ok(value) = HeaderValue::from_str(&links.join(", ")) {
            headers.insert(header::LINK, value);
        }
    }
}

/// `limit` of a list in cursor mode.
pub(crate) fn limit(request: &RequestContext) -> Result<i64, AuthError> {
    Ok(bounded(number(request, "limit", DEFAULT_PER_PAGE)?))
}

/// The cursor is invalid.
pub(crate) fn bad_cursor() -> AuthError {
    AuthError::validation("Bad Pagination Parameters: invalid cursor")
}

fn bounded(wanted: i64) -> i64 {
    if wanted == 0 { DEFAULT_PER_PAGE } else { wanted.min(MAX_PER_PAGE) }
}

/// A numeric parameter, with upstream's error messages.
fn number(request: &RequestContext, name: &str, default: i64) -> Result<i64, AuthError> {
    let Some(text) = request.query(name) else { return Ok(default) };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u32>() {
        Ok(number) if is_number => Ok(number.into()),
        Ok(_) | Err(_) => {
            let reason = if is_number { "value out of range" } else { "invalid syntax" };
            let reason = format!("Bad Pagination Parameters: strconv.ParseUint: parsing {text:?}: {reason}");
            Err(AuthError::Validation(reason.into()))
        }
    }
}

fn link(path: &str, request: &RequestContext, page: i64) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("page", &page.to_string());
    for (name, value) in request.sorted_query() {
        if name != "page" {
            query.append_pair(name, value);
        }
    }
    format!("{path}?{}", query.finish())
}

/// `sort=created_at asc|desc`; newest first by default.
pub(crate) fn direction(request: &RequestContext) -> Result<Direction, AuthError> {
    let bad = |reason: String| AuthError::Validation(format!("Bad Sort Parameters: {reason}").into());
    let Some(sort) = request.query("sort") else { return Ok(Direction::Descending) };
    let (field, direction) = sort.split_once(' ').unwrap_or((sort, "desc"));
    if field != "created_at" {
        return Err(bad(format!("bad field for sort '{field}'")));
    }
    match direction.to_ascii_lowercase().as_str() {
        "desc" => Ok(Direction::Descending),
        "asc" => Ok(Direction::Ascending),
        _ => Err(bad(format!("bad direction for sort '{direction}', only 'asc' and 'desc' allowed"))),
    }
}

/// Escapes the wildcards of LIKE.
pub(crate) fn escape_like(text: &str) -> String {
    text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_")
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::time::Instant;

    use super::*;

    fn request(query: &[(&str, &str)]) -> RequestContext {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        RequestContext::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Instant::now(), HeaderMap::new(), query)
    }

    fn headers(query: &[(&str, &str)], total: i64) -> (String, String) {
        let request = request(query);
        let mut headers = HeaderMap::new();
        Page::read(&request).unwrap().add_headers(&mut headers, "/admin/users", &request, total);
        let text = |name: &str| headers[name].to_str().unwrap().to_owned();
        (text("x-total-count"), text("link"))
    }

    #[test]
    fn link_header_has_next_and_last() {
        assert_eq!(
            headers(&[("page", "1"), ("per_page", "50")], 123),
            (
                "123".to_owned(),
                "</admin/users?page=2&per_page=50>; rel=\"next\", </admin/users?page=3&per_page=50>; rel=\"last\""
                    .to_owned()
            )
        );
        assert_eq!(headers(&[("page", "3")], 123).1, "</admin/users?page=3>; rel=\"last\"");
        assert_eq!(headers(&[], 0).1, "</admin/users?page=0>; rel=\"last\"");
        assert_eq!(
            headers(&[("filter", "a b")], 51).1,
            "</admin/users?page=2&filter=a+b>; rel=\"next\", </admin/users?page=2&filter=a+b>; rel=\"last\""
        );
    }

    #[test]
    fn rejects_invalid_parameters() {
        for (page, reason) in [
            ("x", "invalid syntax"),
            ("-1", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("99999999999", "value out of range"),
        ] {
            let message = Page::read(&request(&[("page", page)])).unwrap_err().to_string();
            let expected =
                format!("Bad Pagination Parameters: strconv.ParseUint: parsing {page:?}: {reason}");
            assert_eq!(message, expected);
        }
        assert_eq!(
            Page::read(&request(&[("per_page", "100000")])).unwrap(),
            Page { number: 1, per_page: 1000 }
        );
        assert_eq!(direction(&request(&[("sort", "created_at asc")])).unwrap(), Direction::Ascending);
        for sort in ["email", "created_at up", "created_at asc desc"] {
            let message = direction(&request(&[("sort", sort)])).unwrap_err().to_string();
            assert!(message.starts_with("Bad Sort Parameters: "), "{message}");
        }
    }

    #[test]
    fn escapes_like_wildcards() {
        assert_eq!(escape_like(r"50%_\"), r"50\%\_\\");
    }
}
