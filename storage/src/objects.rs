//! Objects: `/object/…` (storage.md §3.4 to §3.13).

pub(crate) mod conditions;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod download;
pub(crate) mod find;
pub(crate) mod form;
mod info;
mod list;
pub(crate) mod metadata;
mod rename;
mod robots;
pub(crate) mod routes;
mod row;
mod sign;
mod upload_routes;
pub(crate) mod write;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::Method;
use http::request::Parts;
use serde_json::json;

use crate::Storage;
use crate::caller::Caller;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::operation::Operation;
pub(crate) use routes::body_mode;
use routes::{Route, RouteCandidates};

pub(crate) async fn handle(storage: &Arc<Storage>, request: Request) -> Result<Response, StorageError> {
    let RouteCandidates { first, others } =
        routes::route_candidates(request.method(), request.uri(), request.headers())?;
    if others.is_empty() {
        return serve(storage, first, request).await;
    }
    let (parts, body) = request.into_parts();
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        // Decide first, because the body can be read only once.
        let route = choose(storage, &parts, first, others).await?;
        return serve(storage, route, Request::from_parts(parts, body)).await;
    }
    let answer = serve(storage, first.clone(), Request::from_parts(parts.clone(), Body::empty())).await;
    // The first candidate is nearly always right: look up the buckets only after a failure.
    let Err(refusal) = answer else { return answer };
    let route = choose(storage, &parts, first.clone(), others).await?;
    if route == first {
        return Err(refusal);
    }
    serve(storage, route, Request::from_parts(parts, Body::empty())).await
}

/// The candidate whose bucket exists; the first if none does (storage.md §5.1).
async fn choose(
    storage: &Storage,
    parts: &Parts,
    first: Route,
    others: Vec<Route>,
) -> Result<Route, StorageError> {
    const EXISTING: &str =
        "select id from storage.buckets where id in (select jsonb_array_elements_text($1::jsonb))";
    let readings: Vec<&str> = std::iter::once(&first).chain(&others).filter_map(Route::bucket).collect();
    // Neither PostgreSQL's JSON nor a bucket name may contain NUL.
    let names = json!(readings.iter().filter(|name| !name.contains('\0')).collect::<Vec<_>>()).to_string();
    let request = RequestSettings::from_parts(parts);
    let mut batch = storage.database.batch(&request, Operation::OBJECT_INFO_PUBLIC, &Caller::service());
    let found = batch.query(EXISTING, [names.into()]);
    let rows = batch.read(deadline(parts).renewed()).await?;
    let exists = |route: &Route| rows.all(found).iter().any(|row| row.text(0) == route.bucket());
    if exists(&first) {
        return Ok(first);
    }
    Ok(others.into_iter().find(exists).unwrap_or(first))
}

async fn serve(storage: &Arc<Storage>, route: Route, request: Request) -> Result<Response, StorageError> {
    let (parts, body) = request.into_parts();
    match route {
        Route::Upload(at) => upload_routes::create(storage, at, &parts, body).await,
        Route::Update(at) => upload_routes::update(storage, at, &parts, body).await,
        Route::UploadSigned(at) => upload_routes::by_token(storage, at, &parts, body).await,
        Route::SignUpload(at) => upload_routes::sign(storage, at, &parts).await,
        Route::Download(access, at) => download::download(storage, access, &at, &parts).await,
        Route::DownloadSigned(at) => download::download_signed(storage, &at, &parts).await,
        Route::Info(access, at) => info::info(storage, access, &at, &parts).await,
        Route::Sign(at) => sign::sign(storage, &at, &parts, body).await,
        Route::SignMany(bucket) => sign::sign_many(storage, &bucket, &parts, body).await,
        Route::Copy => copy::copy(storage, &parts, body).await,
        Route::Move => rename::rename(storage, &parts, body).await,
        Route::Delete(at) => delete::one(storage, &at, &parts, body).await,
        Route::DeleteMany(bucket) => delete::many(storage, &bucket, &parts, body).await,
        Route::List(bucket) => list::v1(storage, &bucket, Request::from_parts(parts, body)).await,
        Route::ListV2(bucket) => list::v2(storage, &bucket, Request::from_parts(parts, body)).await,
    }
}
