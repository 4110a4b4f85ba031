//! Executes the root document (rest.md §3.14).

use std::sync::Arc;

use basalt_pg::session::{Answers, Statement};
use basalt_pg::sql::Param;
use bytes::Bytes;
use http::header::HOST;

use super::{Answer, ExecuteContext, transact};
use crate::config::OpenApiMode;
use crate::error::RestError;
use crate::openapi::{self, Accessible, Server};
use crate::plan::Common;
use crate::statement::{Form, Statements};

/// Builds the root document: the result of a configured function, or a document of what the caller may access.
pub(super) async fn root(context: &ExecuteContext<'_>) -> Result<Answer, RestError> {
    let common = Common::document();
    if let Some(function) = &context.snapshot.config.root_spec {
        let statements = single_statement(function.call());
        let document = single_value(&transact(context, &common, statements, None).await?);
        return Ok(Answer { body: document, ..Answer::default() });
    }
    let accessible = match context.snapshot.config.openapi_mode {
        OpenApiMode::FollowPrivileges => {
            let main = Statement {
                text: Arc::from(include_str!("../accessible.sql")),
                params: vec![Param::from(&*context.api.schema)],
            };
            let answers = transact(context, &common, single_statement(main), None).await?;
            Some(
                single_value(&answers)
                    .ok_or(RestError::Internal("the query for privileges returned no row"))?,
            )
        }
        OpenApiMode::IgnorePrivileges | OpenApiMode::Disabled => None,
    };
    let host = context.headers.get(HOST).and_then(|host| host.to_str().ok());
    let server = Server::from_config(&context.snapshot.config, host);
    let (snapshot, schema) = (Arc::clone(context.snapshot), context.api.schema.clone());
    let build = move || {
        let accessible: Option<Accessible> = accessible
            .map(|list| serde_json::from_slice(&list))
            .transpose()
            .map_err(|_| RestError::Internal("the query for privileges returned invalid JSON"))?;
        let document =
            openapi::document(&schema, &snapshot.cache, accessible.as_ref(), &server, &snapshot.config);
        Ok::<_, RestError>(document.to_string())
    };
    let document = context.documents.run(build).await??;
    Ok(Answer { body: Some(context.sessions.count_answer(document.into())?), ..Answer::default() })
}

fn single_value(answers: &Answers) -> Option<Bytes> {
    answers.first()?.first()?.bytes(0)
}

const fn single_statement(main: Statement) -> Statements {
    Statements { main, form: Form::Value, estimates: Vec::new() }
}
