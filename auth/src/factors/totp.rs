//! Codes of authenticator apps: RFC 6238 with SHA-1, six digits, steps of 30 seconds, and one step of tolerance on either side.

use basalt_core::random;
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use qrcode::QrCode;
use qrcode::render::svg;
use totp_rs::{Algorithm, Builder, Secret};

use crate::error::AuthError;

const DIGITS: u8 = 6;
const STEP_SECONDS: u64 = 30;
const TOLERANCE_STEPS: u16 = 1;

/// Characters of an `otpauth` URI that stay readable in authenticator apps.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@');

/// What an authenticator app needs to enrol.
pub(crate) struct Enrolment {
    /// The secret: 32 characters of base32.
    pub(crate) secret: String,
    /// `otpauth://totp/…`.
    pub(crate) uri: String,
    /// The URI as an SVG image.
    pub(crate) qr_code: String,
}

impl Enrolment {
    /// A new secret for an account.
    ///
    /// # Errors
    /// Issuer and account do not fit into a QR code.
    pub(crate) fn new(issuer: &str, account: &str) -> Result<Self, AuthError> {
        let secret = Secret::from(random::bytes::<20>()).to_base32();
        let uri = uri(issuer, account, &secret);
        let code = QrCode::new(&uri)
            .map_err(|_too_long| AuthError::validation("issuer is too long for a QR code"))?;
        let qr_code = code.render::<svg::Color<'_>>().min_dimensions(200, 200).build();
        Ok(Self { secret, uri, qr_code })
    }
}

fn uri(issuer: &str, account: &str, secret: &str) -> String {
    let issuer = utf8_percent_encode(issuer, ESCAPED);
    let account = utf8_percent_encode(account, ESCAPED);
    format!(
        "otpauth://totp/{issuer}:{account}?algorithm=SHA1&digits={DIGITS}&issuer={issuer}&period={STEP_SECONDS}&secret={secret}"
    )
}

/// The step whose code this is, if it is the current one or a neighbour.
///
/// # Errors
/// The stored secret is not base32.
pub(crate) fn matching_step(secret: &str, code: &str, now: Timestamp) -> Result<Option<i64>, AuthError> {
    let secret = Secret::try_from_base32(secret)
        .map_err(|_error| AuthError::Internal("a TOTP factor's secret is not base32".to_owned()))?;
    // Imported secrets may be shorter than the RFC demands.
    let totp = Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(DIGITS)
        .with_skew(TOLERANCE_STEPS)
        .with_step_duration(STEP_SECONDS)
        .with_secret(secret)
        .build_noncompliant();
    let Ok(now) = u64::try_from(now.as_second()) else { return Ok(None) };
    Ok(totp.check(code, now).and_then(|step| i64::try_from(step).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238, appendix B: `12345678901234567890`.
    const SECRET: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

    fn step(code: &str, second: i64) -> Option<i64> {
        matching_step(SECRET, code, Timestamp::from_second(second).unwrap()).unwrap()
    }

    #[test]
    fn codes_match_the_vectors_of_the_rfc() {
        // The last six digits of the vectors, which have eight.
        assert_eq!(step("287082", 59), Some(1));
        assert_eq!(step("081804", 1_111_111_109), Some(37_037_036));
        assert_eq!(step("005924", 1_234_567_890), Some(41_152_263));
    }

    #[test]
    fn neighbouring_steps_are_accepted() {
        for (second, expected) in [(29, Some(1)), (60, Some(1)), (89, Some(1)), (90, None)] {
            assert_eq!(step("287082", second), expected, "{second}");
        }
    }

    #[test]
    fn other_texts_match_nothing() {
        for code in ["", "28708", "2870820", "287083", "abcdef", "28708\u{0662}", " 287082"] {
            assert_eq!(step(code, 59), None, "{code:?}");
        }
    }

    #[test]
    fn uri_names_issuer_and_account() {
        assert_eq!(
            uri("My App", "ada@example.org", SECRET),
            format!(
                "otpauth://totp/My%20App:ada@example.org?algorithm=SHA1&digits=6&issuer=My%20App&period=30&secret={SECRET}"
            )
        );
    }

    #[test]
    fn enrolment_has_a_new_secret_and_an_image() {
        let enrolment = Enrolment::new("app.test", "ada@example.org").unwrap();
        assert_eq!(enrolment.secret.len(), 32);
        assert!(enrolment.uri.ends_with(&enrolment.secret));
        assert!(enrolment.qr_code.contains("<svg"));
        assert_ne!(enrolment.secret, Enrolment::new("app.test", "ada@example.org").unwrap().secret);
        assert!(Enrolment::new(&"x".repeat(3000), "ada@example.org").is_err());
    }
}
