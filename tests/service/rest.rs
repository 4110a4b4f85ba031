//! `/rest/v1` over HTTP, against rest.md: a real server on a real PostgreSQL.
//!
//! Tests with the unmodified client are in `conformance/`; comparisons with PostgREST in
//! `tests/oracle`. Here: headers and statuses together, transactions, roles, settings and reloads.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers fail a test by panicking")]

mod body_values;
mod calls;
mod delivery;
mod errors;
mod hints;
mod injection;
mod jwt;
mod long_bodies;
mod metadata;
mod reads;
mod reload;
mod responses;
mod roles;
mod row_encoding;
mod session_reset;
mod settings;
mod shape_cache;
mod sharing;
mod transcript;
mod writes;

use std::time::Duration;

use basalt_testkit::{Basalt, Builder, Request, Response};
use http::Method;
use serde_json::Value;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/service/rest/project");

/// How long a test waits for the server to notice a change in the database; generous, for busy machines.
const SOON: Duration = Duration::from_secs(60);

fn server() -> Builder {
    Basalt::builder().project(PROJECT)
}

/// A server for the schema `dock` that rolls back every transaction.
async fn rolled_back_server() -> Basalt {
    server()
        .config("rest.schemas", "dock,public")
        .config("rest.extra_search_path", "tools,public")
        .config("rest.tx_end", "rollback")
        .start()
        .await
}

/// A request with the anon key.
fn anon(server: &Basalt, method: Method, path: &str) -> Request {
    server.request(method, &format!("/rest/v1{path}")).apikey(server.anon_key())
}

async fn get(server: &Basalt, path: &str) -> Response {
    anon(server, Method::GET, path).send().await
}

/// Sends a write that is rolled back, so that tests can share a server.
async fn write(server: &Basalt, method: Method, path: &str, prefer: &str, body: &Value) -> Response {
    anon(server, method, path).header("prefer", &format!("tx=rollback, {prefer}")).json(body).send().await
}

/// Status, the headers that a client reads, and the body.
fn shown(response: &Response) -> String {
    use std::fmt::Write;
    let mut text = response.status.as_u16().to_string();
    for name in [
        "content-type",
        "content-profile",
        "content-range",
        "content-location",
        "location",
        "preference-applied",
        "proxy-status",
        "www-authenticate",
        "warning",
        "retry-after",
    ] {
        for value in response.headers.get_all(name) {
            write!(text, "\n{name}: {}", String::from_utf8_lossy(value.as_bytes())).unwrap();
        }
    }
    if !response.body.is_empty() {
        write!(text, "\n\n{}", response.text()).unwrap();
    }
    text
}
