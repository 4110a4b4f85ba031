//! Tokens of signed URLs. They contain everything they grant, so nothing is stored (storage.md §3.12,
//! §3.13).
//!
//! They are signed with the project's secret, as upstream and other tools do. A token is valid for one path
//! and one purpose and identifies no caller: a user's token is rejected here, and [`Callers::for_token`]
//! rejects these tokens.

use std::sync::Arc;

use basalt_core::claims::Claims;
use serde_json::{Map, Value, json};

use crate::caller::Callers;
use crate::error::StorageError;

/// Last second of the year 9999, the limit of HTTP dates.
const LAST_SECOND: i64 = 253_402_300_799;
/// Claim that older upload tokens have instead of a scope.
const UPSERT: &str = "upsert";
/// Claim with the transformations of an image token.
const TRANSFORMATIONS: &str = "transformations";

/// A token for reading an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DownloadToken {
    /// Expiry in Unix seconds; tokens of other tools may have none.
    pub(crate) expires: Option<i64>,
}

/// A token for reading an image with certain transformations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RenderToken {
    /// `width:100,resize:contain`; empty for none.
    pub(crate) transformations: String,
    /// Requested output format.
    pub(crate) format: Option<String>,
    /// As in [`DownloadToken`].
    pub(crate) expires: Option<i64>,
}

/// A token for uploading an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UploadToken {
    /// `sub` of the user who signed the URL and will own the object.
    pub(crate) owner: Option<String>,
    /// Whether an existing object may be overwritten.
    pub(crate) upsert: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Download,
    Upload,
}

impl Callers {
    /// Signs a token for reading `path` (bucket, slash, decoded key) for `seconds`.
    ///
    /// # Errors
    /// It would expire after the year 9999.
    pub(crate) fn sign_download(&self, path: &str, seconds: u64) -> Result<String, StorageError> {
        self.sign_url(path, Scope::Download, seconds, [])
    }

    /// Signs a token for reading the transformed image at `path` for `seconds`.
    ///
    /// # Errors
    /// As for [`Callers::sign_download`].
    pub(crate) fn sign_render(
        &self,
        path: &str,
        seconds: u64,
        transformations: &str,
        format: Option<&str>,
    ) -> Result<String, StorageError> {
        let mut more = vec![(TRANSFORMATIONS, json!(transformations))];
        more.extend(format.map(|format| ("format", json!(format))));
        self.sign_url(path, Scope::Download, seconds, more)
    }

    /// Signs a token for uploading `path` for `seconds`.
    ///
    /// # Errors
    /// As for [`Callers::sign_download`].
    pub(crate) fn sign_upload(
        &self,
        path: &str,
        seconds: u64,
        owner: Option<&str>,
        upsert: bool,
    ) -> Result<String, StorageError> {
        let owner = owner.map(|owner| ("owner", json!(owner)));
        self.sign_url(path, Scope::Upload, seconds, owner.into_iter().chain([(UPSERT, json!(upsert))]))
    }

    fn sign_url(
        &self,
        path: &str,
        scope: Scope,
        seconds: u64,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<String, StorageError> {
        let issued = self.clock.unix_seconds();
        let ends = i64::try_from(seconds).ok().and_then(|seconds| issued.checked_add(seconds));
        let ends = ends
            .filter(|ends| *ends <= LAST_SECOND)
            .ok_or_else(|| StorageError::invalid_parameter("expiresIn"))?;
        let mut claims = Map::new();
        let mut set = |name: &str, value: Value| drop(claims.insert(name.to_owned(), value));
        set("url", json!(path));
        set("scope", json!(if scope == Scope::Upload { "upload" } else { "download" }));
        for (name, value) in more {
            set(name, value);
        }
        set("iat", json!(issued));
        set("exp", json!(ends));
        self.keys.sign_with_secret(&claims).map_err(|error| {
            tracing::error!(%error, "cannot sign the token of a URL");
            StorageError::internal()
        })
    }

    /// Verifies a token for reading the untransformed object at `path` (bucket, slash, decoded key).
    ///
    /// # Errors
    /// `InvalidJWT` if the token is missing, forged or expired; `InvalidSignature` if it is for another
    /// path, purpose, or a transformed image.
    pub(crate) fn verify_download(&self, token: &str, path: &str) -> Result<DownloadToken, StorageError> {
        let claims = self.verify_url(token, path, Scope::Download)?;
        // Access to a small image does not grant access to the original or its metadata.
        if claims.get(TRANSFORMATIONS).is_some_and(|value| value != "") {
            return Err(invalid_signature());
        }
        Ok(DownloadToken { expires: expiry(&claims) })
    }

    /// Verifies a token for reading the image at `path`. A token for the original is accepted, too.
    ///
    /// # Errors
    /// As for [`Callers::verify_download`].
    pub(crate) fn verify_render(&self, token: &str, path: &str) -> Result<RenderToken, StorageError> {
        let claims = self.verify_url(token, path, Scope::Download)?;
        let transformations = match claims.get(TRANSFORMATIONS) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => return Err(invalid_signature()),
        };
        let format = claims.get_str("format").map(str::to_owned);
        Ok(RenderToken { transformations, format, expires: expiry(&claims) })
    }

    /// Verifies a token for uploading `path`.
    ///
    /// # Errors
    /// As for [`Callers::verify_download`].
    pub(crate) fn verify_upload(&self, token: &str, path: &str) -> Result<UploadToken, StorageError> {
        let claims = self.verify_url(token, path, Scope::Upload)?;
        Ok(UploadToken {
            owner: claims.get_str("owner").map(str::to_owned),
            upsert: claims.get(UPSERT) == Some(&Value::Bool(true)),
        })
    }

    fn verify_url(&self, token: &str, path: &str, wanted: Scope) -> Result<Arc<Claims>, StorageError> {
        let claims = self.verify(token).map_err(StorageError::invalid_jwt)?;
        // A user's token is signed with the same keys and may contain arbitrary claims added by a hook.
        if claims.get("role").is_some() || claims.get_str("url") != Some(path) {
            return Err(invalid_signature());
        }
        let is_scoped = match (claims.get("scope"), wanted) {
            (Some(scope), Scope::Download) => scope == "download",
            (Some(scope), Scope::Upload) => scope == "upload",
            // Tokens issued before scopes were introduced.
            (None, Scope::Download) => claims.get(UPSERT).is_none(),
            (None, Scope::Upload) => claims.get(UPSERT).is_some(),
        };
        match (is_scoped, wanted) {
            (true, _) => Ok(claims),
            (false, Scope::Download) => {
                Err(StorageError::invalid_signature("Token is not scoped for download"))
            }
            (false, Scope::Upload) => Err(StorageError::invalid_signature("Token is not scoped for upload")),
        }
    }
}

fn invalid_signature() -> StorageError {
    StorageError::invalid_signature("Invalid signature")
}

/// `exp`, if it is a valid date.
fn expiry(claims: &Claims) -> Option<i64> {
    #[expect(clippy::cast_precision_loss, reason = "the constant is below 2^53")]
    let last = LAST_SECOND as f64;
    let end = claims.seconds("exp").ok().flatten().filter(|end| (0.0..=last).contains(end))?;
    #[expect(clippy::cast_possible_truncation, reason = "within the range of dates; fractions are truncated")]
    Some(end as i64)
}

#[cfg(test)]
mod tests {
    use basalt_core::clock::Clock;
    use basalt_core::keys::{ApiKeys, KeyMaterial, Keys};

    use super::*;

    const NOW: i64 = 1_700_000_000;
    const PATH: &str = "b/a folder/ü?.txt";

    fn callers(secret: &str) -> Callers {
        let material = KeyMaterial {
            jwks: Vec::new(),
            secret: Some(secret.as_bytes().to_vec().into()),
            secret_kid: None,
            strict_kid: false,
            rotates: false,
            api_keys: ApiKeys::default(),
        };
        Callers { keys: Arc::new(Keys::new(material).unwrap()), clock: Clock::fixed(NOW) }
    }

    fn ours() -> Callers {
        callers("a secret of at least thirty-two bytes")
    }

    fn signed(claims: &Value) -> (Callers, String) {
        let callers = ours();
        let token = callers.keys.sign_with_secret(claims).unwrap();
        (callers, token)
    }

    fn words(error: &StorageError) -> String {
        format!("{} {}", error.code(), error.message())
    }

    #[test]
    fn download_token_has_upstream_claims() {
        let callers = ours();
        let token = callers.sign_download(PATH, 60).unwrap();
        let claims = callers.verify(&token).unwrap();
        assert_eq!(
            claims.as_text(),
            r#"{"url":"b/a folder/ü?.txt","scope":"download","iat":1700000000,"exp":1700000060}"#
        );
        let expected = DownloadToken { expires: Some(NOW + 60) };
        assert_eq!(callers.verify_download(&token, PATH), Ok(expected));
    }

    #[test]
    fn render_token_does_not_grant_the_original() {
        let callers = ours();
        let token = callers.sign_render(PATH, 60, "width:100,resize:undefined", Some("webp")).unwrap();
        let expected = RenderToken {
            transformations: "width:100,resize:undefined".to_owned(),
            format: Some("webp".to_owned()),
            expires: Some(NOW + 60),
        };
        assert_eq!(callers.verify_render(&token, PATH), Ok(expected));
        let refused = callers.verify_download(&token, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidSignature Invalid signature");
        let original = callers.sign_download(PATH, 60).unwrap();
        assert_eq!(callers.verify_render(&original, PATH).unwrap().transformations, "");
        let (callers, odd) = signed(&json!({"url": PATH, "scope": "download", "transformations": 7}));
        assert!(callers.verify_render(&odd, PATH).is_err());
        assert!(callers.verify_download(&odd, PATH).is_err());
    }

    #[test]
    fn upload_token_contains_owner_and_upsert() {
        for (owner, upsert) in [(Some("u1"), false), (None, true)] {
            let callers = ours();
            let token = callers.sign_upload(PATH, 60, owner, upsert).unwrap();
            let expected = UploadToken { owner: owner.map(str::to_owned), upsert };
            assert_eq!(callers.verify_upload(&token, PATH), Ok(expected));
        }
    }

    #[test]
    fn token_is_valid_for_one_path_and_purpose() {
        let callers = ours();
        let download = callers.sign_download(PATH, 60).unwrap();
        let upload = callers.sign_upload(PATH, 60, None, true).unwrap();
        for path in
            ["b/a folder/ü?.txt/", "b/a%20folder/ü?.txt", "b/A folder/ü?.txt", "c/a folder/ü?.txt", ""]
        {
            let refused = callers.verify_download(&download, path).unwrap_err();
            assert_eq!(words(&refused), "InvalidSignature Invalid signature", "{path}");
            let refused = callers.verify_upload(&upload, path).unwrap_err();
            assert_eq!(words(&refused), "InvalidSignature Invalid signature", "{path}");
        }
        let refused = callers.verify_download(&upload, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidSignature Token is not scoped for download");
        let refused = callers.verify_render(&upload, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidSignature Token is not scoped for download");
        let refused = callers.verify_upload(&download, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidSignature Token is not scoped for upload");
    }

    #[test]
    fn forged_and_expired_tokens_report_the_cause() {
        let callers = ours();
        let of = |token: &str| words(&callers.verify_download(token, PATH).unwrap_err());
        let token = callers.sign_download(PATH, 60).unwrap();
        for malformed in ["", "a", "a.b", "a.b.c.d", "sb_secret_x", &token.replace('.', "")] {
            assert_eq!(of(malformed), "InvalidJWT Invalid Compact JWS", "{malformed}");
        }
        let foreign = self::callers("another secret of thirty-two bytes!!").sign_download(PATH, 60).unwrap();
        assert_eq!(of(&foreign), "InvalidJWT signature verification failed");
        // Another payload with the same signature.
        let (header, rest) = token.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let other = callers.sign_download("b/other", 60).unwrap();
        let payload = other.split('.').nth(1).unwrap();
        assert_eq!(
            of(&format!("{header}.{payload}.{signature}")),
            "InvalidJWT signature verification failed"
        );
        let none = "eyJhbGciOiJub25lIn0";
        assert_eq!(
            of(&format!("{none}.{payload}.")),
            "InvalidJWT \"alg\" (Algorithm) Header Parameter value not allowed"
        );
        callers.clock.advance(59);
        assert!(callers.verify_download(&token, PATH).is_ok());
        callers.clock.advance(1);
        assert_eq!(of(&token), "InvalidJWT \"exp\" claim timestamp check failed");
    }

    #[test]
    fn rejects_user_tokens() {
        for claims in [
            json!({"sub": "u1", "role": "authenticated"}),
            json!({"sub": "u1", "role": "authenticated", "url": PATH}),
            json!({"sub": "u1", "role": "service_role", "url": PATH, "scope": "download"}),
            json!({"role": null, "url": PATH, "scope": "download"}),
            json!({"sub": "u1"}),
            json!({"url": [PATH], "scope": "download"}),
        ] {
            let (callers, token) = signed(&claims);
            let refused = callers.verify_download(&token, PATH).unwrap_err();
            assert_eq!(words(&refused), "InvalidSignature Invalid signature", "{claims}");
        }
    }

    #[test]
    fn upsert_claim_distinguishes_tokens_without_scope() {
        let (callers, download) = signed(&json!({"url": PATH}));
        assert_eq!(callers.verify_download(&download, PATH), Ok(DownloadToken { expires: None }));
        let refused = callers.verify_upload(&download, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidSignature Token is not scoped for upload");
        let (callers, upload) = signed(&json!({"url": PATH, "upsert": false, "owner": "u1"}));
        let expected = UploadToken { owner: Some("u1".to_owned()), upsert: false };
        assert_eq!(callers.verify_upload(&upload, PATH), Ok(expected));
        let refused = callers.verify_download(&upload, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidSignature Token is not scoped for download");
        for scope in [json!("read"), json!(null), json!(["download"]), json!("")] {
            let (callers, token) = signed(&json!({"url": PATH, "scope": scope}));
            let refused = callers.verify_download(&token, PATH).unwrap_err();
            assert_eq!(words(&refused), "InvalidSignature Token is not scoped for download", "{scope}");
        }
    }

    #[test]
    fn expiry_is_limited_to_valid_dates() {
        let callers = ours();
        let left = u64::try_from(LAST_SECOND - NOW).unwrap();
        let token = callers.sign_download(PATH, left).unwrap();
        let expected = DownloadToken { expires: Some(LAST_SECOND) };
        assert_eq!(callers.verify_download(&token, PATH), Ok(expected));
        for seconds in [left + 1, u64::try_from(i64::MAX).unwrap(), u64::MAX] {
            let refused = callers.sign_download(PATH, seconds).unwrap_err();
            assert_eq!(words(&refused), "InvalidParameter Invalid Parameter expiresIn");
        }
        for exp in [json!(1e300), json!(LAST_SECOND + 1)] {
            let (callers, token) = signed(&json!({"url": PATH, "exp": exp}));
            assert_eq!(callers.verify_download(&token, PATH), Ok(DownloadToken { expires: None }));
        }
        let (callers, token) = signed(&json!({"url": PATH, "exp": "tomorrow"}));
        let refused = callers.verify_download(&token, PATH).unwrap_err();
        assert_eq!(words(&refused), "InvalidJWT \"exp\" claim must be a number");
    }
}
