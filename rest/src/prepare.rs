//! From a received request to statements: parse, plan, render. The only way into planning.

use std::sync::Arc;

use basalt_core::memory::BodyLease;
use bytes::Bytes;
use http::request::Parts;
use tokio::time::Instant;

use crate::cpu_permits::{self, ClientCpu};
use crate::error::RestError;
use crate::plan::{self, Plan};
use crate::reload::Snapshot;
use crate::request::ApiRequest;
use crate::request::payload::{Payload, Room};
use crate::response::Timing;
use crate::shape::{self, Prepared, ShapedRequest, Template};
use crate::statement::Statements;

/// A request whose body has arrived whole.
pub(crate) struct Received {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    pub(crate) deadline: Instant,
}

impl Received {
    /// Counts the memory that belongs to this request.
    fn hold(&self) -> Option<&BodyLease> {
        self.head.extensions.get()
    }
}

/// Who writes rows as JSON and takes the values out of a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonBy {
    /// This server, where it can.
    Server,
    Postgres,
}

/// Prepares a request: from the template of its shape where there is one, else by parsing, planning and rendering.
pub(crate) async fn prepare(
    request: &Received,
    snapshot: &Arc<Snapshot>,
    json: JsonBy,
    cpu: ClientCpu<'_>,
    timing: &mut Timing,
) -> Result<Prepared, RestError> {
    let head = &request.head;
    let shaped = match json {
        JsonBy::Server => ShapedRequest::read(&snapshot.config, head, &request.body),
        JsonBy::Postgres => None,
    };
    let known = shaped.as_ref().and_then(|shaped| snapshot.shapes.find(&shaped.key));
    let prepared = match (shaped, known) {
        (Some(shaped), Some(template)) => {
            timing.mark("parse");
            template.fill(shaped, &head.method, head.uri.path())
        }
        (shaped, _) => {
            let api = parse(request, shaped.as_ref(), snapshot, cpu).await?;
            timing.mark("parse");
            let mut plan = plan::plan(&api, &snapshot.config, &snapshot.cache)?;
            if json == JsonBy::Postgres || !snapshot.delivers_rows() {
                plan.deliver_value();
            }
            if let (JsonBy::Postgres, Plan::Write(write)) = (json, &mut plan) {
                write.leave_values();
            }
            let (plan, statements) = render(plan, request.body.len(), cpu).await?;
            if let (Some(shaped), Some(statements)) = (shaped, &statements) {
                keep_template(shaped, &api, statements, snapshot);
            }
            // The statements have what they need of the body.
            Prepared { api: ApiRequest { payload: None, ..api }, plan, statements }
        }
    };
    timing.mark("plan");
    Ok(prepared)
}

/// Reads the request; a long body on another thread.
async fn parse(
    request: &Received,
    shaped: Option<&ShapedRequest>,
    snapshot: &Snapshot,
    cpu: ClientCpu<'_>,
) -> Result<ApiRequest, RestError> {
    let (mut api, content_type) = ApiRequest::read_head(&snapshot.config, &request.head)?;
    api.payload = match shaped {
        // The body was read to tell the shape.
        Some(shaped) => shaped.payload(),
        None => {
            let room = Room::new(&snapshot.config, request.hold());
            let columns = api.query.columns.as_deref();
            Payload::read_long(&api.action, &content_type, columns, request.body.clone(), room, cpu).await?
        }
    };
    Ok(api)
}

/// Renders the statements; on another thread where a value is made of all of a long body, as the digits of a `bytea`.
async fn render(
    plan: Plan,
    body_bytes: usize,
    cpu: ClientCpu<'_>,
) -> Result<(Plan, Option<Statements>), RestError> {
    let is_long = plan.has_values() && cpu_permits::is_long(body_bytes);
    let render = move || {
        let statements = shape::render(&plan);
        (plan, statements)
    };
    if is_long { cpu.run(render).await } else { Ok(render()) }
}

/// Keeps what the request has in common with others of its shape, if that shape was seen before.
fn keep_template(shaped: ShapedRequest, api: &ApiRequest, statements: &Statements, snapshot: &Snapshot) {
    if snapshot.shapes.admits(&shaped.key)
        && let Some(template) = Template::of(&shaped, api, statements, &snapshot.config, &snapshot.cache)
    {
        snapshot.shapes.keep(shaped.key, template);
    }
}

impl Prepared {
    /// Counts the parameters that were made of the body and not cut out of it, and makes them hold what the body holds,
    /// because a write may outlive its request. False when there is no memory for both.
    pub(crate) fn hold_values(&mut self, request: &Received) -> bool {
        let Some(hold) = request.hold().filter(|_| self.plan.has_values()) else { return true };
        let Some(statements) = &mut self.statements else { return true };
        let params = &mut statements.main.params;
        let Some(longest) = params.iter_mut().filter_map(|param| param.0.as_mut()).max_by_key(|v| v.len())
        else {
            return true;
        };
        *longest = hold.keep(std::mem::take(longest));
        hold.grow(params.iter().filter_map(|param| param.0.as_ref()).map(Bytes::len).sum())
    }
}
