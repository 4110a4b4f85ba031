//! `POST /admin/generate_link`: returns a mail's link to an admin instead of sending it (auth.md §3.12). Mail limits do not apply.
//! The response is a user with five more properties, which the client separates again.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::error::AuthError;
use crate::fields::text;
use crate::flows::generated_link::{LinkRequest, LinkType};
use crate::http::request::read_json;
use crate::http::routes::admin::Admin;
use crate::http::wire::UserBody;
use crate::state::Auth;
use crate::users::Object;
use crate::users::address;

#[derive(Deserialize)]
struct GenerateLinkBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    email: Option<String>,
    password: Option<String>,
    new_email: Option<String>,
    data: Option<Object>,
    redirect_to: Option<String>,
}

#[derive(Serialize)]
struct LinkBody<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    action_link: &'a str,
    email_otp: &'a str,
    hashed_token: &'a str,
    verification_type: &'static str,
    redirect_to: &'a str,
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    Admin { request, bearer, actor }: Admin,
    body: Body,
) -> Result<Response, AuthError> {
    let body: GenerateLinkBody = read_json(body).await?;
    let email = address::email(text(&body.email))?;
    let named = body.redirect_to.as_deref().and_then(|named| auth.redirects.allowed(named));
    let redirect_to = named.map_or_else(|| request.origin.links.target(&auth.redirects), str::to_owned);
    let link = LinkRequest {
        kind: LinkType::read(text(&body.kind))?,
        email,
        password: body.password.unwrap_or_default(),
        new_email: body.new_email.unwrap_or_default(),
        data: body.data.unwrap_or_default(),
        redirect_to,
        audience: bearer.audience(&auth, &request),
    };
    let made = Box::pin(link.generate(&auth, &request.origin, &actor)).await?;
    let body = LinkBody {
        user: UserBody::from(&made.account),
        action_link: &made.action_link,
        email_otp: &made.issued.code,
        hashed_token: &made.issued.hash,
        verification_type: made.kind.as_str(),
        redirect_to: &link.redirect_to,
    };
    Ok(Json(body).into_response())
}
