//! `POST /resend`: resends a pending confirmation (auth.md §3.9). The response is the same for unknown addresses and for users
//! without one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::Deserialize;

use crate::audit::{self, Action};
use crate::codes::challenge::{Challenge, ChallengeFields};
use crate::database;
use crate::error::AuthError;
use crate::fields::filled;
use crate::flows::code_emails::CodeEmails;
use crate::flows::code_sms::CodeSms;
use crate::flows::sign_up::Contact;
use crate::http::protected::read_protected_json;
use crate::http::request::RequestContext;
use crate::http::routes::otp::message_response;
use crate::sms::{Channel, SmsKind};
use crate::state::Auth;
use crate::users::address;
use crate::users::{self, User};

#[derive(Deserialize)]
struct ResendBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    email: Option<String>,
    phone: Option<String>,
    #[serde(flatten)]
    challenge: ChallengeFields,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Signup,
    EmailChange,
    Sms,
    PhoneChange,
}

impl ResendBody {
    fn checked(&self, auth: &Auth) -> Result<(Kind, Contact, Option<Challenge>), AuthError> {
        let kind = match self.kind.as_deref() {
            Some("signup") => Kind::Signup,
            Some("email_change") => Kind::EmailChange,
            Some("sms") => Kind::Sms,
            Some("phone_change") => Kind::PhoneChange,
            Some(_) | None => {
                return Err(AuthError::validation(
                    "Missing one of these types: signup, email_change, sms, phone_change",
                ));
            }
        };
        let (email, phone) = (filled(&self.email), filled(&self.phone));
        if email.is_none() && kind == Kind::Signup {
            return Err(AuthError::validation("Type provided requires an email address"));
        }
        if phone.is_none() && kind == Kind::Sms {
            return Err(AuthError::validation("Type provided requires a phone number"));
        }
        let contact = match (email, phone) {
            (Some(_), Some(_)) => {
                return Err(AuthError::validation(
                    "Only an email address or phone number should be provided.",
                ));
            }
            (Some(_), None) if !auth.config.external_email_enabled => {
                return Err(AuthError::MailRoutesDisabled);
            }
            (Some(email), None) => Contact::Email(address::email(email)?),
            (None, Some(_)) if !auth.config.external_phone_enabled => {
                return Err(AuthError::MessageRoutesDisabled);
            }
            (None, Some(phone)) => Contact::Phone(address::phone(phone)?),
            (None, None) => return Err(AuthError::validation("Missing email address or phone number")),
        };
        let challenge = self.challenge.read()?;
        Ok((kind, contact, challenge))
    }
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.resend.check(request.address())?;
    let body: ResendBody = read_protected_json(&auth, &request, body).await?;
    let (kind, contact, challenge) = body.checked(&auth)?;
    if let Contact::Email(email) = &contact {
        auth.mailer.check_recipient(email)?;
    }
    let padding = auth.response_times.start();
    let resent = match &contact {
        Contact::Email(email) => {
            let emails = CodeEmails::about_address(&auth, &request.origin, challenge)?;
            resend_email(&auth, &request, kind, email, emails).await.map(|()| None)
        }
        Contact::Phone(phone) => resend_sms(&auth, &request, kind, phone).await,
    };
    padding.wait().await;
    Ok(message_response(resent?))
}

async fn resend_email(
    auth: &Auth,
    request: &RequestContext,
    kind: Kind,
    email: &str,
    mut emails: CodeEmails<'_>,
) -> Result<(), AuthError> {
    let audience = auth.audience(&request.origin);
    let tx = auth.begin(&request.origin).await?;
    let resent = async {
        let Some(user) = users::lock_by_email(&tx, email, audience).await? else { return Ok(()) };
        match kind {
            Kind::Signup if user.email_confirmed_at.is_none() => {
                record(auth, request, &tx, &user, "email", emails.now).await?;
                emails.confirmation(&tx, &user).await
            }
            Kind::EmailChange if !user.email_change.is_empty() => {
                emails.email_change(&tx, &user, &user.email_change).await
            }
            Kind::Signup | Kind::EmailChange | Kind::Sms | Kind::PhoneChange => Ok(()),
        }
    }
    .await;
    database::finish(tx, resent).await?;
    emails.deliver().await
}

/// Returns the message's id, if it has one. `phone_change` is looked up by the current number, like `email_change`.
async fn resend_sms(
    auth: &Auth,
    request: &RequestContext,
    kind: Kind,
    phone: &str,
) -> Result<Option<String>, AuthError> {
    let audience = auth.audience(&request.origin);
    let sms_kind = if kind == Kind::PhoneChange { SmsKind::PhoneChange } else { SmsKind::Confirmation };
    let mut sms = match kind {
        Kind::Sms => CodeSms::about_number(auth, &request.origin, Channel::Sms, phone, sms_kind)?,
        // The message goes to another number.
        Kind::PhoneChange | Kind::Signup | Kind::EmailChange => {
            CodeSms::new(auth, &request.origin, Channel::Sms)
        }
    };
    let tx = auth.begin(&request.origin).await?;
    let resent = async {
        let Some(user) = users::lock_by_phone(&tx, phone, audience).await? else { return Ok(()) };
        match kind {
            Kind::Sms if user.phone_confirmed_at.is_none() => {
                record(auth, request, &tx, &user, "phone", sms.now).await?;
                sms.confirmation(&tx, &user).await
            }
            Kind::PhoneChange if !user.phone_change.is_empty() => {
                sms.phone_change(&tx, &user, &user.phone_change).await
            }
            Kind::Signup | Kind::EmailChange | Kind::Sms | Kind::PhoneChange => Ok(()),
        }
    }
    .await;
    database::finish(tx, resent).await?;
    sms.deliver().await
}

async fn record(
    auth: &Auth,
    request: &RequestContext,
    tx: &Tx,
    user: &User,
    provider: &str,
    now: Timestamp,
) -> Result<(), AuthError> {
    let traits = audit::provider(provider);
    let audit_log = auth.audit_log(&request.origin.client);
    audit_log.record(tx, user, Action::UserConfirmationRequested, traits, now).await
}
