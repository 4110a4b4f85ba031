//! An HTTP server that replies as a test says, one connection for each request: it replaces other companies' services (Stripe,
//! Resend, Have I Been Pwned), above all where they fail.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What the stub does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Responds with this status and JSON body.
    Respond(u16, String),
    /// Responds with this status, further header lines and body.
    RespondWith(u16, Vec<(&'static str, String)>, String),
    /// Closes the connection.
    Close,
    /// Sends nothing for a time, then closes.
    Stall(Duration),
    /// Replies after a time.
    After(Duration, Box<Reply>),
    /// Replies once the test notifies it.
    Once(Arc<Notify>, Box<Reply>),
}

/// A request that the stub received.
#[derive(Clone, Debug)]
pub struct StubRequest {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

impl StubRequest {
    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    /// A header's value; empty if it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> String {
        let line = self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        line.unwrap_or_default()
    }
}

type Choose = Arc<dyn Fn(&StubRequest) -> Reply + Send + Sync>;

/// Requests received, and the current choice of replies.
struct Shared {
    requests: Mutex<Vec<StubRequest>>,
    choose: Mutex<Choose>,
}

/// The server. It runs until the test's runtime ends.
pub struct HttpStub {
    port: u16,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for HttpStub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpStub").field("port", &self.port).finish_non_exhaustive()
    }
}

impl HttpStub {
    /// Starts a stub that replies to each request with the result of `choose`.
    pub async fn start(choose: impl Fn(&StubRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("the listener has an address").port();
        let shared = Arc::new(Shared { requests: Mutex::default(), choose: Mutex::new(Arc::new(choose)) });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Self { port, shared }
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Replaces the choice of replies.
    pub fn reply(&self, choose: impl Fn(&StubRequest) -> Reply + Send + Sync + 'static) {
        *self.shared.choose.lock() = Arc::new(choose);
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<StubRequest> {
        self.shared.requests.lock().clone()
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut bytes = Vec::new();
    let request = loop {
        if let Some(request) = parse(&bytes) {
            break request;
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    };
    shared.requests.lock().push(request.clone());
    let choose = Arc::clone(&shared.choose.lock());
    let mut reply = choose(&request);
    loop {
        reply = match reply {
            Reply::After(time, then) => {
                tokio::time::sleep(time).await;
                *then
            }
            Reply::Once(notify, then) => {
                notify.notified().await;
                *then
            }
            Reply::Respond(status, body) => {
                let json = vec![("content-type", "application/json".to_owned())];
                Reply::RespondWith(status, json, body)
            }
            Reply::RespondWith(status, headers, body) => {
                return respond(stream, status, headers, &body).await;
            }
            Reply::Stall(time) => return tokio::time::sleep(time).await,
            Reply::Close => return,
        };
    }
}

async fn respond(mut stream: TcpStream, status: u16, headers: Vec<(&str, String)>, body: &str) {
    let headers: String = headers.into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let _gone = stream.write_all(response.as_bytes()).await;
}

/// The request, once it is complete.
fn parse(bytes: &[u8]) -> Option<StubRequest> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let request = StubRequest { head: head.to_owned(), body: body.to_owned() };
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    (body.len() >= length).then_some(request)
}
