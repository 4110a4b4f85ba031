//! `POST /signup`: by e-mail, by phone, or anonymously (auth.md §3.3, §3.4). Validation in the contract's order; the rest is
//! [`crate::flows::sign_up`].

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::codes::challenge::{Challenge, ChallengeFields};
use crate::error::AuthError;
use crate::fields::text;
use crate::flows::sign_up::{self, Contact, SignUp, SignedUp};
use crate::http::protected::read_protected_json;
use crate::http::request::RequestContext;
use crate::http::routes::token;
use crate::http::wire::UserBody;
use crate::sms::Channel;
use crate::state::Auth;
use crate::users::Object;
use crate::users::address;

#[derive(Deserialize)]
struct SignupBody {
    email: Option<String>,
    phone: Option<String>,
    password: Option<String>,
    data: Option<Object>,
    channel: Option<String>,
    #[serde(flatten)]
    challenge: ChallengeFields,
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let body: SignupBody = read_protected_json(&auth, &request, body).await?;
    let (email, phone) = (text(&body.email), text(&body.phone));
    if email.is_empty() && phone.is_empty() {
        if !auth.config.external_anonymous_users_enabled {
            return Err(AuthError::AnonymousDisabled);
        }
        auth.limits.anonymous.check(request.address())?;
        if auth.config.disable_signup {
            return Err(AuthError::SignupDisabled);
        }
        let granted = sign_up::anonymous(&auth, &request.origin, body.data.unwrap_or_default()).await?;
        return token::answer(&auth, &request.origin, &granted).await;
    }
    auth.limits.signup.check(request.address())?;
    let (contact, challenge, channel) = check(&auth, &body, email, phone).await?;
    let sign_up = SignUp {
        channel,
        contact,
        password: text(&body.password).to_owned(),
        data: body.data.unwrap_or_default(),
        challenge,
    };
    match Box::pin(sign_up.run(&auth, &request.origin)).await? {
        SignedUp::SignedIn(granted) => token::answer(&auth, &request.origin, &granted).await,
        SignedUp::Unconfirmed(account) => Ok(Json(UserBody::from(account.as_ref())).into_response()),
    }
}

async fn check(
    auth: &Auth,
    body: &SignupBody,
    email: &str,
    phone: &str,
) -> Result<(Contact, Option<Challenge>, Channel), AuthError> {
    let config = &auth.config;
    if config.disable_signup {
        return Err(AuthError::SignupDisabled);
    }
    let password = text(&body.password);
    if password.is_empty() {
        return Err(AuthError::validation("Signup requires a valid password"));
    }
    auth.password_rules.check(password).await?;
    if !email.is_empty() && !phone.is_empty() {
        return Err(AuthError::validation(
            "Only an email address or phone number should be provided on signup.",
        ));
    }
    let channel = if phone.is_empty() { Channel::Sms } else { channel(auth, text(&body.channel))? };
    let challenge = body.challenge.read()?;
    if !phone.is_empty() && challenge.is_some() {
        return Err(AuthError::validation("PKCE not supported for phone signups"));
    }
    let contact = if phone.is_empty() {
        if !config.external_email_enabled {
            return Err(AuthError::EmailSignupsDisabled);
        }
        Contact::Email(address::email(email)?)
    } else {
        if !config.external_phone_enabled {
            return Err(AuthError::PhoneSignupsDisabled);
        }
        Contact::Phone(address::phone(phone)?)
    };
    Ok((contact, challenge, channel))
}

/// The channel of a message. WhatsApp requires Twilio.
pub(crate) fn channel(auth: &Auth, name: &str) -> Result<Channel, AuthError> {
    match name {
        "" | "sms" => Ok(Channel::Sms),
        "whatsapp" if auth.sms.has_whatsapp() => Ok(Channel::WhatsApp),
        _ => Err(AuthError::validation(
            "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or Twilio \
             Verify is used as the provider.",
        )),
    }
}
