//! `GET /reauthenticate`: sends a nonce that `PUT /user` requires for a new password (auth.md §3.8).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use basalt_pg::pool::Tx;

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::flows::code_emails::CodeEmails;
use crate::flows::code_sms::CodeSms;
use crate::http::bearer::Bearer;
use crate::http::request::RequestContext;
use crate::http::routes::otp::message_response;
use crate::sms::Channel;
use crate::state::Auth;
use crate::users;

pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let padding = auth.response_times.start();
    let mut emails = CodeEmails::new(&auth, &request.origin, None);
    let mut sms = CodeSms::new(&auth, &request.origin, Channel::Sms);
    let tx = auth.begin(&request.origin).await?;
    let asked = ask(&auth, &request, &bearer, &tx, &mut emails, &mut sms).await;
    let asked = database::finish(tx, asked).await;
    padding.wait().await;
    asked?;
    emails.deliver().await?;
    Ok(message_response(sms.deliver().await?))
}

async fn ask(
    auth: &Auth,
    request: &RequestContext,
    bearer: &Bearer,
    tx: &Tx,
    emails: &mut CodeEmails<'_>,
    sms: &mut CodeSms<'_>,
) -> Result<(), AuthError> {
    let id = bearer.caller(auth, tx).await?.account.user.id;
    let user = users::lock(tx, id).await?.ok_or(AuthError::NoSuchSub)?;
    let by_email = !user.email.is_empty();
    if !by_email && user.phone.is_empty() {
        return Err(AuthError::validation(
            "Reauthentication requires the user to have an email or a phone number",
        ));
    }
    if by_email && user.email_confirmed_at.is_none() {
        return Err(AuthError::VerifyEmailFirst);
    }
    if !by_email && user.phone_confirmed_at.is_none() {
        return Err(AuthError::VerifyPhoneFirst);
    }
    let action = Action::UserReauthenticateRequested;
    auth.audit_log(&request.origin.client).record(tx, &user, action, None, emails.now).await?;
    if by_email { emails.reauthentication(tx, &user).await } else { sms.reauthentication(tx, &user).await }
}
