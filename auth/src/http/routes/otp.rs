//! `POST /otp` and `POST /magiclink`: mails a code or link that signs in (auth.md §3.9). Validation in the contract's order; the
//! rest is [`crate::flows::magic_link`].

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::codes::challenge::ChallengeFields;
use crate::database;
use crate::error::AuthError;
use crate::fields::text;
use crate::flows::magic_link::MagicLink;
use crate::http::request::{RequestContext, read_json};
use crate::http::routes::signup::check_channel;
use crate::state::Auth;
use crate::users::address;
use crate::users::{self, Object};

#[derive(Deserialize)]
struct OtpBody {
    email: Option<String>,
    phone: Option<String>,
    create_user: Option<bool>,
    data: Option<Object>,
    channel: Option<String>,
    #[serde(flatten)]
    challenge: ChallengeFields,
}

/// `/otp`.
pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.otp.check(request.address())?;
    let body: OtpBody = read_json(body).await?;
    run(&auth, &request, body).await
}

/// `/magiclink`: the older route, by mail only, always with `create_user`.
pub(crate) async fn magiclink(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.magiclink.check(request.address())?;
    let body: OtpBody = read_json(body).await?;
    run(&auth, &request, OtpBody { phone: None, channel: None, create_user: None, ..body }).await
}

async fn run(auth: &Auth, request: &RequestContext, body: OtpBody) -> Result<Response, AuthError> {
    let (email, phone, channel) = (text(&body.email), text(&body.phone), text(&body.channel));
    if !email.is_empty() && !phone.is_empty() {
        return Err(AuthError::validation("Only an email address or phone number should be provided"));
    }
    if !email.is_empty() && !channel.is_empty() {
        return Err(AuthError::validation("Channel should only be specified with Phone OTP"));
    }
    let challenge = body.challenge.read()?;
    if email.is_empty() && phone.is_empty() {
        return Err(AuthError::validation("One of email or phone must be set"));
    }
    let may_create = body.create_user.unwrap_or(true);
    if email.is_empty() {
        by_message(auth, request, phone, channel, may_create).await?;
    } else {
        if !auth.config.external_email_enabled {
            return Err(AuthError::EmailLoginsDisabled);
        }
        if !auth.config.external_email_magic_link_enabled {
            return Err(AuthError::MagicLinkDisabled);
        }
        let email = address::email(email)?;
        auth.mailer.check_recipient(&email)?;
        let data = body.data.unwrap_or_default();
        Box::pin(MagicLink { email, data, challenge, may_create }.run(auth, &request.origin)).await?;
    }
    Ok(Json(json!({})).into_response())
}

/// Always an error: no SMS provider is implemented yet.
async fn by_message(
    auth: &Auth,
    request: &RequestContext,
    phone: &str,
    channel: &str,
    may_create: bool,
) -> Result<(), AuthError> {
    if !auth.config.external_phone_enabled {
        return Err(AuthError::UnsupportedPhoneProvider);
    }
    let phone = address::phone(phone)?;
    check_channel(channel)?;
    let audience = auth.audience(&request.origin);
    let tx = auth.begin(&request.origin).await?;
    let found = users::find_by_phone(&tx, &phone, audience).await;
    let is_unknown = database::finish(tx, found).await?.is_none();
    Err(match (is_unknown, may_create, auth.config.disable_signup) {
        (true, false, _) => AuthError::OtpDisabled,
        (true, true, true) => AuthError::SignupDisabled,
        _ => AuthError::SmsSendFailed("confirmation"),
    })
}
