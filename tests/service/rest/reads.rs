//! GET and HEAD (rest.md §3.3–§3.8). Most cases are in the transcripts in `reads/`, one for each sentence of the contract.

use http::Method;
use insta::assert_snapshot;
use serde_json::json;

use super::transcript::replay;
use super::{SOON, anon, get, server, shown};

#[tokio::test]
async fn transcript_names() {
    replay(&server().start().await, include_str!("reads/names.txt")).await;
}

#[tokio::test]
async fn transcript_select() {
    replay(&server().start().await, include_str!("reads/select.txt")).await;
}

#[tokio::test]
async fn transcript_filters() {
    replay(&server().start().await, include_str!("reads/filters.txt")).await;
}

#[tokio::test]
async fn transcript_order() {
    replay(&server().start().await, include_str!("reads/order.txt")).await;
}

#[tokio::test]
async fn transcript_pages() {
    replay(&server().start().await, include_str!("reads/pages.txt")).await;
}

#[tokio::test]
async fn transcript_max_rows() {
    let server = server().config("rest.max_rows", "2").start().await;
    replay(&server, include_str!("reads/max_rows.txt")).await;
}

#[tokio::test]
async fn transcript_embeds() {
    replay(&server().start().await, include_str!("reads/embeds.txt")).await;
}

#[tokio::test]
async fn transcript_spreads() {
    replay(&server().start().await, include_str!("reads/spreads.txt")).await;
}

#[tokio::test]
async fn transcript_privileges() {
    replay(&server().start().await, include_str!("reads/privileges.txt")).await;
}

#[tokio::test]
async fn transcript_precedence() {
    replay(&server().start().await, include_str!("reads/precedence.txt")).await;
}

/// Two schemas, no aggregates, embeds addressed only by alias.
#[tokio::test]
async fn transcript_settings() {
    let server = server()
        .config("rest.schemas", "public,archive")
        .config("rest.aggregates", "false")
        .config("rest.url_use_legacy_target_names", "false")
        .start()
        .await;
    replay(&server, include_str!("reads/settings.txt")).await;
}

#[tokio::test]
async fn rows_have_ranges_and_counts() {
    let server = server().start().await;
    let counted =
        |path: &'static str| anon(&server, Method::GET, path).header("prefer", "count=exact").send();

    assert_snapshot!(shown(&get(&server, "/clients?order=id").await), @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-1/*
    content-location: /clients?order=id

    [{"id":1,"name":"Acme"}, 
     {"id":2,"name":"Globex"}]
    "#);
    assert_snapshot!(shown(&counted("/invoices?select=id&order=id&limit=2&offset=3").await), @r#"
    206
    content-type: application/json; charset=utf-8
    content-range: 3-4/15
    content-location: /invoices?limit=2&offset=3&order=id&select=id
    preference-applied: count=exact

    [{"id":4}, 
     {"id":5}]
    "#);
    assert_snapshot!(shown(&counted("/invoices?select=id&id=gt.100").await), @"
    200
    content-type: application/json; charset=utf-8
    content-range: */0
    content-location: /invoices?id=gt.100&select=id
    preference-applied: count=exact

    []
    ");
    assert_snapshot!(shown(&counted("/invoices?offset=15").await), @"
    206
    content-type: application/json; charset=utf-8
    content-range: */15
    content-location: /invoices?offset=15
    preference-applied: count=exact

    []
    ");
    assert_snapshot!(shown(&counted("/invoices?offset=100").await), @r#"
    416
    content-type: application/json; charset=utf-8
    content-range: */15
    content-location: /invoices?offset=100
    preference-applied: count=exact
    proxy-status: PostgREST; error=PGRST103

    {"code":"PGRST103","details":"An offset of 100 was requested, but there are only 15 rows.","hint":null,"message":"Requested range not satisfiable"}
    "#);
    assert_snapshot!(shown(&counted("/invoices?limit=0").await), @"
    206
    content-type: application/json; charset=utf-8
    content-range: */15
    content-location: /invoices?limit=0
    preference-applied: count=exact

    []
    ");
    let ranged =
        anon(&server, Method::GET, "/invoices?select=id&order=id").header("range", "1-2").send().await;
    assert_snapshot!(shown(&ranged), @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 1-2/*
    content-location: /invoices?order=id&select=id

    [{"id":2}, 
     {"id":3}]
    "#);
    let headed = anon(&server, Method::HEAD, "/invoices").header("prefer", "count=exact").send().await;
    assert_snapshot!(shown(&headed), @"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-14/15
    content-location: /invoices
    preference-applied: count=exact
    ");
    assert!(headed.headers.get("content-length").is_none(), "HEAD has no content-length");
    assert_eq!(get(&server, "/clients").await.header("vary"), "Accept, Prefer, Range");
}

#[tokio::test]
async fn max_rows_caps_every_level() {
    let server = server().config("rest.max_rows", "2").start().await;
    let rows = get(&server, "/projects?select=id,tasks(id)&order=id").await.json();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    let counted =
        anon(&server, Method::GET, "/invoices?select=id").header("prefer", "count=estimated").send().await;
    assert_eq!(counted.status, 206);
    let total: i64 = counted.header("content-range").split_once('/').unwrap().1.parse().unwrap();
    assert!(total > 2, "the planner's estimate exceeds the cap");
    let few = anon(&server, Method::GET, "/clients?id=eq.1").header("prefer", "count=estimated").send().await;
    assert_eq!(few.header("content-range"), "0-0/1");
}

#[tokio::test]
async fn embeds_related_rows() {
    let server = server().start().await;
    for (path, body) in [
        (
            "/projects?select=id,client:clients(name)&id=in.(1,4)&order=id",
            r#"[{"id":1,"client":{"name":"Acme"}},{"id":4,"client":null}]"#,
        ),
        (
            "/clients?select=id,projects(id)&order=id.desc&projects.order=id.desc",
            r#"[{"id":2,"projects":[{"id":3}]},{"id":1,"projects":[{"id":2},{"id":1}]}]"#,
        ),
        (
            "/tasks?select=id,users(name)&id=in.(2,5)&order=id&users.order=id",
            r#"[{"id":2,"users":[{"name":"Ada"},{"name":"Bob"}]},{"id":5,"users":[]}]"#,
        ),
        (
            "/users?select=name,profiles(bio)&id=lt.3&order=id",
            r#"[{"name":"Ada","profiles":{"bio":"Founder"}},{"name":"Bob","profiles":null}]"#,
        ),
        (
            "/tasks?select=id,parent:parent_id(name),children:tasks(id)&id=eq.1",
            r#"[{"id":1,"parent":null,"children":[{"id":2}]}]"#,
        ),
        (
            "/orders?select=billing:addresses!billing_fk(street),shipping:addresses!shipping_id(street)",
            r#"[{"billing":{"street":"First"},"shipping":{"street":"Second"}}]"#,
        ),
        (
            "/project_view?select=title,clients(name)&pid=eq.1",
            r#"[{"title":"Website","clients":{"name":"Acme"}}]"#,
        ),
        ("/projects?select=id,tasks!inner(id)&tasks.done=is.true", r#"[{"id":1,"tasks":[{"id":1}]}]"#),
        ("/projects?select=id,clients()&clients=is.null", r#"[{"id":4}]"#),
        (
            "/projects?select=id,clients(name)&order=clients(name).desc.nullslast,id",
            r#"[{"id":3,"clients":{"name":"Globex"}},{"id":1,"clients":{"name":"Acme"}},{"id":2,"clients":{"name":"Acme"}},{"id":4,"clients":null}]"#,
        ),
        (
            "/clients?select=name,projects(count)&order=id",
            r#"[{"name":"Acme","projects":[{"count":2}]},{"name":"Globex","projects":[{"count":1}]}]"#,
        ),
        (
            "/projects?select=id,...clients(client:name),...tasks(task:name)&id=eq.1&tasks.order=id",
            r#"[{"id":1,"client":"Acme","task":["Design","Build"]}]"#,
        ),
        (
            "/projects?select=title,latest_task(name)&id=eq.2",
            r#"[{"title":"SHOP","latest_task":{"name":"Code"}}]"#,
        ),
        ("/tasks?select=done,id.count()&order=done", r#"[{"done":false,"count":4},{"done":true,"count":1}]"#),
        ("/projects?select=id,clients(id)&clients.offset=1&id=eq.1", r#"[{"id":1,"clients":null}]"#),
    ] {
        let expected: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(get(&server, path).await.json(), expected, "{path}");
    }
}

#[tokio::test]
async fn aliased_embed_accepts_its_relation_name() {
    let server = server().start().await;
    let response = get(&server, "/projects?select=id,x:tasks(id)&tasks.order=id&id=eq.1").await;
    assert_snapshot!(shown(&response), @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-0/*
    content-location: /projects?id=eq.1&select=id%2Cx%3Atasks%28id%29&tasks.order=id
    warning: 299 PostgRESTv17 "Embedded resource was referenced by relation name even though it has an alias. This is deprecated and will stop working in a future release. Update `tasks` to `x` in query string filters, orders or limits."

    [{"id":1,"x":[{"id": 1}, {"id": 2}]}]
    "#);
    let unicode = get(&server, "/projects?select=id,%C3%BCber:tasks(id)&tasks.order=id&id=eq.1").await;
    let warning = String::from_utf8(unicode.headers["warning"].as_bytes().to_vec()).unwrap();
    assert!(warning.contains("Update `tasks` to `über` in query string filters"), "{warning}");
    let refused = server_without_legacy_names().await;
    assert_eq!(get(&refused, "/projects?select=id,x:tasks(id)&tasks.order=id").await.status, 400);
}

async fn server_without_legacy_names() -> basalt_testkit::Basalt {
    server().config("rest.url_use_legacy_target_names", "false").start().await
}

#[tokio::test]
async fn accept_selects_the_media_type() {
    let server = server().start().await;
    let accepting = |path: &'static str, media: &'static str| {
        anon(&server, Method::GET, path).header("accept", media).send()
    };
    assert_snapshot!(shown(&accepting("/projects?select=id,name,tags&order=id&id=lt.3", "text/csv").await), @r#"
    200
    content-type: text/csv; charset=utf-8
    content-range: 0-1/*
    content-location: /projects?id=lt.3&order=id&select=id%2Cname%2Ctags

    id,name,tags
    1,Website,"{x,y}"
    2,Shop,{z}
    "#);
    assert_snapshot!(shown(&accepting("/projects?select=id&id=eq.1", "application/vnd.pgrst.object+json").await), @r#"
    200
    content-type: application/vnd.pgrst.object+json; charset=utf-8
    content-range: 0-0/*
    content-location: /projects?id=eq.1&select=id

    {"id":1}
    "#);
    assert_snapshot!(shown(&accepting("/projects?select=id&id=eq.99", "application/vnd.pgrst.object+json").await), @r#"
    406
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST116

    {"code":"PGRST116","details":"The result contains 0 rows","hint":null,"message":"Cannot coerce the result to a single JSON object"}
    "#);
    assert_snapshot!(shown(&accepting("/projects?select=id,client_id&id=eq.4", "application/vnd.pgrst.array+json;nulls=stripped").await), @r#"
    200
    content-type: application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8
    content-range: 0-0/*
    content-location: /projects?id=eq.4&select=id%2Cclient_id

    [{"id":4}]
    "#);
    assert_snapshot!(shown(&accepting("/projects", "text/unknown").await), @r#"
    406
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST107

    {"code":"PGRST107","details":null,"hint":null,"message":"None of these media types are available: text/unknown"}
    "#);
    let plan = "application/vnd.pgrst.plan+text; for=\"application/json\"; options=analyze|verbose;";
    let explained = accepting("/projects?id=eq.1", plan).await.expect(200);
    assert!(explained.text().contains("Execution Time"), "{}", explained.text());
    assert!(
        explained.header("content-type").starts_with(
            "application/vnd.pgrst.plan+text; for=\"application/json\"; options=analyze|verbose"
        )
    );
}

#[tokio::test]
async fn root_document_follows_privileges() {
    let server = server().start().await;
    let document = get(&server, "/").await.expect(200);
    assert_eq!(document.header("content-type"), "application/openapi+json; charset=utf-8");
    let document = document.json();
    assert_eq!(document["swagger"], "2.0");
    assert_eq!(
        document["definitions"]["tasks"]["properties"]["mood"]["enum"],
        serde_json::json!(["sad", "ok", "happy"])
    );
    assert_eq!(
        document["definitions"]["tasks_users"]["properties"]["task_id"]["description"],
        "Note:\nThis is a Primary Key.<pk/>\nThis is a Foreign Key to `tasks.id`.<fk table='tasks' column='id'/>"
    );
    assert!(document["paths"]["/rpc/add"]["get"].is_object());
    assert!(document["paths"]["/rpc/add_client"]["get"].is_null(), "volatile: only POST");
    assert!(document["paths"]["/notes"].is_null(), "not for a visitor");
    let all =
        server.request(Method::GET, "/rest/v1/").apikey(server.secret_key()).send().await.expect(200).json();
    assert!(all["paths"]["/notes"].is_object());
}

/// Foreign tables have no keys, so only functions relate them.
#[tokio::test]
async fn foreign_tables_can_be_read_and_embedded() {
    let server = server().start().await;
    let _done = server
        .database()
        .admin_sql(
            "create extension file_fdw;
             create server files foreign data wrapper file_fdw;
             create foreign table public.rates (id int, client_id int) server files options (program 'echo 1,2; echo 2,1', format 'csv');
             create function public.rates(clients) returns setof rates language sql stable as
               'select * from public.rates where client_id = $1.id';
             create function public.payer(rates) returns clients language sql stable as
               'select c.* from public.clients c where c.id = $1.client_id';
             grant select on public.rates to anon;
             grant execute on function public.rates(clients), public.payer(rates) to anon;
             notify pgrst, 'reload schema'",
        )
        .await;
    let request = anon(&server, Method::GET, "/rates?select=id,payer(name)&id=gt.1");
    let found = server.until(SOON, &request, |response| response.status == 200).await;
    assert_eq!(found.json(), json!([{"id": 2, "payer": {"name": "Acme"}}]));
    let rows = get(&server, "/clients?select=name,rates(id)&order=id").await.json();
    assert_eq!(
        rows,
        json!([{"name": "Acme", "rates": [{"id": 2}]}, {"name": "Globex", "rates": [{"id": 1}]}])
    );
    let options = anon(&server, Method::OPTIONS, "/rates").send().await.expect(200);
    assert_eq!(options.header("allow"), "OPTIONS,GET,HEAD");
}

/// rest.md §5, 46.
#[tokio::test]
async fn accepts_filter_lists_of_58_kb() {
    let server = server().start().await;
    let ids: Vec<String> = (0..1_600).map(|n| format!("6f1b9a1e-0000-4000-8000-{n:012}")).collect();
    let path = format!("/kinds?select=id&uid=in.({})", ids.join(","));
    assert!(path.len() > 58_000);
    assert_eq!(get(&server, &path).await.expect(200).json(), json!([{"id": 1}]));
    let quoted = format!("/kinds?select=id&or=(uid.in.({}))", ids.join(","));
    assert_eq!(get(&server, &quoted).await.expect(200).json(), json!([{"id": 1}]));
}

/// Deep trees are rejected before they overflow the stack.
#[tokio::test]
async fn nesting_depth_is_limited() {
    let server = server().start().await;
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    for (path, code) in [
        (format!("/tasks?select={}", nested("parent_id(", "id", ")", 1_000)), "PGRST100"),
        (format!("/tasks?select={}", nested("...parent_id(", "id", ")", 1_000)), "PGRST100"),
        (format!("/tasks?or=({})", nested("and(", "id.eq.1", ")", 1_000)), "PGRST100"),
        (format!("/tasks?{}=eq.1", nested("a.", "id", "", 5_000)), "PGRST108"),
        (format!("/tasks?select=data{}", "-%3Ea".repeat(500)), "42703"),
    ] {
        let response = get(&server, &path).await;
        assert_eq!(
            (response.status.as_u16(), response.json()["code"].as_str()),
            (400, Some(code)),
            "{:.60}",
            path
        );
    }
    let deep = nested("parent_id(", "id", ")", 20);
    assert_eq!(get(&server, &format!("/tasks?select={deep}&limit=1")).await.status, 200);
}

#[tokio::test]
async fn estimated_count_does_not_reveal_hidden_rows() {
    let server = server().config("rest.max_rows", "5").start().await;
    let _made = server
        .sql(
            "insert into notes select n, 'another', 'text' from generate_series(1, 400) n;
             insert into notes select n, 'member', 'text' from generate_series(401, 407) n;
             create view note_view with (security_invoker = on) as select * from notes;
             create view outer_view with (security_invoker = on) as select * from note_view;
             grant select on notes, note_view, outer_view to anon, authenticated, service_role;
             analyze notes",
        )
        .await;
    let someone = |sub: &str| server.token(&json!({"role": "authenticated", "sub": sub}));
    let totals = async |token: &str, path: &str| {
        let mut totals = Vec::new();
        for count in ["planned", "estimated", "exact"] {
            let request = server.get(&format!("/rest/v1{path}")).apikey(server.anon_key()).bearer(token);
            let response = request.header("prefer", &format!("count={count}")).send().await;
            let range = response.header("content-range").to_owned();
            totals.push(range.rsplit_once('/').unwrap_or_else(|| panic!("{}", response.text())).1.to_owned());
        }
        totals
    };
    let (visitor, stranger, member) = (server.token_of("anon"), someone("stranger"), someone("member"));
    let service = server.token_of("service_role");
    for path in ["/notes", "/note_view", "/outer_view", "/notes?owner=eq.another", "/note_view?limit=2"] {
        for token in [&visitor, &stranger] {
            assert_eq!(totals(token, path).await, ["0", "0", "0"], "{path}");
        }
    }
    for path in ["/notes", "/note_view", "/outer_view", "/notes?owner=eq.member"] {
        // Counting stops at one more than the cap.
        assert_eq!(totals(&member, path).await, ["6", "6", "7"], "{path}");
        let and = if path.contains('?') { '&' } else { '?' };
        for window in ["offset=3", "limit=3&offset=2"] {
            assert_eq!(
                totals(&member, &format!("{path}{and}{window}")).await,
                ["7", "7", "7"],
                "{path} {window}"
            );
        }
    }
    // A role that bypasses policies gets the planner's estimate.
    let planned: u64 = totals(&service, "/notes?owner=eq.another").await[0].parse().unwrap();
    assert!((300..500).contains(&planned), "{planned}");
}
