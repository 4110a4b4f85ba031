//! `POST /resend`: resends a pending confirmation (auth.md §3.9). The response is the same for unknown addresses and for users
//! without one.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_pg::pool::Tx;
use serde::Deserialize;
use serde_json::json;

use crate::audit::{self, Action};
use crate::codes::challenge::{Challenge, ChallengeFields};
use crate::database;
use crate::error::AuthError;
use crate::fields::filled;
use crate::flows::code_emails::CodeEmails;
use crate::flows::sign_up::Contact;
use crate::http::request::{RequestContext, read_json};
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
    let body: ResendBody = read_json(body).await?;
    let (kind, contact, challenge) = body.checked(&auth)?;
    if let Contact::Email(email) = &contact {
        auth.mailer.check_recipient(email)?;
    }
    let emails = CodeEmails::about_address(&auth, &request.origin, challenge)?;
    let padding = auth.response_times.start();
    let resent = resend(&auth, &request, kind, &contact, emails).await;
    padding.wait().await;
    resent?;
    Ok(Json(json!({})).into_response())
}

async fn resend(
    auth: &Auth,
    request: &RequestContext,
    kind: Kind,
    contact: &Contact,
    mut emails: CodeEmails<'_>,
) -> Result<(), AuthError> {
    let audience = auth.audience(&request.origin);
    let tx = auth.begin(&request.origin).await?;
    let resent = async {
        let found = match contact {
            Contact::Email(email) => users::lock_by_email(&tx, email, audience).await?,
            Contact::Phone(phone) => users::find_by_phone(&tx, phone, audience).await?,
        };
        match found {
            Some(user) => resend_to(auth, request, &tx, kind, &user, &mut emails).await,
            None => Ok(()),
        }
    }
    .await;
    database::finish(tx, resent).await?;
    emails.sent();
    Ok(())
}

async fn resend_to(
    auth: &Auth,
    request: &RequestContext,
    tx: &Tx,
    kind: Kind,
    user: &User,
    emails: &mut CodeEmails<'_>,
) -> Result<(), AuthError> {
    match kind {
        Kind::Signup if user.email_confirmed_at.is_none() => {
            let action = Action::UserConfirmationRequested;
            auth.audit_log(&request.origin.client)
                .record(tx, user, action, audit::provider("email"), emails.now)
                .await?;
            emails.confirmation(tx, user).await
        }
        Kind::EmailChange if !user.email_change.is_empty() => {
            emails.email_change(tx, user, &user.email_change).await
        }
        Kind::Sms if user.phone_confirmed_at.is_none() => Err(AuthError::SmsSendFailed("confirmation")),
        Kind::PhoneChange if !user.phone_change.is_empty() => Err(AuthError::SmsSendFailed("phone_change")),
        Kind::Signup | Kind::EmailChange | Kind::Sms | Kind::PhoneChange => Ok(()),
    }
}
