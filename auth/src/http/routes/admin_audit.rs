//! `GET /admin/audit?query=author|action|type:value` (auth.md §3.13).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::audit::{self, Field};
use crate::database;
use crate::error::AuthError;
use crate::http::pagination::{Page, escape_like};
use crate::http::routes::admin::Admin;
use crate::http::wire::AuditBody;
use crate::state::Auth;

pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
) -> Result<Response, AuthError> {
    let page = Page::read(&request)?;
    let query = request.query("query").map(|text| {
        let invalid = || AuthError::Validation(format!("Invalid query scope: {text}").into());
        let (scope, value) = text.split_once(':').ok_or_else(invalid)?;
        let field = match scope {
            "author" => Field::Author,
            "action" => Field::Action,
            "type" => Field::Type,
            _ => return Err(invalid()),
        };
        Ok((field, format!("%{}%", escape_like(value))))
    });
    let query = query.transpose()?;
    let query = query.as_ref().map(|(field, pattern)| (*field, pattern.as_str()));
    let tx = auth.autocommit(&request.origin).await?;
    let listed = audit::list(&tx, query, page.window()).await;
    let (entries, total) = database::finish(tx, listed).await?;
    let entries: Vec<AuditBody> = entries.into_iter().map(AuditBody::from).collect();
    let mut response = Json(entries).into_response();
    page.add_headers(response.headers_mut(), "/admin/audit", &request, total);
    Ok(response)
}
