//! The extension `http`: requests whose callers wait for the response (decision 0191).

use std::sync::Arc;
use std::time::Duration;

use basalt_testkit::{Basalt, HttpStub, Reply};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{error, run, value};

/// A server whose database may call the stub on this machine.
async fn server() -> Basalt {
    let server = Basalt::builder().config("extensions.net_private_addresses", "true").start().await;
    let _rows = run(server.database(), "create extension http with schema extensions").await;
    server
}

/// Waits until the stub has received this many requests.
async fn until_received(stub: &HttpStub, count: usize) {
    let start = Instant::now();
    while stub.requests().len() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "{} of {count} requests", stub.requests().len());
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn get_returns_status_headers_and_content() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|_| {
        let headers = [("content-type", "application/json"), ("x-a", "1"), ("X-A", "ä, 2")];
        Reply::RespondWith(
            404,
            headers.map(|(name, value)| (name, value.to_owned())).into(),
            "{\"ü\": 1}".to_owned(),
        )
    })
    .await;
    let call = format!(
        "select jsonb_build_array(status, content_type, content,
           (select jsonb_agg(value) from unnest(headers) where field = 'x-a'))
         from http_get('{}/path', '{{\"q\": \"ä b\"}}')",
        stub.url()
    );
    let found: serde_json::Value = serde_json::from_str(&value(database, &call).await).unwrap();
    assert_eq!(found, json!([404, "application/json", "{\"ü\": 1}", ["1", "ä, 2"]]));
    let requests = stub.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].head.starts_with("GET /path?q=%C3%A4%20b HTTP/1.1\r\n"), "{}", requests[0].head);
    assert_eq!(value(database, "select urlencode('a b&ü')").await, "a%20b%26%C3%BC");
}

#[tokio::test]
async fn post_sends_headers_and_content() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|request| Reply::Respond(200, request.body.clone())).await;
    let url = stub.url();
    let content = "line 1\nline 2 with ''quotes'' and \"ü\"";
    let post = format!("select content from http_post('{url}/post', '{content}', 'text/plain')");
    assert_eq!(value(database, &post).await, content.replace("''", "'"), "the stub returns the content");
    let all = format!(
        "select count(*) from http(('POST', '{url}/any', array[http_header('Authorization', 'Bearer t'), http_header('Host', 'evil')],
             'application/json', '{{\"a\": 1}}')::http_request),
           http_post('{url}/form', '{{\"b\": \"c d\"}}'::jsonb), http_put('{url}/put', 'x', 'text/plain'),
           http_patch('{url}/patch', 'y', 'text/plain'), http_delete('{url}/delete'), http_head('{url}/head')"
    );
    assert_eq!(value(database, &all).await, "1");
    let requests = stub.requests();
    assert_eq!(requests[0].header("content-type"), "text/plain");
    let find = |path: &str| {
        let found = requests.iter().find(|request| request.head.split(' ').nth(1) == Some(path));
        found.unwrap_or_else(|| panic!("no request for {path}"))
    };
    let any = find("/any");
    assert_eq!((any.header("authorization").as_str(), any.json()), ("Bearer t", json!({"a": 1})));
    assert!(url.ends_with(&any.header("host")), "{}", any.head);
    assert_eq!(find("/form").body, "b=c%20d");
    for (method, path, body) in
        [("PUT", "/put", "x"), ("PATCH", "/patch", "y"), ("DELETE", "/delete", ""), ("HEAD", "/head", "")]
    {
        let request = find(path);
        assert!(request.head.starts_with(method), "{}", request.head);
        assert_eq!(request.body, body, "{path}");
    }
}

#[tokio::test]
async fn guarded_addresses_and_invalid_requests_raise() {
    let server = Basalt::start().await;
    let database = server.database();
    let _rows = run(database, "create extension http").await;
    for url in ["http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/", "http://[::1]:1/"] {
        let refused = error(database, &format!("select http_get('{url}')")).await;
        assert!(refused.starts_with("XX000 the host has no public address"), "{url}: {refused}");
    }
    let refused = error(database, &format!("select http_get('{}')", server.url("/mailbox"))).await;
    assert!(refused.starts_with("XX000 only the API of this server"), "{refused}");
    for (call, code) in [
        ("http_get('nonsense')", "22023"),
        ("http_get(null)", "22004"),
        ("http_get('ftp://example.com/')", "XX000"),
        ("http(('CONNECT', 'http://example.com/', null, null, null)::http_request)", "22023"),
        ("http_post('http://example.com/', repeat('x', 10485761), 'text/plain')", "54000"),
    ] {
        let refused = error(database, &format!("select {call}")).await;
        assert!(refused.starts_with(code), "{call}: {refused}");
    }
}

#[tokio::test]
async fn silent_host_times_out() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|_| Reply::Stall(Duration::from_secs(60))).await;
    let call = format!("select http_get('{}')", stub.url());
    for setting in
        ["set local http.timeout_msec = 200", "select http_set_curlopt('CURLOPT_TIMEOUT_MS', '200')"]
    {
        let failed = error(database, &format!("{setting}; {call}")).await;
        assert_eq!(failed, "XX000 Operation timed out after 200 milliseconds", "{setting}");
    }
    stub.reply(|_| Reply::Close);
    let failed = error(database, &call).await;
    assert!(failed.starts_with("XX000 "), "{failed}");
}

#[tokio::test]
async fn api_roles_need_a_grant() {
    let server = server().await;
    let database = server.database();
    let stub = HttpStub::start(|_| Reply::Respond(200, "{}".to_owned())).await;
    let call = format!("select status from extensions.http_get('{}')", stub.url());
    for role in ["anon", "authenticated"] {
        let refused = error(database, &format!("set local role {role}; {call}")).await;
        assert!(refused.starts_with("42501 permission denied for function http"), "{role}: {refused}");
    }
    assert!(stub.requests().is_empty());
    // The function of dblink, and the server's socket, are for the superuser's functions.
    let direct = "select extensions.basalt_connect('name', 'host=/tmp')";
    for role in ["postgres", "service_role", "authenticated"] {
        let refused = error(database, &format!("set local role {role}; {direct}")).await;
        assert!(refused.starts_with("42501"), "{role}: {refused}");
    }
    let folder = database.value("show unix_socket_directories").await.replace('"', "");
    let database_oid = database.value("select oid from pg_database where datname = current_database()").await;
    let connect = format!(
        "create extension dblink with schema extensions;
         select extensions.dblink_connect('host={folder}/http.{database_oid} port=1 user=http dbname=http password=x')"
    );
    let refused = error(database, &connect).await;
    assert!(refused.starts_with("2F003"), "the server requests no password, so dblink refuses: {refused}");
    let grant = "grant execute on function extensions.http(extensions.http_request) to authenticated";
    let _rows = run(database, grant).await;
    assert_eq!(value(database, &format!("set role authenticated; {call}")).await, "200");
}

#[tokio::test]
async fn waiting_calls_are_bounded() {
    let server = Basalt::builder()
        .config("extensions.net_private_addresses", "true")
        .config("extensions.http_concurrency", "1")
        .start()
        .await;
    let database = server.database();
    let notify = Arc::new(Notify::new());
    let held = Arc::clone(&notify);
    let stub = HttpStub::start(move |request| {
        let reply = Reply::Respond(200, "{}".to_owned());
        if request.head.contains("/held") { Reply::Once(Arc::clone(&held), Box::new(reply)) } else { reply }
    })
    .await;
    let setup = format!(
        "create extension http with schema extensions;
         create function held() returns text language plpgsql as $$
         begin return (select status from extensions.http_get('{0}/held'));
         exception when query_canceled then return 'cancelled'; end $$;
         create function fast() returns text language sql as $$ select status from extensions.http_get('{0}/fast') $$",
        stub.url()
    );
    let _rows = run(database, &setup).await;
    let refused = async {
        until_received(&stub, 1).await;
        let refused = error(database, "select fast()").await;
        notify.notify_one();
        refused
    };
    let (first, second) =
        tokio::join!(value(database, "set http.timeout_msec = 60000; select held()"), refused);
    assert_eq!(first, "200");
    assert!(second.starts_with("53400 too many HTTP requests are waiting"), "{second}");
    assert_eq!(value(database, "select fast()").await, "200", "the slot is free");
    // A cancelled statement ends before the request's timeout, and frees its slot.
    let cancel = async {
        until_received(&stub, 3).await;
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity
          where datname = current_database() and query like '%held()%' and pid <> pg_backend_pid()";
        assert_eq!(database.value(cancel).await, "1");
    };
    let start = Instant::now();
    let (first, ()) = tokio::join!(value(database, "set http.timeout_msec = 60000; select held()"), cancel);
    assert_eq!(first, "cancelled");
    assert!(start.elapsed() < Duration::from_secs(50), "the statement waited for the response");
    let start = Instant::now();
    while error(database, "select fast()").await != "no error" {
        assert!(start.elapsed() < Duration::from_secs(30), "the slot of a cancelled call is not free");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Each caller holds a connection of the API while its request needs another one. Fewer callers than connections: more of one client
/// are a flood, whose requests wait for each other (decision 0118).
#[tokio::test]
async fn calls_of_the_own_api_are_served() {
    let server = Basalt::start().await;
    let database = server.database();
    let setup = format!(
        "create extension http with schema extensions;
         create table items (id int); insert into items values (1); grant select on items to service_role;
         create function nested() returns text language sql as $$
           select content from extensions.http(('GET', '{}', array[extensions.http_header('apikey', '{}')], null, null)::extensions.http_request) $$;
         grant execute on function nested() to service_role",
        server.url("/rest/v1/items"),
        server.secret_key()
    );
    let _rows = run(database, &setup).await;
    let call = || async {
        let response =
            server.post("/rest/v1/rpc/nested").apikey(server.secret_key()).json(&json!({})).send().await;
        (response.status, response.text())
    };
    let start = Instant::now();
    while call().await.0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(30), "the function is not known");
        sleep(Duration::from_millis(50)).await;
    }
    let calls = futures_util::future::join_all((0..3).map(|_| call())).await;
    let served = calls.iter().filter(|(status, _)| *status == 200).count();
    assert!(served > 0, "{calls:?}");
    for (status, text) in &calls {
        assert!(*status == 200 || text.contains("53400"), "{status} {text}");
    }
}
