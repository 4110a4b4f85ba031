//! A row of `storage.tus_uploads`.

use basalt_core::convert::saturating;
use basalt_pg::session::Statement;
use basalt_pg::sql::Param;
use http::StatusCode;
use uuid::Uuid;

use super::headers::{Creation, Metadata};
use super::refusal::Refusal;
use crate::Storage;
use crate::blobs::{BlobId, Written};
use crate::buckets::row::Bucket;
use crate::error::StorageError;
use crate::objects::routes::ObjectPath;
use crate::objects::write::{Context, MAX_UNFINISHED_UPLOADS, NewObject, lock_client};

/// An upload in its current state.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) id: Uuid,
    pub(super) at: ObjectPath,
    /// `None` if the client has not sent it yet.
    pub(super) length: Option<u64>,
    /// Bytes stored so far.
    pub(super) offset: u64,
    /// `sub` of the user who created it.
    pub(super) owner: Option<String>,
    mime_type: String,
    cache_control: String,
    user_metadata: Option<String>,
    /// Value of `Upload-Metadata` to return.
    pub(super) echo: String,
    /// Seconds since 1970.
    pub(super) expires: i64,
    /// Whether the object has been created.
    pub(super) is_completed: bool,
}

/// The bytes of one PATCH.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) blob: BlobId,
    pub(super) md5: [u8; 16],
}

impl Upload {
    pub(super) fn new(
        at: ObjectPath,
        given: &Creation,
        metadata: Metadata,
        owner: Option<String>,
        storage: &Storage,
    ) -> Self {
        let lifetime = saturating::<i64>(storage.config.tus_expiry.as_secs());
        Self {
            id: basalt_core::random::uuid(),
            at,
            length: given.length,
            offset: 0,
            owner,
            mime_type: metadata.content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
            cache_control: metadata.cache_control,
            user_metadata: metadata.user_metadata,
            echo: metadata.echo,
            expires: storage.callers.clock.unix_seconds().saturating_add(lifetime),
            is_completed: false,
        }
    }

    /// The object to be created. `announced` is the request's length, which policies can see.
    pub(super) fn object(&self, upsert: bool, announced: Option<u64>) -> NewObject {
        NewObject {
            at: self.at.clone(),
            upsert,
            owner: self.owner.clone(),
            mime_type: self.mime_type.clone(),
            cache_control: self.cache_control.clone(),
            robots: None,
            user_metadata: self.user_metadata.clone(),
            announced,
        }
    }

    /// How many bytes may still follow, by the limits of server and bucket and the upload's length.
    pub(super) fn remaining_bytes(
        &self,
        storage: &Storage,
        bucket: &Bucket,
        object: &NewObject,
    ) -> Result<u64, StorageError> {
        let max_bytes = object.check_rules(storage, bucket, self.length, None)?;
        Ok(self.length.unwrap_or(max_bytes).saturating_sub(self.offset))
    }

    /// Inserts the row. Counts it against the client's limit of unfinished uploads if `client` is given.
    ///
    /// # Errors
    /// The client has too many unfinished uploads.
    pub(super) async fn insert(&self, cx: &Context, client: Option<&str>) -> Result<(), StorageError> {
        const INSERT: &str = "\
insert into storage.tus_uploads (id, bucket_id, key, upload_length, owner_id, mime_type, cache_control, user_metadata,
  upload_metadata, expires_at, client)
select $1::uuid, $2, $3, $4::bigint, $5, $6, $7, $8::jsonb, $9, to_timestamp($10::bigint), $11
where (select count(*) from storage.tus_uploads u
  where u.client = $11 and u.completed_at is null and u.expires_at > now()) < $12::bigint
returning id";
        let params: [Param; 12] = [
            Param::from_display(self.id),
            self.at.bucket.as_str().into(),
            self.at.key.as_str().into(),
            self.length.map(|length| length.to_string()).into(),
            self.owner.clone().into(),
            self.mime_type.as_str().into(),
            self.cache_control.as_str().into(),
            self.user_metadata.clone().into(),
            self.echo.as_str().into(),
            Param::from_display(self.expires),
            client.map(str::to_owned).into(),
            Param::from_display(MAX_UNFINISHED_UPLOADS),
        ];
        let mut batch = cx.as_service();
        if let Some(client) = client {
            lock_client(&mut batch, client);
        }
        let inserted = batch.query(INSERT, params);
        let rows = batch.commit(cx.deadline.renewed()).await?;
        rows.first(inserted).map(drop).ok_or_else(StorageError::too_many_uploads)
    }

    /// Reads an upload.
    ///
    /// # Errors
    /// 404 if it does not exist, 410 if it has expired.
    pub(super) async fn find(cx: &Context, id: Uuid) -> Result<Self, Refusal> {
        const QUERY: &str = "\
select u.bucket_id, u.key, u.upload_length, u.owner_id, u.mime_type, u.cache_control, u.user_metadata::text, u.upload_metadata,
  extract(epoch from u.expires_at)::bigint, u.completed_at is not null,
  case when u.completed_at is not null then u.upload_length
    else coalesce((select sum(p.size)::bigint from storage.tus_upload_parts p where p.upload_id = u.id), 0) end
from storage.tus_uploads u
where u.id = $1::uuid";
        let mut batch = cx.as_service();
        let step = batch.query(QUERY, [Param::from_display(id)]);
        let rows = batch.read(cx.deadline.renewed()).await?;
        let row = rows.first(step).ok_or_else(Refusal::unknown_upload)?;
        let text = |column| row.text(column).unwrap_or_default().to_owned();
        let count = |column| row.number(column).and_then(|number| u64::try_from(number).ok());
        let upload = Self {
            id,
            at: ObjectPath { bucket: text(0), key: text(1) },
            length: count(2),
            offset: count(10).unwrap_or_default(),
            owner: row.text(3).map(str::to_owned),
            mime_type: text(4),
            cache_control: text(5),
            user_metadata: row.text(6).map(str::to_owned),
            echo: text(7),
            expires: row.number(8).unwrap_or_default(),
            is_completed: row.text(9) == Some("t"),
        };
        if upload.expires <= cx.storage.callers.clock.unix_seconds() {
            return Err(Refusal::new(StatusCode::GONE, "The file for this url no longer exists"));
        }
        Ok(upload)
    }

    /// Stores the length sent with a PATCH.
    pub(super) async fn set_length(&self, cx: &Context) -> Result<(), StorageError> {
        const SET: &str = "update storage.tus_uploads set upload_length = $2::bigint where id = $1::uuid and upload_length is null";
        let mut batch = cx.as_service();
        let length = self.length.map(|length| length.to_string());
        let _row = batch.query(SET, [Param::from_display(self.id), length.into()]);
        batch.commit(cx.deadline.renewed()).await.map(drop)
    }

    /// Deletes the upload; its parts become garbage.
    pub(super) async fn delete(&self, cx: &Context) -> Result<(), StorageError> {
        let mut batch = cx.as_service();
        let _row = batch
            .query("delete from storage.tus_uploads where id = $1::uuid", [Param::from_display(self.id)]);
        batch.commit(cx.deadline.renewed()).await.map(drop)
    }

    /// A statement that inserts a part at the current offset. It returns a row unless the upload was
    /// deleted, completed, or its offset has changed.
    pub(super) fn add_part(&self, blob: BlobId, written: &Written) -> Statement {
        const ADD: &str = "\
with upload as (
  select u.id from storage.tus_uploads u where u.id = $1::uuid and u.completed_at is null for no key update)
insert into storage.tus_upload_parts (upload_id, start_at, size, version, md5)
select upload.id, $2::bigint, $3::bigint, $4, $5::bytea
from upload
where (select coalesce(sum(p.size), 0) from storage.tus_upload_parts p where p.upload_id = upload.id) = $2::bigint
on conflict do nothing
returning upload_id";
        let params = vec![
            Param::from_display(self.id),
            Param::from_display(self.offset),
            Param::from_display(written.size),
            Param::from_display(blob),
            format!("\\x{}", hex::encode(written.md5)).into(),
        ];
        Statement { text: ADD.into(), params }
    }

    /// A statement that marks the upload as completed. It returns a row unless that has already happened or
    /// the upload is deleted.
    pub(super) fn mark_completed(&self) -> Statement {
        const MARK: &str = "\
with parts as (delete from storage.tus_upload_parts where upload_id = $1::uuid)
update storage.tus_uploads set completed_at = now() where id = $1::uuid and completed_at is null returning id";
        Statement { text: MARK.into(), params: vec![Param::from_display(self.id)] }
    }

    /// Returns the upload as completed.
    pub(super) fn completed(self) -> Self {
        Self { is_completed: true, ..self }
    }

    /// The stored parts, ordered by offset.
    pub(super) async fn parts(&self, cx: &Context) -> Result<Vec<Part>, StorageError> {
        const PARTS: &str =
            "select version, md5 from storage.tus_upload_parts where upload_id = $1::uuid order by start_at";
        let mut batch = cx.as_service();
        let step = batch.query(PARTS, [Param::from_display(self.id)]);
        let rows = batch.read(cx.deadline.renewed()).await?;
        let part = |row: &basalt_pg::session::Row| {
            Some(Part { blob: BlobId::parse(row.text(0)?)?, md5: row.bytes(1)?.as_ref().try_into().ok()? })
        };
        rows.all(step).iter().map(part).collect::<Option<_>>().ok_or_else(StorageError::internal)
    }
}
