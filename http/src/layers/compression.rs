//! gzip and br for JSON and CSV bodies from 100 bytes (rest.md §3.20).
//!
//! Compression is applied to the finished response, so that a client which accepts it takes the same path through the service as one
//! which does not.
//!
//! The compression layer skips responses with a `Content-Range`, because a range usually counts bytes. REST's counts rows, so the header
//! is removed before compression and restored afterwards.
//!
//! A 10 MB body that is ready at once would block a runtime thread while it is compressed, so the compressed body yields
//! ([`YieldingBody`]). The uncompressed body does not: a compressor that waits for input ends its block, which compresses worse.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Extensions, Request, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tower::{ServiceExt, service_fn};
use tower_http::CompressionLevel;
use tower_http::compression::Compression;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// Shorter bodies are sent uncompressed.
const MIN_BYTES: u64 = 100;

/// The codings that a client accepts; `None` when it sent no `Accept-Encoding`.
pub(super) struct AcceptedCodings(Request<()>);

impl AcceptedCodings {
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut accepted = Request::new(());
        for value in headers.get_all(ACCEPT_ENCODING) {
            accepted.headers_mut().append(ACCEPT_ENCODING, value.clone());
        }
        (!accepted.headers().is_empty()).then_some(Self(accepted))
    }

    /// Compresses a body that is long enough and of a type that compresses well.
    pub(super) async fn compress(self, mut response: Response) -> Response {
        let worthwhile = SizeAbove::new(MIN_BYTES).and(is_compressible);
        if !worthwhile.should_compress(&response) {
            return response;
        }
        let row_range = take_row_range(response.headers_mut());
        let mut response = Some(response);
        let inner =
            service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(response.take().unwrap_or_default())));
        let compression =
            Compression::new(inner).quality(CompressionLevel::Fastest).compress_when(worthwhile);
        let mut response = match compression.oneshot(self.0).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        if let Some(range) = row_range {
            response.headers_mut().insert(CONTENT_RANGE, range);
        }
        if !response.headers().contains_key(CONTENT_ENCODING) {
            return response;
        }
        response.map(|body| Body::new(YieldingBody { body, bytes_since_yield: 0 }))
    }
}

fn is_compressible(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content_type| {
        let text = content_type.as_bytes();
        text.starts_with(b"application/json")
            || text.starts_with(b"text/csv")
            || text.windows(5).any(|part| part == b"+json")
    })
}

/// Removes a `Content-Range` that counts rows.
fn take_row_range(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let counts_bytes = headers.get(CONTENT_RANGE)?.as_bytes().starts_with(b"bytes");
    if counts_bytes { None } else { headers.remove(CONTENT_RANGE) }
}

/// Compressed bytes between two yields: for JSON, a millisecond or two of work.
const YIELD_BYTES: usize = 16 * 1024;

/// Yields to the other tasks of its thread after each [`YIELD_BYTES`].
struct YieldingBody {
    body: Body,
    bytes_since_yield: usize,
}

impl HttpBody for YieldingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, bytes_since_yield } = self.get_mut();
        if *bytes_since_yield >= YIELD_BYTES {
            *bytes_since_yield = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            *bytes_since_yield += frame.data_ref().map_or(0, Bytes::len);
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

    use super::*;

    async fn compress(
        coding: &'static str,
        header: (http::HeaderName, &'static str),
        body: Bytes,
    ) -> Response {
        let accepted = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(coding))]);
        let mut response = Response::new(Body::from(body));
        response.headers_mut().insert(header.0, HeaderValue::from_static(header.1));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        AcceptedCodings::from_headers(&accepted).unwrap().compress(response).await
    }

    #[tokio::test]
    async fn row_ranges_are_compressed_and_byte_ranges_are_not() {
        let long = Bytes::from("[".repeat(200));
        let rows = compress("gzip", (CONTENT_RANGE, "0-9/10"), long.clone()).await;
        assert_eq!(rows.headers()["content-encoding"], "gzip");
        assert_eq!(rows.headers()["content-range"], "0-9/10");
        let bytes = compress("gzip", (CONTENT_RANGE, "bytes 0-199/400"), long.clone()).await;
        assert!(!bytes.headers().contains_key("content-encoding"));
        assert_eq!(bytes.headers()["content-range"], "bytes 0-199/400");
        let refused = compress("gzip;q=0", (CONTENT_RANGE, "0-9/10"), long).await;
        assert!(!refused.headers().contains_key("content-encoding"));
        assert_eq!(refused.headers()["content-range"], "0-9/10");
    }

    #[tokio::test]
    async fn short_bodies_keep_their_length() {
        let short = compress("gzip, br", (CONTENT_RANGE, "0-0/*"), Bytes::from_static(b"[{\"id\":1}]")).await;
        assert!(!short.headers().contains_key("content-encoding"));
        assert_eq!(short.body().size_hint().exact(), Some(10));
    }

    #[tokio::test]
    async fn long_compressed_body_yields() {
        let long: Bytes = (0..500_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
        for coding in ["gzip", "br"] {
            let response = compress(coding, (CONTENT_RANGE, "0-9/10"), long.clone()).await;
            assert_eq!(response.headers()["content-encoding"], coding);
            let (mut body, mut bytes, mut yields) = (response.into_body(), 0, 0);
            while let Some(frame) = poll_fn(|cx| {
                let polled = Pin::new(&mut body).poll_frame(cx);
                yields += usize::from(polled.is_pending());
                polled
            })
            .await
            {
                bytes += frame.unwrap().into_data().unwrap().len();
            }
            // A frame may be longer than YIELD_BYTES.
            assert!(
                yields >= bytes / YIELD_BYTES / 2 && yields > 10,
                "{yields} in {bytes} bytes of {coding}"
            );
        }
    }
}
