//! A whole request in the format of the plan snapshots: `METHOD target`, header lines, an empty line, a body.

use std::sync::LazyLock;

use basalt_rest::config::RestConfig;
use basalt_rest::error::ErrorContext;
use basalt_rest::plan::{self, Plan};
use basalt_rest::request::ApiRequest;
use basalt_rest::schema_cache::SchemaCache;
use basalt_rest::statement;
use bytes::Bytes;
use http::Request;
use http::request::Parts;

use crate::statement_text;

/// The schema of the plan snapshots.
#[path = "../../../rest/tests/plans/fixture.rs"]
#[expect(clippy::unwrap_used, reason = "written for tests")]
mod fixture;

static CACHE: LazyLock<SchemaCache> = LazyLock::new(fixture::cache);
static CONFIG: LazyLock<RestConfig> =
    LazyLock::new(|| RestConfig { aggregates: true, plan_enabled: true, ..RestConfig::default() });

/// From a request's bytes to its statement, or to an error with a status.
pub(crate) fn request(data: &[u8]) {
    let Some((head, body)) = split(data) else { return };
    let read = ApiRequest::read(&CONFIG, &head, body);
    let statements = match read.and_then(|request| plan::plan(&request, &CONFIG, &CACHE)) {
        Ok(Plan::Read(plan)) => statement::for_read(&plan),
        Ok(Plan::Write(plan)) => statement::mutate::for_write(&plan),
        Ok(Plan::Call(plan)) => statement::call::for_call(&plan),
        Ok(Plan::Root | Plan::Info { .. }) => return,
        Err(error) => {
            let status = error.wire(ErrorContext::default()).status;
            assert!(status.is_client_error() || status == 300, "{status}");
            return;
        }
    };
    statement_text::check(&statements.main.text);
    for estimate in statements.estimates {
        statement_text::check(&estimate.text);
    }
}

fn split(data: &[u8]) -> Option<(Parts, Bytes)> {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match end {
        Some(end) => (data.get(..end)?, data.get(end + 2..)?),
        None => (data, &b""[..]),
    };
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let (method, target) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target);
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        request = request.header(name, value);
    }
    let (head, ()) = request.body(()).ok()?.into_parts();
    Some((head, Bytes::copy_from_slice(body)))
}
