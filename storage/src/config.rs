//! Settings of the section `[storage]`.

use std::path::PathBuf;
use std::time::Duration;

use basalt_core::settings::BaseUrl;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, Time, Whole};
use basalt_core::{choice, settings};
use secrecy::SecretString;

choice! {
    /// Where objects are stored.
    pub enum Backend {
        /// In a local folder.
        File = "file",
        /// In an S3-compatible store.
        S3 = "s3",
    }
}

settings! {
    /// Settings of `[storage]`.
    #[derive(Clone, Debug)]
    pub struct StorageConfig in "storage" with r {
        /// Where objects are stored: `file` or `s3`.
        backend: Backend = Is("file");
        /// Folder for objects.
        dir: PathBuf = ByOr("`storage` in the state folder", ".basalt/storage");
        /// Maximum size of an upload; a bucket may set a lower limit.
        max_file_size: u64 as Bytes = Is("50MiB");
        /// Maximum size of an upload in one request to `/object`; TUS and S3 uploads may reach
        /// `max_file_size`.
        max_standard_upload_size: Option<u64> as Option<Bytes> = By("max_file_size");
        /// Memory for buffers of all uploads on their way to the disk or to S3.
        upload_memory: u64 as Bytes = Is("96MiB");
        /// How long a resumable upload can be continued.
        tus_expiry: Duration as Time = Is("24h");
    } also {
        /// Settings of `[storage.s3]`.
        s3: S3Config = S3Config::read(r);
        /// Settings of `[storage.s3_protocol]`.
        s3_protocol: S3ProtocolConfig = S3ProtocolConfig::read(r);
        /// Settings of `[storage.images]`.
        images: ImagesConfig = ImagesConfig::read(r);
    }
}

settings! {
    /// Settings of `[storage.images]`: image transformations.
    #[derive(Clone, Debug)]
    pub struct ImagesConfig in "storage.images" with r {
        /// Whether images are transformed. If not, `/render/image` answers 404, and signed URLs with a transformation are refused.
        enabled: bool = Is("true");
        /// Maximum width and height of a transformed image; larger requests are reduced to it.
        max_size: u32 as Whole<1, 16_383> = Is("2000");
        /// Maximum number of pixels of a source image, which also limits decoding memory to 4 bytes per pixel. An image that
        /// needs more, such as a progressive JPEG with over two thirds of these pixels, is refused.
        max_source_pixels: u64 as Whole<1, 1_000_000_000> = Is("50000000");
        /// Maximum file size of a source image.
        max_source_size: u64 as Bytes = Is("25MB");
        /// Requests of one client (a user, or a visitor's address) that may wait for one of the transformation threads (half as
        /// many as cores); further ones get 429 `SlowDown` with `Retry-After: 1`. Clients take turns. In total sixteen full
        /// queues may wait.
        queue: usize as Whole<0, 100_000> = Is("64");
    }
}

settings! {
    /// Settings of `[storage.s3]`: the store for `backend = "s3"`.
    #[derive(Clone, Debug)]
    pub struct S3Config in "storage.s3" with r {
        /// URL of the S3-compatible store.
        endpoint: Option<BaseUrl> = By("AWS's for the region");
        /// Region of the store.
        region: String = Is("us-east-1");
        /// Bucket that holds all objects.
        bucket: Option<String> = By("none");
        /// Access key id.
        access_key_id: Option<String> = By("none");
        /// Secret access key.
        secret_access_key: Option<SecretString> = By("none"), secret;
        /// Put the bucket name into the path instead of the host name.
        force_path_style: bool = Is("true");
    }
}

settings! {
    /// Settings of `[storage.s3_protocol]`: the S3 protocol at `/storage/v1/s3`.
    #[derive(Clone, Debug)]
    pub struct S3ProtocolConfig in "storage.s3_protocol" with r {
        /// Access key id of a key pair with full access, as role service_role. Users sign with their own
        /// token instead.
        access_key_id: Option<String> = By("one that `basalt keys` shows, in development; none in production");
        /// Secret access key of that pair.
        secret_access_key: Option<SecretString> = By("one that `basalt keys` shows, in development; none in production"), secret;
        /// Region clients sign for. Signatures for `us-east-1`, `auto` and `local` are accepted as well.
        region: String = Is("us-east-1");
    }
}

impl StorageConfig {
    /// Conflicting settings, as `(key, problem)`.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, &'static str)> {
        let S3Config { bucket, access_key_id, secret_access_key, .. } = &self.s3;
        let mut faults = Vec::new();
        if self.backend == Backend::S3 && bucket.is_none() {
            faults.push((
                "storage.backend",
                "is s3, which requires storage.s3.bucket: set it to the bucket's name",
            ));
        }
        if access_key_id.is_some() != secret_access_key.is_some() {
            faults.push((
                "storage.s3.access_key_id",
                "and storage.s3.secret_access_key must be set together: set both or neither",
            ));
        }
        let S3ProtocolConfig { access_key_id, secret_access_key, .. } = &self.s3_protocol;
        if access_key_id.is_some() != secret_access_key.is_some() {
            faults.push((
                "storage.s3_protocol.access_key_id",
                "and storage.s3_protocol.secret_access_key must be set together: set both or neither",
            ));
        }
        faults
    }
}
