//! Spelling hints (rest.md §3.18): what is suggested for a name that is not there, and when nothing is.

use basalt_testkit::Basalt;
use http::Method;
use serde_json::{Value, json};

use super::{anon, get, server};

async fn hint(server: &Basalt, path: &str) -> Value {
    get(server, path).await.json()["hint"].clone()
}

async fn posted_hint(server: &Basalt, path: &str, body: &Value) -> Value {
    anon(server, Method::POST, path).json(body).send().await.json()["hint"].clone()
}

const TABLE: &str = "Perhaps you meant the table 'public.clients'";

#[tokio::test]
async fn names_like_the_wrong_one_are_suggested() {
    let server = server().start().await;
    for (path, expected) in [
        // Three quarters alike, whatever the case.
        ("/client", json!(TABLE)),
        ("/cleints", json!(null)),
        ("/CLIENTS", json!(TABLE)),
        ("/clientss", json!(TABLE)),
        ("/customers", json!(null)),
        ("/x", json!(null)),
        ("/rpc/who_am", json!("Perhaps you meant to call the function public.who_am_i")),
        ("/rpc/nothing_like_it_at_all", json!(null)),
        // Parameters and relationships may be further off.
        ("/rpc/add?a=1", json!("Perhaps you meant to call the function public.add(a, b)")),
        ("/rpc/add?a=1&b=2&c=3", json!("Perhaps you meant to call the function public.add(a, b)")),
        ("/rpc/add", json!(null)),
        ("/projects?select=id,client(name)", json!("Perhaps you meant 'clients' instead of 'client'.")),
        ("/projects?select=id,zzz(name)", json!(null)),
    ] {
        assert_eq!(hint(&server, path).await, expected, "{path}");
    }
    let body = json!({"aa": 1, "b": 2});
    assert_eq!(
        posted_hint(&server, "/rpc/add", &body).await,
        "Perhaps you meant to call the function public.add(a, b)"
    );
}

#[tokio::test]
async fn a_large_schema_is_not_searched() {
    let server = server().start().await;
    let fill = |from: usize, to: usize| {
        format!(
            "do $$ begin for n in {from}..{to} loop execute format('create table filler_%s ()', n); end loop; end $$"
        )
    };
    let relations = "select count(*) from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r','v','m','f','p') and not relispartition";
    let there: usize = server.database().value(relations).await.parse().unwrap();
    let _done = server.sql(&fill(1, 499 - there)).await;
    let last = format!("/filler_{}", 499 - there);
    assert_ne!(get(&server, &last).await.status, 404, "499 relations");
    assert_eq!(hint(&server, "/client").await, TABLE);
    let _done = server.sql("create table filler_of_500 ()").await;
    assert_ne!(get(&server, "/filler_of_500").await.status, 404, "500 relations");
    for path in ["/client", "/rpc/who_am", "/rpc/add?a=1", "/projects?select=id,client(name)"] {
        assert_eq!(hint(&server, path).await, json!(null), "{path}");
    }
}
