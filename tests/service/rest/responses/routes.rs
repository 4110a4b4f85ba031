//! Every route × method × `Accept`: the contract's status, content type, code and `Allow` (rest.md §1.2, §2, §3.1, §3.12).
//!
//! A row gives the outcome of each method; an outcome that does not depend on the media type is the same for every `Accept`.

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::json;

use super::super::anon;
use super::schema_server;

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "SEARCH"];

/// `Accept`, and the content type of a response with rows; `None` if it cannot be produced.
const ACCEPTS: [(&str, Option<&str>); 8] = [
    ("*/*", Some("application/json; charset=utf-8")),
    ("application/json", Some("application/json; charset=utf-8")),
    ("text/csv", Some("text/csv; charset=utf-8")),
    ("application/vnd.pgrst.object+json", Some("application/vnd.pgrst.object+json; charset=utf-8")),
    (
        "application/vnd.pgrst.array+json;nulls=stripped",
        Some("application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8"),
    ),
    (
        "application/vnd.pgrst.plan+json",
        Some("application/vnd.pgrst.plan+json; for=\"application/json\"; charset=utf-8"),
    ),
    ("application/openapi+json", None),
    ("text/unknown", None),
];

/// The outcome of a method on a route when the type can be produced.
#[derive(Clone, Copy)]
enum Outcome {
    /// A body of the requested type, with this status.
    Body(u16),
    /// No body, with this status; a plan has a body and 200.
    Empty(u16),
    /// The root document: JSON and OpenAPI only.
    Document,
    Allow(&'static str),
    /// An error that does not depend on the media type.
    Error(u16, &'static str),
}
use Outcome::{Allow, Body, Document, Empty, Error};

/// Outcomes of GET, POST, PUT, PATCH, DELETE, OPTIONS. HEAD equals GET; other methods do not exist.
type Row = (&'static str, [Outcome; 6]);

const NO_PATH: [Outcome; 6] = [Error(404, "PGRST125"); 6];
const NO_TABLE: [Outcome; 6] = [Error(404, "PGRST205"); 6];

const ROUTES: [Row; 12] = [
    (
        "/owners?id=eq.1&select=id,name",
        [
            Body(200),
            Empty(201),
            Empty(204),
            Empty(204),
            // Referenced by other tables.
            Error(409, "23503"),
            Allow("OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ],
    ),
    (
        "/pairs?a=eq.1&select=note",
        [
            Body(200),
            Error(400, "PGRST204"),
            Error(405, "PGRST105"),
            Error(400, "PGRST204"),
            Empty(204),
            Allow("OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ],
    ),
    (
        "/stored?id=eq.1&select=id",
        [
            Body(200),
            Error(400, "42809"),
            // A view that shows a key column but has no key.
            Error(400, "42P10"),
            Error(400, "42809"),
            Error(400, "42809"),
            Allow("OPTIONS,GET,HEAD"),
        ],
    ),
    (
        "/hidden?id=eq.1&select=id",
        [
            Error(401, "42501"),
            Error(401, "42501"),
            Error(401, "42501"),
            Error(401, "42501"),
            Error(401, "42501"),
            Allow("OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ],
    ),
    (
        "/rpc/one?a=1",
        [
            Body(200),
            // A POST has its arguments in the body.
            Error(400, "PGRST100"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            // OPTIONS has no arguments.
            Error(400, "PGRST100"),
        ],
    ),
    (
        "/rpc/none",
        [
            Body(200),
            Body(200),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            Allow("OPTIONS,GET,HEAD,POST"),
        ],
    ),
    (
        "/rpc/nope",
        [
            Error(404, "PGRST202"),
            Error(404, "PGRST202"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            Error(404, "PGRST202"),
        ],
    ),
    (
        "/",
        [
            Document,
            Error(405, "PGRST117"),
            Error(405, "PGRST117"),
            Error(405, "PGRST117"),
            Error(405, "PGRST117"),
            Allow("OPTIONS,GET,HEAD"),
        ],
    ),
    ("/nope", NO_TABLE),
    ("/rpc", NO_TABLE),
    ("/owners/", NO_PATH),
    ("/rpc/none/more", NO_PATH),
];

/// The expected status, content type, code and `Allow`.
fn expected(row: &Row, method: &str, accept: &str, produced: Option<&str>) -> (u16, String, String, String) {
    let (path, outcomes) = row;
    let error = |status: u16, code: &str| (status, ERROR.to_owned(), code.to_owned(), String::new());
    let outcome = match method {
        "GET" | "HEAD" => outcomes[0],
        "POST" => outcomes[1],
        "PUT" => outcomes[2],
        "PATCH" => outcomes[3],
        "DELETE" => outcomes[4],
        "OPTIONS" => outcomes[5],
        _ if matches!(outcomes[0], Error(404, "PGRST125")) => outcomes[0],
        _ if path.starts_with("/rpc/") => return error(405, "PGRST101"),
        _ => return error(405, "PGRST117"),
    };
    let is_plan = accept.contains("plan");
    // Errors found before content negotiation come first (rest.md §1.2); EXPLAIN finds no execution errors, only planning errors.
    let is_late = |code: &str| matches!(code, "23503" | "42501" | "42809" | "42P10");
    let (status, content_type) = match (outcome, produced) {
        (Allow(allow), _) => return (200, String::new(), String::new(), allow.to_owned()),
        (Document, _) => {
            let is_document = ["*/*", "application/json", "application/openapi+json"].contains(&accept);
            if !is_document {
                return error(406, "PGRST107");
            }
            (200, "application/openapi+json; charset=utf-8".to_owned())
        }
        (Error(_, code), None) if is_late(code) => return error(406, "PGRST107"),
        (Error(_, "23503"), Some(produced)) if is_plan => (200, produced.to_owned()),
        (Error(status, code), _) => return error(status, code),
        (Body(_) | Empty(_), None) => return error(406, "PGRST107"),
        (Body(status), Some(produced)) => (status, produced.to_owned()),
        (Empty(_), Some(produced)) if is_plan => (200, produced.to_owned()),
        (Empty(status), Some(_)) => (status, String::new()),
    };
    (status, content_type, String::new(), String::new())
}

const ERROR: &str = "application/json; charset=utf-8";

async fn ask(server: &Basalt, method: &str, path: &str, accept: &str) -> Response {
    let method: Method = method.parse().unwrap();
    let has_body = matches!(method.as_str(), "POST" | "PUT" | "PATCH");
    let request = anon(server, method.clone(), path).header("accept", accept).header("prefer", "tx=rollback");
    // One body for all: a row for each relation, no arguments for functions.
    let body = if path.starts_with("/rpc/") {
        json!({})
    } else if path.starts_with("/owners") && method == Method::POST {
        json!({"id": 7})
    } else {
        json!({"id": 1})
    };
    if has_body { request.json(&body).send().await } else { request.send().await }
}

#[tokio::test]
async fn every_route_method_and_type_matches_the_contract() {
    let server = schema_server().start().await;
    let mut wrong = Vec::new();
    let mut requests = 0;
    for row in &ROUTES {
        for method in METHODS {
            for (accept, produced) in ACCEPTS {
                let (status, content_type, code, allow) = expected(row, method, accept, produced);
                let response = ask(&server, method, row.0, accept).await;
                requests += 1;
                // A HEAD response has no body; read the code from Proxy-Status.
                let response_code =
                    response.header("proxy-status").trim_start_matches("PostgREST; error=").to_owned();
                let is_right = response.status.as_u16() == status
                    && response.header("content-type") == content_type
                    && response_code == code
                    && response.header("allow") == allow
                    && (method == "HEAD") <= response.body.is_empty();
                if !is_right {
                    wrong.push(format!(
                        "{method} {} {accept}: {status} {content_type} {code} {allow}, got {} {} {response_code} {}",
                        row.0,
                        response.status,
                        response.header("content-type"),
                        response.header("allow")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {requests}:\n{}", wrong.len(), wrong.join("\n"));
}
