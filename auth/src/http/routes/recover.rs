//! `POST /recover`: mails a password reset link (auth.md §3.9). Neither body, status nor time of the response reveal whether the
//! address has an account.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::audit::Action;
use crate::codes::challenge::{Challenge, ChallengeFields};
use crate::database;
use crate::error::AuthError;
use crate::fields::text;
use crate::flows::code_emails::CodeEmails;
use crate::http::protected::read_protected_json;
use crate::http::request::RequestContext;
use crate::state::Auth;
use crate::users;
use crate::users::address;

#[derive(Deserialize)]
struct RecoverBody {
    email: Option<String>,
    #[serde(flatten)]
    challenge: ChallengeFields,
}

impl RecoverBody {
    fn checked(&self, auth: &Auth) -> Result<(String, Option<Challenge>), AuthError> {
        let email = text(&self.email);
        if email.is_empty() {
            return Err(AuthError::validation("Password recovery requires an email"));
        }
        if !auth.config.external_email_enabled {
            return Err(AuthError::MailRoutesDisabled);
        }
        let email = address::email(email)?;
        let challenge = self.challenge.read()?;
        Ok((email, challenge))
    }
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.recover.check(request.address())?;
    let body: RecoverBody = read_protected_json(&auth, &request, body).await?;
    let (email, challenge) = body.checked(&auth)?;
    auth.mailer.check_recipient(&email)?;
    let emails = CodeEmails::about_address(&auth, &request.origin, challenge)?;
    let padding = auth.response_times.start();
    let asked = ask(&auth, &request, &email, emails).await;
    padding.wait().await;
    match asked {
        Err(AuthError::MailTooSoon { .. }) if !auth.config.mailer_recovery_tells_frequency => {}
        asked => asked?,
    }
    Ok(Json(json!({})).into_response())
}

async fn ask(
    auth: &Auth,
    request: &RequestContext,
    email: &str,
    mut emails: CodeEmails<'_>,
) -> Result<(), AuthError> {
    let audience = auth.audience(&request.origin);
    let tx = auth.begin(&request.origin).await?;
    let asked = async {
        let Some(user) = users::lock_by_email(&tx, email, audience).await? else { return Ok(()) };
        let action = Action::UserRecoveryRequested;
        auth.audit_log(&request.origin.client).record(&tx, &user, action, None, emails.now).await?;
        emails.recovery(&tx, &user).await
    }
    .await;
    database::finish(tx, asked).await?;
    emails.deliver().await
}
