//! Uploads the files of `[storage.buckets.NAME] objects_path` in `config.toml`, as `supabase seed buckets` does. An object that exists stays
//! as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::http_client::{HttpClient, Outgoing, Reach};
use basalt_project::supabase::BucketFiles;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

/// Files of one bucket. Larger folders are uploaded with a client.
const MAX_FILES: usize = 10_000;
/// A file is read into memory.
const MAX_BYTES: u64 = 50 << 20;
const TIME_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_BYTES: usize = 64 << 10;

/// Uploads the files of all buckets to the server at `origin`, one after the other, and logs what it did.
pub(crate) async fn upload(buckets: Vec<BucketFiles>, origin: Url, service_key: SecretString) {
    let client = HttpClient::new(Reach::Anywhere);
    for BucketFiles { bucket, folder } in buckets {
        let listed = folder.clone();
        let files = match tokio::task::spawn_blocking(move || files_of(&listed)).await {
            Ok(Ok(files)) => files,
            Ok(Err(error)) => {
                tracing::warn!("objects_path of bucket {bucket}: cannot read {}: {error}", folder.display());
                continue;
            }
            Err(_panic) => continue,
        };
        let (mut uploaded, mut failed) = (0, 0);
        for file in &files {
            let outcome = upload_file(&client, &origin, &service_key, &bucket, &folder, file).await;
            match outcome {
                Ok(is_new) => uploaded += usize::from(is_new),
                Err(problem) => {
                    failed += 1;
                    tracing::warn!(
                        "objects_path of bucket {bucket}: {} was not uploaded: {problem}",
                        file.display()
                    );
                }
            }
        }
        let (folder, unchanged) = (folder.display(), files.len() - uploaded - failed);
        tracing::info!(bucket, uploaded, unchanged, failed, "uploaded the files of {folder}");
    }
}

/// Uploads a file unless its object exists, and returns whether it did.
async fn upload_file(
    client: &HttpClient,
    origin: &Url,
    service_key: &SecretString,
    bucket: &str,
    folder: &Path,
    file: &Path,
) -> Result<bool, String> {
    let url = object_url(origin, bucket, folder, file).ok_or("its name is not UTF-8")?;
    let size = tokio::fs::metadata(file).await.map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("it has more than {} MB; upload it with a client", MAX_BYTES >> 20));
    }
    let body = tokio::fs::read(file).await.map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    let bearer = HeaderValue::try_from(format!("Bearer {}", service_key.expose_secret()));
    headers.insert(AUTHORIZATION, bearer.map_err(|error| error.to_string())?);
    let content_type = mime_guess::from_path(file).first_or_octet_stream();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::try_from(content_type.as_ref()).map_err(|error| error.to_string())?,
    );
    let request =
        Outgoing { method: Method::POST, url: &url, headers, body: Bytes::from(body), limit: ANSWER_BYTES };
    let answer =
        client.send(request, Instant::now() + TIME_LIMIT).await.map_err(|error| error.to_string())?;
    if answer.status.is_success() {
        return Ok(true);
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    // The status of older versions of the protocol is 400, with the real one in the body.
    let field = |name: &str| body.get(name).and_then(Value::as_str);
    if answer.status == StatusCode::CONFLICT || field("statusCode") == Some("409") {
        return Ok(false);
    }
    Err(field("message").map_or_else(|| answer.status.to_string(), str::to_owned))
}

fn object_url(origin: &Url, bucket: &str, folder: &Path, file: &Path) -> Option<Url> {
    let mut url = origin.join("/storage/v1/object/").ok()?;
    let parts = file.strip_prefix(folder).ok()?.components().map(|part| part.as_os_str().to_str());
    let parts = parts.collect::<Option<Vec<&str>>>()?;
    url.path_segments_mut().ok()?.pop_if_empty().push(bucket).extend(parts);
    Some(url)
}

/// All regular files in the folder and below, sorted. Symbolic links are not followed.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut folders = vec![folder.to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
            if files.len() + folders.len() > MAX_FILES {
                return Err(std::io::Error::other(format!("it has more than {MAX_FILES} files")));
            }
        }
    }
    files.sort();
    Ok(files)
}
