//! Requests of `pg_net` and of database webhooks, sent by the server.

use std::collections::HashSet;
use std::time::Duration;

use basalt_testkit::{Basalt, HttpStub, Reply};
use serde_json::{Value, json};

use super::{run, until, value};

/// A server whose database may call the stub on this machine.
async fn server() -> Basalt {
    let server = Basalt::builder().config("extensions.net_private_addresses", "true").start().await;
    let _rows = run(server.database(), "create extension pg_net with schema extensions").await;
    server
}

/// Sends a request and returns its row in `net._http_response`.
async fn response(server: &Basalt, call: &str) -> Value {
    let database = server.database();
    let id = value(database, &format!("select {call}")).await;
    until(database, &format!("select count(*) from net._http_response where id = {id}"), "1").await;
    let row = value(database, &format!("select to_jsonb(r) from net._http_response r where id = {id}")).await;
    serde_json::from_str(&row).unwrap_or_default()
}

#[tokio::test]
async fn request_leaves_after_the_commit_with_all_its_parts() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|_| Reply::Respond(201, r#"{"ok": true}"#.to_owned())).await;
    let url = stub.url();
    let rolled_back = format!("begin; select net.http_post(url := '{url}/never'); rollback; select 1");
    let _rows = run(database, &rolled_back).await;
    let call = format!(
        "net.http_post(url := '{url}/functions?x=1', body := '{{\"a\": 1}}', params := '{{\"q\": \"ä b\"}}',
           headers := '{{\"Authorization\": \"Bearer t\", \"Host\": \"evil\"}}', timeout_milliseconds := 3000)"
    );
    let row = response(&server, &call).await;
    assert_eq!((&row["status_code"], &row["content_type"]), (&json!(201), &json!("application/json")));
    assert_eq!(
        (&row["content"], &row["timed_out"], &row["error_msg"]),
        (&json!("{\"ok\": true}"), &json!(false), &Value::Null)
    );
    let requests = stub.requests();
    assert_eq!(requests.len(), 1, "the request of the rolled-back transaction was not sent");
    let request = &requests[0];
    assert!(request.head.starts_with("POST /functions?x=1&q=%C3%A4%20b HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("authorization"), "Bearer t");
    assert_eq!(request.header("content-type"), "application/json");
    assert!(url.ends_with(&request.header("host")), "{}", request.head);
    assert_eq!(request.json(), json!({"a": 1}));
    let row = response(&server, &format!("net.http_get('{url}/get', headers := '{{}}')")).await;
    assert_eq!(row["status_code"], 201);
    assert!(stub.requests()[1].head.starts_with("GET /get HTTP/1.1\r\n"));
}

#[tokio::test]
async fn thousand_requests_of_one_transaction_are_sent_once_each() {
    let server = server().await;
    let database = server.database();
    let _second = Basalt::builder()
        .database_url(&database.url())
        .config("extensions.net_private_addresses", "true")
        .start()
        .await;
    let stub = HttpStub::start(|_| Reply::Respond(200, "{}".to_owned())).await;
    let url = stub.url();
    let send = format!(
        "select count(net.http_post(url := '{url}', body := jsonb_build_object('n', n))) from generate_series(1, 1000) n"
    );
    assert_eq!(value(database, &send).await, "1000");
    until(database, "select count(*) from net._http_response where status_code = 200", "1000").await;
    until(database, "select count(*) from net.http_request_queue", "0").await;
    let requests = stub.requests();
    let distinct: HashSet<String> = requests.iter().map(|request| request.body.clone()).collect();
    assert_eq!((requests.len(), distinct.len()), (1000, 1000));
}

#[tokio::test]
async fn private_addresses_are_refused() {
    let server = Basalt::start().await;
    let _rows = run(server.database(), "create extension pg_net").await;
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://10.0.0.1/",
    ] {
        let row = response(&server, &format!("net.http_get('{url}')")).await;
        let message = row["error_msg"].as_str().unwrap_or_default();
        assert!(message.contains("the host has no public address"), "{url}: {row}");
        assert_eq!(row["status_code"], Value::Null, "{url}");
    }
    for url in ["nonsense", "ftp://example.com/", "http://"] {
        let row = response(&server, &format!("net.http_get('{url}')")).await;
        assert!(row["error_msg"].is_string() && row["timed_out"] == json!(false), "{url}: {row}");
    }
}

#[tokio::test]
async fn hosted_url_leads_to_this_servers_api_only() {
    let server = Basalt::builder()
        .config("extensions.project_ref", "abcdefghijklmnopqrst")
        .expect_log("the key in the SQL belongs to another project")
        .start()
        .await;
    let _rows = run(server.database(), "create extension pg_net").await;
    let hosted = "https://abcdefghijklmnopqrst.supabase.co";
    let key = server.secret_key();
    let call = format!("net.http_get('{hosted}/rest/v1/', headers := '{{\"apikey\": \"{key}\"}}')");
    assert_eq!(response(&server, &call).await["status_code"], 200);
    // A key of the hosted project is refused, and the log says so.
    let call = format!(
        "net.http_post('{hosted}/rest/v1/x', headers := '{{\"apikey\": \"other\", \"Content-Type\": \"application/json\"}}')"
    );
    assert_eq!(response(&server, &call).await["status_code"], 401);
    server.wait_for_log("the key in the SQL belongs to another project").await;
    for url in
        [server.url("/mailbox"), server.url("/functions/v1/../../mailbox"), format!("{hosted}/mailbox")]
    {
        let row = response(&server, &format!("net.http_get('{url}')")).await;
        assert!(
            row["error_msg"].as_str().is_some_and(|text| text.contains("only the API of this server")),
            "{row}"
        );
    }
}

#[tokio::test]
async fn silent_host_times_out_and_delays_no_other() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|request| {
        if request.head.contains("/silent") {
            Reply::Stall(Duration::from_secs(60))
        } else {
            Reply::Respond(200, "{}".to_owned())
        }
    })
    .await;
    let url = stub.url();
    let calls = format!(
        "select net.http_get('{url}/silent', timeout_milliseconds := 2000) from generate_series(1, 10);
         select net.http_get('{url}/fast')"
    );
    let fast = value(database, &calls).await;
    until(database, &format!("select count(*) from net._http_response where id = {fast}"), "1").await;
    assert_eq!(
        value(database, "select count(*) from net._http_response where timed_out").await,
        "0",
        "the fast one came first"
    );
    until(
        database,
        "select count(*) from net._http_response where timed_out and error_msg like 'Timeout of 2000 ms%'",
        "10",
    )
    .await;
}

#[tokio::test]
async fn webhook_trigger_posts_the_row() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|_| Reply::Respond(200, "{}".to_owned())).await;
    let setup = format!(
        "create table orders (id int primary key, state text);
         create trigger hook after insert or update or delete on orders for each row
           execute function supabase_functions.http_request('{}/hook', 'POST', '{{\"Content-type\":\"application/json\",\"X-Secret\":\"s\"}}', '{{}}', '2000');
         insert into orders values (1, 'new')",
        stub.url()
    );
    let _rows = run(database, &setup).await;
    until(database, "select count(*) from net._http_response where status_code = 200", "1").await;
    let request = stub.requests().remove(0);
    assert_eq!(request.header("x-secret"), "s");
    let expected = json!({"type": "INSERT", "table": "orders", "schema": "public", "record": {"id": 1, "state": "new"}, "old_record": null});
    assert_eq!(request.json(), expected);
    let _rows = run(database, "update orders set state = 'paid'; delete from orders").await;
    until(database, "select count(*) from net._http_response where status_code = 200", "3").await;
    let types: Vec<Value> = stub.requests().iter().map(|request| request.json()["type"].clone()).collect();
    let sent: HashSet<String> = types.iter().map(Value::to_string).collect();
    assert_eq!(sent, ["\"INSERT\"", "\"UPDATE\"", "\"DELETE\""].map(str::to_owned).into());
    let hooks = "select count(*) from supabase_functions.hooks h join net._http_response r on r.id = h.request_id where hook_name = 'hook'";
    assert_eq!(value(database, hooks).await, "3");
}

#[tokio::test]
async fn function_of_a_visitor_may_send() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|_| Reply::Respond(200, "{}".to_owned())).await;
    let setup = format!(
        "create function ping() returns bigint language sql as $$ select net.http_post('{}/ping') $$;
         grant execute on function ping() to anon",
        stub.url()
    );
    let _rows = run(database, &setup).await;
    let called = server.post("/rest/v1/rpc/ping").apikey(server.anon_key()).json(&json!({})).send().await;
    let id = called.expect(200).json();
    until(database, &format!("select status_code from net._http_response where id = {id}"), "200").await;
    let read = super::error(database, "set local role anon; select * from net._http_response").await;
    assert!(read.starts_with("42501"), "responses are not for visitors: {read}");
}
