//! One request, step by step: who, what, how, and the answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State as Extract;
use axum::response::Response;
use basalt_core::clock::Clock;
use basalt_core::memory::Hold;
use basalt_core::service::{BodyError, Deadline, read_body};
use basalt_core::session::{SessionError, Sessions, Statement};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request};
use tokio::time::Instant;

use crate::auth;
use crate::config::RestConfig;
use crate::error::{ErrorContext, ErrorResponse, RestError};
use crate::plan::{self, Plan};
use crate::reload::{RestHandle, Snapshot, View};
use crate::request::ApiRequest;
use crate::request::payload::{Payload, Room};
use crate::response::{self, Timing};
use crate::shape::{Asked, Ready, Template};
use crate::statement::Statements;
use crate::{execute, long_work, rights, shape};

/// What every request needs.
pub(crate) struct State {
    pub(crate) handle: RestHandle,
    pub(crate) sessions: Sessions,
    pub(crate) clock: Clock,
    /// Documents of the root are made one at a time: of a large schema one is tens of megabytes while it is made, and
    /// takes as long as hundreds of requests.
    pub(crate) documents: long_work::Turns,
}

/// Answers a request; every way out has the contract's shape.
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
    let mut response = match answer(&state, &view, request, &mut context, &mut timing).await {
        Ok(response) => response,
        Err(error) => {
            let wire = error.wire(context);
            log(&error, &wire);
            wire.into_response(context)
        }
    };
    timing.decorate(response.headers_mut());
    if let Some((name, value)) = trace {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Server faults go to the log; what a statement of the database's own makes of a request is between the two.
fn log(error: &RestError, wire: &ErrorResponse) {
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

async fn answer(
    state: &State,
    view: &View,
    request: Request<Body>,
    context: &mut ErrorContext,
    timing: &mut Timing,
) -> Result<Response, RestError> {
    let (head, body) = request.into_parts();
    let config = view.config();
    let caller = auth::authenticate(&head.headers, view.keys(), config, state.clock.unix_seconds())?;
    context.is_anonymous = caller.is_anonymous;
    timing.mark("jwt");
    let snapshot = view.loaded.as_ref().ok_or(RestError::CacheNotLoaded)?;
    let body = read_body(body, head.extensions.get::<Hold>()).await.map_err(|error| match error {
        BodyError::TooLarge => RestError::BodyTooLarge { limit: config.max_body_bytes },
        BodyError::Disconnected(_) => RestError::BodyIncomplete,
    })?;
    let deadline = head
        .extensions
        .get::<Deadline>()
        .map_or_else(|| Instant::now() + config.timeout, |Deadline(deadline)| *deadline);
    let asked = Asked::read(config, &head, &body);
    let known = asked.as_ref().and_then(|asked| snapshot.shapes.find(&asked.key));
    let (newer, ready) = match (asked, known) {
        (Some(asked), Some(shape)) => {
            timing.mark("parse");
            (None, shape.fill(asked, &head.method, head.uri.path()))
        }
        (asked, _) => {
            let request = Unplanned { head: &head, body: &body, asked };
            request.plan(&state.handle, config, snapshot, deadline, timing).await?
        }
    };
    let snapshot = newer.as_ref().unwrap_or(snapshot);
    timing.mark("plan");
    let scene = execute::Scene {
        snapshot,
        sessions: &state.sessions,
        caller: &caller,
        api: &ready.api,
        headers: &head.headers,
        deadline,
        documents: &state.documents,
    };
    let as_value = || {
        let api = ApiRequest::read(&snapshot.config, &head, body.clone())?;
        let mut plan = plan::plan(&api, &snapshot.config, &snapshot.cache)?;
        if let Plan::Write(write) = &mut plan {
            write.leave_values();
        } else {
            // A schema cache that delivers no rows any more plans for values.
            snapshot.shapes.clear();
        }
        shape::render(&plan).ok_or(RestError::Internal("rows of a plan without statements"))
    };
    let mut statements = ready.statements;
    if has_values(&ready.plan)
        && let (Some(hold), Some(made)) = (head.extensions.get::<Hold>(), &mut statements)
        && !hold_values(&mut made.main, hold)
    {
        // A write can leave the body to PostgreSQL, as it came.
        let Plan::Write(_) = &ready.plan else { return Err(RestError::Busy) };
        statements = Some(as_value()?);
    }
    match perform(&scene, &ready.plan, statements, &as_value, head.uri.path(), timing).await {
        Ok(response) => {
            timing.mark("response");
            Ok(response)
        }
        Err(error) => Err(rights::explain(&scene, error).await),
    }
}

/// Whether parameters of the statement are made of the body, and not slices of it.
fn has_values(plan: &Plan) -> bool {
    match plan {
        Plan::Write(write) => write.has_values(),
        Plan::Call(call) => call.has_values(),
        Plan::Read(_) | Plan::Root | Plan::Info { .. } => false,
    }
}

/// Counts what was made of a body beside it, and has it hold what the body holds: the write may outlive the request. False
/// when there is no room for both.
fn hold_values(statement: &mut Statement, hold: &Hold) -> bool {
    let values = statement.params.iter_mut().filter_map(|param| param.0.as_mut());
    let Some(longest) = values.max_by_key(|value| value.len()) else { return true };
    *longest = hold.keep(std::mem::take(longest));
    hold.grow(statement.params.iter().filter_map(|param| param.0.as_ref()).map(Bytes::len).sum())
}

/// A request of a shape that is not known.
struct Unplanned<'a> {
    head: &'a Parts,
    body: &'a Bytes,
    asked: Option<Asked>,
}

impl Unplanned<'_> {
    /// Parses, plans and renders, and keeps what comes of it if the shape was seen before. The snapshot is a newer one
    /// where the schema had changed.
    async fn plan(
        self,
        handle: &RestHandle,
        config: &RestConfig,
        snapshot: &Arc<Snapshot>,
        deadline: Instant,
        timing: &mut Timing,
    ) -> Result<(Option<Arc<Snapshot>>, Ready), RestError> {
        let Self { head, body, asked } = self;
        let (mut api, content_type) = ApiRequest::read_head(config, head)?;
        api.payload = match &asked {
            // It was read to tell the shape.
            Some(asked) => asked.payload(),
            None => {
                let room = Room::new(config, head.extensions.get::<Hold>());
                let columns = api.query.columns.as_deref();
                Payload::read_aside(&api.action, &content_type, columns, body.clone(), room).await?
            }
        };
        timing.mark("parse");
        let planned = plan::plan(&api, config, &snapshot.cache);
        let newer = match &planned {
            Err(error) if error.may_be_stale() => handle.newer(snapshot, deadline).await,
            _ => None,
        };
        let plan = match &newer {
            Some(newer) => plan::plan(&api, &newer.config, &newer.cache)?,
            None => planned?,
        };
        let (plan, statements) = if has_values(&plan) && long_work::is_long(body.len()) {
            // A value is made of all of the body, as the digits of a `bytea` are.
            let render = move || {
                let statements = shape::render(&plan);
                (plan, statements)
            };
            long_work::run(render).await?
        } else {
            let statements = shape::render(&plan);
            (plan, statements)
        };
        // A newer snapshot may expose other schemas than the shape was read under.
        if let (Some(asked), Some(statements), None) = (asked, &statements, &newer)
            && snapshot.shapes.admits(&asked.key)
            && let Some(template) = Template::of(&asked, &api, statements, config, &snapshot.cache)
        {
            snapshot.shapes.keep(asked.key, template);
        }
        // The statements have what they need of it.
        api.payload = None;
        Ok((newer, Ready { api, plan, statements }))
    }
}

/// Runs the plan and words its answer.
async fn perform(
    scene: &execute::Scene<'_>,
    plan: &Plan,
    statements: Option<Statements>,
    as_value: execute::AsValue<'_>,
    path: &str,
    timing: &mut Timing,
) -> Result<Response, RestError> {
    let config = &scene.snapshot.config;
    let statements = || statements.ok_or(RestError::Internal("a plan without statements"));
    match plan {
        Plan::Info { allow } => Ok(response::info(allow)),
        Plan::Root => {
            let answer = execute::root(scene).await?;
            timing.mark("transaction");
            response::root(scene.api, config, &answer)
        }
        Plan::Read(read) => {
            let answer = execute::read(scene, read, statements()?, as_value).await?;
            timing.mark("transaction");
            response::read(scene.api, config, read, &answer, path)
        }
        Plan::Write(write) => {
            let answer = execute::write(scene, write, statements()?, as_value).await?;
            timing.mark("transaction");
            response::write(scene.api, config, write, &answer, path)
        }
        Plan::Call(call) => {
            let answer = execute::call(scene, call, statements()?, as_value).await?;
            timing.mark("transaction");
            response::call(scene.api, config, call, &answer)
        }
    }
}
