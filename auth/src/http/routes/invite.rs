//! `POST /invite`: creates an account and sends an e-mail that signs its owner in (auth.md §3.12). Open to admins even where
//! sign-ups are closed. Whom it lets in is [`crate::users::invitation`]'s.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::Auth;
use crate::emails::auth_emails::{self, AuthEmails};
use crate::error::AuthError;
use crate::http::request::{read_json, text};
use crate::http::routes::admin::Admin;
use crate::http::wire::UserBody;
use crate::users::address;
use crate::users::invitation::Invitee;
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
    auth_emails::check_authorized(&auth, &email)?;
    let mut emails = AuthEmails::new(&auth, &request, None);
    let invitee = Invitee {
        email,
        audience: bearer.audience(&auth, &request),
        data: body.data.unwrap_or_default(),
        now: emails.now,
    };
    let tx = auth.begin(&request).await?;
    let account = async {
        let user = invitee.invite(&auth, &request, &actor, &tx).await?;
        emails.invitation(&tx, &user).await?;
        users::account(&tx, user.id).await?.ok_or_else(users::row_missing)
    }
    .await;
    let account = crate::finish(tx, account).await?;
    emails.sent();
    Ok(Json(UserBody::from(&account)).into_response())
}
