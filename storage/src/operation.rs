//! The operation of a transaction, which policies can read with `storage.operation()` (storage.md §4.7).

/// Name of an API operation, as SQL sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation(pub(crate) &'static str);

macro_rules! operations {
    ($($name:ident = $text:literal),+ $(,)?) => {
        #[allow(dead_code, reason = "keeps the contract's list complete")]
        impl Operation {
            $(pub(crate) const $name: Self = Self($text);)+
        }
    };
}

operations! {
    BUCKET_CREATE = "storage.bucket.create",
    BUCKET_DELETE = "storage.bucket.delete",
    BUCKET_EMPTY = "storage.bucket.empty",
    BUCKET_LIST = "storage.bucket.list",
    BUCKET_GET = "storage.bucket.get",
    BUCKET_UPDATE = "storage.bucket.update",
    OBJECT_UPLOAD = "storage.object.upload",
    OBJECT_UPLOAD_UPDATE = "storage.object.upload_update",
    OBJECT_UPLOAD_SIGNED = "storage.object.upload_signed",
    OBJECT_COPY = "storage.object.copy",
    OBJECT_MOVE = "storage.object.move",
    OBJECT_DELETE = "storage.object.delete",
    OBJECT_DELETE_MANY = "storage.object.delete_many",
    OBJECT_LIST = "storage.object.list",
    OBJECT_LIST_V2 = "storage.object.list_v2",
    OBJECT_SIGN = "storage.object.sign",
    OBJECT_SIGN_MANY = "storage.object.sign_many",
    OBJECT_SIGN_UPLOAD_URL = "storage.object.sign_upload_url",
    OBJECT_GET_AUTHENTICATED = "storage.object.get_authenticated",
    OBJECT_GET_PUBLIC = "storage.object.get_public",
    OBJECT_GET_SIGNED = "storage.object.get_signed",
    OBJECT_INFO_PUBLIC = "storage.object.info_public",
    OBJECT_GET_AUTHENTICATED_INFO = "object.get_authenticated_info",
    OBJECT_HEAD_AUTHENTICATED_INFO = "object.head_authenticated_info",
    TUS_UPLOAD_CREATE = "storage.tus.upload.create",
    TUS_UPLOAD_PART = "storage.tus.upload.part",
    TUS_UPLOAD_GET = "storage.tus.upload.get",
    TUS_UPLOAD_DELETE = "storage.tus.upload.delete",
    TUS_UPLOAD_CREATE_SIGNED = "storage.tus.upload.create_signed",
    TUS_UPLOAD_PART_SIGNED = "storage.tus.upload.part_signed",
    TUS_UPLOAD_GET_SIGNED = "storage.tus.upload.get_signed",
    TUS_UPLOAD_DELETE_SIGNED = "storage.tus.upload.delete_signed",
    RENDER_IMAGE_AUTHENTICATED = "storage.render.image_authenticated",
    RENDER_IMAGE_PUBLIC = "storage.render.image_public",
    RENDER_IMAGE_SIGN = "storage.render.image_sign",
    S3_UPLOAD = "storage.s3.upload",
    S3_UPLOAD_PART = "storage.s3.upload.part",
    S3_UPLOAD_PART_COPY = "storage.s3.upload.part_copy",
    S3_UPLOAD_CREATE_MULTIPART = "storage.s3.upload.create_multipart",
    S3_UPLOAD_COMPLETE_MULTIPART = "storage.s3.upload.complete_multipart",
    S3_UPLOAD_ABORT_MULTIPART = "storage.s3.upload.abort_multipart",
    S3_UPLOAD_LIST_MULTIPART = "storage.s3.upload.list_multipart",
    S3_UPLOAD_LIST_PARTS = "storage.s3.upload.list_parts",
    S3_OBJECT_GET = "storage.s3.object.get",
    S3_OBJECT_INFO = "storage.s3.object.info",
    S3_OBJECT_LIST = "storage.s3.object.list",
    S3_OBJECT_COPY = "storage.s3.object.copy",
    S3_OBJECT_DELETE = "storage.s3.object.delete",
    S3_OBJECT_DELETE_MANY = "storage.s3.object.delete_many",
    S3_OBJECT_GET_TAGGING = "storage.s3.object.get_tagging",
    S3_BUCKET_CREATE = "storage.s3.bucket.create",
    S3_BUCKET_DELETE = "storage.s3.bucket.delete",
    S3_BUCKET_GET = "storage.s3.bucket.get",
    S3_BUCKET_HEAD = "storage.s3.bucket.head",
    S3_BUCKET_LIST = "storage.s3.bucket.list",
    S3_BUCKET_GET_LOCATION = "storage.s3.bucket.get_location",
    HEALTH = "storage.health",
    S3_BUCKET_GET_VERSIONING = "storage.s3.bucket.get_versioning",
    CDN_PURGE_OBJECT = "storage.cdn.purge_object_cache",
    CDN_PURGE_BUCKET = "storage.cdn.purge_bucket_cache",
    CDN_PURGE_TENANT = "storage.cdn.purge_tenant_cache",
}
