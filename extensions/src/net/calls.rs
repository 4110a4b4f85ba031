//! The extension `http`: a function in the database sends a request and waits for its response within the transaction
//! (decision 0191).
//!
//! The backend connects with dblink to a socket of this server, which implements what libpq needs for one statement. The
//! statement is a request instead of SQL. Answering it takes no connection to the database, so calls cannot block each other.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use basalt_core::http_client::Answer;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outbound::{self, NoResponse, Outbound, Request};

/// Sockets in the folder of a database, one for each server that uses it; the function `http` tries all.
const SOCKETS: u16 = 4;
/// PostgreSQL's socket folder and port, and the database.
const LOCATION: &str = "
select current_setting('unix_socket_directories'), current_setting('port'), oid::bigint
from pg_catalog.pg_database where datname = current_database()";
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(5);
/// Time for libpq to begin, and for a backend to send its request or to receive the response.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(30);

const MAX_STARTUP_BYTES: usize = 10_000;
/// More than the function `http` accepts.
const MAX_REQUEST_BYTES: usize = 12 << 20;
/// The longest timeout: a call holds its caller's connection.
const LONGEST_TIMEOUT_MS: u64 = 60_000;

/// Codes in the first message of a connection.
const PROTOCOL_3: u32 = 3;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const OID_TEXT: i32 = 25;
/// The columns of a result, in the order of [`Reply::columns`].
const COLUMNS: [&str; 6] = ["status", "content_type", "headers", "content", "code", "message"];

/// Serves the calls of one database.
pub(crate) struct Calls {
    outbound: Arc<Outbound>,
    /// One permit for each call that may wait.
    waiting: Arc<Semaphore>,
}

/// A listening socket, removed on drop.
struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _removed = fs::remove_file(&self.path);
    }
}

/// The result of a call.
enum Reply {
    Answered(Answer),
    /// An error with its SQLSTATE.
    Failed(&'static str, String),
}

impl Calls {
    pub(crate) fn new(outbound: Arc<Outbound>, concurrency: usize) -> Arc<Self> {
        Arc::new(Self { outbound, waiting: Arc::new(Semaphore::new(concurrency)) })
    }

    /// Accepts calls until shutdown, if PostgreSQL is on this machine and its socket folder is private.
    pub(crate) async fn serve(
        self: Arc<Self>,
        pool: ServicePool,
        tracker: TaskTracker,
        shutdown: CancellationToken,
    ) {
        let Some(Some(listening)) = shutdown.run_until_cancelled(Box::pin(listen(&pool))).await else {
            return;
        };
        loop {
            let accepted = shutdown.run_until_cancelled(listening.listener.accept()).await;
            match accepted {
                None => return,
                Some(Ok((stream, _))) => {
                    let calls = Arc::clone(&self);
                    tracker.spawn(async move {
                        if let Err(error) = calls.answer(stream).await {
                            tracing::debug!(%error, "a call of the extension http ended early");
                        }
                    });
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a call of the extension http; trying again");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Serves one connection: the handshake, one request and its response.
    async fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        timeout(EXCHANGE_LIMIT, handshake(&mut stream)).await??;
        let (tag, length) = timeout(EXCHANGE_LIMIT, header(&mut stream)).await??;
        if tag != b'Q' || length > MAX_REQUEST_BYTES {
            return Err(io::Error::other("the peer is not the extension http"));
        }
        let permit = self.waiting.try_acquire();
        let reply = if permit.is_ok() {
            let mut text = vec![0; length];
            timeout(EXCHANGE_LIMIT, stream.read_exact(&mut text)).await??;
            metrics::counter!("basalt_net_calls_total").increment(1);
            // A backend sends nothing while it waits; its statement was cancelled if the connection ends.
            tokio::select! {
                reply = self.send(&text) => reply,
                _ended = stream.read_u8() => return Ok(()),
            }
        } else {
            metrics::counter!("basalt_net_calls_refused_total").increment(1);
            let mut rest = (&mut stream).take(u64::try_from(length).unwrap_or(u64::MAX));
            timeout(EXCHANGE_LIMIT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await??;
            Reply::Failed("53400", "too many HTTP requests are waiting for their responses".to_owned())
        };
        drop(permit);
        timeout(EXCHANGE_LIMIT, stream.write_all(&result(&reply.columns()))).await?
    }

    async fn send(&self, text: &[u8]) -> Reply {
        let request = match read_request(text) {
            Ok(request) => request,
            Err(error) => return Reply::Failed("22023", error.message),
        };
        let limit = request.timeout.as_millis();
        match self.outbound.send(request).await {
            Ok(answer) => Reply::Answered(answer),
            // The code and the words of the extension itself.
            Err(error) if error.is_timeout => {
                Reply::Failed("XX000", format!("Operation timed out after {limit} milliseconds"))
            }
            Err(error) => Reply::Failed("XX000", error.message),
        }
    }
}

impl Reply {
    fn columns(&self) -> [Option<String>; 6] {
        match self {
            Self::Answered(answer) => {
                let headers = answer.headers.iter();
                let headers: Vec<Value> = headers
                    .map(|(name, value)| vec![name.as_str().to_owned(), outbound::text_of(value)].into())
                    .collect();
                [
                    Some(answer.status.as_u16().to_string()),
                    answer.headers.get(CONTENT_TYPE).map(outbound::text_of),
                    Some(Value::from(headers).to_string()),
                    Some(outbound::text_of_body(&answer.body)),
                    None,
                    None,
                ]
            }
            Self::Failed(code, message) => {
                [None, None, None, None, Some((*code).to_owned()), Some(message.clone())]
            }
        }
    }
}

/// Listens where the function `http` of this database connects; `None` if it cannot.
async fn listen(pool: &ServicePool) -> Option<Listening> {
    let folder = loop {
        match locate(pool).await {
            Ok(folder) => break folder?,
            Err(SessionError::Postgres(error)) => {
                tracing::debug!(%error, "cannot find PostgreSQL's socket folder");
                return None;
            }
            Err(_unavailable) => sleep(RETRY).await,
        }
    };
    let listening = bind(&folder).await;
    listening
        .inspect_err(|error| {
            tracing::warn!(
                folder = %folder.display(), %error,
                "the extension http cannot send requests: its socket cannot be created"
            );
        })
        .ok()
}

/// The folder for this database's sockets, in PostgreSQL's own.
async fn locate(pool: &ServicePool) -> Result<Option<PathBuf>, SessionError> {
    let cell = |error: tokio_postgres::Error| SessionError::Unavailable(error.to_string());
    let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let found = tx.query_one(LOCATION, &[]).await;
    let row = tx.finish(found).await?;
    let (folders, port, database): (String, String, i64) =
        (row.try_get(0).map_err(cell)?, row.try_get(1).map_err(cell)?, row.try_get(2).map_err(cell)?);
    let folder = PathBuf::from(folders.trim_matches('"'));
    // libpq would read these as a list or an escape.
    let is_plain = !folders.contains([',', '\'', '\\']) && !folders.trim_matches('"').contains('"');
    // Every user who can enter the folder can send requests.
    let is_private = fs::metadata(&folder).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0);
    let is_here = folder.join(format!(".s.PGSQL.{port}")).exists();
    Ok((is_plain && is_private && is_here).then(|| folder.join(format!("http.{database}"))))
}

/// Listens on the first socket that no other server uses.
async fn bind(folder: &Path) -> io::Result<Listening> {
    fs::create_dir_all(folder)?;
    // PostgreSQL may run as another user; the parent folder keeps others out.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for number in 1..=SOCKETS {
        let path = folder.join(format!(".s.PGSQL.{number}"));
        if path.exists() {
            if UnixStream::connect(&path).await.is_ok() {
                continue;
            }
            // Left by a server that was killed.
            fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        let listening = Listening { listener, path };
        fs::set_permissions(&listening.path, fs::Permissions::from_mode(0o666))?;
        return Ok(listening);
    }
    Err(io::Error::other(format!("{SOCKETS} servers use this database")))
}

/// Accepts every login: the folder keeps others out.
async fn handshake(stream: &mut UnixStream) -> io::Result<()> {
    loop {
        let length = stream.read_u32().await?;
        let code = stream.read_u32().await?;
        let rest = usize::try_from(length).ok().and_then(|length| length.checked_sub(8));
        let rest = rest.filter(|rest| *rest <= MAX_STARTUP_BYTES);
        match (code, rest) {
            (SSL_REQUEST | GSS_REQUEST, Some(0)) => stream.write_all(b"N").await?,
            (code, Some(rest)) if code >> 16 == PROTOCOL_3 => {
                let mut options = vec![0; rest];
                stream.read_exact(&mut options).await?;
                break;
            }
            _ => return Err(io::Error::other("unknown protocol")),
        }
    }
    let mut reply = BytesMut::new();
    message(&mut reply, b'R', |body| body.put_i32(0));
    for (name, value) in [("server_version", "18.0"), ("client_encoding", "UTF8")] {
        message(&mut reply, b'S', |body| {
            put_text(body, name);
            put_text(body, value);
        });
    }
    message(&mut reply, b'Z', |body| body.put_u8(b'I'));
    stream.write_all(&reply).await
}

/// The type of the next message and the length of its body.
async fn header(stream: &mut UnixStream) -> io::Result<(u8, usize)> {
    let tag = stream.read_u8().await?;
    let length = usize::try_from(stream.read_u32().await?).map_err(io::Error::other)?;
    Ok((tag, length.saturating_sub(4)))
}

/// Parses a JSON object in the first line and the body after it, as the function `http` writes them.
fn read_request(text: &[u8]) -> Result<Request, NoResponse> {
    let unreadable = || NoResponse::new("the request cannot be read");
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let end = text.iter().position(|byte| *byte == b'\n').ok_or_else(unreadable)?;
    let (head, body) = text.split_at(end);
    let head: Value = serde_json::from_slice(head).map_err(|_| unreadable())?;
    let part = |name: &str| head.get(name).and_then(Value::as_str).ok_or_else(unreadable);
    let mut headers = HeaderMap::new();
    for pair in head.get("headers").and_then(Value::as_array).into_iter().flatten() {
        let text = |place: usize| pair.get(place).and_then(Value::as_str).unwrap_or_default();
        if let Some((name, value)) = outbound::parse_header(text(0), text(1))? {
            let _has_others = headers.append(name, value);
        }
    }
    let limit = head
        .get("timeout_ms")
        .and_then(Value::as_u64)
        .unwrap_or(LONGEST_TIMEOUT_MS)
        .clamp(1, LONGEST_TIMEOUT_MS);
    Ok(Request {
        method: outbound::parse_method(part("method")?)?,
        url: outbound::parse_url(part("url")?)?,
        headers,
        body: Bytes::copy_from_slice(body.get(1..).unwrap_or_default()),
        timeout: Duration::from_millis(limit),
    })
}

/// A result with one row.
fn result(columns: &[Option<String>; 6]) -> BytesMut {
    let count = i16::try_from(COLUMNS.len()).unwrap_or(i16::MAX);
    let mut reply = BytesMut::new();
    message(&mut reply, b'T', |body| {
        body.put_i16(count);
        for name in COLUMNS {
            put_text(body, name);
            // No table, type text of any length, text format.
            body.put_i32(0);
            body.put_i16(0);
            body.put_i32(OID_TEXT);
            body.put_i16(-1);
            body.put_i32(-1);
            body.put_i16(0);
        }
    });
    message(&mut reply, b'D', |body| {
        body.put_i16(count);
        for value in columns {
            match value {
                Some(text) => {
                    body.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
                    body.put_slice(text.as_bytes());
                }
                None => body.put_i32(-1),
            }
        }
    });
    message(&mut reply, b'C', |body| put_text(body, "SELECT 1"));
    message(&mut reply, b'Z', |body| body.put_u8(b'I'));
    reply
}

/// Appends a message: its type, its length with the length's own bytes, its body.
fn message(reply: &mut BytesMut, tag: u8, write: impl FnOnce(&mut BytesMut)) {
    let mut body = BytesMut::new();
    write(&mut body);
    reply.put_u8(tag);
    reply.put_u32(u32::try_from(body.len() + 4).unwrap_or(u32::MAX));
    reply.put_slice(&body);
}

/// A text that ends with NUL.
fn put_text(body: &mut BytesMut, text: &str) {
    body.put_slice(text.as_bytes());
    body.put_u8(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_repeated_headers_and_a_raw_body() {
        let text = b"{\"method\":\"POST\",\"url\":\"http://example.com/\",\"headers\":[[\"x-a\",\"1\"],[\"X-A\",\"2\"],[\"Host\",\"evil\"]],\"timeout_ms\":90000}\n{\"a\":\n1}\0";
        let request = read_request(text).ok().unwrap();
        assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "http://example.com/"));
        assert_eq!(request.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(request.headers.len(), 2);
        assert_eq!(request.body, "{\"a\":\n1}");
        assert_eq!(request.timeout, Duration::from_secs(60));
        for text in
            ["", "{}", "select 1\n", "{}\n", "[]\n", "{\"method\":\"CONNECT\",\"url\":\"http://a/\"}\n"]
        {
            assert!(read_request(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn each_server_has_its_socket_and_replaces_abandoned_ones() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("http.5");
        let first = bind(&folder).await.unwrap();
        let second = bind(&folder).await.unwrap();
        assert!(first.path.ends_with(".s.PGSQL.1") && second.path.ends_with(".s.PGSQL.2"));
        drop(first);
        assert!(!folder.join(".s.PGSQL.1").exists());
        // A killed server leaves its socket.
        drop(std::os::unix::net::UnixListener::bind(folder.join(".s.PGSQL.1")).unwrap());
        let third = bind(&folder).await.unwrap();
        assert!(third.path.ends_with(".s.PGSQL.1"));
        assert!(UnixStream::connect(&third.path).await.is_ok());
    }
}
