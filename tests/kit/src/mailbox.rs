//! Reads mails from a development server's mailbox.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::http::{Request, Response};
use crate::server::Basalt;

const LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// A server's mailbox.
#[derive(Debug)]
pub struct Mailbox<'a> {
    server: &'a Basalt,
}

/// A mail.
#[derive(Clone, Debug)]
pub struct Mail {
    /// Its id in the mailbox.
    pub id: String,
    /// The recipient.
    pub to: String,
    /// Subject.
    pub subject: String,
    /// HTML part.
    pub html: String,
    /// Plain part.
    pub text: String,
}

impl Basalt {
    /// Its mailbox.
    #[must_use]
    pub fn mailbox(&self) -> Mailbox<'_> {
        Mailbox { server: self }
    }
}

impl Mailbox<'_> {
    /// The oldest mail to `to` that no earlier call returned. A mail is stored before the request that caused it returns, so
    /// this rarely waits.
    ///
    /// # Panics
    /// If none arrives in time.
    pub async fn wait_for(&self, to: &str) -> Mail {
        let deadline = Instant::now() + LIMIT;
        loop {
            let mails = self.mails(to).await;
            if let Some(mail) = mails.into_iter().find(|mail| self.server.reads(&mail.id)) {
                return mail;
            }
            assert!(Instant::now() < deadline, "no new mail to {to}");
            sleep(POLL).await;
        }
    }

    /// All mails to `to`, oldest first, including those already returned.
    ///
    /// # Panics
    /// If the mailbox does not respond.
    pub async fn mails(&self, to: &str) -> Vec<Mail> {
        let query: String = to.replace('%', "%25").replace('+', "%2B").replace('&', "%26");
        let found =
            self.get(&format!("/mailbox/api/v1/search?limit=500&query=to:%22{query}%22")).await.json();
        let mut mails = Vec::new();
        for summary in found.get("messages").and_then(Value::as_array).into_iter().flatten().rev() {
            let mail = self.get(&format!("/mailbox/api/v1/message/{}", text(summary, "/ID"))).await.json();
            let mail = Mail {
                id: text(&mail, "/ID"),
                to: text(&mail, "/To/0/Address"),
                subject: text(&mail, "/Subject"),
                html: text(&mail, "/HTML"),
                text: text(&mail, "/Text"),
            };
            if mail.to.eq_ignore_ascii_case(to) {
                mails.push(mail);
            }
        }
        mails
    }

    /// Deletes all mails.
    ///
    /// # Panics
    /// If the mailbox does not respond.
    pub async fn clear(&self) {
        let _ok = self.ask(Method::DELETE, "/mailbox/api/v1/messages").await.expect(200);
    }

    async fn get(&self, path: &str) -> Response {
        self.ask(Method::GET, path).await.expect(200)
    }

    async fn ask(&self, method: Method, path: &str) -> Response {
        Request::new(method, self.server.url(path)).send().await
    }
}

impl Mail {
    /// The code: the first word of 6 to 10 digits, preferably alone on a line.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn code(&self) -> String {
        let is_code =
            |word: &&str| (6..=10).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
        let lines = self.text.lines().map(str::trim);
        let words = self.text.split(|c: char| !c.is_alphanumeric());
        lines.chain(words).find(is_code).unwrap_or_else(|| panic!("no code in {}", self.text)).to_owned()
    }

    /// The link: the first URL with a `token`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn link(&self) -> String {
        self.text
            .split_whitespace()
            .find(|word| word.starts_with("http") && word.contains("token"))
            .unwrap_or_else(|| panic!("no link in {}", self.text))
            .to_owned()
    }

    /// The path and query of [`link`](Self::link).
    ///
    /// # Panics
    /// If there is no link.
    #[must_use]
    pub fn link_path(&self) -> String {
        let link = self.link();
        let after = link.split_once("://").map_or(link.as_str(), |(_, rest)| rest);
        after.find('/').and_then(|start| after.get(start..)).unwrap_or("/").to_owned()
    }

    /// The token hash in the link.
    ///
    /// # Panics
    /// If there is no link, or no token in it.
    #[must_use]
    pub fn token_hash(&self) -> String {
        let link = self.link();
        let (_, query) = link.split_once('?').unwrap_or_else(|| panic!("no query in {link}"));
        let token = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("token=").or_else(|| pair.strip_prefix("token_hash=")));
        token.unwrap_or_else(|| panic!("no token in {link}")).to_owned()
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
