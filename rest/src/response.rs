//! Status, headers and body of a success (rest.md §3.6, §3.9, §3.12, §3.19).

use std::fmt::Write;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_TYPE, LOCATION, TRANSFER_ENCODING, UPGRADE, VARY, WARNING,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

use crate::config::RestConfig;
use crate::error::{ErrorContext, RestError};
use crate::execute::Answer;
use crate::parse::media::MediaType;
use crate::parse::prefer::Resolution;
use crate::parse::query::encode_component;
use crate::plan::call::CallResult;
use crate::plan::mutate::{Answer as WriteAnswer, Mutation};
use crate::plan::{CallPlan, Common, TablePlan, WritePlan};
use crate::request::ApiRequest;

/// A longer `Content-Location` is left out. It repeats the request, which may have tens of kilobytes (`in` with hundreds
/// of ids), but Node's fetch refuses answers with more than 16 KiB of headers, and common proxies those with 4 or 8.
const LONGEST_LOCATION_BYTES: usize = 2048;
/// More say nothing new, and a select list has room for thousands.
const MOST_WARNINGS: usize = 8;
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const CONTENT_PROFILE: HeaderName = HeaderName::from_static("content-profile");
const BASALT_TRUNCATED: HeaderName = HeaderName::from_static("basalt-truncated");
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The body of an answer to HEAD: nothing, of unknown length.
///
/// The router would say `Content-Length: 0` of an empty body, which is not the length GET would have.
pub(crate) struct NoBody;

impl http_body::Body for NoBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(None)
    }
}

/// A response under construction.
struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    is_head: bool,
}

impl Draft {
    fn new(api: &ApiRequest, status: StatusCode) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(VARY, HeaderValue::from_static("Accept, Prefer, Range"));
        Self { status, headers, body: Bytes::new(), is_head: api.action.is_head() }
    }

    fn set(&mut self, name: HeaderName, value: &str) {
        // Names of the database go out as UTF-8. A value that cannot be a header even so (a line break) comes from such
        // a name too; leaving it out harms least.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.insert(name, value);
        }
    }

    /// That max-rows kept rows back, which nothing else of an answer says.
    fn cut(&mut self, answer: &Answer) {
        if answer.is_cut {
            self.headers.insert(BASALT_TRUNCATED, HeaderValue::from_static("max-rows"));
        }
    }

    /// What honoured preferences and old names of embeds add.
    fn common(&mut self, common: &Common) {
        if !common.applied.is_empty() {
            self.set(PREFERENCE_APPLIED, &common.applied.join(", "));
        }
        for (target, alias) in common.legacy_names.iter().take(MOST_WARNINGS) {
            let warning = format!(
                "299 PostgRESTv17 \"Embedded resource was referenced by relation name even though it has an alias. \
                 This is deprecated and will stop working in a future release. Update `{target}` to `{alias}` in \
                 query string filters, orders or limits.\""
            );
            if let Ok(value) = HeaderValue::from_bytes(warning.as_bytes()) {
                self.headers.append(WARNING, value);
            }
        }
    }

    /// Body and what it is; with several schemas also whose it is.
    fn body(&mut self, api: &ApiRequest, config: &RestConfig, media: &MediaType, body: Option<Bytes>) {
        self.set(CONTENT_TYPE, &media.content_type());
        if api.has_profile || config.schemas.len() > 1 {
            self.set(CONTENT_PROFILE, &api.schema);
        }
        self.body = body.unwrap_or_default();
    }

    /// Becomes an error that was found out from the rows: what the headers say of the request stays true.
    fn refuse(&mut self, error: &RestError, config: &RestConfig) {
        let context = ErrorContext { verbosity: config.client_error_verbosity, ..ErrorContext::default() };
        let wire = error.wire(context);
        self.status = wire.status;
        self.headers.remove(VARY);
        self.set(CONTENT_TYPE, "application/json; charset=utf-8");
        self.set(PROXY_STATUS, &format!("PostgREST; error={}", wire.code));
        self.body = Bytes::from(wire.body(config.client_error_verbosity));
    }

    /// Lays `response.headers` and `response.status` over it.
    fn finish(mut self, answer: &Answer) -> Result<Response, RestError> {
        // Of two that are malformed the status is told, as PostgREST does.
        if let Some(status) = &answer.status {
            self.status = final_status(status).ok_or(RestError::ResponseStatus)?;
        }
        if let Some(headers) = &answer.headers {
            apply_headers(&mut self.headers, headers)?;
        }
        if self.status == StatusCode::NO_CONTENT {
            // Some clients choke on a 204 that speaks of a body.
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(CONTENT_LENGTH);
            self.body = Bytes::new();
        }
        let body = if self.is_head { Body::new(NoBody) } else { Body::from(self.body) };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        Ok(response)
    }
}

/// Decimal text of a status that can end an exchange; 1xx are no answers.
fn final_status(text: &str) -> Option<StatusCode> {
    let is_decimal = text.bytes().all(|b| b.is_ascii_digit());
    let status = text.parse().ok().filter(|status| is_decimal && *status >= 200)?;
    StatusCode::from_u16(status).ok()
}

/// Headers that say how the message is framed: only we know that, and a wrong word breaks the connection.
pub(crate) fn is_framing(name: &HeaderName) -> bool {
    *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || *name == CONNECTION || *name == UPGRADE
}

/// `[{"Name":"value"},…]`: they replace ours of the same name; repeats among them are kept.
fn apply_headers(headers: &mut HeaderMap, text: &str) -> Result<(), RestError> {
    let Ok(Value::Array(entries)) = serde_json::from_str(text) else {
        return Err(RestError::ResponseHeaders);
    };
    let mut given = Vec::with_capacity(entries.len());
    for entry in entries {
        let Value::Object(entry) = entry else { return Err(RestError::ResponseHeaders) };
        let mut pairs = entry.into_iter();
        let (Some((name, Value::String(value))), None) = (pairs.next(), pairs.next()) else {
            return Err(RestError::ResponseHeaders);
        };
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
            return Err(RestError::ResponseHeaders);
        };
        if !is_framing(&name) {
            given.push((name, value));
        }
    }
    for (name, _) in &given {
        headers.remove(name);
    }
    for (name, value) in given {
        // More than tens of thousands are refused.
        headers.try_append(name, value).map_err(|_| RestError::ResponseHeaders)?;
    }
    Ok(())
}

/// Status of a read or call, its `Content-Range`, and whether it starts behind the last row.
fn page(answer: &Answer, offset: u128) -> (StatusCode, String, Option<RestError>) {
    let rows = answer.page;
    let total = answer.total;
    let first = i64::try_from(offset).unwrap_or(i64::MAX);
    let (status, beyond) = match total {
        Some(total) if first > total => {
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(RestError::OffsetBeyond { offset, total }))
        }
        Some(total) if rows < total => (StatusCode::PARTIAL_CONTENT, None),
        _ => (StatusCode::OK, None),
    };
    // The total is told even when it is 0, and there are no rows behind the last one.
    (status, content_range(first, if beyond.is_some() { 0 } else { rows }, total), beyond)
}

fn content_range(first: i64, rows: i64, total: Option<i64>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _range = if rows > 0 && total != Some(0) {
        write!(text, "{first}-{}/", first.saturating_add(rows - 1))
    } else {
        write!(text, "*/")
    };
    let _total = match total {
        Some(total) => write!(text, "{total}"),
        None => write!(text, "*"),
    };
    text
}

/// A query plan says nothing about rows, nor about preferences.
fn explained(
    api: &ApiRequest,
    config: &RestConfig,
    media: &MediaType,
    answer: &Answer,
) -> Result<Response, RestError> {
    let mut draft = Draft::new(api, StatusCode::OK);
    draft.body(api, config, media, answer.body.clone());
    draft.finish(answer)
}

/// GET and HEAD of a relation.
pub(crate) fn read(
    api: &ApiRequest,
    config: &RestConfig,
    plan: &TablePlan,
    answer: &Answer,
) -> Result<Response, RestError> {
    if answer.is_explained {
        return explained(api, config, &plan.format.media, answer);
    }
    let (status, range, beyond) = page(answer, plan.read.range.offset);
    let mut draft = Draft::new(api, status);
    draft.set(CONTENT_RANGE, &range);
    let query =
        if api.canonical_query.is_empty() { String::new() } else { format!("?{}", api.canonical_query) };
    if api.path.len() + query.len() <= LONGEST_LOCATION_BYTES {
        draft.set(CONTENT_LOCATION, &format!("{}{query}", api.path));
    }
    draft.common(&plan.common);
    draft.cut(answer);
    draft.body(api, config, &plan.format.media, answer.body.clone());
    if let Some(error) = beyond {
        draft.refuse(&error, config);
    }
    draft.finish(answer)
}

/// POST, PUT, PATCH and DELETE of a relation.
pub(crate) fn write(
    api: &ApiRequest,
    config: &RestConfig,
    plan: &WritePlan,
    answer: &Answer,
) -> Result<Response, RestError> {
    let rows = answer.page;
    let has_rows = plan.answer == WriteAnswer::Rows;
    if answer.is_explained {
        return explained(api, config, &plan.format.media, answer);
    }
    let inserted = answer.inserted.is_none_or(|inserted| inserted > 0);
    // An inner embed may show none of the rows that are new.
    let has_new = answer.inserted.map_or(rows > 0, |inserted| inserted > 0);
    let status = match &plan.mutation {
        Mutation::Insert { conflict: Some(conflict), .. }
            if conflict.resolution == Resolution::MergeDuplicates && !has_new =>
        {
            StatusCode::OK
        }
        Mutation::Insert { .. } => StatusCode::CREATED,
        Mutation::Put { .. } if inserted && has_rows => StatusCode::CREATED,
        _ if has_rows => StatusCode::OK,
        Mutation::Put { .. } | Mutation::Update { .. } | Mutation::Delete { .. } | Mutation::Nothing => {
            StatusCode::NO_CONTENT
        }
    };
    let mut draft = Draft::new(api, status);
    let total = plan.common.count.map(|_| rows);
    match &plan.mutation {
        Mutation::Insert { .. } | Mutation::Delete { .. } => {
            draft.set(CONTENT_RANGE, &content_range(0, 0, total));
        }
        Mutation::Update { .. } | Mutation::Nothing => {
            draft.set(CONTENT_RANGE, &content_range(0, rows, total))
        }
        Mutation::Put { .. } => {}
    }
    if let (WriteAnswer::Location(columns), 1) = (&plan.answer, rows)
        && let Some(query) = answer.location.as_deref().and_then(|values| location_query(columns, values))
    {
        draft.set(LOCATION, &format!("{}?{query}", api.path));
    }
    draft.common(&plan.common);
    if has_rows {
        draft.body(api, config, &plan.format.media, answer.body.clone());
    } else if status != StatusCode::NO_CONTENT {
        draft.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    draft.finish(answer)
}

/// `id=eq.11`, all columns of the key.
fn location_query(columns: &[String], values: &str) -> Option<String> {
    let values: Vec<Value> = serde_json::from_str(values).ok()?;
    let mut query = String::new();
    for (column, value) in columns.iter().zip(values) {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(&encode_component(column));
        match &value {
            Value::Null => query.push_str("=is.null"),
            Value::String(text) => query.push_str(&format!("=eq.{}", encode_component(text))),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                query.push_str(&format!("=eq.{}", encode_component(&value.to_string())));
            }
        }
    }
    (!query.is_empty()).then_some(query)
}

/// `/rpc/…`
pub(crate) fn call(
    api: &ApiRequest,
    config: &RestConfig,
    plan: &CallPlan,
    answer: &Answer,
) -> Result<Response, RestError> {
    if answer.is_explained {
        return explained(api, config, &plan.format.media, answer);
    }
    if plan.result == CallResult::Void {
        let mut draft = Draft::new(api, StatusCode::NO_CONTENT);
        draft.common(&plan.common);
        let (_, range, _) = page(answer, plan.read.range.offset);
        draft.set(CONTENT_RANGE, &range);
        return draft.finish(answer);
    }
    let (status, range, beyond) = page(answer, plan.read.range.offset);
    let mut draft = Draft::new(api, status);
    draft.set(CONTENT_RANGE, &range);
    draft.common(&plan.common);
    draft.cut(answer);
    draft.body(api, config, &plan.format.media, answer.body.clone());
    if let Some(error) = beyond {
        draft.refuse(&error, config);
    }
    draft.finish(answer)
}

/// The OpenAPI document.
pub(crate) fn root(api: &ApiRequest, config: &RestConfig, answer: &Answer) -> Result<Response, RestError> {
    let mut draft = Draft::new(api, StatusCode::OK);
    draft.body(api, config, &MediaType::OpenApi, answer.body.clone());
    draft.finish(answer)
}

/// OPTIONS that is no preflight.
pub(crate) fn info(allow: &str) -> Response {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    if let Ok(allow) = HeaderValue::from_str(allow) {
        headers.insert(ALLOW, allow);
    }
    response
}

/// How long each stage took, for `Server-Timing`, if that is wanted.
pub(crate) struct Timing {
    last: Option<Instant>,
    stages: Vec<(&'static str, f64)>,
}

impl Timing {
    pub(crate) fn start(is_wanted: bool) -> Self {
        Self { last: is_wanted.then(Instant::now), stages: Vec::new() }
    }

    /// Ends a stage.
    pub(crate) fn mark(&mut self, stage: &'static str) {
        let Some(last) = &mut self.last else { return };
        let now = Instant::now();
        let took = (now - *last).as_secs_f64() * 1000.0;
        *last = now;
        // A request that is planned again has the same stages twice.
        match self.stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, before)) => *before += took,
            None => self.stages.push((stage, took)),
        }
    }

    /// Writes the header, in milliseconds with one decimal.
    pub(crate) fn decorate(&self, headers: &mut HeaderMap) {
        let stages: Vec<String> =
            self.stages.iter().map(|(stage, ms)| format!("{stage};dur={ms:.1}")).collect();
        // None are wanted, or its token was refused.
        if stages.is_empty() {
            return;
        }
        if let Ok(value) = HeaderValue::from_str(&stages.join(", ")) {
            headers.insert(SERVER_TIMING, value);
        }
    }
}
