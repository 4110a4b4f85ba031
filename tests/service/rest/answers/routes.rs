//! Every route × method × `Accept`: the contract's status, type, code and `Allow` (rest.md §1.2, §2, §3.1, §3.12).
//!
//! Each column of the table is what one `Accept` header makes of an answer that has a body; what does not depend on the
//! type is the same in all columns.

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::json;

use super::super::anon;
use super::answers;

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "SEARCH"];

/// `Accept`, and the type of an answer with rows. Without a type it cannot be produced.
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

/// What a route makes of a method when the type can be produced.
#[derive(Clone, Copy)]
enum Outcome {
    /// A body of the wanted type, with this status.
    Body(u16),
    /// No body, whatever the type, with this status; a plan has one, and 200.
    Empty(u16),
    /// The root document: JSON and OpenAPI only.
    Document,
    Allow(&'static str),
    /// An error that has nothing to do with the type.
    Error(u16, &'static str),
}
use Outcome::{Allow, Body, Document, Empty, Error};

/// GET, POST, PUT, PATCH, DELETE, OPTIONS; HEAD is as GET, and no route has another method.
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
            // Referred to by others.
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
            // It shows the key, and has none.
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
            // Arguments of a POST are in its body.
            Error(400, "PGRST100"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            Error(405, "PGRST101"),
            // Nor are there any for OPTIONS.
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

/// What a method of a route answers to one `Accept`.
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
    // Whatever is wrong before the media type is looked at comes first (rest.md §1.2), and what is wrong in the
    // database is not found out by explaining, except what planning finds.
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
    // One body for all: a row for each relation, and no arguments for functions.
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
async fn every_route_method_and_type_has_its_answer() {
    let server = answers().start().await;
    let mut wrong = Vec::new();
    let mut asked = 0;
    for row in &ROUTES {
        for method in METHODS {
            for (accept, produced) in ACCEPTS {
                let (status, content_type, code, allow) = expected(row, method, accept, produced);
                let answer = ask(&server, method, row.0, accept).await;
                asked += 1;
                // HEAD has no body to read the code from; Proxy-Status has it.
                let told = answer.header("proxy-status").trim_start_matches("PostgREST; error=").to_owned();
                let is_right = answer.status.as_u16() == status
                    && answer.header("content-type") == content_type
                    && told == code
                    && answer.header("allow") == allow
                    && (method == "HEAD") <= answer.body.is_empty();
                if !is_right {
                    wrong.push(format!(
                        "{method} {} {accept}: {status} {content_type} {code} {allow}, got {} {} {told} {}",
                        row.0,
                        answer.status,
                        answer.header("content-type"),
                        answer.header("allow")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
}
