//! Hexadecimal digits that must be lower case.

/// `N` bytes from exactly `2 * N` lower-case digits. Upper case is refused, so that each value has one text: no S3 client signs with
/// upper-case digits, and the image cache names no file with them.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| bytes)
}
