//! Buckets: `/bucket…` (storage.md §3.3), and their settings.

mod empty;
mod list;
pub(crate) mod mime;
pub(crate) mod row;
pub(crate) mod size_limit;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_core::service::Deadline;
use basalt_pg::sql::Param;
use http::Method;
use http::request::Parts;
use serde_json::json;

use crate::Storage;
use crate::caller::Caller;
use crate::database::{Batch, RequestSettings, deadline};
use crate::error::StorageError;
use crate::json_body::{EmptyBody, Fields, JsonBody};
use crate::names;
use crate::operation::Operation;
use row::{BucketJson, COLUMNS};

/// Converts a JSON list parameter to an array; null stays null.
const TYPES: &str =
    "case when $LIST::jsonb is not null then array(select jsonb_array_elements_text($LIST::jsonb)) end";

pub(crate) async fn handle(storage: &Arc<Storage>, request: Request) -> Result<Response, StorageError> {
    let (parts, body) = request.into_parts();
    let rest = parts.uri.path().strip_prefix("/bucket").unwrap_or_default();
    let segments: Vec<&str> = rest.strip_prefix('/').unwrap_or(rest).split('/').collect();
    match (&parts.method, segments.as_slice()) {
        (&(Method::GET | Method::HEAD), [""]) => list::list(storage, &parts).await,
        (&Method::POST, [""]) => create(storage, &parts, body).await,
        (&(Method::GET | Method::HEAD), [bucket]) => get(storage, &parts, &id(bucket)?).await,
        (&Method::PUT, [bucket]) => update(storage, &parts, body, &id(bucket)?).await,
        (&Method::DELETE, [bucket]) => {
            let bucket = id(bucket)?;
            let caller = storage.callers.required(&parts.headers)?;
            discard_body(&parts, body).await?;
            delete(storage, &parts, &bucket, &caller).await
        }
        (&Method::POST, [bucket, "empty"]) if !bucket.is_empty() => {
            let bucket = id(bucket)?;
            let caller = storage.callers.required(&parts.headers)?;
            caller.must_be_service()?;
            discard_body(&parts, body).await?;
            empty::empty(storage, &parts, &bucket, caller).await
        }
        _ => Err(StorageError::unknown_route(&parts.method, &parts.uri)),
    }
}

/// Decodes a bucket id. PostgreSQL rejects NUL, so no bucket has one in its name.
fn id(segment: &str) -> Result<String, StorageError> {
    let id = names::decode(segment)?;
    if id.contains('\0') { Err(StorageError::no_such_bucket()) } else { Ok(id) }
}

async fn receive_body(parts: &Parts, body: Body, empty: EmptyBody) -> Result<JsonBody, StorageError> {
    JsonBody::receive(&parts.headers, body, parts.extensions.get::<BodyLease>(), empty).await
}

/// Reads the body of a route that needs no members.
async fn discard_body(parts: &Parts, body: Body) -> Result<(), StorageError> {
    receive_body(parts, body, EmptyBody::Allowed).await.map(drop)
}

/// Requested settings; `None` for absent members.
#[derive(Default)]
pub(crate) struct Settings {
    is_public: Option<bool>,
    file_size_limit: Option<Option<u64>>,
    allowed_mime_types: Option<Option<Vec<String>>>,
}

impl Settings {
    /// Only sets whether the bucket is public.
    pub(crate) fn public(is_public: bool) -> Self {
        Self { is_public: Some(is_public), ..Self::default() }
    }

    fn read(storage: &Storage, fields: &Fields<'_>) -> Result<Self, StorageError> {
        let is_public = fields.boolean("public")?;
        let file_size_limit = size_limit::read(fields, storage.config.max_file_size)?;
        let list = "allowed_mime_types";
        let allowed_mime_types = match fields.value(list) {
            Some(value) if value.is_null() => Some(None),
            _ => fields.strings(list, ..)?.map(mime::check_list).transpose()?.map(Some),
        };
        Ok(Self { is_public, file_size_limit, allowed_mime_types })
    }

    /// The limit, and the list of types as JSON, as parameters.
    fn params(&self) -> [Param; 2] {
        let limit = self.file_size_limit.flatten();
        let types = self.allowed_mime_types.as_ref().and_then(Option::as_ref);
        [
            limit.map_or_else(Param::null, Param::from_display),
            types.map_or_else(Param::null, |types| json!(types).to_string().into()),
        ]
    }
}

async fn create(storage: &Storage, parts: &Parts, body: Body) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let body = receive_body(parts, body, EmptyBody::Refused).await?;
    let fields = body.fields()?;
    fields.require(&["name"])?;
    let name = fields.string("name")?.unwrap_or_default();
    let id = fields.string("id")?.filter(|id| !id.is_empty()).unwrap_or_else(|| name.clone());
    let kind = fields.one_of("type", &["STANDARD", "ANALYTICS"])?;
    let settings = Settings::read(storage, &fields)?;
    names::check_bucket_name(&name)?;
    names::check_bucket_name(&id)?;
    if kind == Some("ANALYTICS") {
        return Err(StorageError::feature_not_enabled("iceberg"));
    }
    let request = RequestSettings::from_parts(parts);
    let batch = storage.database.batch(&request, Operation::BUCKET_CREATE, &caller);
    insert(batch, &caller, [&id, &name], &settings, deadline(parts)).await?;
    Ok(axum::Json(json!({"name": name})).into_response())
}

/// Creates a bucket in a batch that runs as `caller`. Id and name must be valid.
///
/// # Errors
/// `BucketAlreadyExists`, or policies deny it.
pub(crate) async fn insert(
    mut batch: Batch,
    caller: &Caller,
    [id, name]: [&str; 2],
    settings: &Settings,
    deadline: Deadline,
) -> Result<(), StorageError> {
    let text = format!(
        "insert into storage.buckets (id, name, owner, owner_id, public, file_size_limit, allowed_mime_types) \
         values ($1, $2, $3, $4, $5, $6, {})",
        TYPES.replace("$LIST", "$7")
    );
    let [limit, types] = settings.params();
    let owner = caller.owner().map_or_else(Param::null, Param::from_display);
    let public = Param::from_display(settings.is_public.unwrap_or(false));
    let params = [id.into(), name.into(), owner, caller.subject.clone().into(), public, limit, types];
    let _inserted = batch.query(text, params);
    batch.commit(deadline).await.map(drop).map_err(|error| match error.code() {
        "ResourceAlreadyExists" => StorageError::bucket_already_exists(),
        _ => error,
    })
}

async fn get(storage: &Storage, parts: &Parts, bucket: &str) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let request = RequestSettings::from_parts(parts);
    let mut batch = storage.database.batch(&request, Operation::BUCKET_GET, &caller);
    let found = batch.query(format!("select {COLUMNS} from storage.buckets where id = $1"), [bucket.into()]);
    let rows = batch.read(deadline(parts)).await?;
    let row = rows.first(found).ok_or_else(StorageError::no_such_bucket)?;
    Ok(axum::Json(BucketJson::from_row(row, false)).into_response())
}

async fn update(
    storage: &Storage,
    parts: &Parts,
    body: Body,
    bucket: &str,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let body = receive_body(parts, body, EmptyBody::Refused).await?;
    let fields = body.fields()?;
    fields.require_any(&["public", "file_size_limit", "allowed_mime_types"])?;
    let settings = Settings::read(storage, &fields)?;
    // Upstream does not change `updated_at`.
    let text = format!(
        "update storage.buckets set public = coalesce($2::boolean, public), \
         file_size_limit = case when $3::boolean then $4::bigint else file_size_limit end, \
         allowed_mime_types = case when $5::boolean then {} else allowed_mime_types end, updated_at = now() \
         where id = $1 returning id",
        TYPES.replace("$LIST", "$6")
    );
    let [limit, types] = settings.params();
    let params = [
        bucket.into(),
        settings.is_public.map_or_else(Param::null, Param::from_display),
        Param::from_display(settings.file_size_limit.is_some()),
        limit,
        Param::from_display(settings.allowed_mime_types.is_some()),
        types,
    ];
    let request = RequestSettings::from_parts(parts);
    let mut batch = storage.database.batch(&request, Operation::BUCKET_UPDATE, &caller);
    let updated = batch.query(text, params);
    let rows = batch.commit(deadline(parts)).await?;
    rows.first(updated).ok_or_else(StorageError::no_such_bucket)?;
    Ok(axum::Json(json!({"message": "Successfully updated"})).into_response())
}

async fn delete(
    storage: &Storage,
    parts: &Parts,
    bucket: &str,
    caller: &Caller,
) -> Result<Response, StorageError> {
    let request = RequestSettings::from_parts(parts);
    let batch = storage.database.batch(&request, Operation::BUCKET_DELETE, &Caller::service());
    remove(batch, caller, bucket, deadline(parts)).await?;
    Ok(axum::Json(json!({"message": "Successfully deleted"})).into_response())
}

/// Deletes an empty bucket, in a batch that starts as `service_role`. Emptiness is checked as the server,
/// whether or not the objects are visible to `caller`.
///
/// # Errors
/// `NoSuchBucket`, also if policies deny it; `ResourceNotEmpty`.
pub(crate) async fn remove(
    mut batch: Batch,
    caller: &Caller,
    bucket: &str,
    deadline: Deadline,
) -> Result<(), StorageError> {
    // The lock prevents concurrent uploads; the setting passes the result to the caller's statement.
    const LOCK: &str = "select id from storage.buckets where id = $1 for update";
    const EXAMINE: &str = "select set_config('storage.bucket_is_empty', \
         (not exists (select from storage.objects where bucket_id = $1))::text, true)";
    const DELETE: &str = "delete from storage.buckets \
         where id = $1 and current_setting('storage.bucket_is_empty', true) = 'true' returning id";
    let locked = batch.query(LOCK, [bucket.into()]);
    let examined = batch.query(EXAMINE, [bucket.into()]);
    batch.act_as(caller);
    let deleted = batch.query(DELETE, [bucket.into()]);
    let rows = batch.commit(deadline).await?;
    rows.first(locked).ok_or_else(StorageError::no_such_bucket)?;
    if rows.first(examined).and_then(|row| row.text(0)) != Some("true") {
        return Err(StorageError::bucket_not_empty());
    }
    rows.first(deleted).ok_or_else(StorageError::no_such_bucket).map(drop)
}
