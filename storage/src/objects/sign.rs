//! Signed URLs (storage.md §3.12): a caller that may see an object grants temporary access to it.

use std::collections::HashSet;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use http::request::Parts;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use super::find::{Lookup, Reader};
use super::routes::ObjectPath;
use crate::Storage;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::images::Parameters;
use crate::json_body::{EmptyBody, Fields, JsonBody};
use crate::names;
use crate::operation::Operation;

/// Characters a path cannot contain. Everything else stays as is: clients encode the URL themselves
/// (storage.md §5.3).
const RESERVED: &AsciiSet = &CONTROLS.add(b'?').add(b'#').add(b'%');
const MAX_PATHS: usize = 1000;
/// Those of the given names that are visible to the caller.
const VISIBLE: &str = "select o.name from storage.objects o \
     where o.bucket_id = $1 and o.name in (select jsonb_array_elements_text($2::jsonb))";

/// POST `/object/sign/{b}/{key}`.
pub(crate) async fn sign(
    storage: &Storage,
    at: &ObjectPath,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    names::check_bucket_name(&at.bucket)?;
    let body = receive(parts, body).await?;
    let fields = body.fields()?;
    let seconds = expires_in(&fields)?;
    let transformation = transformation(storage, &fields)?;
    let request = RequestSettings::from_parts(parts);
    let reader = Reader::PolicyCheckedCaller(&caller);
    let lookup = Lookup::new(storage, &request, Operation::OBJECT_SIGN, reader, at, deadline(parts));
    let _object = lookup.find().await?;
    let path = at.to_string();
    let signed_url = match transformation {
        None => signed_url("object", at, &storage.callers.sign_download(&path, seconds)?),
        Some(wanted) => {
            let (how, format) = (wanted.to_token(), wanted.format_name());
            signed_url("render/image", at, &storage.callers.sign_render(&path, seconds, &how, format)?)
        }
    };
    Ok(axum::Json(json!({"signedURL": signed_url})).into_response())
}

/// POST `/object/sign/{b}`.
pub(crate) async fn sign_many(
    storage: &Storage,
    bucket: &str,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    names::check_bucket_name(bucket)?;
    let body = receive(parts, body).await?;
    let fields = body.fields()?;
    fields.require(&["expiresIn", "paths"])?;
    let seconds = expires_in(&fields)?;
    let keys = fields.strings("paths", 1..=MAX_PATHS)?.unwrap_or_default();
    // Neither PostgreSQL's JSON nor an object name accepts NUL.
    let names = json!(keys.iter().filter(|key| !key.contains('\0')).collect::<Vec<_>>()).to_string();
    let request = RequestSettings::from_parts(parts);
    let mut batch = storage.database.batch(&request, Operation::OBJECT_SIGN_MANY, &caller);
    let visible = batch.query(VISIBLE, [bucket.into(), names.into()]);
    let rows = batch.read(deadline(parts).renewed()).await?;
    let visible: HashSet<&str> = rows.all(visible).iter().filter_map(|row| row.text(0)).collect();
    let items = keys.into_iter().map(|key| {
        if !visible.contains(key.as_str()) {
            let error = "Either the object does not exist or you do not have access to it";
            return Ok(json!({"error": error, "path": key, "signedURL": null}));
        }
        let at = ObjectPath { bucket: bucket.to_owned(), key };
        let token = storage.callers.sign_download(&at.to_string(), seconds)?;
        Ok(json!({"error": null, "path": at.key, "signedURL": signed_url("object", &at, &token)}))
    });
    let items: Vec<Value> = items.collect::<Result<_, StorageError>>()?;
    Ok(axum::Json(items).into_response())
}

async fn receive(parts: &Parts, body: Body) -> Result<JsonBody, StorageError> {
    JsonBody::receive(&parts.headers, body, parts.extensions.get::<BodyLease>(), EmptyBody::Refused).await
}

/// The transformation of the signed URL, if one is requested.
fn transformation(storage: &Storage, fields: &Fields<'_>) -> Result<Option<Parameters>, StorageError> {
    let Some(transformation) = fields.object("transform")? else { return Ok(None) };
    let wanted = Parameters::read(&transformation, storage.config.images.max_size)?;
    if !storage.config.images.enabled {
        return Err(StorageError::feature_not_enabled("imageTransformation"));
    }
    Ok(Some(wanted))
}

/// Lifetime in seconds.
fn expires_in(fields: &Fields<'_>) -> Result<u64, StorageError> {
    fields.require(&["expiresIn"])?;
    let seconds = fields.integer("expiresIn", 1..)?.unwrap_or(1);
    Ok(seconds.unsigned_abs())
}

/// URL relative to the service's root. `area` is `object` or `render/image`.
pub(super) fn signed_url(area: &str, at: &ObjectPath, token: &str) -> String {
    let path = at.to_string();
    format!("/{area}/sign/{}?token={token}", utf8_percent_encode(&path, RESERVED))
}
