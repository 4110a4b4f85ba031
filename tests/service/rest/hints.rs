//! Spelling hints (rest.md §3.18): suggestions for unknown names.

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
async fn similar_names_are_suggested() {
    let server = server().start().await;
    for (path, expected) in [
        // Three quarters similar, ignoring case.
        ("/client", json!(TABLE)),
        ("/cleints", json!(null)),
        ("/CLIENTS", json!(TABLE)),
        ("/clientss", json!(TABLE)),
        ("/customers", json!(null)),
        ("/x", json!(null)),
        ("/rpc/who_am", json!("Perhaps you meant to call the function public.who_am_i")),
        ("/rpc/nothing_like_it_at_all", json!(null)),
        // Parameters and relationships may differ more.
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
async fn large_schema_gets_no_suggestions() {
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

#[tokio::test]
async fn suggestions_include_only_accessible_names() {
    let server = server().start().await;
    let _made = server
        .sql(
            "create table dossiers (id int primary key, secret_key text, client_id int references clients);
             create table dossier (id int primary key);
             create table ledgers (id int primary key, owner_id int references clients, payer_id int references clients);
             create table chest (id int primary key, hidden_word text, shown text);
             create table shelves (id int primary key, hidden_mark text, shown_mark text, client_id int references clients);
             create table shelves_1 (id int primary key, hidden_mark text);
             revoke all on dossiers, dossier, ledgers, chest, shelves, shelves_1 from anon, authenticated;
             grant select on dossier to authenticated;
             grant select (id, shown) on chest to anon;
             grant select (id, shown_mark, client_id) on shelves to anon;
             grant select on shelves_1 to anon;
             create function open_the_safe(code int) returns int language sql as 'select 1';
             revoke execute on function open_the_safe from public, anon, authenticated;
             grant execute on function open_the_safe to authenticated;
             create function weigh(item int) returns int language sql as 'select 1';
             create function weigh(item text) returns int language sql as 'select 1';
             create function weigh(item box, unit text default 'kg') returns int language sql as 'select 1';
             revoke execute on function weigh(int), weigh(text), weigh(box, text) from public, anon, authenticated;
             grant execute on function weigh(text), weigh(box, text) to authenticated",
        )
        .await;
    assert_ne!(get(&server, "/dossiers").await.status, 404);
    let (visitor, member) = (server.token_of("anon"), server.token_of("authenticated"));
    let ask = async |token: &str, path: &str| {
        let request = server.get(&format!("/rest/v1{path}")).apikey(server.anon_key()).bearer(token);
        request.send().await.json()
    };
    for (path, of_visitor, of_member) in [
        ("/inbo", json!(null), json!(null)),
        // The most similar accessible name; the others are ignored.
        ("/dossierss", json!(null), json!("Perhaps you meant the table 'public.dossier'")),
        (
            "/rpc/open_the_saf",
            json!(null),
            json!("Perhaps you meant to call the function public.open_the_safe"),
        ),
        (
            "/rpc/open_the_safe?cod=1",
            json!(null),
            json!("Perhaps you meant to call the function public.open_the_safe(code)"),
        ),
        ("/clients?select=id,dossierz(id)", json!(null), json!(null)),
        (
            "/clients?select=id,project(id)",
            json!("Perhaps you meant 'projects' instead of 'project'."),
            json!("Perhaps you meant 'projects' instead of 'project'."),
        ),
        ("/chest?select=hidden_wor", json!(null), json!(null)),
        (
            "/chest?select=show",
            json!("Perhaps you meant to reference the column \"chest.shown\"."),
            json!(null),
        ),
        ("/clients?select=id,shelves(hidden_mar)", json!(null), json!(null)),
        (
            "/clients?select=id,shelves(shown_mar)",
            json!("Perhaps you meant to reference the column \"shelves_1.shown_mark\"."),
            json!(null),
        ),
        ("/dossiers?select=secret_ke", json!(null), json!(null)),
    ] {
        assert_eq!(ask(&visitor, path).await["hint"], of_visitor, "{path} as a visitor");
        assert_eq!(ask(&member, path).await["hint"], of_member, "{path} as a member");
    }
    let ambiguous = ask(&visitor, "/clients?select=id,ledgers(id)").await;
    assert_eq!(
        (&ambiguous["code"], &ambiguous["details"], &ambiguous["hint"]),
        (&json!("PGRST201"), &json!([]), &json!(null))
    );
    for (token, expected) in [
        (&visitor, "Could not choose the best candidate function"),
        (
            &member,
            "Could not choose the best candidate function between: public.weigh(item => text), public.weigh(item => box, unit => text)",
        ),
    ] {
        let ambiguous = ask(token, "/rpc/weigh?item=1").await;
        assert_eq!((&ambiguous["code"], &ambiguous["message"]), (&json!("PGRST203"), &json!(expected)));
    }
    let response = ask(&server.token_of("service_role"), "/dossiers?select=secret_ke").await;
    assert_eq!(response["hint"], json!(null), "it has no grant either");
    let _granted = server.sql("grant select on dossiers, ledgers to service_role").await;
    let response = ask(&server.token_of("service_role"), "/dossiers?select=secret_ke").await;
    assert_eq!(response["hint"], "Perhaps you meant to reference the column \"dossiers.secret_key\".");
}
