//! `GET /reauthenticate`: mails a nonce that `PUT /user` requires for a new password (auth.md §3.8).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_pg::pool::Tx;
use serde_json::json;

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::flows::code_emails::CodeEmails;
use crate::http::bearer::Bearer;
use crate::http::request::RequestContext;
use crate::state::Auth;
use crate::users;

pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let padding = auth.response_times.start();
    let mut emails = CodeEmails::new(&auth, &request.origin, None);
    let tx = auth.begin(&request.origin).await?;
    let asked = ask(&auth, &request, &bearer, &tx, &mut emails).await;
    let asked = database::finish(tx, asked).await;
    padding.wait().await;
    asked?;
    emails.sent();
    Ok(Json(json!({})).into_response())
}

async fn ask(
    auth: &Auth,
    request: &RequestContext,
    bearer: &Bearer,
    tx: &Tx,
    emails: &mut CodeEmails<'_>,
) -> Result<(), AuthError> {
    let id = bearer.caller(auth, tx).await?.account.user.id;
    let user = users::lock(tx, id).await?.ok_or(AuthError::NoSuchSub)?;
    if user.email.is_empty() && user.phone.is_empty() {
        return Err(AuthError::validation(
            "Reauthentication requires the user to have an email or a phone number",
        ));
    }
    if user.email.is_empty() {
        return Err(match user.phone_confirmed_at {
            Some(_) => AuthError::SmsSendFailed("reauthentication"),
            None => AuthError::VerifyPhoneFirst,
        });
    }
    if user.email_confirmed_at.is_none() {
        return Err(AuthError::VerifyEmailFirst);
    }
    let action = Action::UserReauthenticateRequested;
    auth.audit_log(&request.origin.client).record(tx, &user, action, None, emails.now).await?;
    emails.reauthentication(tx, &user).await
}
