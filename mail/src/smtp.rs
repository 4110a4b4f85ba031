//! Sends mail to an SMTP server over pooled connections, with TLS as the URL requires, and classifies errors as transient or
//! permanent.
//!
//! A rejected *login* counts as transient although its code (535) is permanent: the configuration is wrong, not the mail,
//! and the operator will correct it.

use std::time::Duration;

use basalt_pg::jobs::Failure;
use jiff::Timestamp;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::{self, PoolConfig};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::Content;

/// The SMTP server and the sender.
#[derive(Debug, Clone)]
pub struct SmtpConfig {
    /// The server and the login.
    pub server: SmtpUrl,
    /// Sender's address.
    pub from: String,
    /// Sender's name; may be empty.
    pub sender_name: String,
    /// Extra headers of each mail; `$messageType` in a value is replaced by the mail's kind.
    pub headers: Vec<(String, String)>,
    /// Time limit of each step: connecting, one command, one reply.
    pub timeout: Duration,
    /// Connections open at once.
    pub connections: u32,
}

/// `smtp://user:password@host:587` or `smtps://user:password@host:465`. `?tls=required` requires STARTTLS,
/// which is otherwise used if offered; `?tls=none` disables it. A login is never sent unencrypted, except to localhost or with
/// `tls=none`. If the server does not support AUTH (a mail catcher), mail is sent without a login, as upstream does.
#[derive(Clone)]
pub struct SmtpUrl {
    host: String,
    port: u16,
    login: Option<(String, String)>,
    security: Security,
    /// Applies if the server does not support AUTH.
    security_without_login: Security,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Security {
    None,
    StartTlsWhenOffered,
    StartTls,
    Tls,
}

impl SmtpUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// A phrase that completes `<setting> …`. Never contains the login.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "must read smtp://user:password@host:587 or smtps://user:password@host:465";
        let url = Url::parse(text).map_err(|_not_a_url| FORM)?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(FORM)?;
        // The brackets of an IPv6 address belong to the URL.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (user, Some(password)) => Some((decoded(user), decoded(password))),
            (_, None) => return Err("names a user without a password: smtp://user:password@host"),
        };
        let is_local = match Host::parse(&host) {
            Ok(Host::Ipv4(address)) => address.is_loopback(),
            Ok(Host::Domain(name)) => name == "localhost",
            Ok(Host::Ipv6(_)) | Err(_) => host == "::1",
        };
        let tls = url.query_pairs().find(|(name, _)| name == "tls").map(|(_, value)| value.into_owned());
        let security = match (url.scheme(), tls.as_deref()) {
            ("smtps", None | Some("required")) => Security::Tls,
            ("smtp", Some("required")) => Security::StartTls,
            ("smtp", Some("none")) => Security::None,
            ("smtp", None) if login.is_some() && !is_local => Security::StartTls,
            ("smtp", None) => Security::StartTlsWhenOffered,
            ("smtp" | "smtps", Some(_)) => return Err("takes ?tls=required or, with smtp://, ?tls=none"),
            _ => return Err(FORM),
        };
        let usual = if security == Security::Tls { 465 } else { 587 };
        let security_without_login = if tls.is_none() && security == Security::StartTls {
            Security::StartTlsWhenOffered
        } else {
            security
        };
        Ok(Self { port: url.port().unwrap_or(usual), host, login, security, security_without_login })
    }

    /// `host:port`, for messages.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl std::fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SmtpUrl({})", self.address())
    }
}

/// A connection pool to one SMTP server.
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    /// The same without a login, for servers that do not support AUTH.
    without_login: Option<AsyncSmtpTransport<Tokio1Executor>>,
    sender: Mailbox,
    headers: Vec<(HeaderName, String)>,
}

impl std::fmt::Debug for Smtp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Smtp")
    }
}

/// A mail to send.
pub(super) struct Outgoing<'a> {
    pub(super) id: &'a str,
    pub(super) kind: &'a str,
    pub(super) to: &'a str,
    pub(super) created_at: Timestamp,
    pub(super) content: Content,
}

impl Smtp {
    /// Creates the pool; connections are opened on demand. Must be called within a runtime.
    ///
    /// # Errors
    /// Describes what is wrong with the configuration.
    pub fn new(config: &SmtpConfig) -> Result<Self, String> {
        let server = &config.server;
        let headers = config.headers.iter().map(|(name, value)| {
            let name = HeaderName::new_from_ascii(name.clone())
                .map_err(|_invalid| format!("{name:?} is not a header name"))?;
            Ok((name, value.clone()))
        });
        Ok(Self {
            transport: transport(config, server.security, server.login.as_ref())?,
            without_login: match server.login {
                Some(_) => Some(transport(config, server.security_without_login, None)?),
                None => None,
            },
            sender: sender(&config.from, &config.sender_name)?,
            headers: headers.collect::<Result<_, String>>()?,
        })
    }

    /// Connects, greets and logs in.
    ///
    /// # Errors
    /// One of these steps fails.
    pub async fn check(&self) -> Result<(), Failure> {
        let mut result = self.transport.test_connection().await;
        if let Some(without_login) = self.without_login.as_ref().filter(|_| is_unsupported(&result)) {
            result = without_login.test_connection().await;
        }
        match result {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::transient("the server closed the connection")),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Sends a mail and returns its `Message-ID`.
    pub(super) async fn send(&self, mail: Outgoing<'_>) -> Result<String, Failure> {
        let id = self.message_id(&mail);
        let message = self.message(mail, &id)?;
        let mut result = self.transport.send(message.clone()).await;
        if let Some(without_login) = self.without_login.as_ref().filter(|_| is_unsupported(&result)) {
            result = without_login.send(message).await;
        }
        result.map(|_taken| id).map_err(|error| failure(&error))
    }

    /// Equal for all attempts, so that mail servers can recognise duplicates.
    fn message_id(&self, mail: &Outgoing<'_>) -> String {
        format!("<{}.{}@{}>", mail.id, mail.created_at.as_microsecond(), self.sender.email.domain())
    }

    /// Closes the connections.
    pub(super) async fn close(&self) {
        self.transport.shutdown().await;
        if let Some(without_login) = &self.without_login {
            without_login.shutdown().await;
        }
    }

    fn message(&self, mail: Outgoing<'_>, message_id: &str) -> Result<Message, Failure> {
        let Outgoing { kind, to, content, .. } = mail;
        let to: Address =
            to.parse().map_err(|_invalid| Failure::permanent("the recipient is not an e-mail address"))?;
        let mut from = self.sender.clone();
        let mut builder = Message::builder();
        if let Some(author) = content.author {
            from.name = Some(author.sender_name);
            builder = builder.reply_to(sender(&author.reply_to, "").map_err(Failure::permanent)?);
        }
        let mut message = builder
            .from(from)
            .to(Mailbox::new(None, to))
            .subject(content.subject)
            .message_id(Some(message_id.to_owned()))
            .multipart(MultiPart::alternative_plain_html(content.text, content.html))
            .map_err(|error| Failure::permanent(format!("cannot build the mail: {error}")))?;
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        message.headers_mut().insert_raw(HeaderValue::new(automatic, "auto-generated".to_owned()));
        if let Some(url) = content.unsubscribe_url {
            for (name, value) in [
                ("List-Unsubscribe", format!("<{url}>")),
                ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()),
            ] {
                message
                    .headers_mut()
                    .insert_raw(HeaderValue::new(HeaderName::new_from_ascii_str(name), value));
            }
        }
        for (name, value) in &self.headers {
            let value = value.replace("$messageType", kind);
            message.headers_mut().insert_raw(HeaderValue::new(name.clone(), value));
        }
        Ok(message)
    }
}

fn transport(
    config: &SmtpConfig,
    security: Security,
    login: Option<&(String, String)>,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let SmtpUrl { host, port, .. } = &config.server;
    let tls =
        || TlsParameters::new(host.clone()).map_err(|error| format!("cannot set up TLS for {host}: {error}"));
    let tls = match security {
        Security::None => Tls::None,
        Security::StartTlsWhenOffered => Tls::Opportunistic(tls()?),
        Security::StartTls => Tls::Required(tls()?),
        Security::Tls => Tls::Wrapper(tls()?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host.as_str())
        .port(*port)
        .tls(tls)
        .timeout(Some(config.timeout))
        .pool_config(PoolConfig::new().max_size(config.connections));
    if let Some((user, password)) = login {
        builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
    }
    Ok(builder.build())
}

/// Whether the server lacks an extension that we need (AUTH, STARTTLS).
fn is_unsupported<T>(result: &Result<T, smtp::Error>) -> bool {
    result.as_ref().is_err_and(smtp::Error::is_client)
}

/// Parses a sender.
///
/// # Errors
/// `address` is not an e-mail address.
pub fn sender(address: &str, name: &str) -> Result<Mailbox, String> {
    let address: Address = address
        .parse()
        .map_err(|_invalid| format!("{address:?} is not an e-mail address such as noreply@example.org"))?;
    Ok(Mailbox::new(Some(name.to_owned()).filter(|name| !name.is_empty()), address))
}

fn failure(error: &smtp::Error) -> Failure {
    let detail = basalt_core::error::with_cause(error);
    let Some(code) = error.status() else {
        // No reply, so the text does not quote the server.
        return Failure::transient(detail);
    };
    let code = u16::from(code);
    // RFC 4954: authentication is required, too weak, or was rejected.
    let is_login = matches!(code, 530 | 534 | 535 | 538);
    let is_transient = is_login || !error.is_permanent();
    let reason = if is_login {
        format!("the server rejected the login with {code}: check mail.smtp_url")
    } else {
        format!("the server replied with {code}")
    };
    Failure { is_transient, reason, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(url: &str) -> Security {
        SmtpUrl::parse(url).unwrap().security
    }

    #[test]
    fn login_requires_tls_except_on_localhost() {
        assert_eq!(security("smtp://u:p@mail.example.org"), Security::StartTls);
        let catcher = SmtpUrl::parse("smtp://u:p@mail").unwrap();
        assert_eq!(catcher.security_without_login, Security::StartTlsWhenOffered);
        assert_eq!(security("smtp://mail.example.org"), Security::StartTlsWhenOffered);
        assert_eq!(security("smtp://u:p@127.0.0.1:2500"), Security::StartTlsWhenOffered);
        assert_eq!(security("smtp://u:p@[::1]:2500"), Security::StartTlsWhenOffered);
        assert_eq!(security("smtp://mail.example.org?tls=required"), Security::StartTls);
        assert_eq!(security("smtp://u:p@mail.internal?tls=none"), Security::None);
        assert_eq!(security("smtps://u:p@mail.example.org"), Security::Tls);
    }

    #[test]
    fn parses_ports_and_escapes() {
        let url = SmtpUrl::parse("smtp://ada%40example.org:p%3Aw%2Fd@mail.example.org").unwrap();
        assert_eq!(url.address(), "mail.example.org:587");
        assert_eq!(url.login, Some(("ada@example.org".to_owned(), "p:w/d".to_owned())));
        assert_eq!(SmtpUrl::parse("smtps://mail.example.org").unwrap().port, 465);
        assert_eq!(SmtpUrl::parse("smtp://[::1]:25").unwrap().host, "::1");
        assert!(!format!("{url:?}").contains("p:w"));
    }

    #[test]
    fn error_about_invalid_url_omits_the_login() {
        for url in [
            "http://mail",
            "smtp://",
            "mail.example.org:25",
            "smtps://h?tls=none",
            "smtp://h?tls=yes",
            "smtp://u@h",
        ] {
            let fault = SmtpUrl::parse(url).unwrap_err();
            assert!(
                fault.starts_with("must read") || fault.starts_with("takes") || fault.starts_with("names")
            );
        }
    }
}
