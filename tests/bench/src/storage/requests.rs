//! The bytes that are sent.

use serde_json::json;

use crate::token;

/// The bucket of the measurements.
pub(super) const BUCKET: &str = "bench";

/// The project's service key.
fn service_key() -> String {
    token::sign(&json!({"iss": "supabase", "role": "service_role", "exp": 4_102_444_800_i64}))
}

/// Makes the bucket: public, for objects of any size.
pub(super) fn make_bucket() -> Vec<u8> {
    let body = json!({"name": BUCKET, "public": true}).to_string();
    let head = format!(
        "POST /storage/v1/bucket HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        service_key(),
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The head of an upload of `length` bytes.
pub(super) fn upload_head(key: &str, length: usize) -> Vec<u8> {
    format!(
        "POST /storage/v1/object/{BUCKET}/{key} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/octet-stream\r\nx-upsert: true\r\nContent-Length: {length}\r\n\r\n",
        service_key()
    )
    .into_bytes()
}

/// A whole upload.
pub(super) fn upload(key: &str, bytes: &[u8]) -> Vec<u8> {
    [upload_head(key, bytes.len()).as_slice(), bytes].concat()
}

/// A download, from the public address.
pub(super) fn download(prefix: &str, key: &str) -> Vec<u8> {
    format!("GET {prefix}/{key} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").into_bytes()
}
