//! Turns a received request into statements: parse, plan, render. Every plan is made here.

use std::sync::Arc;

use basalt_core::memory::BodyLease;
use bytes::Bytes;
use http::request::Parts;
use tokio::time::Instant;

use crate::client_cpu::{self, ClientCpu};
use crate::error::RestError;
use crate::plan::{self, Plan};
use crate::reload::Snapshot;
use crate::request::ApiRequest;
use crate::request::payload::{DecodeBudget, Payload};
use crate::response::Timing;
use crate::shape::{self, Prepared, ShapedRequest, Template};
use crate::statement::Statements;

/// A request whose body has been received completely.
pub(crate) struct Received {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    pub(crate) deadline: Instant,
}

impl Received {
    /// Lease that the request's memory is charged to.
    fn lease(&self) -> Option<&BodyLease> {
        self.head.extensions.get()
    }
}

/// Which side converts rows to JSON and decodes a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonBy {
    /// This server, where it can.
    Server,
    Postgres,
}

/// Prepares a request: from the template of its shape if it is cached, or else by parsing, planning and rendering.
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
                write.leave_decoding_to_postgres();
            }
            let (plan, statements) = render(plan, request.body.len(), cpu).await?;
            if let (Some(shaped), Some(statements)) = (shaped, &statements) {
                cache_template(shaped, &api, statements, snapshot);
            }
            // The statements contain what they need of the body.
            Prepared { api: ApiRequest { payload: None, ..api }, plan, statements }
        }
    };
    timing.mark("plan");
    Ok(prepared)
}

/// Parses the request; a long body is parsed on another thread.
async fn parse(
    request: &Received,
    shaped: Option<&ShapedRequest>,
    snapshot: &Snapshot,
    cpu: ClientCpu<'_>,
) -> Result<ApiRequest, RestError> {
    let (mut api, content_type) = ApiRequest::read_head(&snapshot.config, &request.head)?;
    api.payload = match shaped {
        // The body was already parsed to determine the shape.
        Some(shaped) => shaped.payload(),
        None => {
            let room = DecodeBudget::new(&snapshot.config, request.lease());
            let columns = api.query.columns.as_deref();
            Payload::read_long(&api.action, &content_type, columns, request.body.clone(), room, cpu).await?
        }
    };
    Ok(api)
}

/// Renders the statements; on another thread if a parameter is built from all of a long body, such as the digits of a
/// `bytea`.
async fn render(
    plan: Plan,
    body_bytes: usize,
    cpu: ClientCpu<'_>,
) -> Result<(Plan, Option<Statements>), RestError> {
    let is_long = plan.has_values() && client_cpu::is_long(body_bytes);
    let render = move || {
        let statements = shape::render(&plan);
        (plan, statements)
    };
    if is_long { cpu.run(render).await } else { Ok(render()) }
}

/// Caches a template for the shape of the request, if that shape was seen before.
fn cache_template(shaped: ShapedRequest, api: &ApiRequest, statements: &Statements, snapshot: &Snapshot) {
    if snapshot.shapes.admits(&shaped.key)
        && let Some(template) = Template::new(&shaped, api, statements, &snapshot.config, &snapshot.cache)
    {
        snapshot.shapes.insert(shaped.key, template);
    }
}

impl Prepared {
    /// Charges memory for parameters decoded from the body, and attaches the body's lease to them, because a write
    /// may outlive its request. Returns false if there is not enough memory for both.
    pub(crate) fn charge_values(&mut self, request: &Received) -> bool {
        let Some(lease) = request.lease().filter(|_| self.plan.has_values()) else { return true };
        let Some(statements) = &mut self.statements else { return true };
        let params = &mut statements.main.params;
        let Some(longest) = params.iter_mut().filter_map(|param| param.0.as_mut()).max_by_key(|v| v.len())
        else {
            return true;
        };
        *longest = lease.keep(std::mem::take(longest));
        lease.grow(params.iter().filter_map(|param| param.0.as_ref()).map(Bytes::len).sum())
    }
}
