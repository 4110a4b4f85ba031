//! Requests that are too deep, too wide or too long for PostgreSQL.

use basalt_testkit::Response;
use http::Method;
use serde_json::json;

use super::super::{anon, get, server};

fn check(refused: &Response, code: &str, what: &str) {
    let text = refused.text();
    assert_eq!(refused.status, 400, "{what}: {}", text.chars().take(500).collect::<String>());
    assert_eq!(refused.json()["code"], code, "{what}");
    let hint = refused.json()["hint"].to_string();
    assert!(hint.starts_with("\"The request"), "{what}: {hint}");
    assert!(!text.contains("max_stack_depth"), "{what}: configuration advice is only for the operator");
}

#[tokio::test]
async fn too_deep_request_is_a_client_error() {
    let server = server().start().await;
    let steps = "-%3Ea".repeat(5_000);
    for path in [format!("/projects?select=meta{steps}"), format!("/projects?meta{steps}=not.is.null")] {
        check(&get(&server, &path).await, "54001", path.get(..20).unwrap());
    }
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let json = |path: &str, body: String| {
        anon(&server, Method::POST, path).header("content-type", "application/json").body(body).send()
    };
    let row = format!(r#"{{"id":90,"name":"deep","meta":{deep}}}"#);
    for (path, body) in [
        ("/projects", row.clone()),
        ("/projects?columns=id,name,meta", row.clone()),
        ("/projects?columns=id,name,meta", format!("[{row}]")),
        ("/rpc/echo", deep.clone()),
        ("/rpc/add", format!(r#"{{"a":1,"b":{deep}}}"#)),
    ] {
        check(&json(path, body).await, "54001", path);
    }
    let small = anon(&server, Method::POST, "/rpc/add").json(&json!({"a": 1, "b": 2})).send().await;
    assert_eq!((small.status.as_u16(), small.text().as_str()), (200, "3"));
}

#[tokio::test]
async fn pattern_that_needs_too_much_memory_is_a_bad_request() {
    let server = server().start().await;
    // PostgreSQL compiles the pattern, then refuses to allocate more than 1 GB for it.
    let pattern = "((a{1,50}){1,50}b){1,14}";
    for filter in [format!("name=match.{pattern}"), format!("or=(id.lt.0,name.not.match.\"{pattern}\")")] {
        let path = format!(
            "/rest/v1/projects?{}",
            filter.replace('"', "%22").replace('{', "%7B").replace('}', "%7D")
        );
        // Use a service key: compiling takes a second, and other roles have a short statement timeout.
        let refused = server.get(&path).apikey(server.secret_key()).send().await;
        check(&refused, "XX000", &filter);
    }
}

#[tokio::test]
async fn too_wide_or_too_long_request_is_a_client_error() {
    let server = server().start().await;
    let names: Vec<String> = (0..1_700).map(|n| format!("c{n}:id")).collect();
    check(&get(&server, &format!("/projects?select={}", names.join(","))).await, "54011", "columns");
    // An index entry is limited to a third of a page; this key cannot be compressed.
    let key: String = (0..2_000_u32).map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761))).collect();
    let row = json!({"key": key, "value": 1});
    check(&anon(&server, Method::POST, "/kv").json(&row).send().await, "54000", "a key");
}
