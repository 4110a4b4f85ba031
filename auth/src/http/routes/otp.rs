//! `POST /otp` and `POST /magiclink`: sends a code or link that signs in (auth.md §3.9). Validation in the contract's order; the
//! rest is [`crate::flows::magic_link`] and [`crate::flows::phone_sign_in`].

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::codes::challenge::ChallengeFields;
use crate::error::AuthError;
use crate::fields::text;
use crate::flows::magic_link::MagicLink;
use crate::flows::phone_sign_in::PhoneSignIn;
use crate::http::protected::read_protected_json;
use crate::http::request::RequestContext;
use crate::http::routes::signup::channel;
use crate::state::Auth;
use crate::users::Object;
use crate::users::address;

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
    let body: OtpBody = read_protected_json(&auth, &request, body).await?;
    run(&auth, &request, body).await
}

/// `/magiclink`: the older route, by mail only, always with `create_user`.
pub(crate) async fn magiclink(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.magiclink.check(request.address())?;
    let body: OtpBody = read_protected_json(&auth, &request, body).await?;
    run(&auth, &request, OtpBody { phone: None, channel: None, create_user: None, ..body }).await
}

async fn run(auth: &Auth, request: &RequestContext, body: OtpBody) -> Result<Response, AuthError> {
    let (email, phone, channel_name) = (text(&body.email), text(&body.phone), text(&body.channel));
    if !email.is_empty() && !phone.is_empty() {
        return Err(AuthError::validation("Only an email address or phone number should be provided"));
    }
    if !email.is_empty() && !channel_name.is_empty() {
        return Err(AuthError::validation("Channel should only be specified with Phone OTP"));
    }
    let challenge = body.challenge.read()?;
    if email.is_empty() && phone.is_empty() {
        return Err(AuthError::validation("One of email or phone must be set"));
    }
    let may_create = body.create_user.unwrap_or(true);
    let data = body.data.unwrap_or_default();
    if email.is_empty() {
        if !auth.config.external_phone_enabled {
            return Err(AuthError::UnsupportedPhoneProvider);
        }
        let phone = address::phone(phone)?;
        let channel = channel(auth, channel_name)?;
        let sign_in = PhoneSignIn::new(phone, data, channel, may_create);
        let message_id = Box::pin(sign_in.run(auth, &request.origin)).await?;
        return Ok(message_response(message_id));
    }
    if !auth.config.external_email_enabled {
        return Err(AuthError::EmailLoginsDisabled);
    }
    if !auth.config.external_email_magic_link_enabled {
        return Err(AuthError::MagicLinkDisabled);
    }
    let email = address::email(email)?;
    auth.mailer.check_recipient(&email)?;
    let magic_link = MagicLink::new(email, data, challenge, may_create);
    Box::pin(magic_link.run(auth, &request.origin)).await?;
    Ok(message_response(None))
}

/// The response of routes that send a message: its id if there is one.
pub(crate) fn message_response(message_id: Option<String>) -> Response {
    Json(message_id.map_or_else(|| json!({}), |id| json!({ "message_id": id }))).into_response()
}
