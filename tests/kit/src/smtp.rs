//! A mail server for tests: small, but a real one. It speaks what clients use of SMTP (EHLO, STARTTLS, AUTH, MAIL,
//! RCPT, DATA, RSET, NOOP, QUIT), keeps what it takes, and can be told to refuse, to be silent, and to go away.

mod session;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::ports::free_port;
use crate::runtime::{on_runtime, runtime};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// How a connection to it is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    Plain,
    /// By STARTTLS, which it offers.
    StartTls,
    /// From the first byte.
    Tls,
}

/// A mail it took.
#[derive(Clone, Debug)]
pub struct ReceivedMail {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipient.
    pub to: String,
    /// The login it came with: user and password.
    pub login: Option<String>,
    /// Whether it came over TLS.
    pub encrypted: bool,
    /// Headers and body as sent, lines ending with `\n`.
    pub data: String,
}

impl ReceivedMail {
    /// The plain part, decoded.
    ///
    /// # Panics
    /// There is none, or it is no UTF-8.
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
    /// Answers in place of the usual ones: command, reply, how often.
    refusals: VecDeque<(String, String, usize)>,
    /// A command that is never answered.
    silent_at: Option<String>,
    /// `user:password`; then every other login is refused.
    login: Option<String>,
    connections: usize,
}

/// The server. It ends when it is dropped.
#[derive(Debug)]
pub struct SmtpServer {
    port: u16,
    security: Security,
    state: Arc<Mutex<State>>,
    accepting: Option<JoinHandle<()>>,
}

impl SmtpServer {
    /// A server without TLS that takes everything.
    pub async fn start() -> Self {
        Self::start_with(Security::Plain).await
    }

    /// A server that takes everything. Clients trust its certificate with [`SmtpServer::authority`].
    ///
    /// # Panics
    /// No port is free.
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

    /// Goes away: connections break, new ones are refused.
    pub fn stop(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
    }

    /// Comes back on the same port.
    ///
    /// # Panics
    /// The port is taken.
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

    /// A file with the certificate of its authority.
    #[must_use]
    pub fn authority() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/smtp/authority.pem")
    }

    /// Answers the next `times` commands that begin with `command` with `reply`; `DATA.` is the end of a mail.
    pub fn refuse(&self, command: &str, reply: &str, times: usize) {
        self.state().refusals.push_back((command.to_owned(), reply.to_owned(), times));
    }

    /// Never answers commands that begin with `command` from now on; `None` answers again.
    pub fn be_silent_at(&self, command: Option<&str>) {
        self.state().silent_at = command.map(str::to_owned);
    }

    /// Lets in this user only.
    pub fn require_login(&self, user: &str, password: &str) {
        self.state().login = Some(format!("{user}:{password}"));
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// Everything it took.
    #[must_use]
    pub fn mails(&self) -> Vec<ReceivedMail> {
        self.state().mails.clone()
    }

    /// The first mail to `to`, waited for.
    ///
    /// # Panics
    /// None comes within a minute.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        self.stop();
    }
}
