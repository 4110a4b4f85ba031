//! gzip and br for JSON and CSV bodies from about a hundred bytes (rest.md §3.20).
//!
//! The compression layer skips answers with a `Content-Range`, because a range usually counts bytes. REST's counts rows, so
//! we take the header off and put it back after compression.
//!
//! Compressing never waits: an answer of 10 MB that is there at once would block a thread of the runtime for as long as it
//! takes. So the compressed body pauses on the way ([`InTurns`]). It does not pause the body that goes in: a compressor that
//! waits for input ends its block, which compresses worse.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware::map_response;
use axum::response::Response;
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Extensions, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
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
    router
        .clone()
        .layer(map_response(set_rows_aside))
        .layer(compression)
        .layer(map_response(compressed_answer))
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

async fn compressed_answer(mut response: Response) -> Response {
    if let Some(Rows(range)) = response.extensions_mut().remove() {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    if !response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    response.map(|body| Body::new(InTurns { body, given: 0 }))
}

/// What comes out of the compressor before others have their turn: of JSON, a millisecond or two of work.
const TURN_BYTES: usize = 16 * 1024;

/// A body that lets other tasks of its thread have their turn after each [`TURN_BYTES`].
struct InTurns {
    body: Body,
    /// Bytes since the last turn of others.
    given: usize,
}

impl HttpBody for InTurns {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, given } = self.get_mut();
        if *given >= TURN_BYTES {
            *given = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            *given += frame.data_ref().map_or(0, Bytes::len);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

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

    #[tokio::test]
    async fn others_have_their_turn_while_a_long_answer_is_compressed() {
        let long: Bytes = (0..500_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
        let header = [(CONTENT_TYPE, "application/json")];
        let router = Router::new().route("/", get(move || async move { (header, long) }));
        for encoding in ["gzip", "br"] {
            let request = Request::builder().uri("/").header("accept-encoding", encoding).body(Body::empty());
            let answer = compressed(&router).oneshot(request.unwrap()).await.unwrap();
            assert_eq!(answer.headers()["content-encoding"], encoding);
            let (mut body, mut bytes, mut turns) = (answer.into_body(), 0, 0);
            while let Some(frame) = poll_fn(|cx| {
                let polled = Pin::new(&mut body).poll_frame(cx);
                turns += usize::from(polled.is_pending());
                polled
            })
            .await
            {
                bytes += frame.unwrap().into_data().unwrap().len();
            }
            // A part may be longer than asked for.
            assert!(turns >= bytes / TURN_BYTES / 2 && turns > 10, "{turns} in {bytes} bytes of {encoding}");
        }
    }
}
