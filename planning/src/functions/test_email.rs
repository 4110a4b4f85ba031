//! `test-email`: sends an administrator's test mail (functions.md 3.20). The mail bypasses the outbox, and the response includes the
//! provider's result.

use std::sync::Arc;

use axum::body::Body;
use basalt_core::html;
use basalt_mail::Message;
use http::StatusCode;
use http::request::Parts;
use serde_json::json;

use super::invite_member::refusal;
use super::{Answer, Caller, fields, is_email, ok};
use crate::app::App;
use crate::mailer::{MailError, TEST};
use crate::refusal::Refusal;

const SUBJECT_CHARS: usize = 200;
const MESSAGE_CHARS: usize = 10_000;

pub(crate) async fn test_email(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let to = fields.optional("to").filter(|to| is_email(to));
    let to = to.ok_or_else(|| Refusal::bad_request("Must be a valid email address"))?;
    let subject = fields.optional("subject").ok_or_else(|| Refusal::bad_request("Subject is required"))?;
    let text = fields.optional("message").ok_or_else(|| Refusal::bad_request("Message is required"))?;
    if subject.chars().count() > SUBJECT_CHARS || subject.contains(['\r', '\n']) {
        return Err(Refusal::bad_request("Subject must be one line of 200 characters at most"));
    }
    if text.chars().count() > MESSAGE_CHARS {
        return Err(Refusal::bad_request("Message must have 10,000 characters at most"));
    }
    app.rates.test_email.take(caller.id.to_string())?;
    let message = Message {
        kind: TEST,
        to: to.to_owned(),
        subject: subject.to_owned(),
        html: format!("<p>{}</p>", html::escape(text).replace('\n', "<br>\n")),
        text: text.to_owned(),
        idempotency_key: None,
        author: None,
        unsubscribe_url: None,
    };
    app.audit(caller.id, "test_email", "app_settings", "email_resend").await?;
    match app.mailer.send_now(message).await {
        Ok(id) => ok(&json!({"success": true, "message": "Test email sent", "id": id})),
        // Administrators may see the provider's message.
        Err(MailError::Refused(failure)) => Err(Refusal::new(StatusCode::BAD_GATEWAY, failure.detail)),
        Err(error) => Err(refusal(error)),
    }
}
