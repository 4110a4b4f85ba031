//! Handles one request: authenticate, receive, prepare (parse, plan, render), execute, respond.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State as Extract;
use axum::response::Response;
use basalt_core::clock::Clock;
use basalt_core::cpu_pool::CpuPool;
use basalt_core::identity::Identity;
use basalt_core::memory::BodyLease;
use basalt_core::service::{BodyError, ClientAddress, Deadline, read_body};
use basalt_pg::session::{SessionError, Sessions};
use http::{Method, Request};
use tokio::time::Instant;

use crate::auth;
use crate::client_cpu::ClientCpu;
use crate::config::RestConfig;
use crate::error::{ErrorContext, ErrorResponse, RestError};
use crate::execute::{self, Answer, ExecuteContext};
use crate::plan::Plan;
use crate::prepare::{JsonBy, Received, prepare};
use crate::reload::{RestHandle, View};
use crate::response::{self, Timing};
use crate::rights;
use crate::shape::Prepared;

/// State shared by all requests.
pub(crate) struct State {
    pub(crate) handle: RestHandle,
    pub(crate) sessions: Sessions,
    pub(crate) clock: Clock,
    /// For long work; one thread per core.
    pub(crate) cpu: CpuPool,
    /// For the root document; one thread. For a large schema a document takes tens of megabytes, and as much time as
    /// hundreds of requests.
    pub(crate) documents: CpuPool,
}

/// Handles a request; every error has the format of the contract.
pub(crate) async fn handle(Extract(state): Extract<Arc<State>>, request: Request<Body>) -> Response {
    let view = state.handle.view().await;
    let config = view.config();
    let mut timing = Timing::start(config.timing_enabled);
    let mut context = ErrorContext {
        verbosity: config.client_error_verbosity,
        is_head: *request.method() == Method::HEAD,
        retry_after: state.handle.retry_after(),
        ..ErrorContext::default()
    };
    let trace = config.trace_header.as_ref().map(|name| {
        let empty = http::HeaderValue::from_static("");
        (name.clone(), request.headers().get(name).cloned().unwrap_or(empty))
    });
    let mut response = match run(&state, &view, request, &mut context, &mut timing).await {
        Ok(response) => response,
        Err(error) => {
            let wire = error.wire(context);
            log_error(&error, &wire);
            wire.into_response(context)
        }
    };
    timing.decorate(response.headers_mut());
    if let Some((name, value)) = trace {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Logs server errors at `error` or `warn`; failures caused by the database's own statements at `info`.
fn log_error(error: &RestError, wire: &ErrorResponse) {
    let (code, status) = (wire.code.as_str(), wire.status.as_u16());
    let is_outage = matches!(
        error,
        RestError::CacheNotLoaded
            | RestError::Session(
                SessionError::Unreachable(_)
                    | SessionError::Unavailable(_)
                    | SessionError::PoolTimeout
                    | SessionError::Deadline
            )
    );
    if matches!(error, RestError::Internal(_)) {
        tracing::error!(code, status, "{error}");
    } else if is_outage {
        tracing::warn!(code, status, "{error}");
    } else if wire.status.is_server_error() {
        tracing::info!(code, status, "{error}");
    }
}

async fn run(
    state: &State,
    view: &View,
    request: Request<Body>,
    context: &mut ErrorContext,
    timing: &mut Timing,
) -> Result<Response, RestError> {
    let config = view.config();
    let now = state.clock.unix_seconds();
    let caller = auth::authenticate(request.headers(), view.keys(), config, now)?;
    context.is_anonymous = caller.is_anonymous;
    timing.mark("jwt");
    let mut snapshot = view.loaded.clone().ok_or(RestError::CacheNotLoaded)?;
    let address = request.extensions().get::<ClientAddress>().map(|address| address.0);
    let identity = Identity::new(caller.subject.as_deref(), &caller.role, address);
    let cpu = ClientCpu { pool: &state.cpu, identity };
    let request = receive(request, config).await?;
    let mut may_be_stale = true;
    let catalog = rights::Catalog { sessions: &state.sessions, identity, deadline: request.deadline };
    let redact_unknown_names = |error| rights::redact_unknown_names(catalog, &caller.role, error);
    let mut json = JsonBy::Server;
    // Each round prepares the request again. There are at most three: with the current schema cache, with a newer
    // one, and with PostgreSQL doing the JSON conversion.
    loop {
        let mut prepared = match prepare(&request, &snapshot, json, cpu, timing).await {
            Err(error) if may_be_stale && error.may_be_stale() => {
                may_be_stale = false;
                match state.handle.newer(&snapshot, request.deadline).await {
                    Some(newer) => snapshot = newer,
                    None => return Err(redact_unknown_names(error).await),
                }
                continue;
            }
            Err(error) => return Err(redact_unknown_names(error).await),
            Ok(prepared) => prepared,
        };
        if !prepared.charge_values(&request) {
            // There is not enough memory for the decoded values in addition to the body. For a write, PostgreSQL can
            // decode the body itself.
            let Plan::Write(_) = &prepared.plan else { return Err(RestError::Busy) };
            json = JsonBy::Postgres;
            continue;
        }
        let Prepared { api, plan, statements } = prepared;
        let scope = ExecuteContext {
            snapshot: &snapshot,
            sessions: &state.sessions,
            caller: &caller,
            api: &api,
            headers: &request.head.headers,
            deadline: request.deadline,
            identity,
            cpu,
            documents: ClientCpu { pool: &state.documents, identity },
        };
        match execute::run(&scope, &plan, statements).await {
            Ok(Some(answer)) => {
                if !matches!(plan, Plan::Info { .. }) {
                    timing.mark("transaction");
                }
                let response = respond(&scope, &plan, &answer)?;
                timing.mark("response");
                return Ok(response);
            }
            Ok(None) if json == JsonBy::Server => json = JsonBy::Postgres,
            Ok(None) => {
                return Err(RestError::Internal("PostgreSQL returned a row that cannot be serialised"));
            }
            Err(error) => return Err(rights::explain(&scope, error).await),
        }
    }
}

/// Receives the body, within the request's deadline.
async fn receive(request: Request<Body>, config: &RestConfig) -> Result<Received, RestError> {
    let (head, body) = request.into_parts();
    let body = read_body(body, head.extensions.get::<BodyLease>()).await.map_err(|error| match error {
        BodyError::TooLarge => RestError::BodyTooLarge { limit: config.max_body_bytes },
        BodyError::Disconnected(_) => RestError::BodyIncomplete,
    })?;
    let deadline = head.extensions.get::<Deadline>();
    let deadline = deadline.map_or_else(|| Instant::now() + config.timeout, |deadline| deadline.at());
    Ok(Received { head, body, deadline })
}

fn respond(context: &ExecuteContext<'_>, plan: &Plan, answer: &Answer) -> Result<Response, RestError> {
    let (api, config) = (context.api, &context.snapshot.config);
    match plan {
        Plan::Info { allow } => Ok(response::info(allow)),
        Plan::Root => response::root(api, config, answer),
        Plan::Read(read) => response::read(api, config, read, answer),
        Plan::Write(write) => response::write(api, config, write, answer),
        Plan::Call(call) => response::call(api, config, call, answer),
    }
}
