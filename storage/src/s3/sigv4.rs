//! AWS Signature Version 4, the server's side: what a request says about its signature, and whether a secret made it.
//!
//! Everything is computed from the request as the client sent it, so proxies and the gateway's own changes do not
//! matter. Which secret belongs to an access key is the caller's business (`credentials`); what a signed body promises
//! is checked by `payload`.

use aws_lc_rs::{digest, hmac};
use basalt_core::random::constant_time_eq;
use http::HeaderMap;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::hex;

/// The one algorithm; SigV4A signs with elliptic curves and is not offered.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// How far the client's clock may be off, in seconds.
pub const CLOCK_SKEW: i64 = 15 * 60;
/// The longest life of a presigned URL: seven days, in seconds.
pub const MAX_EXPIRES: i64 = 7 * 24 * 60 * 60;
/// A body that the signature does not cover.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// What stays as it is in a canonical URI: RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const ENCODED_IN_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// Why a signature was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Neither an `Authorization` header nor a signed query.
    #[error("Missing signature")]
    Missing,
    /// An `Authorization` header that cannot be read.
    #[error("The authorization header is malformed; {0}")]
    MalformedHeader(String),
    /// Signature parameters of a URL or a form that cannot be read.
    #[error("The signature's parameters are malformed; {0}")]
    MalformedQuery(String),
    /// A header that means something to S3 is not part of what was signed.
    #[error("There were headers present in the request which were not signed: {0}")]
    UnsignedHeader(String),
    /// `x-amz-content-sha256` is missing.
    #[error("Missing required header for this request: x-amz-content-sha256")]
    MissingPayloadHash,
    /// The clocks differ too much.
    #[error("The difference between the request time and the current time is too large.")]
    Skewed,
    /// The URL is used after its time.
    #[error("Request has expired")]
    Expired,
    /// The URL is used before its time.
    #[error("Request is not yet valid")]
    NotYetValid,
    /// The secret did not make this signature.
    #[error(
        "The request signature we calculated does not match the signature you provided. Check your key and signing method."
    )]
    DoesNotMatch,
}

/// A request as the client sent it.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest<'a> {
    /// Method.
    pub method: &'a str,
    /// Path as sent, with the service's prefix.
    pub path: &'a str,
    /// Query as sent, without the `?`; empty without one.
    pub query: &'a str,
    /// `Host`, or HTTP/2's `:authority`.
    pub host: &'a [u8],
    /// Headers.
    pub headers: &'a HeaderMap,
}

/// Whose key signed, and for when and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Access key id.
    pub access_key: String,
    /// `YYYYMMDD`.
    pub date: String,
    /// Region as the client believes it to be.
    pub region: String,
}

impl Credential {
    /// Reads `key/date/region/s3/aws4_request`. The access key may hold slashes.
    ///
    /// # Errors
    /// The sentence that says what is wrong.
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

    /// The key that `secret` makes for this day, region and service.
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

/// A moment as SigV4 writes it: `YYYYMMDDTHHMMSSZ`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningTime {
    /// As the client wrote it.
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

/// How a request carries its signature.
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

/// What a request says about its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Whose.
    pub credential: Credential,
    /// When it was made.
    pub time: SigningTime,
    /// Where it stands.
    pub form: Form,
    /// `x-amz-content-sha256`: a hash, or one of the words.
    pub payload: String,
    /// `x-amz-security-token`.
    pub session_token: Option<String>,
    signed_headers: Vec<String>,
    signature: [u8; 32],
}

impl Signature {
    /// Reads the signature of a request; the query's comes before the header's.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
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
            signature: hex::decode_array(signature)
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
            signature: hex::decode_array(require("X-Amz-Signature")?)
                .ok_or_else(|| malformed("X-Amz-Signature must be 64 hexadecimal digits"))?,
        }
        .checked(SignatureError::MalformedQuery)
    }

    /// What holds for both forms.
    fn checked(self, malformed: fn(String) -> SignatureError) -> Result<Self, SignatureError> {
        if !self.time.text.starts_with(&self.credential.date) {
            return Err(malformed("the dates of credential and request differ".to_owned()));
        }
        if !self.signed_headers.iter().any(|name| name == "host") {
            return Err(malformed("the host header must be signed".to_owned()));
        }
        Ok(self)
    }

    /// Whether the request comes at a time for which it was signed.
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

    /// Whether `secret` signed this request. Answers with the key, for what the body carries.
    ///
    /// # Errors
    /// It did not, or it left out a header that counts.
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

    /// The signature's bytes; the first chunk of a signed stream continues from them.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        self.signature
    }

    /// An `x-amz-` header decides what a request does, so a proxy on the way may not add one.
    fn check_signed_headers(&self, headers: &HeaderMap) -> Result<(), SignatureError> {
        for name in headers.keys().map(http::HeaderName::as_str) {
            // A content delivery network adds its own request id on the way, and that means nothing to us.
            let counts = name.starts_with("x-amz-") && name != "x-amz-cf-id";
            if counts && !self.signed_headers.iter().any(|signed| signed == name) {
                return Err(SignatureError::UnsignedHeader(name.to_owned()));
            }
        }
        Ok(())
    }

    /// Method, path, query, headers and payload in the one spelling that both sides sign.
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

/// Signs, and so verifies, for one day, region and service.
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

/// The signature of a POST form: it covers the policy document, which covers the fields.
///
/// # Errors
/// A field is missing or cannot be read, or the time is over.
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
    // A form lives as long as its policy says; a date ahead of us is a clock that is wrong.
    if time.unix_seconds > now.saturating_add(CLOCK_SKEW) {
        return Err(SignatureError::NotYetValid);
    }
    Ok(FormSignature {
        credential,
        session_token: field("x-amz-security-token"),
        policy: require("policy")?,
        signature: hex::decode_array(&signature)
            .ok_or_else(|| malformed("x-amz-signature must be 64 hexadecimal digits"))?,
    })
}

/// What a POST form says about its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormSignature {
    /// Whose.
    pub credential: Credential,
    /// `x-amz-security-token`.
    pub session_token: Option<String>,
    /// The policy document in base64, as sent.
    pub policy: String,
    signature: [u8; 32],
}

impl FormSignature {
    /// Whether `secret` signed the policy.
    ///
    /// # Errors
    /// It did not.
    pub fn verify(&self, secret: &str) -> Result<(), SignatureError> {
        let expected = self.credential.signing_key(secret).sign(self.policy.as_bytes());
        if constant_time_eq(&expected, &self.signature) { Ok(()) } else { Err(SignatureError::DoesNotMatch) }
    }
}

/// A key as it stands in a path: percent-encoded but for slashes.
#[must_use]
pub fn encode_path(key: &str) -> String {
    percent_encode(key.as_bytes(), ENCODED_IN_PATH).to_string()
}

/// Name and value of each query parameter, decoded; `+` is a space, as in forms.
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

/// Lower-case hexadecimal SHA-256.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn string_to_sign(algorithm: &str, signature: &Signature, canonical_request: &[u8]) -> String {
    let (time, scope) = (&signature.time.text, signature.credential.scope());
    format!("{algorithm}\n{time}\n{scope}\n{}", sha256_hex(canonical_request))
}

/// S3 encodes a path once, whatever the client encoded: `%7E` and `~` are the same.
fn canonical_path(path: &str) -> String {
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let encoded = percent_encode(&decoded, ENCODED_IN_PATH).to_string();
    if encoded.is_empty() { "/".to_owned() } else { encoded }
}

/// The signature itself is left out; nothing else is.
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

/// Trimmed, runs of spaces as one.
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

/// A parameter that stands twice could mean one thing to us and another to the signer.
fn unique<'a>(pairs: &'a [(String, String)], name: &str) -> Result<Option<&'a str>, SignatureError> {
    let mut values = pairs.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let first = values.next();
    match values.next() {
        Some(_) => Err(SignatureError::MalformedQuery(format!("{name} stands twice"))),
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
