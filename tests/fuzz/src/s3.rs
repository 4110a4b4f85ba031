//! The S3 parsers that run before authentication: signatures and chunked bodies.

use basalt_storage::s3::chunked::{ChunkError, Decoder};
use basalt_storage::s3::sigv4::{SentRequest, Signature};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// An `aws-chunked` body decodes to the same data however it is split, and to no more data than bytes.
pub(crate) fn chunked(data: &[u8]) {
    for has_trailers in [false, true] {
        let whole = decode(data, data.len().max(1), has_trailers);
        assert_eq!(whole, decode(data, 1, has_trailers));
        assert_eq!(whole, decode(data, 7, has_trailers));
        if let Ok((content, _)) = whole {
            assert!(content.len() < data.len());
        }
    }
}

/// Data and trailers.
type Decoded = (Vec<u8>, Vec<(String, String)>);

fn decode(data: &[u8], size: usize, has_trailers: bool) -> Result<Decoded, ChunkError> {
    let mut decoder = Decoder::new(None, has_trailers);
    let mut content = Vec::new();
    for piece in data.chunks(size) {
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(piece) = decoder.next(&mut input)? {
            content.extend_from_slice(&piece);
        }
    }
    Ok((content, decoder.finish()?))
}

/// A target and header lines: verification must always fail.
pub(crate) fn signature(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let (path, query) =
        lines.next().map(|line| line.split_once('?').unwrap_or((line, ""))).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    let request = SentRequest { method: "GET", path, query, host: b"localhost", headers: &headers };
    if let Ok(signature) = Signature::read(request) {
        let _is_now = signature.check_time(1_700_000_000);
        assert!(signature.verify(request, "an unknown secret").is_err());
    }
}
