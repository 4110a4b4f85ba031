//! A provider that answers as a test says, one connection for each request: for what real ones do badly.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What a provider does with a request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Answers with this status and body.
    Answer(u16, String),
    /// Closes the connection.
    Close,
    /// Says nothing for a time, then closes.
    Stall(Duration),
    /// Does it after a time.
    Late(Duration, Box<Act>),
    /// Does it when it is told to.
    Held(Arc<Notify>, Box<Act>),
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// The first line and the headers.
    pub(super) head: String,
    pub(super) body: String,
}

impl Received {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// A header's value.
    pub(super) fn header(&self, name: &str) -> String {
        let line = self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        line.unwrap_or_default()
    }
}

type Choose = Arc<dyn Fn(&Received) -> Act + Send + Sync>;

/// The provider.
pub(super) struct Provider {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    choose: Arc<Mutex<Choose>>,
}

impl Provider {
    /// One that does with each request what `choose` says.
    pub(super) async fn start(choose: impl Fn(&Received) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::default();
        let choose: Arc<Mutex<Choose>> = Arc::new(Mutex::new(Arc::new(choose)));
        let shared = (Arc::clone(&received), Arc::clone(&choose));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { port, received, choose }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on.
    pub(super) fn act(&self, choose: impl Fn(&Received) -> Act + Send + Sync + 'static) {
        *self.choose.lock().unwrap() = Arc::new(choose);
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, (received, choose): (Arc<Mutex<Vec<Received>>>, Arc<Mutex<Choose>>)) {
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
    received.lock().unwrap().push(request.clone());
    let choose = Arc::clone(&choose.lock().unwrap());
    let mut act = choose(&request);
    loop {
        act = match act {
            Act::Late(time, then) => {
                tokio::time::sleep(time).await;
                *then
            }
            Act::Held(told, then) => {
                told.notified().await;
                *then
            }
            other @ (Act::Answer(..) | Act::Close | Act::Stall(_)) => break act_at_once(stream, other).await,
        };
    }
}

async fn act_at_once(mut stream: TcpStream, act: Act) {
    match act {
        Act::Answer(status, body) => {
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _gone = stream.write_all(answer.as_bytes()).await;
        }
        Act::Stall(time) => tokio::time::sleep(time).await,
        Act::Close | Act::Late(..) | Act::Held(..) => {}
    }
}

fn parse(bytes: &[u8]) -> Option<Received> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let received = Received { head: head.to_owned(), body: body.to_owned() };
    let length: usize = received.header("content-length").parse().unwrap_or(0);
    (body.len() >= length).then_some(received)
}
