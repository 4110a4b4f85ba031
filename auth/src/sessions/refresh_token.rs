//! The format of refresh tokens (auth.md §3.5).
//!
//! A v2 token contains its session's id and a counter and is signed with the session's key, so nothing is stored per refresh. A
//! v1 token is a string of twelve random characters in a table row; only imported ones are accepted.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use basalt_core::random;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use uuid::Uuid;

const VERSION: u8 = 0;
const SIGNATURE_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;
const ID_BYTES: usize = 16;
/// A counter of 64 bits takes at most ten bytes.
const MAX_TOKEN_BYTES: usize = 1 + ID_BYTES + 10 + SIGNATURE_BYTES + CHECKSUM_BYTES;
const V1_CHARACTERS: usize = 12;

/// Keys in imported rows may be padded.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A parsed refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RefreshToken {
    /// A row of `auth.refresh_tokens`.
    V1(String),
    /// A session's counter, whose signature is not verified yet.
    V2(SignedCounter),
}

/// A parsed v2 token with a valid checksum. [`SignedCounter::is_signed_by`] verifies the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedCounter {
    /// The session it belongs to.
    pub(crate) session_id: Uuid,
    /// Number of refreshes before it was issued.
    pub(crate) counter: i64,
    signature: [u8; SIGNATURE_BYTES],
}

/// A session's HMAC key and its base64url text in `auth.sessions.refresh_token_hmac_key`.
pub(crate) struct SessionKey(hmac::Key, String);

impl SessionKey {
    /// A new random key.
    pub(crate) fn generate() -> Self {
        let bytes = random::bytes::<32>();
        Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes), URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Parses a stored key; `None` if it is invalid.
    pub(crate) fn from_column(column: &str) -> Option<Self> {
        let bytes = LENIENT.decode(column.replace('+', "-").replace('/', "_")).ok()?;
        if bytes.len() < SIGNATURE_BYTES {
            return None;
        }
        Some(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes), column.to_owned()))
    }

    /// The column's value.
    pub(crate) fn as_column(&self) -> &str {
        &self.1
    }

    /// The token of `session_id` at `counter`.
    pub(crate) fn token(&self, session_id: Uuid, counter: i64) -> String {
        let mut bytes = head(session_id, counter);
        let signature = self.sign(&bytes);
        bytes.extend_from_slice(&signature);
        let checksum = digest(&SHA256, &bytes);
        bytes.extend_from_slice(checksum.as_ref().get(..CHECKSUM_BYTES).unwrap_or_default());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn sign(&self, head: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let tag = hmac::sign(&self.0, head);
        let mut signature = [0; SIGNATURE_BYTES];
        for (to, from) in signature.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        signature
    }
}

impl SignedCounter {
    /// Whether `key` signed this token.
    pub(crate) fn is_signed_by(&self, key: &SessionKey) -> bool {
        let expected = key.sign(&head(self.session_id, self.counter));
        verify_slices_are_equal(&expected, &self.signature).is_ok()
    }
}

impl RefreshToken {
    /// Parses a token; `None` if it has neither format.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_v1 = text.len() == V1_CHARACTERS
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if is_v1 { Some(Self::V1(text.to_owned())) } else { parse_v2(text).map(Self::V2) }
    }
}

fn parse_v2(text: &str) -> Option<SignedCounter> {
    // Checked before decoding, so that long input is cheap.
    if text.len() > MAX_TOKEN_BYTES.div_ceil(3) * 4 {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (signed, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    if digest(&SHA256, signed).as_ref().get(..CHECKSUM_BYTES)? != checksum {
        return None;
    }
    let (head, signature) = signed.split_last_chunk::<SIGNATURE_BYTES>()?;
    let (&VERSION, rest) = head.split_first()? else { return None };
    let (id, counter) = rest.split_first_chunk::<ID_BYTES>()?;
    let counter = read_uvarint(counter)?;
    Some(SignedCounter { session_id: Uuid::from_bytes(*id), counter, signature: *signature })
}

fn head(session_id: Uuid, counter: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAX_TOKEN_BYTES);
    bytes.push(VERSION);
    bytes.extend_from_slice(session_id.as_bytes());
    // A counter is never negative: it starts at 0 and only grows.
    let mut left = counter.unsigned_abs();
    loop {
        let byte = left.to_le_bytes().first().copied().unwrap_or_default() & 0x7f;
        left >>= 7;
        if left == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

/// Parses a LEB128 number in its shortest form, so that each counter has one encoding.
fn read_uvarint(bytes: &[u8]) -> Option<i64> {
    let (&last, init) = bytes.split_last()?;
    if last & 0x80 != 0 || (last == 0 && !init.is_empty()) || bytes.len() > 9 {
        return None;
    }
    let mut value: i64 = 0;
    for byte in bytes.iter().rev() {
        value = (value << 7) | i64::from(byte & 0x7f);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Uuid = Uuid::from_u128(0x1111_1111_2222_4333_8444_5555_5555_5555);

    fn vector_key() -> SessionKey {
        let bytes: Vec<u8> = (0..32).collect();
        SessionKey::from_column(&URL_SAFE_NO_PAD.encode(bytes)).unwrap()
    }

    #[test]
    fn matches_the_test_vectors_of_the_contract() {
        for (counter, token) in [
            (0, "ABEREREiIkMzhERVVVVVVVUAI-IcsaseXEKS7q68JAgmU-80L2M"),
            (300, "ABEREREiIkMzhERVVVVVVVWsAg7ZC0vLuQzqLzMCy_Bbh8fZrB2g"),
        ] {
            assert_eq!(vector_key().token(SESSION, counter), token);
            let Some(RefreshToken::V2(parsed)) = RefreshToken::parse(token) else { panic!("{token}") };
            assert_eq!((parsed.session_id, parsed.counter), (SESSION, counter));
            assert!(parsed.is_signed_by(&vector_key()));
            assert!(!parsed.is_signed_by(&SessionKey::generate()));
        }
    }

    #[test]
    fn counters_round_trip() {
        let key = SessionKey::generate();
        for counter in [0, 1, 127, 128, 16_383, 16_384, i64::from(u32::MAX), i64::MAX] {
            let token = key.token(SESSION, counter);
            let Some(RefreshToken::V2(parsed)) = RefreshToken::parse(&token) else { panic!("{counter}") };
            assert_eq!(parsed.counter, counter);
            assert!(parsed.is_signed_by(&key));
        }
    }

    #[test]
    fn v1_token_is_twelve_lower_case_characters() {
        assert_eq!(RefreshToken::parse("wx3k9q2m5a7b"), Some(RefreshToken::V1("wx3k9q2m5a7b".to_owned())));
        for text in ["", "wx3k9q2m5a7", "WX3K9Q2M5A7B", "wx3k9q2m5a7bc", "not a token"] {
            assert_eq!(RefreshToken::parse(text), None, "{text}");
        }
    }

    #[test]
    fn rejects_changed_characters_and_long_input() {
        let token = vector_key().token(SESSION, 300);
        for index in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            if changed != token {
                assert_eq!(RefreshToken::parse(&changed), None, "{changed}");
            }
        }
        assert_eq!(RefreshToken::parse(&"A".repeat(1 << 20)), None);
    }

    #[test]
    fn counter_has_one_encoding() {
        assert_eq!(read_uvarint(&[0x80, 0x00]), None);
        assert_eq!(read_uvarint(&[0x80]), None);
        assert_eq!(read_uvarint(&[]), None);
        assert_eq!(read_uvarint(&[0xff; 10]), None);
        assert_eq!(read_uvarint(&[0xac, 0x02]), Some(300));
    }

    proptest::proptest! {
        #[test]
        fn tokens_round_trip(id in proptest::prelude::any::<u128>(), counter in 0..=i64::MAX) {
            let (id, key) = (Uuid::from_u128(id), SessionKey::generate());
            let token = key.token(id, counter);
            let Some(RefreshToken::V2(parsed)) = RefreshToken::parse(&token) else { panic!("{token}") };
            proptest::prop_assert_eq!((parsed.session_id, parsed.counter), (id, counter));
            proptest::prop_assert!(parsed.is_signed_by(&key));
            proptest::prop_assert!(!parsed.is_signed_by(&SessionKey::generate()));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,100}") {
            if let Some(RefreshToken::V1(token)) = RefreshToken::parse(&text) {
                proptest::prop_assert_eq!(token.len(), V1_CHARACTERS);
            }
        }

        #[test]
        fn rejects_tampered_bytes(
            flipped in 0..41_usize, bits in 1..=255_u8, appended in 0..3_usize, counter in 0..i64::MAX
        ) {
            let token = vector_key().token(SESSION, counter);
            let mut bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
            let flipped = flipped % bytes.len();
            bytes[flipped] ^= bits;
            bytes.extend(std::iter::repeat_n(0, appended));
            proptest::prop_assert_eq!(RefreshToken::parse(&URL_SAFE_NO_PAD.encode(&bytes)), None);
        }

        #[test]
        fn forged_checksum_is_not_a_signature(signature in proptest::prelude::any::<[u8; SIGNATURE_BYTES]>()) {
            let mut bytes = head(SESSION, 7);
            bytes.extend_from_slice(&signature);
            let checksum = digest(&SHA256, &bytes);
            bytes.extend_from_slice(&checksum.as_ref()[..CHECKSUM_BYTES]);
            let Some(RefreshToken::V2(parsed)) = RefreshToken::parse(&URL_SAFE_NO_PAD.encode(bytes)) else {
                panic!("its form is right")
            };
            proptest::prop_assert!(!parsed.is_signed_by(&vector_key()));
        }
    }
}
