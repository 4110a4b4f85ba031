//! Authenticates S3 requests. The configured key pair acts as `service_role`; a pair made of the project's
//! public key, combined with a user's token, acts as that user (storage.md §3.16).

use axum::body::Body;
use basalt_core::keys::Keys;
use basalt_core::random::constant_time_eq;
use basalt_core::service::Original;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::chunked::ChunkSigner;
use super::error::S3Error;
use super::payload::{Payload, PayloadForm};
use super::sigv4::{Credential, Form, FormSignature, SentRequest, Signature, SignatureError, query_pairs};
use crate::Storage;
use crate::caller::Caller;

/// Accepted regions, besides the configured one.
const OTHER_REGIONS: [&str; 4] = ["us-east-1", "auto", "local", ""];

/// Query parameters of a signature; other `x-amz-` parameters are headers.
const SIGNATURE_PARAMETERS: [&str; 8] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// A request with a valid signature.
#[derive(Debug)]
pub(crate) struct Authenticated {
    /// The identity that signed.
    pub(crate) caller: Caller,
    form: PayloadForm,
    signer: Option<ChunkSigner>,
}

impl Authenticated {
    /// The request's body, verified while it is read.
    ///
    /// # Errors
    /// A header describing the body is invalid.
    pub(crate) fn payload(&mut self, parts: &Parts, body: Body) -> Result<Payload, S3Error> {
        Ok(Payload::new(body, &parts.headers, self.form, self.signer.take())?)
    }
}

/// Verifies a request's signature. Moves headers that a presigned URL carries in its query into the headers.
///
/// # Errors
/// The signature is missing or does not match.
pub(crate) fn authenticate(storage: &Storage, parts: &mut Parts) -> Result<Authenticated, S3Error> {
    let original = parts.extensions.get::<Original>().cloned();
    let original = original.ok_or_else(|| S3Error::from(crate::error::StorageError::internal()))?;
    let sent = SentRequest {
        method: parts.method.as_str(),
        path: original.target.path(),
        query: original.target.query().unwrap_or_default(),
        host: original.authority.as_ref().map(HeaderValue::as_bytes).unwrap_or_default(),
        headers: &parts.headers,
    };
    let signature = Signature::read(sent)?;
    signature.check_time(storage.callers.clock.unix_seconds())?;
    let secrets = secrets(storage, &signature.credential, signature.session_token.is_some())?;
    let key = secrets
        .iter()
        .find_map(|secret| match signature.verify(sent, secret.expose_secret()) {
            Err(SignatureError::DoesNotMatch) => None,
            result => Some(result),
        })
        .unwrap_or(Err(SignatureError::DoesNotMatch))?;
    let caller = caller(storage, signature.session_token.as_deref())?;
    let form = PayloadForm::parse(&signature.payload)?;
    let signer = (signature.form == Form::Header).then(|| ChunkSigner::new(&signature, key));
    if signature.form != Form::Header {
        move_query_headers(parts, &original);
    }
    Ok(Authenticated { caller, form, signer })
}

/// Verifies the signature of a POST form's policy.
///
/// # Errors
/// The signature is missing or does not match.
pub(crate) fn authenticate_form(storage: &Storage, form: &FormSignature) -> Result<Caller, S3Error> {
    let secrets = secrets(storage, &form.credential, form.session_token.is_some())?;
    if !secrets.iter().any(|secret| form.verify(secret.expose_secret()).is_ok()) {
        return Err(SignatureError::DoesNotMatch.into());
    }
    caller(storage, form.session_token.as_deref())
}

/// Candidate secrets of an access key.
fn secrets(
    storage: &Storage,
    credential: &Credential,
    has_token: bool,
) -> Result<Vec<SecretString>, S3Error> {
    let settings = &storage.config.s3_protocol;
    let region = credential.region.as_str();
    if region != settings.region && !OTHER_REGIONS.contains(&region) {
        let message = format!("the region '{region}' is wrong; expecting '{}'", settings.region);
        return Err(SignatureError::MalformedHeader(message).into());
    }
    if has_token {
        return Ok(public_keys(&storage.callers.keys));
    }
    match (&settings.access_key_id, &settings.secret_access_key) {
        (Some(id), Some(secret)) if constant_time_eq(id.as_bytes(), credential.access_key.as_bytes()) => {
            Ok(vec![secret.clone()])
        }
        _ => Err(S3Error::access_denied("Invalid Access Key")),
    }
}

/// With a user's token the access key is the project's name; there is one project, so any name is accepted.
/// The secret is the project's public key in either form; the token identifies the caller.
fn public_keys(keys: &Keys) -> Vec<SecretString> {
    let keys = keys.api_keys();
    [&keys.anon, &keys.publishable]
        .into_iter()
        .filter(|key| !key.is_empty())
        .map(|key| key.as_str().into())
        .collect()
}

fn caller(storage: &Storage, token: Option<&str>) -> Result<Caller, S3Error> {
    match token {
        Some(token) => Ok(storage.callers.for_token(token)?),
        None => Ok(Caller::service()),
    }
}

/// A presigned URL carries headers such as `x-amz-meta-*` and `x-amz-copy-source` in its signed query.
/// Checksums are not moved: AWS's JavaScript signer puts the checksum of an empty body there, before the
/// body is known.
fn move_query_headers(parts: &mut Parts, original: &Original) {
    for (name, value) in query_pairs(original.target.query().unwrap_or_default()) {
        let name = name.to_ascii_lowercase();
        let is_header = name.starts_with("x-amz-")
            && !SIGNATURE_PARAMETERS.contains(&name.as_str())
            && !name.starts_with("x-amz-checksum-");
        if !is_header {
            continue;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(&value)) {
            parts.headers.entry(name).or_insert(value);
        }
    }
}
