//! Roles, privileges, policies and their errors (rest.md §3.15, §3.18).

use http::Method;
use insta::assert_snapshot;
use serde_json::json;

use super::{anon, get, server, shown};

#[tokio::test]
async fn token_is_checked_first() {
    let server = server().start().await;
    let with = |token: &str| anon(&server, Method::GET, "/no/such/path").bearer(token).send();
    assert_snapshot!(shown(&with("a.b").await), @r#"
    401
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST301
    www-authenticate: Bearer error="invalid_token", error_description="Expected 3 parts in JWT; got 2"

    {"code":"PGRST301","details":null,"hint":null,"message":"Expected 3 parts in JWT; got 2"}
    "#);
    assert_snapshot!(shown(&with(&server.token(&json!({"role": "anon", "exp": 1}))).await), @r#"
    401
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST303
    www-authenticate: Bearer error="invalid_token", error_description="JWT expired"

    {"code":"PGRST303","details":null,"hint":null,"message":"JWT expired"}
    "#);
    assert_snapshot!(shown(&with(&server.token(&json!({"role": "anon", "nbf": 99_999_999_999_i64}))).await), @r#"
    401
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST303
    www-authenticate: Bearer error="invalid_token", error_description="JWT not yet valid"

    {"code":"PGRST303","details":null,"hint":null,"message":"JWT not yet valid"}
    "#);
    let forged = format!("{}x", server.token_of("authenticated"));
    assert_snapshot!(shown(&with(&forged).await), @r#"
    401
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST301
    www-authenticate: Bearer error="invalid_token", error_description="No suitable key or wrong key type"

    {"code":"PGRST301","details":"None of the keys was able to decode the JWT","hint":null,"message":"No suitable key or wrong key type"}
    "#);
    assert_eq!(with(&server.token_of("authenticated")).await.status, 404);
}

#[tokio::test]
async fn unusable_role_is_rejected_by_postgresql() {
    let server = server().start().await;
    let with = |role: &str| anon(&server, Method::GET, "/clients").bearer(&server.token_of(role)).send();
    assert_snapshot!(shown(&with("nobody_at_all").await), @r#"
    401
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=22023
    www-authenticate: Bearer

    {"code":"22023","details":null,"hint":null,"message":"role \"nobody_at_all\" does not exist"}
    "#);
    assert_snapshot!(shown(&with("postgres").await), @r#"
    403
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=42501

    {"code":"42501","details":null,"hint":null,"message":"permission denied to set role \"postgres\""}
    "#);
}

#[tokio::test]
async fn missing_privilege_is_401_for_anon_403_for_others() {
    let server = server().start().await;
    assert_snapshot!(shown(&get(&server, "/inbox").await), @r#"
    401
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=42501
    www-authenticate: Bearer

    {"code":"42501","details":null,"hint":null,"message":"permission denied for table inbox"}
    "#);
    let user = server.token_of("authenticated");
    assert_snapshot!(shown(&anon(&server, Method::GET, "/inbox").bearer(&user).send().await), @r#"
    403
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=42501

    {"code":"42501","details":null,"hint":null,"message":"permission denied for table inbox"}
    "#);
    // Inserting does not require the SELECT privilege.
    let added = anon(&server, Method::POST, "/inbox").json(&json!({"id": 1, "text": "hi"})).send().await;
    assert_eq!(added.status, 201);
    let service = server.request(Method::GET, "/rest/v1/inbox").apikey(server.secret_key()).send().await;
    assert_eq!(service.json(), json!([{"id": 1, "text": "hi"}]));
}

#[tokio::test]
async fn policies_can_use_claims() {
    let server = server().start().await;
    let (me, you) = (
        server.token(&json!({"role": "authenticated", "sub": "me"})),
        server.token(&json!({"role": "authenticated", "sub": "you"})),
    );
    let note = json!({"id": 1, "text": "mine"});
    let _created = anon(&server, Method::POST, "/notes").bearer(&me).json(&note).send().await.expect(201);
    let stolen = json!({"id": 2, "owner": "you", "text": "planted"});
    let refused = anon(&server, Method::POST, "/notes").bearer(&me).json(&stolen).send().await;
    assert_snapshot!(shown(&refused), @r#"
    403
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=42501

    {"code":"42501","details":null,"hint":null,"message":"new row violates row-level security policy for table \"notes\""}
    "#);
    let read = |token: &str| anon(&server, Method::GET, "/notes?select=text").bearer(token).send();
    assert_eq!(read(&me).await.json(), json!([{"text": "mine"}]));
    assert_eq!(read(&you).await.json(), json!([]));
    let changed = anon(&server, Method::PATCH, "/notes?id=eq.1")
        .bearer(&you)
        .json(&json!({"text": "yours"}))
        .send()
        .await;
    assert_eq!((changed.status.as_u16(), changed.header("content-range")), (204, "*/*"));
    // The next anonymous request on the connection has no claims.
    assert!(get(&server, "/rpc/who_am_i").await.json()["claims"]["sub"].is_null());
}

#[tokio::test]
async fn pre_request_function_can_reject_requests() {
    let server = server().config("rest.pre_request", "public.gatekeeper").start().await;
    let passed = get(&server, "/clients?id=eq.1").await.expect(200);
    assert_eq!(passed.header("x-seen"), "yes");
    let blocked = anon(&server, Method::POST, "/clients").header("x-blocked", "1");
    let blocked = blocked.json(&json!({"id": 9, "name": "x"})).send().await;
    assert_eq!((blocked.status.as_u16(), blocked.json()["code"].as_str()), (451, Some("PT451")));
    assert_eq!(server.database().count("clients").await, 2);
}
