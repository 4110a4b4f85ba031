//! Snapshots of the statements for requests over one schema, which show reviewers how a change affects the SQL.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail a test by panicking")]

mod bodies;
mod calls;
mod coverage;
mod embeds;
mod errors;
mod filters;
mod fixture;
mod media;
mod openapi;
mod reads;
mod safety;
mod selects;
mod shapes;
mod writes;

use std::fmt::Write;

use basalt_pg::session::Statement;
use basalt_rest::config::RestConfig;
use basalt_rest::error::{ErrorContext, RestError};
use basalt_rest::plan::{self, Plan};
use basalt_rest::request::ApiRequest;
use basalt_rest::statement::{self, Statements};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Plans a request written as `METHOD target`, header lines, an empty line and a body.
fn plan(request: &str) -> Result<Plan, RestError> {
    let config = RestConfig { aggregates: true, plan_enabled: true, ..RestConfig::default() };
    plan_with(request, &config)
}

fn plan_with(request: &str, config: &RestConfig) -> Result<Plan, RestError> {
    let (head, body) = read(request);
    let api = ApiRequest::read(config, &head, body.clone())?;
    let plan = plan::plan(&api, config, &fixture::cache())?;
    shapes::holds(&head, &body, &api, &plan, config);
    Ok(plan)
}

/// Parses a request in that notation.
fn read(request: &str) -> (Parts, Bytes) {
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let mut lines = head.lines();
    let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
    let encoded: String = target
        .chars()
        .map(|c| {
            if matches!(c, '>' | '<' | '"' | ' ' | '\\') {
                format!("%{:02X}", u32::from(c))
            } else {
                c.to_string()
            }
        })
        .collect();
    let headers: HeaderMap = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect();
    let mut request = http::Request::new(());
    *request.method_mut() = method.parse().unwrap();
    *request.uri_mut() = encoded.parse().unwrap();
    *request.headers_mut() = headers;
    (request.into_parts().0, Bytes::copy_from_slice(body.as_bytes()))
}

fn statements(plan: &Plan) -> Statements {
    match plan {
        Plan::Read(plan) => statement::for_read(plan),
        Plan::Write(plan) => statement::mutate::for_write(plan),
        Plan::Call(plan) => statement::call::for_call(plan),
        Plan::Root | Plan::Info { .. } => panic!("no statement"),
    }
}

/// Statements of a request with their parameters, wrapped for readability.
fn sql(request: &str) -> String {
    let Statements { main, estimates, form: _ } = statements(&plan(request).unwrap());
    let mut text = show(&main);
    for estimate in estimates {
        write!(text, "\n---\n{}", show(&estimate)).unwrap();
    }
    text
}

fn show(statement: &Statement) -> String {
    let mut text = statement.text.to_string();
    for word in [
        " FROM ",
        " WHERE ",
        " LEFT JOIN ",
        " INNER JOIN ",
        " ORDER BY ",
        " GROUP BY ",
        " RETURNING ",
        " ON CONFLICT",
    ] {
        text = text.replace(word, &format!("\n{}", word.trim_start()));
    }
    // Identical in every statement.
    text = text.replace(
        "nullif(current_setting('response.headers', true), '') AS response_headers, \
         nullif(current_setting('response.status', true), '') AS response_status",
        "RESPONSE_SETTINGS",
    );
    for (index, param) in statement.params.iter().enumerate() {
        let value = param.0.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        write!(text, "\n${} = {}", index + 1, value.as_deref().unwrap_or("NULL")).unwrap();
    }
    text
}

/// Status, code and texts of a rejected request.
fn refusal(request: &str) -> String {
    refusal_with(request, &RestConfig::default())
}

fn refusal_with(request: &str, config: &RestConfig) -> String {
    let error = plan_with(request, config).unwrap_err().wire(ErrorContext::default());
    let mut text = format!("{} {} {}", error.status.as_u16(), error.code, error.message);
    if !error.details.is_null() {
        write!(text, "\ndetails: {}", error.details).unwrap();
    }
    if let Some(hint) = error.hint {
        write!(text, "\nhint: {hint}").unwrap();
    }
    text
}
