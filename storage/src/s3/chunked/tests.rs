//! AWS's published example of a signed stream, split in every way, and malformed variants.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::s3::sigv4::{SentRequest, tests::SECRET};

const HEADERS: [(&str, &str); 6] = [
    ("content-encoding", "aws-chunked"),
    ("content-length", "66824"),
    ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    ("x-amz-date", "20130524T000000Z"),
    ("x-amz-decoded-content-length", "66560"),
    ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
];

/// Signer of the example's request, whose own signature is verified on the way.
fn signer(changes: &[(&'static str, &'static str)], signed: &str, signature: &str) -> ChunkSigner {
    let mut headers = HeaderMap::new();
    for (name, value) in HEADERS.iter().chain(changes) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders={signed},Signature={signature}"
    );
    headers.insert("authorization", HeaderValue::try_from(authorization).unwrap());
    let request = SentRequest {
        method: "PUT",
        path: "/examplebucket/chunkObject.txt",
        query: "",
        host: b"s3.amazonaws.com",
        headers: &headers,
    };
    let signature = Signature::read(request).unwrap();
    let key = signature.verify(request, SECRET).unwrap();
    ChunkSigner::new(&signature, key)
}

fn plain_signer() -> ChunkSigner {
    signer(
        &[],
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    )
}

fn trailer_signer() -> ChunkSigner {
    signer(
        &[
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
            ("x-amz-trailer", "x-amz-checksum-crc32c"),
        ],
        "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    )
}

fn body(signatures: [&str; 3], end: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (length, signature) in [65_536, 1024, 0].into_iter().zip(signatures) {
        body.extend_from_slice(format!("{length:x};chunk-signature={signature}\r\n").as_bytes());
        body.extend(std::iter::repeat_n(b'a', length));
        if length > 0 {
            body.extend_from_slice(b"\r\n");
        }
    }
    body.extend_from_slice(end.as_bytes());
    body
}

fn plain_body() -> Vec<u8> {
    let signatures = [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ];
    body(signatures, "\r\n")
}

fn trailer_body() -> Vec<u8> {
    let signatures = [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ];
    let end = "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n";
    body(signatures, end)
}

/// Data and trailers.
type Decoded = (Vec<u8>, Vec<(String, String)>);

/// Decodes a body received in pieces of `size` bytes.
fn decode(mut decoder: Decoder, body: &[u8], size: usize) -> Result<Decoded, ChunkError> {
    let mut data = Vec::new();
    for piece in body.chunks(size) {
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(piece) = decoder.next(&mut input)? {
            data.extend_from_slice(&piece);
        }
    }
    Ok((data, decoder.finish()?))
}

#[test]
fn decodes_the_published_stream_in_any_split() {
    for size in [1, 7, 86, 1024, 100_000] {
        let (data, trailers) =
            decode(Decoder::new(Some(plain_signer()), false), &plain_body(), size).unwrap();
        assert_eq!(data, vec![b'a'; 66_560]);
        assert_eq!(trailers, []);
        let (data, trailers) =
            decode(Decoder::new(Some(trailer_signer()), true), &trailer_body(), size).unwrap();
        assert_eq!(data.len(), 66_560);
        assert_eq!(trailers, [("x-amz-checksum-crc32c".to_owned(), "sOO8/Q==".to_owned())]);
    }
}

#[test]
fn truncated_stream_is_incomplete() {
    let body = trailer_body();
    for length in (0..body.len()).step_by(997).chain(body.len() - 180..body.len()) {
        let refused = decode(Decoder::new(Some(trailer_signer()), true), &body[..length], 4096);
        assert_eq!(refused, Err(ChunkError::Incomplete), "{length}");
    }
}

#[test]
fn rejects_unannounced_and_unsigned_trailers() {
    let stripped = String::from_utf8(trailer_body()).unwrap();
    let (without, _) = stripped.split_once("x-amz-trailer-signature").unwrap();
    for end in ["\r\n", "\r\n\r\n"] {
        let body = format!("{without}{end}");
        let refused = decode(Decoder::new(Some(trailer_signer()), true), body.as_bytes(), 4096);
        assert_eq!(refused, Err(ChunkError::Incomplete));
    }
    let (without, _) = stripped.split_once("x-amz-checksum-crc32c").unwrap();
    let refused =
        decode(Decoder::new(Some(trailer_signer()), true), format!("{without}\r\n").as_bytes(), 4096);
    assert_eq!(refused, Err(ChunkError::BadSignature));
    let refused = decode(Decoder::new(None, false), b"1\r\na\r\n0\r\nx:y\r\n\r\n", 4096);
    assert_eq!(refused, Err(ChunkError::Malformed));
}

#[test]
fn decodes_unsigned_streams() {
    let body = b"4\r\nabcd\r\nA\r\n0123456789\r\n0\r\nx-amz-checksum-crc32: AAAAAA== \r\n\r\n";
    let (data, trailers) = decode(Decoder::new(None, true), body, 3).unwrap();
    assert_eq!(data, b"abcd0123456789");
    assert_eq!(trailers, [("x-amz-checksum-crc32".to_owned(), "AAAAAA==".to_owned())]);
    assert_eq!(decode(Decoder::new(None, true), b"0\r\n\r\n", 9).unwrap(), (Vec::new(), Vec::new()));
    let bad: [&[u8]; 9] = [
        b"g\r\n",
        b"\r\n",
        b"+1\r\na\r\n0\r\n\r\n",
        b"-1\r\n",
        b"11111111111111111\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"0\r\n\r\nmore",
        b"0\r\nno colon\r\n\r\n",
        &[b'1'; 2000],
    ];
    for body in bad {
        assert_eq!(decode(Decoder::new(None, true), body, 64), Err(ChunkError::Malformed), "{body:?}");
    }
    let many = format!("0\r\n{}\r\n", "a:b\r\n".repeat(17));
    assert_eq!(decode(Decoder::new(None, true), many.as_bytes(), 64), Err(ChunkError::Malformed));
}

proptest! {
    #[test]
    fn rejects_any_altered_byte_of_a_signed_stream(index in 0usize..67_000, bit in 0u8..8, with_trailers: bool) {
        let (mut body, signer) =
            if with_trailers { (trailer_body(), trailer_signer()) } else { (plain_body(), plain_signer()) };
        let index = index % body.len();
        let before = body[index];
        body[index] ^= 1 << bit;
        // Outside the data, upper-case hex digits and a carriage return change nothing.
        let is_data = (88..65_000).contains(&index);
        prop_assume!(is_data || (!before.eq_ignore_ascii_case(&body[index]) && before != b'\r'));
        prop_assert!(decode(Decoder::new(Some(signer), with_trailers), &body, 4096).is_err());
    }

    #[test]
    fn arbitrary_input_never_panics(body: Vec<u8>, size in 1usize..64, has_trailers: bool) {
        if let Ok((data, _)) = decode(Decoder::new(None, has_trailers), &body, size) {
            prop_assert!(data.len() < body.len());
        }
    }
}
