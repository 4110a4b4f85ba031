//! The schema cache follows the schema (rest.md §4.4).

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{anon, get, server};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn new_tables_functions_and_relationships_appear() {
    let server = server().start().await;
    assert_eq!(get(&server, "/later").await.status, 404);
    let _done = server
        .sql(
            "create table later (id int primary key, client_id int references clients);
             grant select on later to anon;
             insert into later values (1, 2)",
        )
        .await;
    let request = anon(&server, Method::GET, "/later?select=id,clients(name)");
    let answer = server.until(SOON, &request, |response| response.status == 200).await;
    assert_eq!(answer.json(), json!([{"id": 1, "clients": {"name": "Globex"}}]));
    let _done = server.sql("drop table later").await;
    let gone = anon(&server, Method::GET, "/later");
    let answer = server.until(SOON, &gone, |response| response.json()["code"] == "PGRST205").await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn grants_act_at_once() {
    let server = server().start().await;
    let _done = server.sql("revoke select on clients from anon").await;
    assert_eq!(get(&server, "/clients").await.json()["code"], "42501");
}

#[tokio::test]
async fn a_changed_column_type_does_not_break_prepared_statements() {
    let server = server().start().await;
    for _ in 0..20 {
        let _warm = get(&server, "/kv?select=*").await.expect(200);
    }
    let _done = server.sql("alter table kv add column extra int; alter table kv alter value type text").await;
    for _ in 0..20 {
        let row = get(&server, "/kv?select=*").await.expect(200).json();
        assert_eq!(row[0]["value"], "1");
    }
}

#[tokio::test]
async fn settings_in_the_database_count_after_a_reload() {
    let server = server().start().await;
    let name = server.database().name();
    let setting = format!("alter role authenticator in database \"{name}\" set pgrst.db_max_rows = '1'");
    let _done = server.database().admin_sql(&setting).await;
    let _done = server.sql("notify pgrst, 'reload config'").await;
    let request = anon(&server, Method::GET, "/clients");
    let answer = server
        .until(SOON, &request, |response| response.json().as_array().is_some_and(|rows| rows.len() == 1))
        .await;
    assert_eq!(answer.header("content-range"), "0-0/*");
}
