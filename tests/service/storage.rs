//! `/storage/v1` over HTTP, against storage.md: a real server on a real PostgreSQL. Tests with the unmodified client are in
//! `conformance/`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers fail a test by panicking")]

mod blobs;
mod buckets;
mod downloads;
mod images;
mod interrupted_uploads;
mod leftovers;
mod lists;
mod move_copy_delete;
mod policies;
mod resumable_uploads;
mod s3_backend;
mod s3_protocol;
mod signed_urls;
mod uploads;

use basalt_testkit::{Basalt, Builder, Request, Response};
use http::Method;
use serde_json::{Value, json};

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/service/storage/project");

/// Users in the project's policies.
const OWNER: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const STRANGER: &str = "0b0b0b0b-0000-4000-8000-000000000002";

/// A server whose policies give users access to their own objects.
fn server() -> Builder {
    Basalt::builder().project(PROJECT)
}

/// A request to the storage service, without a token.
fn request(server: &Basalt, method: Method, path: &str) -> Request {
    server.request(method, &format!("/storage/v1{path}"))
}

/// A request as `service_role`.
fn service(server: &Basalt, method: Method, path: &str) -> Request {
    request(server, method, path).bearer(server.service_key())
}

/// The token of a user.
fn token(server: &Basalt, subject: &str) -> String {
    server.token(&json!({"role": "authenticated", "sub": subject, "exp": 4_102_444_800_u32}))
}

/// Status and body, times redacted.
fn shown(response: &Response) -> String {
    let mut text = format!("{} {}", response.status.as_u16(), response.text());
    let is_time = |part: &str| part.len() == 24 && part.ends_with('Z') && part.as_bytes()[10] == b'T';
    for part in response.text().split('"').filter(|part| is_time(part)) {
        text = text.replace(part, "TIME");
    }
    text
}

/// An error as `status statusCode error message code`.
fn error(response: &Response) -> String {
    let body = response.json();
    let member = |name: &str| body[name].as_str().unwrap_or("-").to_owned();
    let members = ["statusCode", "error", "message", "code"].map(member).join(" | ");
    format!("{} {members}", response.status.as_u16())
}

async fn make_bucket(server: &Basalt, settings: &Value) {
    service(server, Method::POST, "/bucket").json(settings).send().await.expect(200);
}

/// Inserts rows of objects that have no blobs.
async fn make_objects(server: &Basalt, bucket: &str, names: &[&str]) {
    let names = json!(names).to_string().replace('\'', "''");
    server
        .sql(&format!(
            "insert into storage.objects (bucket_id, name, owner_id, metadata)
             select '{bucket}', name, '{OWNER}', '{{\"size\":1}}'
             from jsonb_array_elements_text('{names}') with ordinality as made (name, place) order by place"
        ))
        .await;
}
