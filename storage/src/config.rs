//! What can be set about storage: `[storage]`.

use std::path::PathBuf;
use std::time::Duration;

use basalt_core::settings::BaseUrl;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, Time, Whole};
use basalt_core::{choice, settings};
use secrecy::SecretString;

choice! {
    /// Where stored objects lie.
    pub enum Backend {
        /// In a folder.
        File = "file",
        /// In an S3-compatible store.
        S3 = "s3",
    }
}

settings! {
    /// `[storage]`.
    #[derive(Clone, Debug)]
    pub struct StorageConfig in "storage" with r {
        /// Where objects lie: `file` or `s3`.
        backend: Backend = Is("file");
        /// Folder of the objects.
        dir: PathBuf = ByOr("`storage` in the state folder", ".basalt/storage");
        /// Largest upload; a bucket may allow less.
        max_file_size: u64 as Bytes = Is("50MiB");
        /// Largest upload in one request to `/object`; TUS and S3 take up to `max_file_size`.
        max_standard_upload_size: Option<u64> as Option<Bytes> = By("max_file_size");
        /// What uploads may buffer all together on their way to the disk or to S3.
        upload_memory: u64 as Bytes = Is("96MiB");
        /// How long a resumable upload can be gone on with.
        tus_expiry: Duration as Time = Is("24h");
    } also {
        /// `[storage.s3]`.
        s3: S3Config = S3Config::read(r);
        /// `[storage.s3_protocol]`.
        s3_protocol: S3ProtocolConfig = S3ProtocolConfig::read(r);
        /// `[storage.images]`.
        images: ImagesConfig = ImagesConfig::read(r);
    }
}

settings! {
    /// `[storage.images]`.
    #[derive(Clone, Debug)]
    pub struct ImagesConfig in "storage.images" with r {
        /// Whether images are transformed. Off: `/render/image` answers 404, and asking for a signed URL with a transformation
        /// is refused.
        enabled: bool = Is("true");
        /// Largest width and height that a request gets; larger ones are cut to it.
        max_size: u32 as Whole<1, 16_383> = Is("2000");
        /// Most pixels of an image that is transformed, and a bound of the memory that decoding one takes: 4 bytes for each. An
        /// image that would take more, such as a progressive JPEG with more than two thirds of these pixels, is refused.
        max_source_pixels: u64 as Whole<1, 1_000_000_000> = Is("50000000");
        /// Largest file that is transformed.
        max_source_size: u64 as Bytes = Is("25MB");
        /// Requests of one client (a user, or the address of a visitor) that may wait for one of the threads that transform
        /// images (half as many as there are cores); one more is refused: 429 `SlowDown` with `Retry-After: 1`. Clients take
        /// turns. Sixteen full queues are all that may wait.
        queue: usize as Whole<0, 100_000> = Is("64");
    }
}

settings! {
    /// `[storage.s3]`.
    #[derive(Clone, Debug)]
    pub struct S3Config in "storage.s3" with r {
        /// Address of the S3-compatible store.
        endpoint: Option<BaseUrl> = By("AWS's for the region");
        /// Its region.
        region: String = Is("us-east-1");
        /// The one bucket that holds everything.
        bucket: Option<String> = By("none");
        /// Access key.
        access_key_id: Option<String> = By("none");
        /// Its secret.
        secret_access_key: Option<SecretString> = By("none"), secret;
        /// Bucket in the path instead of the host name.
        force_path_style: bool = Is("true");
    }
}

settings! {
    /// `[storage.s3_protocol]`: the S3 protocol at `/storage/v1/s3`.
    #[derive(Clone, Debug)]
    pub struct S3ProtocolConfig in "storage.s3_protocol" with r {
        /// Access key of a pair that may do everything, as the role service_role. Users sign with a token of theirs instead.
        access_key_id: Option<String> = By("one that `basalt keys` shows, in development; none in production");
        /// Its secret.
        secret_access_key: Option<SecretString> = By("one that `basalt keys` shows, in development; none in production"), secret;
        /// Region for which clients sign. Signatures for `us-east-1`, `auto` and `local` are accepted as well.
        region: String = Is("us-east-1");
    }
}

impl StorageConfig {
    /// What does not fit together, as `(key, sentence)`.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, &'static str)> {
        let S3Config { bucket, access_key_id, secret_access_key, .. } = &self.s3;
        let mut faults = Vec::new();
        if self.backend == Backend::S3 && bucket.is_none() {
            faults.push((
                "storage.backend",
                "is s3, which needs storage.s3.bucket: set it to the bucket's name",
            ));
        }
        if access_key_id.is_some() != secret_access_key.is_some() {
            faults.push((
                "storage.s3.access_key_id",
                "and storage.s3.secret_access_key belong together: set both, or neither",
            ));
        }
        let S3ProtocolConfig { access_key_id, secret_access_key, .. } = &self.s3_protocol;
        if access_key_id.is_some() != secret_access_key.is_some() {
            faults.push((
                "storage.s3_protocol.access_key_id",
                "and storage.s3_protocol.secret_access_key belong together: set both, or neither",
            ));
        }
        faults
    }
}
