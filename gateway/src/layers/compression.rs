//! gzip and br for JSON and CSV bodies from about a hundred bytes (rest.md §3.20).
//!
//! The surprise: an answer with a `Content-Range` is usually left alone, because the range counts its bytes. REST's
//! counts rows, so it is put aside while the body is compressed.

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Extensions, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// The router, compressing for clients that say what they can read.
pub(super) fn compressed(router: &Router) -> Router {
    let compressible = |_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions| {
        headers.get(CONTENT_TYPE).is_some_and(|content_type| {
            let text = content_type.as_bytes();
            text.starts_with(b"application/json")
                || text.starts_with(b"text/csv")
                || text.windows(5).any(|part| part == b"+json")
        })
    };
    let compression = CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(SizeAbove::new(100).and(compressible));
    router.clone().layer(map_response(set_rows_aside)).layer(compression).layer(map_response(put_rows_back))
}

/// The range of rows of an answer that is being compressed.
#[derive(Clone)]
struct Rows(HeaderValue);

async fn set_rows_aside(mut response: Response) -> Response {
    let counts_bytes = |range: &HeaderValue| range.as_bytes().starts_with(b"bytes");
    if let Some(range) = response.headers().get(CONTENT_RANGE)
        && !counts_bytes(range)
    {
        let rows = Rows(range.clone());
        response.headers_mut().remove(CONTENT_RANGE);
        response.extensions_mut().insert(rows);
    }
    response
}

async fn put_rows_back(mut response: Response) -> Response {
    if let Some(Rows(range)) = response.extensions_mut().remove() {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn answer(range: &'static str) -> Response {
        let headers = [(CONTENT_RANGE, range), (CONTENT_TYPE, "application/json")];
        let router = Router::new().route("/", get(move || async move { (headers, "[".repeat(200)) }));
        let request = Request::builder().uri("/").header("accept-encoding", "gzip").body(Body::empty());
        compressed(&router).oneshot(request.unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn ranges_of_rows_are_compressed_and_ranges_of_bytes_are_not() {
        let rows = answer("0-9/10").await;
        assert_eq!(rows.headers()["content-encoding"], "gzip");
        assert_eq!(rows.headers()["content-range"], "0-9/10");
        let bytes = answer("bytes 0-199/400").await;
        assert!(!bytes.headers().contains_key("content-encoding"));
        assert_eq!(bytes.headers()["content-range"], "bytes 0-199/400");
    }
}
