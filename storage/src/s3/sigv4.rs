//! AWS Signature Version 4, server side: parses a request's signature and verifies it with a secret.
//!
//! Everything is computed from the request as the client sent it, so changes by proxies and the gateway do
//! not matter. `authentication` selects the secret of an access key; `payload` verifies the body.

use aws_lc_rs::{digest, hmac};
use basalt_core::random::constant_time_eq;
use http::HeaderMap;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::lower_hex;

/// The only supported algorithm; SigV4A, which uses elliptic curves, is not.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Allowed clock skew in seconds.
pub const CLOCK_SKEW: i64 = 15 * 60;
/// Maximum lifetime of a presigned URL in seconds: seven days.
pub const MAX_EXPIRES: i64 = 7 * 24 * 60 * 60;
/// Payload value for a body not covered by the signature.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// RFC 3986's unreserved characters are not encoded in a canonical URI.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const ENCODED_IN_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// Why a signature was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Neither an `Authorization` header nor a signed query.
    #[error("Missing signature")]
    Missing,
    /// The `Authorization` header is malformed.
    #[error("The authorization header is malformed; {0}")]
    MalformedHeader(String),
    /// Signature parameters of a URL or form are malformed.
    #[error("The signature's parameters are malformed; {0}")]
    MalformedQuery(String),
    /// An `x-amz-` header is not covered by the signature.
    #[error("There were headers present in the request which were not signed: {0}")]
    UnsignedHeader(String),
    /// `x-amz-content-sha256` is missing.
    #[error("Missing required header for this request: x-amz-content-sha256")]
    MissingPayloadHash,
    /// The clock skew exceeds the limit.
    #[error("The difference between the request time and the current time is too large.")]
    Skewed,
    /// The presigned URL has expired.
    #[error("Request has expired")]
    Expired,
    /// The presigned URL is not valid yet.
    #[error("Request is not yet valid")]
    NotYetValid,
    /// The signature was not made with this secret.
    #[error(
        "The request signature we calculated does not match the signature you provided. Check your key and signing method."
    )]
    DoesNotMatch,
}

/// A request as the client sent it.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path as sent, including the service's prefix.
    pub path: &'a str,
    /// Query as sent, without the `?`; empty if there is none.
    pub query: &'a str,
    /// `Host`, or HTTP/2's `:authority`.
    pub host: &'a [u8],
    /// All headers.
    pub headers: &'a HeaderMap,
}

/// Scope of a signature: access key, date and region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Access key id.
    pub access_key: String,
    /// `YYYYMMDD`.
    pub date: String,
    /// Region the client signed for.
    pub region: String,
}

impl Credential {
    /// Parses `key/date/region/s3/aws4_request`. The access key may contain slashes.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.rsplitn(5, '/');
        let mut next = || parts.next().unwrap_or_default();
        let (terminator, service, region, date, access_key) = (next(), next(), next(), next(), next());
        if terminator != "aws4_request" || service != "s3" {
            return Err("the credential must end in /s3/aws4_request".to_owned());
        }
        if date.len() != 8 || !date.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("the date of the credential must be YYYYMMDD".to_owned());
        }
        if access_key.is_empty() {
            return Err("the credential has no access key".to_owned());
        }
        Ok(Self { access_key: access_key.to_owned(), date: date.to_owned(), region: region.to_owned() })
    }

    /// `YYYYMMDD/region/s3/aws4_request`.
    #[must_use]
    pub fn scope(&self) -> String {
        format!("{}/{}/s3/aws4_request", self.date, self.region)
    }

    /// Derives the signing key of `secret` for this date, region and service.
    #[must_use]
    pub fn signing_key(&self, secret: &str) -> SigningKey {
        let mut key = Vec::with_capacity(4 + secret.len());
        key.extend_from_slice(b"AWS4");
        key.extend_from_slice(secret.as_bytes());
        let date = hmac_sha256(&key, self.date.as_bytes());
        let region = hmac_sha256(&date, self.region.as_bytes());
        let service = hmac_sha256(&region, b"s3");
        let key = hmac_sha256(&service, b"aws4_request");
        SigningKey(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }
}

/// A timestamp in SigV4's format, `YYYYMMDDTHHMMSSZ`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningTime {
    /// As sent by the client.
    pub text: String,
    /// In Unix seconds.
    pub unix_seconds: i64,
}

impl SigningTime {
    fn parse(text: &str) -> Option<Self> {
        let is_well_formed = text.len() == 16
            && text.bytes().enumerate().all(|(index, byte)| match index {
                8 => byte == b'T',
                15 => byte == b'Z',
                _ => byte.is_ascii_digit(),
            });
        if !is_well_formed {
            return None;
        }
        let civil = DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
        let unix_seconds = civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        Some(Self { text: text.to_owned(), unix_seconds })
    }
}

/// Where the signature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `Authorization: AWS4-HMAC-SHA256 …`.
    Header,
    /// `X-Amz-Signature=…` in the query.
    Presigned {
        /// `X-Amz-Expires`, in seconds.
        expires: i64,
    },
}

/// A parsed signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Scope of the signature.
    pub credential: Credential,
    /// Time of signing.
    pub time: SigningTime,
    /// Where it was found.
    pub form: Form,
    /// `x-amz-content-sha256`: a hash or a keyword.
    pub payload: String,
    /// `x-amz-security-token`.
    pub session_token: Option<String>,
    signed_headers: Vec<String>,
    signature: [u8; 32],
}

impl Signature {
    /// Parses a request's signature; the query takes precedence over the header.
    ///
    /// # Errors
    /// There is no signature, or it is malformed.
    pub fn read(request: SentRequest<'_>) -> Result<Self, SignatureError> {
        let parameters = query_pairs(request.query);
        if parameters.iter().any(|(name, _)| name == "X-Amz-Signature") {
            return Self::read_query(request, &parameters);
        }
        let authorization = request
            .headers
            .get(http::header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .ok_or(SignatureError::Missing)?;
        if !authorization.starts_with("AWS4-") {
            return Err(SignatureError::Missing);
        }
        Self::read_header(request.headers, authorization)
    }

    fn read_header(headers: &HeaderMap, authorization: &str) -> Result<Self, SignatureError> {
        let malformed = |why: &str| SignatureError::MalformedHeader(why.to_owned());
        let fields = authorization
            .strip_prefix(ALGORITHM)
            .and_then(|rest| rest.strip_prefix(' '))
            .ok_or_else(|| malformed("the algorithm must be AWS4-HMAC-SHA256"))?;
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for field in fields.split(',') {
            let (name, value) =
                field.trim().split_once('=').ok_or_else(|| malformed("a field has no value"))?;
            match name {
                "Credential" => credential = Some(value),
                "SignedHeaders" => signed_headers = Some(value),
                "Signature" => signature = Some(value),
                _ => return Err(malformed("only Credential, SignedHeaders and Signature are known")),
            }
        }
        let credential = credential.ok_or_else(|| malformed("it has no Credential"))?;
        let signed_headers = signed_headers.ok_or_else(|| malformed("it has no SignedHeaders"))?;
        let signature = signature.ok_or_else(|| malformed("it has no Signature"))?;
        let time = header_text(headers, "x-amz-date")
            .and_then(SigningTime::parse)
            .ok_or_else(|| malformed("x-amz-date must be YYYYMMDDTHHMMSSZ"))?;
        Self {
            credential: Credential::parse(credential).map_err(SignatureError::MalformedHeader)?,
            time,
            form: Form::Header,
            payload: header_text(headers, "x-amz-content-sha256")
                .ok_or(SignatureError::MissingPayloadHash)?
                .to_owned(),
            session_token: header_text(headers, "x-amz-security-token").map(str::to_owned),
            signed_headers: signed_headers.split(';').map(str::to_owned).collect(),
            signature: lower_hex::decode(signature)
                .ok_or_else(|| malformed("the signature must be 64 hexadecimal digits"))?,
        }
        .checked(SignatureError::MalformedHeader)
    }

    fn read_query(request: SentRequest<'_>, parameters: &[(String, String)]) -> Result<Self, SignatureError> {
        let malformed = |why: &str| SignatureError::MalformedQuery(why.to_owned());
        let get = |name: &str| unique(parameters, name);
        let require = |name: &str| get(name)?.ok_or_else(|| malformed(&format!("{name} is missing")));
        if require("X-Amz-Algorithm")? != ALGORITHM {
            return Err(malformed("X-Amz-Algorithm must be AWS4-HMAC-SHA256"));
        }
        let expires = require("X-Amz-Expires")?
            .parse::<i64>()
            .ok()
            .filter(|expires| (1..=MAX_EXPIRES).contains(expires))
            .ok_or_else(|| malformed("X-Amz-Expires must be between 1 and 604800 seconds"))?;
        let signed_headers: Vec<String> =
            require("X-Amz-SignedHeaders")?.split(';').map(str::to_owned).collect();
        let header_payload = header_text(request.headers, "x-amz-content-sha256")
            .filter(|_| signed_headers.iter().any(|name| name == "x-amz-content-sha256"));
        let payload = get("X-Amz-Content-Sha256")?.or(header_payload).unwrap_or(UNSIGNED_PAYLOAD).to_owned();
        Self {
            credential: Credential::parse(require("X-Amz-Credential")?)
                .map_err(SignatureError::MalformedQuery)?,
            time: SigningTime::parse(require("X-Amz-Date")?)
                .ok_or_else(|| malformed("X-Amz-Date must be YYYYMMDDTHHMMSSZ"))?,
            form: Form::Presigned { expires },
            payload,
            session_token: get("X-Amz-Security-Token")?.map(str::to_owned),
            signed_headers,
            signature: lower_hex::decode(require("X-Amz-Signature")?)
                .ok_or_else(|| malformed("X-Amz-Signature must be 64 hexadecimal digits"))?,
        }
        .checked(SignatureError::MalformedQuery)
    }

    /// Checks common to both forms.
    fn checked(self, malformed: fn(String) -> SignatureError) -> Result<Self, SignatureError> {
        if !self.time.text.starts_with(&self.credential.date) {
            return Err(malformed("the dates of credential and request differ".to_owned()));
        }
        if !self.signed_headers.iter().any(|name| name == "host") {
            return Err(malformed("the host header must be signed".to_owned()));
        }
        Ok(self)
    }

    /// Checks that the signature is valid at this time.
    ///
    /// # Errors
    /// Too early or too late.
    pub fn check_time(&self, now: i64) -> Result<(), SignatureError> {
        let age = now.saturating_sub(self.time.unix_seconds);
        match self.form {
            Form::Header if age.abs() > CLOCK_SKEW => Err(SignatureError::Skewed),
            Form::Presigned { .. } if age < -CLOCK_SKEW => Err(SignatureError::NotYetValid),
            Form::Presigned { expires } if age > expires => Err(SignatureError::Expired),
            Form::Header | Form::Presigned { .. } => Ok(()),
        }
    }

    /// Verifies that `secret` signed this request. Returns the key for verifying the body.
    ///
    /// # Errors
    /// The signature does not match, or a relevant header is not signed.
    pub fn verify(&self, request: SentRequest<'_>, secret: &str) -> Result<SigningKey, SignatureError> {
        self.check_signed_headers(request.headers)?;
        let key = self.credential.signing_key(secret);
        let text = string_to_sign(ALGORITHM, self, &self.canonical_request(request));
        if constant_time_eq(&key.sign(text.as_bytes()), &self.signature) {
            Ok(key)
        } else {
            Err(SignatureError::DoesNotMatch)
        }
    }

    /// The raw signature, from which the chunk signatures of a stream are chained.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        self.signature
    }

    /// `x-amz-` headers change the meaning of a request, so a proxy must not be able to add one.
    fn check_signed_headers(&self, headers: &HeaderMap) -> Result<(), SignatureError> {
        for name in headers.keys().map(http::HeaderName::as_str) {
            // Added by a content delivery network; has no meaning here.
            let counts = name.starts_with("x-amz-") && name != "x-amz-cf-id";
            if counts && !self.signed_headers.iter().any(|signed| signed == name) {
                return Err(SignatureError::UnsignedHeader(name.to_owned()));
            }
        }
        Ok(())
    }

    /// The canonical form of method, path, query, headers and payload hash.
    fn canonical_request(&self, request: SentRequest<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(request.method.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(canonical_path(request.path).as_bytes());
        out.push(b'\n');
        out.extend_from_slice(canonical_query(request.query).as_bytes());
        out.push(b'\n');
        for name in &self.signed_headers {
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            if name == "host" {
                push_header_value(&mut out, request.host);
            } else {
                for (index, value) in request.headers.get_all(name.as_str()).iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    push_header_value(&mut out, value.as_bytes());
                }
            }
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(self.signed_headers.join(";").as_bytes());
        out.push(b'\n');
        out.extend_from_slice(self.payload.as_bytes());
        out
    }
}

/// Signing key for one date, region and service.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// HMAC-SHA256 of `text`.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(hmac::sign(&self.0, text).as_ref());
        out
    }
}

/// Parses the signature of a POST form. It covers the policy document, which covers the fields.
///
/// # Errors
/// A field is missing or malformed, or the date lies in the future.
pub fn read_form(field: impl Fn(&str) -> Option<String>, now: i64) -> Result<FormSignature, SignatureError> {
    let malformed = |why: &str| SignatureError::MalformedQuery(why.to_owned());
    let require = |name: &str| field(name).ok_or_else(|| malformed(&format!("{name} is missing")));
    let signature = field("x-amz-signature").ok_or(SignatureError::Missing)?;
    if require("x-amz-algorithm")? != ALGORITHM {
        return Err(malformed("x-amz-algorithm must be AWS4-HMAC-SHA256"));
    }
    let credential =
        Credential::parse(&require("x-amz-credential")?).map_err(SignatureError::MalformedQuery)?;
    let time = SigningTime::parse(&require("x-amz-date")?)
        .ok_or_else(|| malformed("x-amz-date must be YYYYMMDDTHHMMSSZ"))?;
    if !time.text.starts_with(&credential.date) {
        return Err(malformed("the dates of credential and form differ"));
    }
    // The policy limits the form's lifetime; a date in the future means a wrong clock.
    if time.unix_seconds > now.saturating_add(CLOCK_SKEW) {
        return Err(SignatureError::NotYetValid);
    }
    Ok(FormSignature {
        credential,
        session_token: field("x-amz-security-token"),
        policy: require("policy")?,
        signature: lower_hex::decode(&signature)
            .ok_or_else(|| malformed("x-amz-signature must be 64 hexadecimal digits"))?,
    })
}

/// Parsed signature of a POST form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormSignature {
    /// Scope of the signature.
    pub credential: Credential,
    /// `x-amz-security-token`.
    pub session_token: Option<String>,
    /// Base64-encoded policy document, as sent.
    pub policy: String,
    signature: [u8; 32],
}

impl FormSignature {
    /// Verifies that `secret` signed the policy.
    ///
    /// # Errors
    /// The signature does not match.
    pub fn verify(&self, secret: &str) -> Result<(), SignatureError> {
        let expected = self.credential.signing_key(secret).sign(self.policy.as_bytes());
        if constant_time_eq(&expected, &self.signature) { Ok(()) } else { Err(SignatureError::DoesNotMatch) }
    }
}

/// Percent-encodes a key for a path, keeping slashes.
#[must_use]
pub fn encode_path(key: &str) -> String {
    percent_encode(key.as_bytes(), ENCODED_IN_PATH).to_string()
}

/// Decoded name and value of each query parameter; `+` is a space, as in forms.
#[must_use]
pub fn query_pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// SHA-256 in lower-case hex.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

fn string_to_sign(algorithm: &str, signature: &Signature, canonical_request: &[u8]) -> String {
    let (time, scope) = (&signature.time.text, signature.credential.scope());
    format!("{algorithm}\n{time}\n{scope}\n{}", sha256_hex(canonical_request))
}

/// S3 encodes a path exactly once, whatever the client sent: `%7E` and `~` are equal.
fn canonical_path(path: &str) -> String {
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let encoded = percent_encode(&decoded, ENCODED_IN_PATH).to_string();
    if encoded.is_empty() { "/".to_owned() } else { encoded }
}

/// Excludes only the signature itself.
fn canonical_query(query: &str) -> String {
    let encode = |text: &str| -> String {
        let decoded: Vec<u8> = percent_decode_str(&text.replace('+', " ")).collect();
        percent_encode(&decoded, ENCODED).to_string()
    };
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encode(name), encode(value))
        })
        .filter(|(name, _)| name != "X-Amz-Signature")
        .collect();
    pairs.sort();
    let joined: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    joined.join("&")
}

/// Trimmed, with runs of spaces collapsed.
fn push_header_value(out: &mut Vec<u8>, value: &[u8]) {
    let mut was_space = false;
    for &byte in value.trim_ascii() {
        let is_space = byte == b' ';
        if !(is_space && was_space) {
            out.push(byte);
        }
        was_space = is_space;
    }
}

/// Rejects repeated parameters: this server and the signer could use different values.
fn unique<'a>(pairs: &'a [(String, String)], name: &str) -> Result<Option<&'a str>, SignatureError> {
    let mut values = pairs.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let first = values.next();
    match values.next() {
        Some(_) => Err(SignatureError::MalformedQuery(format!("{name} is repeated"))),
        None => Ok(first),
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; 32] {
    SigningKey(hmac::Key::new(hmac::HMAC_SHA256, key)).sign(text)
}

#[cfg(test)]
pub(crate) mod tests;
