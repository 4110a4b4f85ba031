//! Content negotiation (rest.md §3.12).

use basalt_testkit::TestDatabase;
use http::Method;
use serde_json::{Value, json};

use super::super::{SOON, anon, get};
use super::{accepting, schema_server, seen};

const JSON: &str = "application/json; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";
const OBJECT: &str = "application/vnd.pgrst.object+json; charset=utf-8";
const STRIPPED_OBJECT: &str = "application/vnd.pgrst.object+json;nulls=stripped; charset=utf-8";
const STRIPPED_ARRAY: &str = "application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8";

#[tokio::test]
async fn first_producible_type_wins_by_weight_then_order() {
    let server = schema_server().start().await;
    for (accept, content_type) in [
        ("*/*", JSON),
        ("application/json", JSON),
        ("APPLICATION/JSON", JSON),
        ("application/json; charset=utf-8", JSON),
        ("application/json;odata=verbose", JSON),
        ("Text/CSV", CSV),
        ("text/csv;header=present", CSV),
        ("text/unknown, */*", JSON),
        ("text/html;q=0.1,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("text/csv, application/json", CSV),
        ("application/json, text/csv", JSON),
        ("text/csv;q=0.5, application/json;q=0.4", CSV),
        ("application/json;q=0.4, text/csv;q=0.5", CSV),
        ("text/csv; q=0.2 , application/json ; q=0.3", JSON),
        ("text/csv;q=0.001, application/json;q=0.002", JSON),
        ("text/unknown;q=1, a/b, text/csv;q=0.1", CSV),
        ("application/vnd.pgrst.array+json", JSON),
        ("application/vnd.pgrst.array", JSON),
        ("application/vnd.pgrst.object+json", OBJECT),
        ("application/vnd.pgrst.object", OBJECT),
        ("APPLICATION/vnd.pgrst.OBJECT+json", OBJECT),
        ("application/vnd.pgrst.object; charset=utf-8", OBJECT),
        ("application/vnd.pgrst.object+json;nulls=stripped", STRIPPED_OBJECT),
        ("application/vnd.pgrst.object; nulls=stripped", STRIPPED_OBJECT),
        ("application/vnd.pgrst.object+json;charset=utf-8;nulls=stripped", STRIPPED_OBJECT),
        ("application/vnd.pgrst.array+json;nulls=stripped", STRIPPED_ARRAY),
        ("application/vnd.pgrst.array;nulls=stripped", STRIPPED_ARRAY),
        ("application/vnd.pgrst.array+json;nulls=kept", JSON),
        ("", JSON),
        (" , application/json", JSON),
    ] {
        let response = accepting(&server, "/owners?id=eq.1&select=id", accept).send().await;
        assert_eq!(
            (response.status.as_u16(), response.header("content-type")),
            (200, content_type),
            "{accept}"
        );
        let headed = anon(&server, Method::HEAD, "/owners?id=eq.1&select=id").header("accept", accept);
        let headed = headed.send().await;
        assert_eq!((headed.status.as_u16(), headed.header("content-type")), (200, content_type), "{accept}");
        assert!(headed.body.is_empty() && headed.headers.get("content-length").is_none());
    }
    assert_eq!(get(&server, "/owners?id=eq.1").await.header("content-type"), JSON, "without the header");
}

#[tokio::test]
async fn error_lists_unavailable_types_by_preference() {
    let server = schema_server().config("rest.plan_enabled", "false").start().await;
    for (path, accept, named) in [
        ("/owners?select=id", "text/unknown", "text/unknown"),
        ("/owners?select=id", "text/unknown;charset=utf-8", "text/unknown"),
        ("/owners?select=id", "text/unknown, a/b", "text/unknown, a/b"),
        ("/owners?select=id", "text/unknown;q=0.2, a/b;q=0.9, c/d", "c/d, a/b, text/unknown"),
        ("/owners?select=id", "text/*", "text/*"),
        ("/owners?select=id", "application/*", "application/*"),
        ("/owners?select=id", "nonsense", "nonsense"),
        ("/owners?select=id", "application/openapi+json", "application/openapi+json"),
        ("/owners?select=id", "application/octet-stream", "application/octet-stream"),
        ("/owners?select=id", "text/xml", "text/xml"),
        ("/owners?select=id", "application/x-www-form-urlencoded", "application/x-www-form-urlencoded"),
        (
            "/owners?select=id",
            "application/vnd.pgrst.plan",
            "application/vnd.pgrst.plan+text; for=\"application/json\"",
        ),
        ("/rpc/none", "image/png", "image/png"),
        ("/rpc/page", "image/png", "image/png"),
        ("/", "text/csv", "text/csv"),
        ("/", "text/html, application/vnd.pgrst.object", "text/html, application/vnd.pgrst.object+json"),
    ] {
        let response = accepting(&server, path, accept).send().await;
        let message = format!("None of these media types are available: {named}");
        let body = json!({"code": "PGRST107", "details": null, "hint": null, "message": message});
        assert_eq!((response.status.as_u16(), response.json()), (406, body), "{path} {accept}");
    }
    // A write is rejected if its response cannot be produced, even with return=minimal.
    for prefer in ["return=representation", "return=minimal"] {
        let added = anon(&server, Method::POST, "/owners?select=id")
            .header("accept", "text/unknown")
            .header("prefer", prefer)
            .json(&json!({"id": 9}))
            .send()
            .await;
        assert_eq!((added.status.as_u16(), added.json()["code"].as_str()), (406, Some("PGRST107")));
    }
    assert_eq!(server.database().count("answers.owners").await, 3);
}

#[tokio::test]
async fn object_type_requires_exactly_one_row() {
    let server = schema_server().start().await;
    let object = "application/vnd.pgrst.object+json";
    let one = accepting(&server, "/owners?id=eq.1", object).send().await;
    assert_eq!(seen(&one), (200, OBJECT, r#"{"id":1,"name":"Ann"}"#.to_owned()));
    for (path, rows) in [("/owners", 3), ("/owners?id=eq.9", 0), ("/rpc/all_owners", 3), ("/no_key", 0)] {
        let response = accepting(&server, path, object).send().await;
        let body = json!({
            "code": "PGRST116", "details": format!("The result contains {rows} rows"), "hint": null,
            "message": "Cannot coerce the result to a single JSON object",
        });
        assert_eq!(seen(&response).0, 406);
        assert_eq!((response.header("content-type"), response.json()), (JSON, body), "{path}");
    }
    // A limit or a key filter reduces the result to one row.
    for path in ["/owners?limit=1&order=id", "/rpc/all_owners?limit=1", "/rpc/all_owners?id=eq.1"] {
        assert_eq!(accepting(&server, path, object).send().await.json()["id"], 1, "{path}");
    }
    // Scalars and single rows of functions are unchanged.
    assert_eq!(seen(&accepting(&server, "/rpc/none", object).send().await), (200, OBJECT, "1".to_owned()));
    // If a write affects other than one row, it is rolled back, whatever it returns.
    for (method, prefer) in [
        (Method::PATCH, "return=representation"),
        (Method::PATCH, "return=minimal"),
        (Method::DELETE, "return=minimal"),
    ] {
        let response = anon(&server, method, "/no_key?a=gt.0")
            .header("accept", object)
            .header("prefer", prefer)
            .json(&json!({"b": "x"}))
            .send()
            .await;
        assert_eq!(response.json()["code"], "PGRST116");
    }
    let renamed = anon(&server, Method::POST, "/rpc/rename_all").header("accept", object);
    assert_eq!(renamed.json(&json!({})).send().await.status, 406);
    assert_eq!(server.database().value("select name from answers.owners where id = 1").await, "Ann");
}

#[tokio::test]
async fn nulls_can_be_stripped() {
    let server = schema_server().start().await;
    let array = "application/vnd.pgrst.array+json;nulls=stripped";
    let object = "application/vnd.pgrst.object+json;nulls=stripped";
    let path = "/things?select=id,day,doc,owners(id,name),words&order=id";
    assert_eq!(
        accepting(&server, path, array).send().await.json(),
        json!([
            {"id": 1, "doc": {}, "owners": {"id": 1, "name": "Ann"}, "words": ["a", "x y"]},
            {"id": 2, "owners": {"id": 2, "name": "Bob, \"B\""}},
            {"id": 3, "doc": [null], "words": []},
        ])
    );
    let response = accepting(&server, &format!("{path}&id=eq.2"), object).send().await;
    assert_eq!(response.header("content-type"), STRIPPED_OBJECT);
    assert_eq!(response.json(), json!({"id": 2, "owners": {"id": 2, "name": "Bob, \"B\""}}));
    let empty = accepting(&server, "/owners?id=eq.99", array).send().await;
    assert_eq!(seen(&empty), (200, STRIPPED_ARRAY, "[]".to_owned()));
    assert_eq!(accepting(&server, "/owners?id=eq.99", object).send().await.json()["code"], "PGRST116");
    let value = anon(&server, Method::POST, "/rpc/raw").header("accept", object);
    assert_eq!(value.json(&json!({"a": null, "b": 1})).send().await.json(), json!({"b": 1}));
    let written = anon(&server, Method::POST, "/extras?select=thing_id,note")
        .header("prefer", "tx=rollback, return=representation")
        .header("accept", array)
        .json(&json!({"thing_id": 1}));
    assert_eq!(written.send().await.json(), json!([{"thing_id": 1}]));
}

#[tokio::test]
async fn csv_format() {
    let server = schema_server().start().await;
    let csv = |path: &'static str| accepting(&server, path, "text/csv").send();
    for (path, body) in [
        ("/owners?order=id", "id,name\n1,Ann\n2,\"Bob, \"\"B\"\"\"\n3,\"\""),
        ("/owners?select=n:name,id&id=eq.1", "n,id\nAnn,1"),
        ("/things?select=id,title&order=id", "id,title\n1,first\n2,\"a \"\"quote\"\", and\na line\"\n3,\"\""),
        // Arrays in PostgreSQL's format, nulls empty, booleans as t and f.
        ("/things?select=id,words,active&order=id", "id,words,active\n1,\"{a,\"\"x y\"\"}\",t\n2,,t\n3,{},t"),
        ("/things?select=doc,made&id=eq.1", "doc,made\n\"{\"\"a\"\": null}\",\"2024-01-02 03:04:05+00\""),
        // Embeds are JSON text.
        (
            "/things?select=id,owners(id,name)&order=id&id=lt.3",
            "id,owners\n1,\"{\"\"id\"\": 1, \"\"name\"\": \"\"Ann\"\"}\"\n2,\"{\"\"id\"\": 2, \"\"name\"\": \"\"Bob, \\\\\"\"B\\\\\"\"\"\"}\"",
        ),
        ("/owners?select=id,things(id)&id=in.(1,3)&order=id", "id,things\n1,\"[{\"\"id\"\": 1}]\"\n3,[]"),
        ("/owners?id=eq.99", "\n"),
        ("/no_key", "\n"),
        ("/rpc/all_owners?select=id&limit=2", "id\n1\n2"),
        ("/rpc/none", "pgrst_scalar\n1"),
    ] {
        assert_eq!(seen(&csv(path).await), (200, CSV, body.to_owned()), "{path}");
    }
    let written = anon(&server, Method::POST, "/owners?select=id,name")
        .header("prefer", "tx=rollback, return=representation")
        .header("accept", "text/csv")
        .json(&json!([{"id": 8, "name": "x"}, {"id": 9, "name": null}]));
    let refused = written.send().await;
    assert_eq!(refused.json()["code"], "23502", "errors stay JSON");
    let counted = accepting(&server, "/owners?limit=1&order=id", "text/csv").header("prefer", "count=exact");
    let counted = counted.send().await;
    assert_eq!((counted.status.as_u16(), counted.header("content-range")), (206, "0-0/3"));
}

#[tokio::test]
async fn renderable_types_are_sandboxed() {
    let server = schema_server().start().await;
    for (path, accept, policy) in [
        ("/rpc/page", "text/html", "sandbox"),
        ("/owners?id=lt.3", "text/html", "sandbox"),
        ("/rpc/chosen", "text/x-chosen", "sandbox"),
        ("/rpc/page", "application/json", ""),
        ("/owners?id=eq.1", "text/plain", ""),
        ("/owners", "text/csv", ""),
        ("/rpc/anything", "*/*", ""),
    ] {
        let response = accepting(&server, path, accept).send().await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        assert_eq!(response.header("content-security-policy"), policy, "{path} as {accept}");
        assert_eq!(response.header("x-content-type-options"), "nosniff", "{path} as {accept}");
    }
}

#[tokio::test]
async fn media_type_handlers_in_the_database() {
    let server = schema_server().start().await;
    let page = || "<p>hi</p>".to_owned();
    let octets = "application/octet-stream";
    for (path, accept, expected) in [
        // Functions that return a domain named like a media type.
        ("/rpc/page", "text/html", (200, "text/html", page())),
        ("/rpc/page", "application/json", (200, JSON, "\"<p>hi</p>\"".to_owned())),
        ("/rpc/anything", "text/unknown", (200, octets, "plain".to_owned())),
        ("/rpc/anything", "*/*", (200, octets, "plain".to_owned())),
        ("/rpc/chosen", "text/x-chosen", (200, "text/x-chosen", "chosen".to_owned())),
        // Aggregates over a relation, over any element, and replacing a built-in type.
        (
            "/owners?id=lt.3&order=id",
            "text/html",
            (200, "text/html", "<li>Ann</li><li>Bob, \"B\"</li>".to_owned()),
        ),
        ("/rpc/all_owners?id=eq.1", "text/html", (200, "text/html", "<li>Ann</li>".to_owned())),
        ("/owners?id=eq.1", "text/plain", (200, "text/plain; charset=utf-8", "(1,Ann)\n".to_owned())),
        ("/rpc/none", "text/plain", (200, "text/plain; charset=utf-8", "1\n".to_owned())),
        ("/pairs", "image/gif", (200, octets, "one".to_owned())),
        ("/pairs", "text/csv", (200, octets, "one".to_owned())),
        ("/extras", "text/csv", (200, CSV, "mine:".to_owned())),
        // Built-in types with parameters are not replaced, nor are requests with another selection.
        (
            "/pairs",
            "application/vnd.pgrst.object+json",
            (200, OBJECT, r#"{"a":1,"b":1,"note":"one"}"#.to_owned()),
        ),
        ("/pairs?select=note", "text/csv", (200, CSV, "note\none".to_owned())),
        ("/extras?select=note", "text/csv", (200, CSV, "\n".to_owned())),
    ] {
        let response = accepting(&server, path, accept).send().await;
        let (status, content_type, body) = expected;
        assert_eq!((response.status.as_u16(), response.text()), (status, body), "{path} {accept}");
        assert!(response.header("content-type").starts_with(content_type), "{path} {accept}");
    }
    let picture = accepting(&server, "/rpc/picture", "image/png").send().await;
    assert_eq!(picture.body.as_ref(), b"\x89PNG".as_slice());
    assert_eq!(picture.header("content-type"), "image/png");
    assert_eq!(accepting(&server, "/owners?select=id", "text/html").send().await.status, 406);
    let written = anon(&server, Method::POST, "/owners")
        .header("prefer", "tx=rollback, return=representation")
        .header("accept", "text/html")
        .json(&json!({"id": 9, "name": "new"}));
    assert_eq!(written.send().await.text(), "<li>new</li>");
}

/// Needs PostGIS, for example Debian's postgresql-15-postgis-3 (`BASALT_TEST_POSTGRES_BIN`).
#[tokio::test]
async fn geojson_with_postgis() {
    let probe = TestDatabase::create().await;
    let installed = probe.value("select count(*) from pg_available_extensions where name = 'postgis'").await;
    if installed == "0" {
        eprintln!("SKIPPED geojson_with_postgis: this PostgreSQL has no extension postgis");
        return;
    }
    let server = schema_server().start().await;
    let _made = server
        .database()
        .admin_sql(
            "create extension postgis schema extensions;
             create table answers.shops (id int primary key, name text, place extensions.geometry(Point, 4326));
             insert into answers.shops values (1, 'A', 'SRID=4326;POINT(1 2)'), (2, 'B', 'SRID=4326;POINT(3 4)');
             grant select, insert on answers.shops to anon;",
        )
        .await;
    let request = accepting(&server, "/shops?order=id", "application/geo+json");
    let response = server.until(SOON, &request, |response| response.status == 200).await;
    assert_eq!(response.header("content-type"), "application/geo+json; charset=utf-8");
    let point = json!({"type": "Point", "coordinates": [1, 2]});
    let feature = |id: i32, name: &str, place| {
        let properties = json!({"id": id, "name": name});
        json!({"type": "Feature", "geometry": place, "properties": properties})
    };
    let collection = response.json();
    assert_eq!(collection["type"], "FeatureCollection");
    for (index, expected) in
        [feature(1, "A", point.clone()), feature(2, "B", json!({"type": "Point", "coordinates": [3, 4]}))]
            .into_iter()
            .enumerate()
    {
        for key in ["type", "geometry", "properties"] {
            assert_eq!(collection["features"][index][key], expected[key], "{collection}");
        }
    }
    let none = accepting(&server, "/shops?id=eq.99", "application/geo+json").send().await;
    assert_eq!(none.json(), json!({"type": "FeatureCollection", "features": []}));
    let written = anon(&server, Method::POST, "/shops")
        .header("prefer", "return=representation")
        .header("accept", "application/geo+json")
        .json(&json!({"id": 3, "name": "C", "place": point}))
        .send()
        .await
        .expect(201);
    assert_eq!(written.json()["features"][0]["geometry"]["coordinates"], json!([1, 2]));
    // A shop without a place: the format depends on the PostGIS version, so compare with its own output.
    let database = server.database();
    let _nowhere = database.admin_sql("insert into answers.shops values (4, 'D', null)").await;
    let says = "select extensions.ST_AsGeoJSON(s.*) from answers.shops s where id = 4";
    let says: Value = serde_json::from_str(&database.value(says).await).unwrap();
    assert_eq!(says["properties"], json!({"id": 4, "name": "D"}));
    let nowhere = accepting(&server, "/shops?id=eq.4", "application/geo+json").send().await;
    assert_eq!(nowhere.json(), json!({"type": "FeatureCollection", "features": [says]}));
    assert_eq!(accepting(&server, "/owners", "application/geo+json").send().await.status.as_u16(), 400);
}
