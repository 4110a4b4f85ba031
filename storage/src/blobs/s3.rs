//! Blobs as objects in a bucket of an S3-compatible store.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::convert::saturating;
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer};
use object_store::client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody, ReqwestConnector};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use super::sweeper::IncompleteUpload;
use super::{BlobError, BlobId};
use crate::config::S3Config;

/// Concurrent part uploads per blob.
pub(super) const PARTS_IN_FLIGHT: usize = 3;
/// Largest object that a single request can copy.
pub(super) const MAX_COPY_BYTES: u64 = 5 << 30;

const PART_BYTES: u64 = 8 << 20;
/// Most parts of a multipart upload.
const MAX_PARTS: u64 = 10_000;

/// Time limits for connecting, and for silence afterwards. A request as a whole has no limit, because that
/// would limit its speed.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// How long a failed request is retried.
const RETRY_LIMIT: Duration = Duration::from_secs(15);
const RETRIES: usize = 4;

/// A bucket used as blob store.
#[derive(Debug)]
pub(super) struct Bucket {
    objects: Arc<AmazonS3>,
    /// For the one request [`AmazonS3`] has no method for.
    client: HttpClient,
    /// URL of the bucket.
    url: String,
    region: String,
    part_bytes: usize,
}

/// Response to ListMultipartUploads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Uploads {
    #[serde(default)]
    upload: Vec<Upload>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Upload {
    key: String,
    upload_id: String,
    initiated: Timestamp,
}

impl Bucket {
    /// Creates a client for the bucket; sends nothing.
    pub(super) fn open(config: &S3Config, max_file_size: u64) -> Result<Self, BlobError> {
        let S3Config { region, bucket, access_key_id, secret_access_key, force_path_style, .. } = config;
        let name = bucket.clone().unwrap_or_default();
        let endpoint = endpoint(config, &name)?;
        let url = if *force_path_style { format!("{endpoint}/{name}") } else { endpoint.clone() };
        let is_plain = endpoint.starts_with("http://");
        let options = ClientOptions::new()
            .with_allow_http(is_plain)
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_read_timeout(SILENCE_LIMIT);
        let retry = RetryConfig {
            backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
            max_retries: RETRIES,
            retry_timeout: RETRY_LIMIT,
        };
        let client =
            ReqwestConnector::default().connect(&options).map_err(|error| BlobError::from_store(&error))?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&name)
            .with_region(region)
            .with_endpoint(endpoint)
            .with_virtual_hosted_style_request(!force_path_style)
            // TLS already protects the body, and hashing it would cost more than the rest of the request.
            .with_unsigned_payload(!is_plain)
            .with_client_options(options)
            .with_retry(retry);
        if let (Some(id), Some(secret)) = (access_key_id, secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.expose_secret());
        }
        let objects = Arc::new(builder.build().map_err(|error| BlobError::from_store(&error))?);
        let part_bytes = PART_BYTES.max(max_file_size.div_ceil(MAX_PARTS));
        let part_bytes = saturating::<usize>(part_bytes);
        Ok(Self { objects, client, url, region: region.clone(), part_bytes })
    }

    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::<AmazonS3>::clone(&self.objects)
    }

    pub(super) fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    pub(super) fn describe(&self) -> String {
        self.url.clone()
    }

    /// Multipart uploads of keys below `prefix` that are neither completed nor aborted; at most the first
    /// thousand.
    pub(super) async fn partial_uploads(&self, prefix: &Path) -> Result<Vec<IncompleteUpload>, BlobError> {
        let unavailable = |error: &dyn std::error::Error| BlobError::Unavailable(error.to_string());
        let target = format!("{}?prefix={}&uploads=", self.url, prefix.as_ref().replace('/', "%2F"));
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| unavailable(&error))?;
        let credentials = self.objects.credentials().get_credential().await;
        let credentials = credentials.map_err(|error| BlobError::from_store(&error))?;
        AwsAuthorizer::new(&credentials, "s3", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|error| BlobError::from_store(&error))?;
        let answer = async {
            let answer = self.client.execute(request).await.map_err(|error| unavailable(&error))?;
            let status = answer.status();
            let body = answer.into_body().bytes().await.map_err(|error| unavailable(&error))?;
            Ok((status, body))
        };
        let (status, body) =
            timeout(SILENCE_LIMIT, answer).await.map_err(|elapsed| unavailable(&elapsed))??;
        if !status.is_success() {
            return Err(BlobError::Failed(format!(
                "cannot list the multipart uploads of {}: {status}",
                self.url
            )));
        }
        let uploads: Uploads = quick_xml::de::from_reader(body.as_ref())
            .map_err(|error| BlobError::Failed(format!("invalid list of multipart uploads: {error}")))?;
        // Ignore foreign keys.
        let known = uploads.upload.into_iter().filter_map(|upload| {
            let (_, name) = upload.key.split_once('/')?;
            let blob = BlobId::parse(name).filter(|blob| blob.path().as_ref() == upload.key)?;
            Some(IncompleteUpload { blob, mark: upload.upload_id, started_at: upload.initiated })
        });
        Ok(known.collect())
    }

    pub(super) async fn remove_partial(&self, partial: &IncompleteUpload) -> Result<(), BlobError> {
        let IncompleteUpload { blob, mark, .. } = partial;
        match self.objects.abort_multipart(&blob.path(), mark).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BlobError::from_store(&error)),
        }
    }

    /// Lists an empty folder, which checks bucket, credentials and the list permission.
    pub(super) async fn check(&self) -> Result<(), BlobError> {
        let listed = self.objects.list(Some(&Path::from("check"))).try_next().await;
        let _none = listed.map_err(|error| BlobError::from_store(&error))?;
        Ok(())
    }
}

/// Base URL of requests, with the bucket in the host name unless it belongs in the path.
fn endpoint(config: &S3Config, bucket: &str) -> Result<String, BlobError> {
    let own = config.endpoint.as_ref().map(|endpoint| endpoint.as_str().to_owned());
    let address = own.unwrap_or_else(|| format!("https://s3.{}.amazonaws.com", config.region));
    let wrong = || BlobError::Failed(format!("invalid URL of an S3-compatible store: {address}"));
    let mut url = Url::parse(&address).map_err(|_invalid| wrong())?;
    if !config.force_path_style {
        let host = format!("{bucket}.{}", url.host_str().ok_or_else(wrong)?);
        url.set_host(Some(&host)).map_err(|_invalid| wrong())?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_is_in_path_or_host_name() {
        let at = |endpoint: Option<&str>, force_path_style| {
            let endpoint = endpoint.map(|endpoint| endpoint.parse().unwrap());
            let config =
                S3Config { endpoint, force_path_style, region: "eu-x".to_owned(), ..S3Config::default() };
            super::endpoint(&config, "files").unwrap()
        };
        assert_eq!(at(None, true), "https://s3.eu-x.amazonaws.com");
        assert_eq!(at(None, false), "https://files.s3.eu-x.amazonaws.com");
        assert_eq!(at(Some("http://127.0.0.1:9000"), true), "http://127.0.0.1:9000");
        assert_eq!(at(Some("https://example.org/s3/"), false), "https://files.example.org/s3");
    }
}
