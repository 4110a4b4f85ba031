//! Resumable uploads: tus 1.0.0 with creation, creation-with-upload, creation-defer-length, termination and
//! expiration (storage.md §3.15).
//!
//! Each PATCH becomes a blob, with a row that records its offset. Bytes received before a disconnect are
//! kept, so that the client can continue from there. The last PATCH joins the blobs and creates the object.

mod answer;
mod headers;
mod lock;
mod receive;
mod refusal;
mod upload;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use basalt_core::identity::network;
use basalt_core::service::ClientAddress;
use http::request::Parts;
use http::{Method, StatusCode};
use uuid::Uuid;

use crate::Storage;
use crate::caller::Caller;
use crate::error::StorageError;
use crate::objects::routes::ObjectPath;
use crate::objects::write::{self as objects, Context};
use crate::operation::Operation;
use answer::UploadState;
use headers::Metadata;
pub(crate) use lock::Locks;
use lock::UploadLock;
use refusal::Refusal;
use upload::Upload;

const ROOT: &str = "/upload/resumable";

/// The upload a request refers to, and how it is authorised.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route<'a> {
    /// Whether it uses the token of a signed upload URL instead of a user's token.
    is_signed: bool,
    /// `None` for the collection.
    id: Option<&'a str>,
}

fn route(path: &str) -> Option<Route<'_>> {
    let rest = path.strip_prefix(ROOT)?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    let (is_signed, rest) = match rest.strip_prefix("sign") {
        Some("") => (true, ""),
        Some(rest) if rest.starts_with('/') => (true, rest.trim_start_matches('/')),
        _ => (false, rest),
    };
    match rest {
        "" => Some(Route { is_signed, id: None }),
        id if !id.contains('/') => Some(Route { is_signed, id: Some(id) }),
        _ => None,
    }
}

pub(crate) async fn handle(storage: &Arc<Storage>, request: Request) -> Result<Response, StorageError> {
    let (parts, body) = request.into_parts();
    let unknown_route = StorageError::unknown_route(&parts.method, &parts.uri);
    let path = parts.uri.path().to_owned();
    let Some(Route { is_signed, id }) = route(&path) else { return Err(unknown_route) };
    if parts.method == Method::OPTIONS {
        return Ok(answer::capabilities(storage.config.max_file_size));
    }
    let verb = match (&parts.method, id) {
        (&Method::POST, None) => Verb::Create,
        (&Method::HEAD, Some(id)) => Verb::Head(id),
        (&Method::PATCH, Some(id)) => Verb::Append(id),
        (&Method::DELETE, Some(id)) => Verb::Terminate(id),
        _ => return Err(unknown_route),
    };
    // Upstream verifies the caller's token before the protocol headers, with the error texts of the other
    // routes.
    let authorization = if is_signed {
        Authorization::Signature(headers::signature(&parts.headers))
    } else {
        Authorization::Caller(storage.callers.required_token(&parts.headers)?)
    };
    let exchange = Exchange { storage: Arc::clone(storage), parts, authorization };
    let answered = match verb {
        Verb::Create => exchange.create(body).await,
        Verb::Head(id) => exchange.head(id).await,
        Verb::Append(id) => exchange.append(id, body).await,
        Verb::Terminate(id) => exchange.terminate(id).await,
    };
    Ok(answered.unwrap_or_else(Refusal::into_response))
}

#[derive(Debug, Clone, Copy)]
enum Verb<'a> {
    Create,
    Head(&'a str),
    Append(&'a str),
    Terminate(&'a str),
}

/// How a request is authorised.
enum Authorization {
    /// By policies for the caller.
    Caller(Caller),
    /// By `x-signature`, the token of a signed upload URL; runs as `service_role`.
    Signature(Option<String>),
}

/// The writer, and whether it may overwrite an object.
struct Allowed {
    caller: Caller,
    owner: Option<String>,
    upsert: bool,
}

/// An upload locked by a request that may continue it.
struct Opened {
    lock: UploadLock,
    /// Runs as the request's caller.
    cx: Context,
    upload: Upload,
    upsert: bool,
}

struct Exchange {
    storage: Arc<Storage>,
    parts: Parts,
    authorization: Authorization,
}

impl Exchange {
    /// What the request may do with the object at `at`.
    fn allowed(&self, at: &ObjectPath) -> Result<Allowed, Refusal> {
        match &self.authorization {
            Authorization::Caller(caller) => {
                let upsert = self.parts.headers.get("x-upsert").is_some_and(|value| value == "true");
                Ok(Allowed { caller: caller.clone(), owner: caller.subject.clone(), upsert })
            }
            Authorization::Signature(None) => {
                Err(StorageError::invalid_signature("Missing x-signature header").into())
            }
            Authorization::Signature(Some(token)) => {
                let token = self.storage.callers.verify_upload(token, &at.to_string())?;
                Ok(Allowed { caller: Caller::service(), owner: token.owner, upsert: token.upsert })
            }
        }
    }

    fn context(&self, operations: [Operation; 2], caller: Caller) -> Context {
        Context::new(&self.storage, &self.parts, self.operation(operations), caller)
    }

    fn operation(&self, [by_caller, by_signature]: [Operation; 2]) -> Operation {
        if self.is_signed() { by_signature } else { by_caller }
    }

    /// Client whose unfinished uploads are counted; `None` for the service role, which has no limit.
    fn client(&self, owner: Option<&str>) -> Option<String> {
        let role = match &self.authorization {
            Authorization::Caller(caller) if caller.is_service() => return None,
            Authorization::Caller(caller) => caller.role.as_str(),
            Authorization::Signature(_) => "anon",
        };
        Some(match (owner, self.parts.extensions.get::<ClientAddress>()) {
            (Some(owner), _) => format!("user {owner}"),
            (None, Some(ClientAddress(address))) => format!("{role} {}", network(*address)),
            (None, None) => role.to_owned(),
        })
    }

    /// Locks and reads an upload.
    ///
    /// # Errors
    /// The upload does not exist, or belongs to another user. Knowing its URL is not sufficient: URLs appear
    /// in logs and in the storage of shared browsers.
    async fn open(&self, id: &str, operations: [Operation; 2]) -> Result<Opened, Refusal> {
        // Ids are always generated by this server.
        let id = Uuid::parse_str(id).map_err(|_| Refusal::unknown_upload())?;
        // A PATCH whose client has disconnected may still be storing its bytes.
        let lock = self.storage.uploads.lock(id).await?;
        let service = self.context(operations, Caller::service());
        let upload = Upload::find(&service, id).await?;
        let Allowed { caller, owner, upsert } = self.allowed(&upload.at)?;
        let is_service = !self.is_signed() && caller.is_service();
        if !is_service && upload.owner.is_some() && upload.owner != owner {
            return Err(StorageError::row_level_security().into());
        }
        Ok(Opened { lock, cx: Context { caller, ..service }, upload, upsert })
    }

    /// POST: creates an upload, optionally with its first bytes.
    async fn create(&self, body: Body) -> Result<Response, Refusal> {
        let requested = headers::creation(&self.parts.headers)?;
        let metadata = Metadata::read(&requested.metadata)?;
        let at = metadata.path()?;
        let Allowed { caller, owner, upsert } = self.allowed(&at)?;
        let client = self.client(owner.as_deref());
        if requested.length.is_some_and(|length| length > self.storage.config.max_file_size) {
            return Err(Refusal::maximum_exceeded());
        }
        let cx = self.context([Operation::TUS_UPLOAD_CREATE, Operation::TUS_UPLOAD_CREATE_SIGNED], caller);
        let bucket = cx.bucket(&at.bucket).await?;
        let upload = Upload::new(at, &requested, metadata, owner, &self.storage);
        let object = upload.object(upsert, requested.length);
        let max_bytes = upload.remaining_bytes(&self.storage, &bucket, &object)?;
        let location = answer::location(&self.storage, &self.parts, self.is_signed(), upload.id);
        let is_empty = upload.length == Some(0);
        if !requested.has_body && !is_empty {
            objects::probe(&cx, &object).await?;
            upload.insert(&cx, client.as_deref()).await?;
            let shown = UploadState { is_complete: false, offset: None, expires: Some(upload.expires) };
            return Ok(answer::created(&location, &shown));
        }
        let intent = objects::begin(&cx, &object).await?;
        upload.insert(&cx, client.as_deref()).await?;
        let lock = self.storage.uploads.lock(upload.id).await?;
        let received = receive::append(cx, upload, object, max_bytes, body, lock, intent).await?;
        Ok(answer::created(&location, &received))
    }

    /// HEAD: the upload's offset.
    async fn head(&self, id: &str) -> Result<Response, Refusal> {
        headers::resumable(&self.parts.headers)?;
        let operations = [Operation::TUS_UPLOAD_GET, Operation::TUS_UPLOAD_GET_SIGNED];
        let Opened { lock, cx, upload, upsert } = self.open(id, operations).await?;
        self.check_policies(&cx, &upload).await?;
        let expires = (!upload.is_completed).then_some(upload.expires);
        if !upload.is_completed && upload.length == Some(upload.offset) {
            // The server stopped between storing the last bytes and creating the object. If creating it
            // fails, the next PATCH reports why.
            let object = upload.object(upsert, None);
            objects::probe(&cx, &object).await?;
            let upload = receive::complete(&cx, upload, &object).await?;
            return Ok(answer::progress(&upload, None));
        }
        drop(lock);
        Ok(answer::progress(&upload, expires))
    }

    /// Checks that policies still allow the caller to create the object. If the object exists by now, the
    /// PATCH reports that.
    async fn check_policies(&self, cx: &Context, upload: &Upload) -> Result<(), Refusal> {
        // A policy that tests the operation expects the one that stores bytes.
        let operation = self.operation([Operation::TUS_UPLOAD_PART, Operation::TUS_UPLOAD_PART_SIGNED]);
        let cx = Context { operation, ..cx.clone() };
        let object = upload.object(false, Some(upload.length.unwrap_or(upload.offset)));
        match objects::probe(&cx, &object).await {
            Err(error) if error != StorageError::key_already_exists() => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// PATCH: appends bytes.
    async fn append(&self, id: &str, body: Body) -> Result<Response, Refusal> {
        let requested = headers::append(&self.parts.headers)?;
        let operations = [Operation::TUS_UPLOAD_PART, Operation::TUS_UPLOAD_PART_SIGNED];
        let Opened { lock, cx, mut upload, upsert } = self.open(id, operations).await?;
        let bucket = cx.bucket(&upload.at.bucket).await?;
        let object = upload.object(upsert, headers::content_length(&self.parts.headers));
        // Check policies first: until they allow it, nothing about the upload is returned or changed.
        let intent = if upload.is_completed {
            objects::probe(&cx, &object).await?;
            None
        } else {
            Some(objects::begin(&cx, &object).await?)
        };
        if requested.offset != upload.offset {
            return Err(Refusal::new(StatusCode::CONFLICT, "Upload-Offset conflict"));
        }
        let Some(intent) = intent else {
            let offset = Some(upload.offset);
            return Ok(answer::appended(&UploadState { is_complete: true, offset, expires: None }));
        };
        if let (None, Some(length)) = (upload.length, requested.length) {
            if length < upload.offset {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, "Invalid upload-length"));
            }
            if length > self.storage.config.max_file_size {
                return Err(Refusal::maximum_exceeded());
            }
            upload.length = Some(length);
        }
        let max_bytes = upload.remaining_bytes(&self.storage, &bucket, &object)?;
        if requested.length.is_some() {
            upload.set_length(&cx).await?;
        }
        let received = receive::append(cx, upload, object, max_bytes, body, lock, intent).await?;
        Ok(answer::appended(&received))
    }

    /// DELETE: terminates the upload.
    async fn terminate(&self, id: &str) -> Result<Response, Refusal> {
        headers::resumable(&self.parts.headers)?;
        let operations = [Operation::TUS_UPLOAD_DELETE, Operation::TUS_UPLOAD_DELETE_SIGNED];
        let Opened { lock: _held, cx, upload, upsert } = self.open(id, operations).await?;
        objects::probe(&cx, &upload.object(upsert, None)).await?;
        if upload.is_completed {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "Cannot terminate an already completed upload",
            ));
        }
        upload.delete(&cx).await?;
        Ok(answer::terminated())
    }

    const fn is_signed(&self) -> bool {
        matches!(self.authorization, Authorization::Signature(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_is_not_an_upload_id() {
        let of = |is_signed, id| Some(Route { is_signed, id });
        for (path, expected) in [
            ("/upload/resumable", of(false, None)),
            ("/upload/resumable/", of(false, None)),
            ("/upload/resumable/abc", of(false, Some("abc"))),
            ("/upload/resumable/signed", of(false, Some("signed"))),
            ("/upload/resumable/sign", of(true, None)),
            ("/upload/resumable/sign/", of(true, None)),
            ("/upload/resumable/sign/abc", of(true, Some("abc"))),
            ("/upload/resumablex", None),
            ("/upload/resumable/a/b", None),
            ("/upload", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
