//! `Basalt-Truncated` (rest.md §7.1, our extension): the response was truncated by max-rows.

use http::Method;
use serde_json::json;

use super::super::anon;
use super::schema_server;

#[tokio::test]
async fn truncated_response_has_the_header() {
    let server = schema_server().config("rest.max_rows", "2").start().await;
    let cut = [
        "/owners",
        "/owners?limit=3",
        "/owners?id=gt.0&order=id",
        "/owners?select=id,things(id)",
        "/things?select=owner_id",
        "/rpc/all_owners",
        "/rpc/all_owners?select=id&limit=5",
    ];
    let whole = [
        "/owners?limit=2",
        "/owners?limit=1",
        "/owners?offset=1",
        "/owners?offset=2",
        "/owners?id=lt.3",
        "/owners?id=eq.1",
        "/owners?limit=0",
        "/owners?id=eq.99",
        "/rpc/all_owners?limit=2",
        "/rpc/all_owners?id=eq.1",
        "/rpc/none",
        "/",
    ];
    for prefer in ["handling=lenient", "count=exact", "count=planned", "count=estimated"] {
        for method in [Method::GET, Method::HEAD] {
            let ask = |path: &str| anon(&server, method.clone(), path).header("prefer", prefer).send();
            for path in cut {
                assert_eq!(
                    ask(path).await.header("basalt-truncated"),
                    "max-rows",
                    "{method} {path} {prefer}"
                );
            }
            for path in whole {
                assert!(
                    !ask(path).await.headers.contains_key("basalt-truncated"),
                    "{method} {path} {prefer}"
                );
            }
        }
    }
    let ranged = |range: &'static str| anon(&server, Method::GET, "/owners").header("range", range).send();
    assert_eq!(ranged("0-9").await.header("basalt-truncated"), "max-rows");
    assert!(!ranged("0-1").await.headers.contains_key("basalt-truncated"));
    // Writes are not capped.
    let written = anon(&server, Method::PATCH, "/owners?id=gt.0")
        .header("prefer", "return=representation, tx=rollback")
        .json(&json!({"name": "x"}));
    let written = written.send().await.expect(200);
    assert_eq!(written.json().as_array().unwrap().len(), 3);
    assert!(!written.headers.contains_key("basalt-truncated"));
}

#[tokio::test]
async fn without_max_rows_nothing_is_truncated() {
    let server = schema_server().config("rest.max_rows", "0").start().await;
    let response = anon(&server, Method::GET, "/owners").send().await.expect(200);
    assert_eq!(response.json().as_array().unwrap().len(), 3);
    assert!(!response.headers.contains_key("basalt-truncated"));
}
