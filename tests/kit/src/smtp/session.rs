//! One connection of the SMTP server.

use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{ReceivedMail, Security, State};

const CERTIFICATE: &[u8] = include_bytes!("server.pem");
const KEY: &[u8] = include_bytes!("server.key");

fn acceptor() -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(CERTIFICATE).collect::<Result<_, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("key and certificate fit");
    TlsAcceptor::from(Arc::new(config))
}

/// Serves one client until it disconnects.
pub(super) async fn serve(stream: TcpStream, security: Security, state: Arc<Mutex<State>>) {
    state.lock().connections += 1;
    // Ignore connection errors; the test checks the received mails.
    let _broken = async {
        match security {
            Security::Tls => {
                let stream = acceptor().accept(stream).await?;
                Session::new(state, true).run(stream, false, true).await.map(drop)
            }
            Security::Plain => Session::new(state, false).run(stream, false, true).await.map(drop),
            Security::StartTls => {
                let plain = Session::new(Arc::clone(&state), false).run(stream, true, true).await?;
                let Some(stream) = plain else { return Ok(()) };
                let stream = acceptor().accept(stream).await?;
                Session::new(state, true).run(stream, false, false).await.map(drop)
            }
        }
    }
    .await as io::Result<()>;
}

struct Session {
    state: Arc<Mutex<State>>,
    encrypted: bool,
    login: Option<String>,
    from: String,
    to: Vec<String>,
}

/// What to do after a reply.
enum Next {
    Command,
    Data,
    StartTls,
    Quit,
}

impl Session {
    fn new(state: Arc<Mutex<State>>, encrypted: bool) -> Self {
        Self { state, encrypted, login: None, from: String::new(), to: Vec::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Serves until the client disconnects, or returns the stream for STARTTLS.
    async fn run<S>(mut self, stream: S, offers_tls: bool, greets: bool) -> io::Result<Option<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stream = BufReader::new(stream);
        if greets {
            self.say(&mut stream, "", "220 test ESMTP").await?;
        }
        let mut line = String::new();
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(None);
            }
            let command = line.trim_end().to_owned();
            let (reply, next) = self.answer(&command, offers_tls);
            let is_usual = self.say(&mut stream, &command, &reply).await?;
            match next {
                Next::Quit => return Ok(None),
                Next::StartTls if is_usual => return Ok(Some(stream.into_inner())),
                Next::Data if is_usual => self.take(&mut stream).await?,
                Next::Command | Next::Data | Next::StartTls => {}
            }
        }
    }

    /// Sends `reply`, or the configured rejection; returns whether it sent `reply`.
    async fn say<S>(&self, stream: &mut S, command: &str, reply: &str) -> io::Result<bool>
    where
        S: AsyncWrite + Unpin,
    {
        let (refusal, is_silent) = {
            let mut state = self.state();
            let is_silent = state.silent_at.as_ref().is_some_and(|at| command.starts_with(at.as_str()));
            let wanted = |(at, _, times): &&mut (String, String, usize)| {
                *times > 0 && command.starts_with(at.as_str())
            };
            let refusal = state.refusals.iter_mut().find(wanted).map(|(_, reply, times)| {
                *times -= 1;
                reply.clone()
            });
            (refusal, is_silent)
        };
        if is_silent {
            std::future::pending::<()>().await;
        }
        let is_usual = refusal.is_none();
        let reply = refusal.unwrap_or_else(|| reply.to_owned());
        stream.write_all(format!("{reply}\r\n").as_bytes()).await?;
        stream.flush().await?;
        Ok(is_usual)
    }

    fn answer(&mut self, command: &str, offers_tls: bool) -> (String, Next) {
        let upper = command.to_ascii_uppercase();
        let wants_login = self.state().login.clone();
        let say = |text: &str| (text.to_owned(), Next::Command);
        if upper.starts_with("EHLO") {
            let mut lines = vec!["test", "8BITMIME", "SMTPUTF8"];
            if offers_tls {
                lines.push("STARTTLS");
            }
            if wants_login.is_some() {
                lines.push("AUTH PLAIN");
            }
            let last = lines.len() - 1;
            let reply: Vec<String> = lines
                .iter()
                .enumerate()
                .map(|(index, line)| format!("250{}{line}", if index == last { ' ' } else { '-' }))
                .collect();
            (reply.join("\r\n"), Next::Command)
        } else if upper.starts_with("STARTTLS") && offers_tls {
            ("220 go ahead".to_owned(), Next::StartTls)
        } else if let Some(initial) = command.strip_prefix("AUTH PLAIN ") {
            // base64 of NUL user NUL password.
            let wanted = wants_login.unwrap_or_default();
            if initial == plain(&wanted) {
                self.login = Some(wanted);
                say("235 welcome")
            } else {
                say("535 5.7.8 wrong user or password")
            }
        } else if upper.starts_with("MAIL FROM:") {
            if wants_login.is_some() && self.login.is_none() {
                return say("530 5.7.0 authentication required");
            }
            self.from = address(command);
            self.to.clear();
            say("250 ok")
        } else if upper.starts_with("RCPT TO:") {
            self.to.push(address(command));
            say("250 ok")
        } else if upper.starts_with("DATA") {
            ("354 go on".to_owned(), Next::Data)
        } else if upper.starts_with("RSET") || upper.starts_with("NOOP") {
            say("250 ok")
        } else if upper.starts_with("QUIT") {
            ("221 bye".to_owned(), Next::Quit)
        } else {
            say("502 what?")
        }
    }

    /// Reads a mail up to its final dot.
    async fn take<S>(&self, stream: &mut BufReader<S>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut data = String::new();
        let mut line = String::new();
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let text = line.trim_end_matches(['\r', '\n']);
            if text == "." {
                break;
            }
            data.push_str(text.strip_prefix('.').unwrap_or(text));
            data.push('\n');
        }
        if self.say(stream, "DATA.", "250 taken").await? {
            let mut state = self.state();
            for to in &self.to {
                state.mails.push(ReceivedMail {
                    from: self.from.clone(),
                    to: to.clone(),
                    login: self.login.clone(),
                    encrypted: self.encrypted,
                    data: data.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The address between the angle brackets.
fn address(command: &str) -> String {
    let inside = command.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map_or("", |(address, _)| address).to_owned()
}

/// The AUTH PLAIN encoding of `user:password`.
fn plain(login: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = format!("\0{}", login.replacen(':', "\0", 1)).into_bytes();
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let letter = usize::try_from(group >> (18 - 6 * index) & 63).unwrap_or_default();
            let is_padding = index > u32::try_from(chunk.len()).unwrap_or_default();
            out.push(if is_padding { '=' } else { ALPHABET.get(letter).copied().map_or('=', char::from) });
        }
    }
    out
}
