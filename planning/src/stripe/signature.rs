//! Verifies the signature of a webhook (functions.md 3.17.1). It covers the received bytes: Stripe's JSON is pretty-printed, and any
//! reformatting breaks the signature.

use aws_lc_rs::hmac;
use secrecy::{ExposeSecret, SecretString};

/// The largest difference between the signature's time and ours, in seconds.
const TOLERANCE: i64 = 300;

/// Why a signature is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureError {
    /// No secret matches.
    NoMatch,
    /// The timestamp is outside of the tolerance.
    Time,
}

/// Verifies `Stripe-Signature`. While a secret is being rolled, there are several secrets and several signatures; one match
/// suffices. A blank secret never matches, because anyone could sign with it.
///
/// # Errors
/// See [`SignatureError`].
pub(crate) fn verify(
    header: &str,
    body: &[u8],
    secrets: &[SecretString],
    now: i64,
) -> Result<(), SignatureError> {
    let mut time = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", value)) => time = Some(value),
            Some(("v1", value)) => signatures.extend(hex::decode(value)),
            _ => {}
        }
    }
    let time = time.filter(|time| !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()));
    let time = time.ok_or(SignatureError::NoMatch)?;
    let mut signed = Vec::with_capacity(time.len() + 1 + body.len());
    signed.extend_from_slice(time.as_bytes());
    signed.push(b'.');
    signed.extend_from_slice(body);
    let matches = secrets.iter().filter(|secret| !is_empty(secret)).any(|secret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        signatures.iter().any(|signature| hmac::verify(&key, &signed, signature).is_ok())
    });
    if !matches {
        return Err(SignatureError::NoMatch);
    }
    let age = time.parse().ok().and_then(|time: i64| now.checked_sub(time)).ok_or(SignatureError::Time)?;
    if (-TOLERANCE..=TOLERANCE).contains(&age) { Ok(()) } else { Err(SignatureError::Time) }
}

/// Whether a secret is blank.
pub(crate) fn is_empty(secret: &SecretString) -> bool {
    secret.expose_secret().trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;
    const BODY: &[u8] = b"{\n  \"id\": \"evt_1\"\n}";

    fn sign(secret: &str, time: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let mut signed = format!("{time}.").into_bytes();
        signed.extend_from_slice(body);
        hex::encode(hmac::sign(&key, &signed))
    }

    fn secrets(secrets: &[&str]) -> Vec<SecretString> {
        secrets.iter().map(|secret| SecretString::from(*secret)).collect()
    }

    #[test]
    fn one_matching_signature_suffices() {
        let (old, new) = (sign("whsec_old", "1700000000", BODY), sign("whsec_new", "1700000000", BODY));
        let zero = "0".repeat(64);
        for header in [
            format!("t=1700000000,v1={old}"),
            format!("t=1700000000,v1={zero},v1={old},v0={zero}"),
            format!("v1={old},t=1700000000,scheme=x,nothing"),
            format!("t=1700000000, v1={}", old.to_uppercase()),
        ] {
            assert_eq!(verify(&header, BODY, &secrets(&["whsec_old"]), NOW), Ok(()), "{header}");
        }
        let both = secrets(&["whsec_old", "whsec_new"]);
        assert_eq!(verify(&format!("t=1700000000,v1={new}"), BODY, &both, NOW), Ok(()));
    }

    #[test]
    fn verifies_signature_of_another_implementation() {
        // HMAC-SHA256("key", "1.The quick brown fox"), computed independently with Python's hmac.
        let header = "t=1,v1=1ef269d2a2a1f8d397e0e25c3e3013fb5687509234565e6e49ea45a138768457";
        assert_eq!(verify(header, b"The quick brown fox", &secrets(&["key"]), 1), Ok(()));
    }

    #[test]
    fn rejects_forged_signatures() {
        let right = sign("whsec_a", "1700000000", BODY);
        let secrets = secrets(&["whsec_a"]);
        for header in [
            String::new(),
            format!("v1={right}"),
            "t=1700000000".to_owned(),
            format!("t=,v1={right}"),
            format!("t=1700000001,v1={right}"),
            format!("t=+1700000000,v1={right}"),
            format!("t=1700000000,v0={right}"),
            format!("t=1700000000,v1={}", right.get(..62).unwrap()),
            format!("t=1700000000,v1={}", sign("whsec_b", "1700000000", BODY)),
        ] {
            assert_eq!(verify(&header, BODY, &secrets, NOW), Err(SignatureError::NoMatch), "{header}");
        }
        let header = format!("t=1700000000,v1={right}");
        assert_eq!(verify(&header, b"{\"id\": \"evt_1\"}", &secrets, NOW), Err(SignatureError::NoMatch));
        assert_eq!(verify(&header, BODY, &[], NOW), Err(SignatureError::NoMatch));
        for empty in ["", " \n"] {
            let header = format!("t=1700000000,v1={}", sign(empty, "1700000000", BODY));
            assert_eq!(verify(&header, BODY, &self::secrets(&[empty]), NOW), Err(SignatureError::NoMatch));
        }
        for (now, expected) in [
            (NOW + 300, Ok(())),
            (NOW - 300, Ok(())),
            (NOW + 301, Err(SignatureError::Time)),
            (NOW - 301, Err(SignatureError::Time)),
        ] {
            assert_eq!(verify(&header, BODY, &secrets, now), expected, "{now}");
        }
        let far = format!("t=99999999999999999999,v1={}", sign("whsec_a", "99999999999999999999", BODY));
        assert_eq!(verify(&far, BODY, &secrets, NOW), Err(SignatureError::Time));
    }
}
