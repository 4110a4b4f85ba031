//! Builds successful responses: status, headers and body (rest.md §3.6, §3.9, §3.12, §3.19).

use std::fmt::Write;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use basalt_core::convert::saturating;
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
use crate::plan::mutate::Mutation;
use crate::plan::returned::Answer as WriteAnswer;
use crate::plan::{CallPlan, Common, TablePlan, WritePlan};
use crate::request::ApiRequest;

/// Maximum length of `Content-Location`; a longer one is omitted. It repeats the request, which may have tens of
/// kilobytes (`in` with hundreds of ids), but Node's `fetch` rejects responses with more than 16 KiB of headers, and
/// common proxies reject 4 or 8 KiB.
const MAX_LOCATION_BYTES: usize = 2048;
/// Maximum number of warnings. A select list can produce thousands, and further ones add no information.
const MAX_WARNINGS: usize = 8;
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const CONTENT_PROFILE: HeaderName = HeaderName::from_static("content-profile");
const BASALT_TRUNCATED: HeaderName = HeaderName::from_static("basalt-truncated");
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Empty body of unknown length, for responses to HEAD.
///
/// For an ordinary empty body the router would send `Content-Length: 0`, which is not the length that GET would
/// return.
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
        // Database names are sent as UTF-8. A name that is not a valid header value (it contains a line break, say)
        // is omitted rather than failing the response.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.insert(name, value);
        }
    }

    /// Marks a result that max-rows truncated; no other header shows it.
    fn set_truncated(&mut self, answer: &Answer) {
        if answer.is_truncated {
            self.headers.insert(BASALT_TRUNCATED, HeaderValue::from_static("max-rows"));
        }
    }

    /// Adds `Preference-Applied` and the warnings about embeds addressed by their old names.
    fn set_common_headers(&mut self, common: &Common) {
        if !common.applied.is_empty() {
            self.set(PREFERENCE_APPLIED, &common.applied.join(", "));
        }
        for (target, alias) in common.legacy_names.iter().take(MAX_WARNINGS) {
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

    /// Sets body and content type, and the schema if several are exposed.
    fn set_body(&mut self, api: &ApiRequest, config: &RestConfig, media: &MediaType, body: Option<Bytes>) {
        self.set(CONTENT_TYPE, &media.content_type());
        if api.has_profile || config.schemas.len() > 1 {
            self.set(CONTENT_PROFILE, &api.schema);
        }
        self.body = body.unwrap_or_default();
    }

    /// Replaces status and body by an error found only after reading the rows. Headers that describe the request are
    /// kept.
    fn replace_with_error(&mut self, error: &RestError, config: &RestConfig) {
        let context = ErrorContext { verbosity: config.client_error_verbosity, ..ErrorContext::default() };
        let wire = error.wire(context);
        self.status = wire.status;
        self.headers.remove(VARY);
        self.set(CONTENT_TYPE, "application/json; charset=utf-8");
        self.set(PROXY_STATUS, &format!("PostgREST; error={}", wire.code));
        self.body = Bytes::from(wire.body(config.client_error_verbosity));
    }

    /// Applies `response.headers` and `response.status`, and returns the response.
    fn finish(mut self, answer: &Answer) -> Result<Response, RestError> {
        // If both are malformed, the status is reported, as PostgREST does.
        if let Some(status) = &answer.status {
            self.status = final_status(status).ok_or(RestError::ResponseStatus)?;
        }
        if let Some(headers) = &answer.headers {
            apply_headers(&mut self.headers, headers)?;
        }
        if self.status == StatusCode::NO_CONTENT {
            // Some clients fail on a 204 with content headers.
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

/// Parses a decimal status that can end an exchange, so not 1xx.
fn final_status(text: &str) -> Option<StatusCode> {
    let is_decimal = text.bytes().all(|b| b.is_ascii_digit());
    let status = text.parse().ok().filter(|status| is_decimal && *status >= 200)?;
    StatusCode::from_u16(status).ok()
}

/// Whether a header frames the message. The server sets these itself; a wrong value would break the connection.
pub(crate) fn is_framing(name: &HeaderName) -> bool {
    *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || *name == CONNECTION || *name == UPGRADE
}

/// Applies `[{"Name":"value"},…]`: an entry replaces existing headers of that name; repeated entries are all kept.
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
        // `http` limits a map to some tens of thousands of headers.
        headers.try_append(name, value).map_err(|_| RestError::ResponseHeaders)?;
    }
    Ok(())
}

/// Status of a read or call, its `Content-Range`, and an error if the offset is beyond the last row.
fn page(answer: &Answer, offset: u128) -> (StatusCode, String, Option<RestError>) {
    let rows = answer.page;
    let total = answer.total;
    let first = saturating::<i64>(offset);
    let (status, beyond) = match total {
        Some(total) if first > total => {
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(RestError::OffsetBeyond { offset, total }))
        }
        Some(total) if rows < total => (StatusCode::PARTIAL_CONTENT, None),
        _ => (StatusCode::OK, None),
    };
    // The total is sent even if it is 0; beyond the last row there are no rows to report.
    (status, content_range(first, if beyond.is_some() { 0 } else { rows }, total), beyond)
}

fn content_range(first: i64, rows: i64, total: Option<i64>) -> String {
    let mut text = String::new();
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

/// Response with a query plan, which has no row counts and no applied preferences.
fn explained(
    api: &ApiRequest,
    config: &RestConfig,
    media: &MediaType,
    answer: &Answer,
) -> Result<Response, RestError> {
    let mut draft = Draft::new(api, StatusCode::OK);
    draft.set_body(api, config, media, answer.body.clone());
    draft.finish(answer)
}

/// Response to GET and HEAD on a relation.
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
    if api.path.len() + query.len() <= MAX_LOCATION_BYTES {
        draft.set(CONTENT_LOCATION, &format!("{}{query}", api.path));
    }
    draft.set_common_headers(&plan.common);
    draft.set_truncated(answer);
    draft.set_body(api, config, &plan.format.media, answer.body.clone());
    if let Some(error) = beyond {
        draft.replace_with_error(&error, config);
    }
    draft.finish(answer)
}

/// Response to POST, PUT, PATCH and DELETE on a relation.
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
    // With an inner embed, none of the inserted rows may be in the result.
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
    draft.set_common_headers(&plan.common);
    if has_rows {
        draft.set_body(api, config, &plan.format.media, answer.body.clone());
    } else if status != StatusCode::NO_CONTENT {
        draft.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    draft.finish(answer)
}

/// `id=eq.11`, with every column of the key.
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

/// Response to a function call.
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
        draft.set_common_headers(&plan.common);
        let (_, range, _) = page(answer, plan.read.range.offset);
        draft.set(CONTENT_RANGE, &range);
        return draft.finish(answer);
    }
    let (status, range, beyond) = page(answer, plan.read.range.offset);
    let mut draft = Draft::new(api, status);
    draft.set(CONTENT_RANGE, &range);
    draft.set_common_headers(&plan.common);
    draft.set_truncated(answer);
    draft.set_body(api, config, &plan.format.media, answer.body.clone());
    if let Some(error) = beyond {
        draft.replace_with_error(&error, config);
    }
    draft.finish(answer)
}

/// Response with the OpenAPI document.
pub(crate) fn root(api: &ApiRequest, config: &RestConfig, answer: &Answer) -> Result<Response, RestError> {
    let mut draft = Draft::new(api, StatusCode::OK);
    draft.set_body(api, config, &MediaType::OpenApi, answer.body.clone());
    draft.finish(answer)
}

/// Response to an OPTIONS request that is not a preflight.
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

/// Durations of the stages of a request, for `Server-Timing`; measures nothing unless enabled.
pub(crate) struct Timing {
    last: Option<Instant>,
    stages: Vec<(&'static str, f64)>,
}

impl Timing {
    pub(crate) fn start(is_enabled: bool) -> Self {
        Self { last: is_enabled.then(Instant::now), stages: Vec::new() }
    }

    /// Ends a stage, and starts the next.
    pub(crate) fn mark(&mut self, stage: &'static str) {
        let Some(last) = &mut self.last else { return };
        let now = Instant::now();
        let took = (now - *last).as_secs_f64() * 1000.0;
        *last = now;
        // A request that is planned twice passes the same stages twice.
        match self.stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, before)) => *before += took,
            None => self.stages.push((stage, took)),
        }
    }

    /// Writes the header, in milliseconds with one decimal.
    pub(crate) fn decorate(&self, headers: &mut HeaderMap) {
        let stages: Vec<String> =
            self.stages.iter().map(|(stage, ms)| format!("{stage};dur={ms:.1}")).collect();
        // Timing is disabled, or the token was rejected before the first stage ended.
        if stages.is_empty() {
            return;
        }
        if let Ok(value) = HeaderValue::from_str(&stages.join(", ")) {
            headers.insert(SERVER_TIMING, value);
        }
    }
}
