//! The JSON API, compatible with Mailpit's.

use super::store::{CAPACITY, Delivered};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::search::Search;
use super::{Failure, Mailbox, NOT_FOUND, PageRequest, json as answer, plain};

/// Default of `limit`.
const PAGE: usize = 50;
/// Characters of the text shown in lists.
const SNIPPET: usize = 200;

#[derive(Deserialize)]
struct Deletion {
    #[serde(rename = "IDs", default)]
    ids: Vec<Value>,
}

impl Mailbox {
    /// The mails that match `query`, newest first.
    pub(super) async fn found(&self, query: &str) -> Result<Vec<Delivered>, Failure> {
        let search = Search::parse(query);
        let mut mails = self.store.list(search.recipient()).await?;
        mails.retain(|mail| search.finds(mail));
        Ok(mails)
    }

    /// A mail by its id, or the newest as `latest`.
    pub(super) async fn one(&self, id: &str) -> Result<Delivered, Failure> {
        let id = match id {
            "latest" => self.store.state().await?.1,
            id => id.parse().map_err(|_not_ours| NOT_FOUND)?,
        };
        self.store.get(id).await?.ok_or(NOT_FOUND)
    }

    pub(super) async fn info(&self) -> Result<Response, Failure> {
        let (count, latest) = self.store.state().await?;
        Ok(answer(&json!({
            "Version": env!("CARGO_PKG_VERSION"), "Messages": count, "Unread": count, "Latest": latest.to_string(),
        })))
    }

    pub(super) async fn messages(&self, request: &PageRequest, query: &str) -> Result<Response, Failure> {
        let number = |name, default| request.parameter(name).parse::<usize>().unwrap_or(default);
        let (start, limit) = (number("start", 0), number("limit", PAGE));
        let mails = self.found(query).await?;
        let (total, _) = self.store.state().await?;
        let shown: Vec<Value> = mails.iter().skip(start).take(limit).map(|mail| self.summary(mail)).collect();
        Ok(answer(&json!({
            "total": total.min(CAPACITY),
            "unread": total.min(CAPACITY),
            "count": shown.len(),
            "messages_count": mails.len(),
            "messages_unread": mails.len(),
            "start": start,
            "tags": [],
            "messages": shown,
        })))
    }

    pub(super) async fn message(&self, id: &str) -> Result<Response, Failure> {
        let mail = self.one(id).await?;
        Ok(answer(&json!({
            "ID": mail.id.to_string(),
            "MessageID": message_id(&mail),
            "From": self.from(),
            "To": to(&mail),
            "Cc": [],
            "Bcc": [],
            "ReplyTo": [],
            "ReturnPath": self.sender.address,
            "Subject": mail.content.subject,
            "Date": mail.created_at.to_string(),
            "Tags": [],
            "Text": mail.content.text,
            "HTML": mail.content.html,
            "Size": size(&mail),
            "Inline": [],
            "Attachments": [],
        })))
    }

    /// Deletes the mails listed in the body (`{"IDs":[…]}`); all if the body or the list is empty.
    pub(super) async fn delete(&self, body: &[u8]) -> Result<Response, Failure> {
        let ids = if body.trim_ascii().is_empty() {
            Vec::new()
        } else {
            let deletion: Deletion = serde_json::from_slice(body).map_err(|_| {
                Failure::Status(StatusCode::BAD_REQUEST, "invalid body: expected {\"IDs\":[\"1\"]}\n")
            })?;
            deletion.ids
        };
        if ids.is_empty() {
            self.store.delete(None).await?;
        } else {
            let ids: Vec<i64> = ids
                .iter()
                .filter_map(|id| id.as_str().map_or_else(|| id.as_i64(), |id| id.parse().ok()))
                .collect();
            self.store.delete(Some(&ids)).await?;
        }
        Ok(plain(StatusCode::OK, "ok"))
    }

    fn summary(&self, mail: &Delivered) -> Value {
        json!({
            "ID": mail.id.to_string(),
            "MessageID": message_id(mail),
            "Read": false,
            "From": self.from(),
            "To": to(mail),
            "Cc": [],
            "Bcc": [],
            "ReplyTo": [],
            "Subject": mail.content.subject,
            "Created": mail.created_at.to_string(),
            "Username": "",
            "Tags": [],
            "Size": size(mail),
            "Attachments": 0,
            "Snippet": snippet(mail),
        })
    }

    fn from(&self) -> Value {
        json!({ "Name": self.sender.name, "Address": self.sender.address })
    }
}

fn to(mail: &Delivered) -> Value {
    json!([{ "Name": "", "Address": mail.to }])
}

fn message_id(mail: &Delivered) -> String {
    format!("{}@mailbox.localhost", mail.id)
}

fn size(mail: &Delivered) -> usize {
    mail.content.html.len() + mail.content.text.len()
}

/// The beginning of the text on one line, without a heading that repeats the subject.
pub(super) fn snippet(mail: &Delivered) -> String {
    let text = mail.content.text.trim_start();
    let text = text.strip_prefix(&mail.content.subject).unwrap_or(text);
    let words: Vec<&str> = text.split_whitespace().take(SNIPPET / 2).collect();
    let text = words.join(" ");
    match text.char_indices().nth(SNIPPET) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
