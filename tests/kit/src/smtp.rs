//! A small SMTP server for tests (EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, RSET, NOOP, QUIT). It stores mails, and can reject
//! commands, stall, and stop.

mod session;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::ports::free_port;
use crate::runtime::{on_runtime, runtime};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// The security of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// No TLS.
    Plain,
    /// STARTTLS.
    StartTls,
    /// TLS from the first byte.
    Tls,
}

/// A received mail.
#[derive(Clone, Debug)]
pub struct ReceivedMail {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipient.
    pub to: String,
    /// The login: `user:password`.
    pub login: Option<String>,
    /// Whether it was sent over TLS.
    pub encrypted: bool,
    /// Headers and body as sent, lines ending with `\n`.
    pub data: String,
}

impl ReceivedMail {
    /// The plain part, decoded.
    ///
    /// # Panics
    /// If there is none, or it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        let (_, part) = self.data.split_once("text/plain").expect("a plain part");
        let (headers, part) = part.split_once("\n\n").expect("a body");
        let body = part.split("\n--").next().unwrap_or_default();
        if !headers.to_lowercase().contains("quoted-printable") {
            return body.to_owned();
        }
        let mut out = Vec::new();
        let joined = body.replace("=\n", "");
        let mut rest = joined.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            let escaped =
                after.get(..2).filter(|_| *first == b'=').and_then(|hex| std::str::from_utf8(hex).ok());
            match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                Some(byte) => {
                    out.push(byte);
                    rest = after.get(2..).unwrap_or_default();
                }
                None => {
                    out.push(*first);
                    rest = after;
                }
            }
        }
        String::from_utf8(out).expect("the plain part is UTF-8")
    }
}

#[derive(Debug, Default)]
struct State {
    mails: Vec<ReceivedMail>,
    /// Replies that replace the normal ones: command, reply, count.
    refusals: VecDeque<(String, String, usize)>,
    /// A command that gets no reply.
    silent_at: Option<String>,
    /// The required login, `user:password`.
    login: Option<String>,
    connections: usize,
}

/// The server, stopped on drop.
#[derive(Debug)]
pub struct SmtpServer {
    port: u16,
    security: Security,
    state: Arc<Mutex<State>>,
    accepting: Option<JoinHandle<()>>,
}

impl SmtpServer {
    /// A server without TLS that accepts everything.
    pub async fn start() -> Self {
        Self::start_with(Security::Plain).await
    }

    /// A server that accepts everything. Clients trust its certificate with [`SmtpServer::authority`].
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start_with(security: Security) -> Self {
        let port = free_port();
        let listener =
            on_runtime(TcpListener::bind((Ipv4Addr::LOCALHOST, port))).await.expect("the port is free");
        let mut server = Self { port, security, state: Arc::default(), accepting: None };
        server.accept(listener);
        server
    }

    fn accept(&mut self, listener: TcpListener) {
        let (state, security) = (Arc::clone(&self.state), self.security);
        self.accepting = Some(runtime().spawn(async move {
            // Connections end with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                connections.spawn(session::serve(stream, security, Arc::clone(&state)));
            }
        }));
    }

    /// Stops: connections break, new ones are refused.
    pub fn stop(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
    }

    /// Starts again on the same port.
    ///
    /// # Panics
    /// If the port is taken.
    pub async fn start_again(&mut self) {
        let deadline = Instant::now() + LIMIT;
        loop {
            match on_runtime(TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))).await {
                Ok(listener) => return self.accept(listener),
                Err(error) => assert!(Instant::now() < deadline, "the port is taken: {error}"),
            }
            sleep(POLL).await;
        }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `smtp://127.0.0.1:PORT`, or `smtps`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.security == Security::Tls { "smtps" } else { "smtp" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The file with its CA certificate.
    #[must_use]
    pub fn authority() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/smtp/authority.pem")
    }

    /// Sends `reply` to the next `times` commands that start with `command`; `DATA.` is the end of a mail.
    pub fn refuse(&self, command: &str, reply: &str, times: usize) {
        self.state().refusals.push_back((command.to_owned(), reply.to_owned(), times));
    }

    /// Sends no reply to commands that start with `command`; `None` replies again.
    pub fn stall_at(&self, command: Option<&str>) {
        self.state().silent_at = command.map(str::to_owned);
    }

    /// Requires this login.
    pub fn require_login(&self, user: &str, password: &str) {
        self.state().login = Some(format!("{user}:{password}"));
    }

    /// The number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// All received mails.
    #[must_use]
    pub fn mails(&self) -> Vec<ReceivedMail> {
        self.state().mails.clone()
    }

    /// Waits for the first mail to `to`.
    ///
    /// # Panics
    /// If none arrives within a minute.
    pub async fn wait_for(&self, to: &str) -> ReceivedMail {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(mail) = self.mails().into_iter().find(|mail| mail.to == to) {
                return mail;
            }
            assert!(Instant::now() < deadline, "no mail to {to}");
            sleep(POLL).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.stop();
    }
}
