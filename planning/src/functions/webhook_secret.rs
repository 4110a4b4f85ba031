//! `set-webhook-secret`: an administrator stores the signing secret of the webhook endpoint (functions.md 3.16). It is stored
//! encrypted in the database, and every server uses it within a second.

use std::sync::Arc;

use axum::body::Body;
use http::request::Parts;
use secrecy::SecretString;
use serde_json::json;

use basalt_functions::secrets::SecretsError;

use super::{Answer, Caller, WEBHOOK_SECRET, fields, ok};
use crate::app::App;
use crate::refusal::Refusal;

pub(crate) async fn set_webhook_secret(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&app, &parts).await?;
    let fields = fields!(&parts, body);
    let secret =
        fields.optional("secret").ok_or_else(|| Refusal::bad_request("Webhook secret is required"))?;
    let is_base64 =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-');
    let is_secret = secret
        .strip_prefix("whsec_")
        .is_some_and(|rest| (8..=250).contains(&rest.len()) && rest.bytes().all(is_base64));
    if !is_secret {
        return Err(Refusal::bad_request("That is not a Stripe signing secret (it begins with whsec_)"));
    }
    if fields.has("secretName") && fields.optional("secretName") != Some(WEBHOOK_SECRET) {
        return Err(Refusal::bad_request("Unknown secret name"));
    }
    app.rates.webhook_secret.take(caller.id.to_string())?;
    app.audit(caller.id, "set_webhook_secret", "runtime_secrets", WEBHOOK_SECRET).await?;
    match app.secrets.set(WEBHOOK_SECRET, SecretString::from(secret), caller.id).await {
        Ok(()) => ok(&json!({"success": true, "message": "Webhook secret stored"})),
        Err(SecretsError::Refused(reason)) => Err(Refusal::bad_request(reason)),
        Err(SecretsError::Database(error)) => Err(error.into()),
    }
}
