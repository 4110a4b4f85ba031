//! `POST /invite`: an account for somebody, and a mail that lets them in (auth.md §3.12). Open to admins even where
//! sign-ups are closed.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_core::pool::Tx;
use jiff::Timestamp;
use serde::Deserialize;

use crate::Auth;
use crate::address;
use crate::audit::{self, Action};
use crate::error::AuthError;
use crate::letters::Letters;
use crate::registration::Registration;
use crate::request::{RequestContext, read_json, text};
use crate::routes::admin::Admin;
use crate::sign_up::{Contact, read_back, vanished};
use crate::users::{self, Object, User};
use crate::wire::UserBody;

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
    let mut letters = Letters::new(&auth, &request, None);
    let guest = Guest {
        email,
        audience: bearer.audience(&auth, &request),
        data: body.data.unwrap_or_default(),
        now: letters.now,
    };
    let tx = auth.begin(&request).await?;
    let account = async {
        let user = guest.invite(&auth, &request, &actor, &tx).await?;
        letters.invitation(&tx, &user).await?;
        users::account(&tx, user.id).await?.ok_or_else(vanished)
    }
    .await;
    let account = crate::finish(tx, account).await?;
    letters.sent();
    Ok(Json(UserBody::from(&account)).into_response())
}

/// Somebody to be invited.
pub(crate) struct Guest<'a> {
    /// In stored form.
    pub(crate) email: String,
    pub(crate) audience: &'a str,
    /// Metadata of a new account.
    pub(crate) data: Object,
    pub(crate) now: Timestamp,
}

impl Guest<'_> {
    /// The account, made if nobody has the address, marked as invited.
    ///
    /// # Errors
    /// Somebody has the address and confirmed it, or the database's.
    pub(crate) async fn invite(
        &self,
        auth: &Auth,
        request: &RequestContext,
        actor: &User,
        tx: &Tx,
    ) -> Result<User, AuthError> {
        let user = match users::lock_by_email(tx, &self.email, self.audience).await? {
            Some(user) if user.email_confirmed_at.is_some() => return Err(AuthError::EmailExists),
            Some(user) => user,
            None => {
                let contact = Contact::Email(self.email.clone());
                let registration = Registration::by_admin(&contact, self.audience, None, &self.data);
                let inserted = registration.insert(auth, tx, self.now).await;
                inserted.map_err(|error| error.or_taken(AuthError::EmailExists))?
            }
        };
        users::set_invited(tx, user.id, self.now).await?;
        let traits = audit::about(&user);
        audit::record(tx, &auth.config, request, actor, Action::UserInvited, traits, self.now).await?;
        read_back(tx, user.id).await
    }
}
