//! SQL injection: attacks in every position of a request, checked against PostgreSQL's log.
//!
//! Each payload contains a marker. Executed statements may contain the marker only inside quotes (quoted identifiers and
//! quoted JSON keys), and no attack may have had an effect.

use std::fmt::Write;

use basalt_testkit::{Basalt, Request};
use http::Method;
use serde_json::{Value, json};

use super::server;

/// The marker in every payload and in the name of every object that an attack would change.
const MARK: &str = "pwned";

/// Each ends another kind of quote or list and continues with a statement; `nextval` is visible even after a rollback.
const PAYLOADS: &[&str] = &[
    "x'; select nextval('pwned_seq'); --",
    "x\"; select nextval('pwned_seq'); --",
    "x\\'; select nextval('pwned_seq'); --",
    "x\\\"; select nextval('pwned_seq'); --",
    "1) or nextval('pwned_seq') > 0 or (1 = 1",
    "1'::text) union select nextval('pwned_seq')::text --",
    "{x}'); create role pwned_role superuser; --",
    "$$; drop table pwned_table; $$",
    "x\n; truncate pwned_table; /* */",
    "x') ; insert into pwned_table values (2); -- \u{2019}",
    "id\" from pwned_table; --",
    "pwned_table",
];

/// Payloads for type names. A type name is the only unquoted request text in a statement; the grammar allows only these
/// characters.
const CASTS: &[&str] = &[
    "text) from pwned_table --",
    "text), nextval('pwned_seq') as (x",
    "text\"; select nextval('pwned_seq'); --",
    "text'; select nextval('pwned_seq'); --",
    "pwned_table[]",
    "int(1); drop table pwned_table",
];

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "%{byte:02X}").unwrap();
        all
    })
}

/// A quoted name, which may contain any character.
fn quoted(text: &str) -> String {
    encoded(&format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The characters that are allowed in a header.
fn header(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~')).collect()
}

struct Attack<'a> {
    server: &'a Basalt,
    /// Requests sent.
    sent: usize,
    /// Positions attacked.
    positions: usize,
    /// Responses that no attack may cause.
    faults: Vec<String>,
}

impl Attack<'_> {
    fn request(&self, method: Method, path: &str) -> Request {
        self.server.request(method, &format!("/rest/v1{path}")).apikey(self.server.anon_key())
    }

    /// Sends a request with every payload; the response must be a success or a client error.
    async fn at(&mut self, position: &str, payloads: &[&str], request: impl Fn(&Self, &str) -> Request) {
        self.positions += 1;
        for payload in payloads {
            let response = request(self, payload).send().await;
            let status = response.status.as_u16();
            // 25006 would mean that `nextval` ran in a read-only transaction.
            if status >= 500 || response.text().contains("\"25006\"") {
                self.faults.push(format!("{position}, {payload:?}: {status} {}", response.text()));
            }
            self.sent += 1;
        }
    }

    fn get(&self, template: &str, payload: &str) -> Request {
        self.request(Method::GET, &template.replace('>', "%3E").replace("{}", payload))
    }

    /// A GET with the payload in the query, unquoted and as a quoted name.
    async fn query(&mut self, position: &str, template: &str) {
        self.at(position, PAYLOADS, |attack, payload| attack.get(template, &encoded(payload))).await;
        self.at(&format!("{position}, quoted"), PAYLOADS, |attack, payload| {
            attack.get(template, &quoted(payload))
        })
        .await;
    }

    /// A body with every method that takes one.
    async fn body(&mut self, position: &str, path: &str, media: &str, body: impl Fn(&str) -> String) {
        for method in [Method::POST, Method::PATCH, Method::PUT] {
            self.at(&format!("{method} {position}"), PAYLOADS, |attack, payload| {
                attack
                    .request(method.clone(), path)
                    .header("content-type", media)
                    .header("prefer", "tx=rollback, return=representation, resolution=merge-duplicates")
                    .body(body(payload))
            })
            .await;
        }
    }
}

async fn paths(attack: &mut Attack<'_>) {
    attack.at("relation", PAYLOADS, |a, p| a.request(Method::GET, &format!("/{}", encoded(p)))).await;
    attack
        .at("relation of a write", PAYLOADS, |a, p| {
            a.request(Method::POST, &format!("/{}", encoded(p))).json(&json!({"id": 1}))
        })
        .await;
    attack.at("function", PAYLOADS, |a, p| a.request(Method::GET, &format!("/rpc/{}", encoded(p)))).await;
    attack.at("method", &["PWNED", "SELECT", "DROP"], |a, p| a.request(p.parse().unwrap(), "/clients")).await;
}

async fn query_strings(attack: &mut Attack<'_>) {
    for (position, template) in [
        ("select: column", "/projects?select={}"),
        ("select: alias", "/projects?select={}:name"),
        ("select: key of a JSON path", "/projects?select=x:meta->{}"),
        ("select: key of a JSON path as text", "/projects?select=x:meta->>{}"),
        ("select: second key of a JSON path", "/projects?select=x:meta->a->{}"),
        ("select: column under a cast", "/projects?select={}::text"),
        ("select: column of an aggregate", "/projects?select={}.sum()"),
        ("select: alias of a count", "/projects?select={}:count()"),
        ("select: embed", "/projects?select=id,{}(id)"),
        ("select: alias of an embed", "/projects?select=id,{}:clients(id)"),
        ("select: hint of an embed", "/projects?select=id,clients!{}(id)"),
        ("select: join of an embed", "/projects?select=id,clients!inner!{}(id)"),
        ("select: column of an embed", "/projects?select=id,clients({})"),
        ("select: column of a spread", "/projects?select=id,...clients({})"),
        ("select: alias in a spread", "/projects?select=id,...tasks({}:name)"),
        ("filter: column", "/projects?{}=eq.1"),
        ("filter: key of a JSON path", "/projects?meta->>{}=eq.1"),
        ("filter: embed", "/projects?select=id,clients(id)&{}.id=eq.1"),
        ("filter: column of an embed", "/projects?select=id,clients(id)&clients.{}=eq.1"),
        ("filter: operator", "/projects?name={}.x"),
        ("filter: eq", "/projects?name=eq.{}"),
        ("filter: neq", "/projects?name=not.neq.{}"),
        ("filter: like", "/projects?name=like.{}"),
        ("filter: like any", "/projects?name=like(any).%7B{}%7D"),
        ("filter: match", "/projects?name=imatch.{}"),
        ("filter: number", "/projects?id=gt.{}"),
        ("filter: in", "/projects?name=in.({},x)"),
        ("filter: in, numbers", "/projects?id=in.({})"),
        ("filter: is", "/projects?name=is.{}"),
        ("filter: isdistinct", "/projects?name=isdistinct.{}"),
        ("filter: array", "/projects?tags=cs.%7B{}%7D"),
        ("filter: JSON", "/projects?meta=cs.{}"),
        ("filter: text search", "/projects?name=plfts.{}"),
        ("filter: language of a text search", "/projects?name=fts({}).x"),
        ("filter: path", "/projects?{}.x.y=eq.1"),
        ("logic: column", "/projects?or=({}.eq.1,id.eq.1)"),
        ("logic: value", "/projects?or=(name.eq.{},id.eq.1)"),
        ("logic: list", "/projects?or=(name.in.({}),id.eq.1)"),
        ("logic: key of a JSON path", "/projects?and=(meta->>{}.eq.1,id.eq.1)"),
        ("logic: language", "/projects?or=(name.wfts({}).x,id.eq.1)"),
        ("logic: embed", "/projects?{}.or=(id.eq.1,id.eq.2)"),
        ("logic: the tree", "/projects?or={}"),
        ("order: column", "/projects?order={}.desc"),
        ("order: direction", "/projects?order=name.{}"),
        ("order: key of a JSON path", "/projects?order=meta->>{}"),
        ("order: embed", "/projects?select=id,clients(id)&order={}(name)"),
        ("order: column of an embed", "/projects?select=id,clients(id)&order=clients({})"),
        ("order: path", "/projects?{}.order=id"),
        ("limit", "/projects?limit={}"),
        ("offset", "/projects?offset={}"),
        ("limit of an embed", "/projects?select=id,tasks(id)&tasks.limit={}"),
        ("path of a limit", "/projects?{}.limit=1"),
        ("call: argument's name", "/rpc/add?{}=1"),
        ("call: argument", "/rpc/add?a={}&b=2"),
        ("call: filter of the result", "/rpc/projects_below?below=3&name=eq.{}"),
        ("call: select of the result", "/rpc/projects_below?below=3&select={}"),
    ] {
        attack.query(position, template).await;
    }
    for (position, template) in [
        ("select: cast", "/projects?select=name::{}"),
        ("select: cast of a JSON path", "/projects?select=x:meta->>a::{}"),
        ("select: cast in an embed", "/projects?select=id,clients(name::{})"),
        ("select: cast before an aggregate", "/projects?select=id::{}.sum()"),
        ("select: cast after an aggregate", "/projects?select=id.sum()::{}"),
        ("select: cast of a count", "/projects?select=count()::{}"),
    ] {
        attack.at(position, CASTS, |a, p| a.get(template, &encoded(p))).await;
    }
    // Parameters of writes.
    for (position, template) in [
        ("columns", "/clients?columns={}"),
        ("on_conflict", "/clients?on_conflict={}"),
        ("select after a write", "/clients?select={}"),
        ("order after a write", "/clients?order={}"),
    ] {
        for text in [encoded as fn(&str) -> String, quoted] {
            attack
                .at(position, PAYLOADS, |a, p| {
                    a.request(Method::POST, &template.replace("{}", &text(p)))
                        .header("prefer", "tx=rollback, return=representation, resolution=merge-duplicates")
                        .json(&json!([{"id": 90, "name": "x"}]))
                })
                .await;
        }
    }
    for method in [Method::PATCH, Method::PUT, Method::DELETE] {
        attack
            .at(&format!("filter of a {method}"), PAYLOADS, |a, p| {
                a.request(method.clone(), &format!("/kv?key=eq.{}", encoded(p)))
                    .header("prefer", "tx=rollback, return=representation")
                    .json(&json!({"key": p, "value": 1, "note": p}))
            })
            .await;
    }
}

async fn headers(attack: &mut Attack<'_>) {
    for (position, name, template) in [
        ("Prefer", "prefer", "{}"),
        ("Prefer: timezone", "prefer", "timezone={}"),
        ("Prefer: max-affected", "prefer", "handling=strict, max-affected={}"),
        ("Prefer: count", "prefer", "count={}"),
        ("Accept", "accept", "{}"),
        ("Accept: type", "accept", "application/{}"),
        ("Accept: options of a plan", "accept", "application/vnd.pgrst.plan+text; options=analyze|{}"),
        ("Accept: subject of a plan", "accept", "application/vnd.pgrst.plan+json; for=\"{}\"; options=;"),
        ("Accept-Profile", "accept-profile", "{}"),
        ("Range", "range", "{}"),
        ("Range: bound", "range", "0-{}"),
        ("Cookie", "cookie", "{}"),
        ("Cookie: value", "cookie", "a={}; {}=b"),
        ("User-Agent", "user-agent", "{}"),
        ("X-Client-Info", "x-client-info", "{}"),
        ("Origin", "origin", "http://{}"),
        ("X-Request-Id", "x-request-id", "{}"),
        ("X-Forwarded-For", "x-forwarded-for", "{}"),
        ("Authorization: scheme", "authorization", "{}"),
        ("Authorization: token", "authorization", "Bearer {}"),
    ] {
        attack
            .at(position, PAYLOADS, |a, p| {
                a.request(Method::GET, "/projects?select=id,name")
                    .header(name, &template.replace("{}", &header(p)))
            })
            .await;
        // A function reads all headers.
        attack
            .at(&format!("{position}, of a call"), PAYLOADS, |a, p| {
                a.request(Method::POST, "/rpc/who_am_i")
                    .header(name, &template.replace("{}", &header(p)))
                    .json(&json!({}))
            })
            .await;
    }
    for (position, name) in [("Content-Profile", "content-profile"), ("Content-Type", "content-type")] {
        attack
            .at(position, PAYLOADS, |a, p| {
                a.request(Method::POST, "/clients").json(&json!({"id": 90})).header(name, &header(p))
            })
            .await;
    }
    attack
        .at("name of a header", &["pwned", "x-pwned'--", "pwned!#$&'*+-.^_`|~"], |a, p| {
            a.request(Method::GET, "/rpc/who_am_i").header(p, "pwned")
        })
        .await;
    attack
        .at("apikey", PAYLOADS, |a, p| a.request(Method::GET, "/projects").header("apikey", &header(p)))
        .await;
}

async fn tokens(attack: &mut Attack<'_>) {
    type Claims = fn(&str) -> Value;
    let all: [(&str, Claims); 6] = [
        ("claim: role", |p| json!({"role": p})),
        ("claim: sub", |p| json!({"role": "authenticated", "sub": p})),
        ("claim: name of a claim", |p| json!({"role": "authenticated", p: p})),
        ("claim: nested", |p| json!({"role": "authenticated", "app_metadata": {p: [p, {"x": p}]}})),
        ("claim: role that is no text", |p| json!({"role": {p: p}})),
        ("claim: aud", |p| json!({"role": "authenticated", "aud": p})),
    ];
    for (position, claims) in all {
        for path in ["/projects?select=id", "/rpc/who_am_i", "/notes"] {
            attack
                .at(position, PAYLOADS, |a, p| {
                    a.request(Method::GET, path).bearer(&a.server.token(&claims(p)))
                })
                .await;
        }
    }
}

async fn bodies(attack: &mut Attack<'_>) {
    let json = "application/json";
    attack
        .body("JSON: value", "/kv?key=eq.x", json, |p| json!({"key": p, "value": 1, "note": p}).to_string())
        .await;
    attack
        .body("JSON: number", "/kv?key=eq.x", json, |p| {
            json!({"key": "x", "value": p, "note": null}).to_string()
        })
        .await;
    attack.body("JSON: key", "/kv?key=eq.x", json, |p| json!({p: 1}).to_string()).await;
    attack
        .body("JSON: key of many", "/kv?key=eq.x", json, |p| {
            json!([{"key": "x", p: p}, {"key": "y", p: p}]).to_string()
        })
        .await;
    attack
        .body("JSON: value of JSON", "/projects?id=eq.1", json, |p| {
            json!({"id": 1, "name": p, "meta": {p: p}, "tags": [p]}).to_string()
        })
        .await;
    attack
        .body("JSON: key under columns", "/kv?key=eq.x&columns=key,value", json, |p| {
            json!([{"key": p, p: p}]).to_string()
        })
        .await;
    attack.body("JSON: none", "/kv?key=eq.x", json, ToOwned::to_owned).await;
    attack.body("JSON: none, under columns", "/kv?key=eq.x&columns=key", json, ToOwned::to_owned).await;
    let csv = "text/csv";
    let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    attack.body("CSV: header", "/kv?key=eq.x", csv, |p| format!("key,{p}\nx,y\n")).await;
    attack.body("CSV: quoted header", "/kv?key=eq.x", csv, |p| format!("key,{}\nx,y\n", cell(p))).await;
    attack.body("CSV: cell", "/kv?key=eq.x", csv, |p| format!("key,note\nx,{p}\n")).await;
    attack.body("CSV: quoted cell", "/kv?key=eq.x", csv, |p| format!("key,value\nx,{}\n", cell(p))).await;
    let form = "application/x-www-form-urlencoded";
    attack.body("form: name", "/kv?key=eq.x", form, |p| format!("key=x&{}=1", encoded(p))).await;
    attack.body("form: value", "/kv?key=eq.x", form, |p| format!("key={0}&note={0}", encoded(p))).await;

    attack
        .at("call: JSON argument", PAYLOADS, |a, p| {
            a.request(Method::POST, "/rpc/add").json(&json!({"a": p, "b": 1}))
        })
        .await;
    attack
        .at("call: name of a JSON argument", PAYLOADS, |a, p| {
            a.request(Method::POST, "/rpc/add").json(&json!({"a": 1, p: 1}))
        })
        .await;
    attack
        .at("call: JSON for an unnamed parameter", PAYLOADS, |a, p| {
            a.request(Method::POST, "/rpc/echo").json(&json!({p: p}))
        })
        .await;
    for media in ["text/plain", "text/xml", "application/octet-stream", form, csv] {
        for function in ["add", "echo", "projects_below"] {
            attack
                .at(&format!("call: {media}"), PAYLOADS, |a, p| {
                    a.request(Method::POST, &format!("/rpc/{function}"))
                        .header("content-type", media)
                        .body((*p).to_owned())
                })
                .await;
        }
    }
    // Response headers set by a function go to the client and never back to PostgreSQL.
    attack
        .at("call: response headers", PAYLOADS, |a, p| {
            let headers = json!([{"x-told": header(p)}]).to_string();
            a.request(Method::POST, "/rpc/respond").json(&json!({"headers": headers, "status": "200"}))
        })
        .await;
}

/// `text` without its quoted parts, tokenised as PostgreSQL does.
fn outside_quotes(text: &str) -> String {
    let mut bare = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '"' && c != '\'' {
            bare.push(c);
            continue;
        }
        let escapes = c == '\'' && bare.ends_with('E');
        while let Some(inner) = chars.next() {
            if inner == '\\' && escapes {
                chars.next();
            } else if inner == c && chars.next_if_eq(&c).is_none() {
                break;
            }
        }
        bare.push(c);
    }
    bare
}

#[test]
fn outside_quotes_finds_text_after_a_closed_quote() {
    for (text, bare) in [
        (
            r#"select "pwned""; x" from t where a = 'pwned''; y' and b = $1"#,
            r#"select " from t where a = ' and b = $1"#,
        ),
        (r"select E'pwned\'; x', 1", r"select E', 1"),
        (r"select 'x\'; pwned", r"select '; pwned"),
        (r#"select "x"; pwned"#, r#"select "; pwned"#),
    ] {
        assert_eq!(outside_quotes(text), bare);
    }
}

#[tokio::test]
async fn request_text_never_becomes_sql() {
    let mut server = server().expect_log("server.trusted_proxies").start().await;
    let database = server.database();
    // In a schema on every search path that no request path can name.
    let _made = database
        .admin_sql(
            "create sequence extensions.pwned_seq; create table extensions.pwned_table (id int);
             insert into extensions.pwned_table values (1);
             grant all on sequence extensions.pwned_seq to anon, authenticated;
             grant all on extensions.pwned_table to anon, authenticated",
        )
        .await;
    database.log_statements().await;
    // Statement logging applies to new connections.
    server.stop().await;
    server.start_again().await;

    let mut attack = Attack { server: &server, sent: 0, positions: 0, faults: Vec::new() };
    paths(&mut attack).await;
    query_strings(&mut attack).await;
    headers(&mut attack).await;
    tokens(&mut attack).await;
    bodies(&mut attack).await;
    let Attack { positions, sent, faults, .. } = attack;
    assert!(faults.is_empty(), "{faults:#?}");

    let executed = server.database().executed().await;
    let quoted = executed.iter().filter(|text| text.contains(MARK)).count();
    println!(
        "{sent} requests in {positions} positions; {} statements, {quoted} with the marker in quotes",
        executed.len()
    );
    // Check the log itself: many attacks are valid requests, and some put quoted names into statements.
    assert!(executed.len() > sent && quoted > 100, "{} statements logged, {quoted} marked", executed.len());
    for text in &executed {
        assert!(!outside_quotes(text).contains(MARK), "executed: {text}");
    }
    let database = server.database();
    assert_eq!(database.value("select is_called from extensions.pwned_seq").await, "f");
    assert_eq!(database.value("select array_agg(id) from extensions.pwned_table").await, "{1}");
    assert_eq!(database.value("select count(*) from pg_roles where rolname like 'pwned%'").await, "0");
    let relations = "select count(*) from pg_class where relname like 'pwned%'";
    assert_eq!(database.value(relations).await, "2");
}
