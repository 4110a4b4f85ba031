//! Blobs as objects of a bucket in an S3-compatible store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use secrecy::ExposeSecret as _;

use super::BlobError;
use crate::config::S3Config;

/// Parts of one blob on their way at once.
pub(super) const PARTS_IN_FLIGHT: usize = 3;
/// The largest object that one request copies.
pub(super) const LARGEST_COPY: u64 = 5 << 30;

const PART_BYTES: u64 = 8 << 20;
/// An upload has no more parts than this.
const MOST_PARTS: u64 = 10_000;

/// How long the store may take until it is connected, and be silent afterwards. There is no limit for a whole request: that
/// would be one for the speed.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// How long a request that failed is tried again.
const RETRY_LIMIT: Duration = Duration::from_secs(15);
const RETRIES: usize = 4;

/// The bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    objects: Arc<AmazonS3>,
    name: String,
    part_bytes: usize,
}

impl Bucket {
    /// A client for it; nothing is sent.
    pub(super) fn open(config: &S3Config, max_file_size: u64) -> Result<Self, BlobError> {
        let S3Config { endpoint, region, bucket, access_key_id, secret_access_key, force_path_style } =
            config;
        let name = bucket.clone().unwrap_or_default();
        let is_plain = endpoint.as_ref().is_some_and(|endpoint| endpoint.as_str().starts_with("http://"));
        let client = ClientOptions::new()
            .with_allow_http(is_plain)
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_read_timeout(SILENCE_LIMIT);
        let retry = RetryConfig {
            backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
            max_retries: RETRIES,
            retry_timeout: RETRY_LIMIT,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&name)
            .with_region(region)
            .with_virtual_hosted_style_request(!force_path_style)
            // Under TLS nothing changes a body on its way, and its SHA-256 would cost more than the rest of the request.
            .with_unsigned_payload(!is_plain)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        if let (Some(id), Some(secret)) = (access_key_id, secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.expose_secret());
        }
        let objects = Arc::new(builder.build().map_err(|error| BlobError::general(&error))?);
        let part_bytes = PART_BYTES.max(max_file_size.div_ceil(MOST_PARTS));
        Ok(Self { objects, name, part_bytes: usize::try_from(part_bytes).unwrap_or(usize::MAX) })
    }

    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::<AmazonS3>::clone(&self.objects)
    }

    pub(super) fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    pub(super) fn describe(&self) -> String {
        format!("bucket {}", self.name)
    }

    /// Lists a folder that is empty: that asks for the bucket, the credentials and the right to list.
    pub(super) async fn check(&self) -> Result<(), BlobError> {
        let listed = self.objects.list(Some(&Path::from("check"))).try_next().await;
        let _none = listed.map_err(|error| BlobError::general(&error))?;
        Ok(())
    }
}
