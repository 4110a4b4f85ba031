//! `stop-mails`: stops a kind of mail about a plan, by the link in such a mail. Mail programs call it with one click (RFC 8058); the page of
//! the link calls it with JSON, and can undo it.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse as _, Redirect, Response};
use basalt_core::service::Handler;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{Method, Request, header};
use serde_json::json;
use url::form_urlencoded;

use super::{Answer, Fields, handler, ok};
use crate::app::App;
use crate::plan_mails::{link, set_wanted};
use crate::refusal::Refusal;

/// POST stops; GET, of a mail program that knows no better, leads to the page.
pub(super) fn stop_mails(app: &Arc<App>) -> Handler {
    let (posts, app) = (handler(app, stop), Arc::clone(app));
    Arc::new(move |request: Request<Body>| {
        if *request.method() == Method::GET {
            let page = page(&app, request.uri().query());
            return async move { page }.boxed();
        }
        posts(request)
    })
}

fn page(app: &App, query: Option<&str>) -> Response {
    let token = token_in(query).unwrap_or_default();
    let token: String = token.chars().filter(char::is_ascii_hexdigit).take(400).collect();
    Redirect::to(&format!("{}/mails/stop?token={token}", app.site_url)).into_response()
}

async fn stop(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let is_json = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"));
    let wanted = if is_json {
        match Fields::read(&parts, body).await? {
            Ok(fields) => fields.0.get("wanted").and_then(serde_json::Value::as_bool).unwrap_or(false),
            Err(response) => return Ok(response),
        }
    } else {
        false
    };
    let invalid = || Refusal::bad_request("This link is not valid. Copy it from the mail as a whole.");
    let token = token_in(parts.uri.query()).ok_or_else(invalid)?;
    let link = link::read_key(&app.mailer.system).await?.verify(&token).ok_or_else(invalid)?;
    let plan = set_wanted(&app.mailer, link, wanted).await?;
    let plan = plan.ok_or_else(|| {
        Refusal::not_found("You are no longer on the team of this plan, and get no mails about it.")
    })?;
    ok(&json!({"success": true, "plan": plan, "kind": link.kind.as_str(), "wanted": wanted}))
}

fn token_in(query: Option<&str>) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query?.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, value)| value.into_owned())
}
