//! `test-mail-key`: checks a Resend account before the app saves it. `retry-mails`: makes waiting mails due now, for example after the key was
//! removed, and revives abandoned ones. For administrators (decision 0141).

use std::sync::Arc;

use axum::body::Body;
use basalt_mail::resend::AccountFault;
use http::StatusCode;
use http::request::Parts;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::invite_member::refusal;
use super::{Answer, Caller, fields, is_email, ok};
use crate::app::App;
use crate::refusal::Refusal;

/// How a masked key begins (`app_private.mask`).
const MASK: &str = "••••••••";
const KEY_CHARS: usize = 500;

pub(crate) async fn test_mail_key(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let from = fields.optional("fromEmail").filter(|from| is_email(from));
    let from = from.ok_or_else(|| Refusal::bad_request("Must be a valid email address"))?;
    let key = fields.optional("apiKey").filter(|key| !key.starts_with(MASK));
    if key.is_some_and(|key| key.chars().count() > KEY_CHARS) {
        return Err(Refusal::bad_request("This API key is too long"));
    }
    app.rates.mail_settings.take(caller.id.to_string())?;
    let tested = app.mailer.check_account(key.map(|key| SecretString::from(key.to_owned())), from).await;
    tested.map_err(|fault| match fault {
        AccountFault::Key(message) => {
            Refusal::bad_request(format!("Resend rejects this key: {message}")).with_code("api_key")
        }
        AccountFault::Domain(domain) => {
            let message =
                format!("{domain} is not a verified domain of this Resend account. Verify it there first.");
            Refusal::bad_request(message).with_code("from_email")
        }
        AccountFault::Unknown(reason) => {
            let message =
                format!("The key could not be tested, and nothing was saved: {reason}. Please try again.");
            Refusal::new(StatusCode::BAD_GATEWAY, message)
        }
    })?;
    ok(&json!({"success": true}))
}

pub(crate) async fn retry_mails(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let with_abandoned = fields.0.get("abandoned").and_then(Value::as_bool).unwrap_or_default();
    app.rates.mail_settings.take(caller.id.to_string())?;
    app.audit(caller.id, "retry_mails", "mail_outbox", "").await?;
    let retried = app.mailer.retry(with_abandoned).await.map_err(refusal)?;
    ok(&json!({"success": true, "retried": retried}))
}
