//! `POST /invite`: creates an account and mails its owner a sign-in link (auth.md §3.12). Works for admins even if sign-up is
//! disabled.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_core::random;
use serde::Deserialize;

use crate::database;
use crate::error::AuthError;
use crate::fields::text;
use crate::flows::code_emails::CodeEmails;
use crate::flows::invitation::Invitee;
use crate::hook_types::HookKind;
use crate::http::request::read_json;
use crate::http::routes::admin::Admin;
use crate::http::wire::UserBody;
use crate::state::Auth;
use crate::users::address;
use crate::users::{self, Object};

#[derive(Debug, Deserialize)]
struct InviteBody {
    email: Option<String>,
    data: Option<Object>,
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    Admin { request, bearer, actor }: Admin,
    body: Body,
) -> Result<Response, AuthError> {
    let body: InviteBody = read_json(body).await?;
    let email = address::email(text(&body.email))?;
    auth.mailer.check_recipient(&email)?;
    let mut emails = CodeEmails::new(&auth, &request.origin, None);
    let invitee = Invitee {
        email,
        audience: bearer.audience(&auth, &request),
        data: body.data.unwrap_or_default(),
        now: emails.now,
        id: random::uuid(),
    };
    if auth.hooks.is_enabled(HookKind::BeforeUserCreated) {
        let tx = auth.begin(&request.origin).await?;
        let found = users::find_by_email(&tx, &invitee.email, invitee.audience).await;
        if database::finish(tx, found).await?.is_none() {
            let new = invitee.new_user(auth.config.default_role());
            auth.approve_new_user(&request.origin, &new).await?;
        }
    }
    let tx = auth.begin(&request.origin).await?;
    let account = async {
        let user = invitee
            .invite(&tx, auth.config.default_role(), auth.audit_log(&request.origin.client), &actor)
            .await?;
        emails.invitation(&tx, &user).await?;
        users::account(&tx, user.id).await?.ok_or_else(users::row_missing)
    }
    .await;
    let account = database::finish(tx, account).await?;
    auth.notify_user_created(&request.origin, invitee.id).await?;
    emails.deliver().await?;
    Ok(Json(UserBody::from(&account)).into_response())
}
