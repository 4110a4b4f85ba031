//! The OpenAPI document at the root (rest.md §3.14).

use basalt_testkit::Basalt;
use http::Method;
use serde_json::{Value, json};

use super::super::{SOON, anon, get};
use super::{accepting, schema_server, seen};

async fn document(server: &Basalt) -> Value {
    get(server, "/").await.expect(200).json()
}

fn at<'a>(document: &'a Value, pointer: &str) -> &'a Value {
    document.pointer(pointer).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn document_info_and_servers() {
    let server =
        schema_server().config("rest.openapi_server_proxy_uri", "https://api.example/rest/v1").start().await;
    let document = document(&server).await;
    for (pointer, value) in [
        ("/swagger", json!("2.0")),
        ("/info/title", json!("The answers")),
        ("/info/description", json!("What each of them says.\nIn two lines.")),
        ("/host", json!("api.example:443")),
        ("/basePath", json!("/rest/v1")),
        ("/schemes", json!(["https"])),
        (
            "/consumes",
            json!([
                "application/json",
                "application/vnd.pgrst.object+json;nulls=stripped",
                "application/vnd.pgrst.object+json",
                "text/csv",
            ]),
        ),
        ("/security", Value::Null),
        ("/securityDefinitions", Value::Null),
        ("/paths/~1/get/produces", json!(["application/openapi+json", "application/json"])),
    ] {
        assert_eq!(at(&document, pointer), &value, "{pointer}");
    }
    assert_eq!(document["consumes"], document["produces"]);
    assert!(at(&document, "/info/version").as_str().is_some_and(|version| !version.is_empty()));
    for parameter in [
        "select",
        "order",
        "range",
        "rangeUnit",
        "offset",
        "limit",
        "on_conflict",
        "preferParams",
        "preferReturn",
        "preferCount",
        "preferPost",
    ] {
        assert!(document["parameters"][parameter]["in"].is_string(), "{parameter}");
    }
}

#[tokio::test]
async fn relations_are_paths_with_allowed_methods() {
    let server = schema_server().start().await;
    let document = document(&server).await;
    let methods = |path: &str| -> Vec<String> {
        document["paths"][path]
            .as_object()
            .map(|methods| methods.keys().cloned().collect())
            .unwrap_or_default()
    };
    for (path, expected) in [
        ("/owners", vec!["delete", "get", "patch", "post"]),
        ("/parts", vec!["delete", "get", "patch", "post"]),
        ("/simple", vec!["delete", "get", "patch", "post"]),
        ("/joined", vec!["get"]),
        ("/triggered", vec!["get", "post"]),
        ("/stored", vec!["get"]),
        ("/parts_1", vec![]),
        // The role has no privileges on it.
        ("/hidden", vec![]),
    ] {
        let mut found = methods(path);
        found.sort();
        assert_eq!(found, expected, "{path}");
    }
    let reference = |name: &str| json!({"$ref": format!("#/parameters/{name}")});
    let filters = ["rowFilter.extras.thing_id", "rowFilter.extras.note"].map(reference);
    let reading = ["select", "order", "range", "rangeUnit", "offset", "limit", "preferCount"].map(reference);
    let path = &document["paths"]["/extras"];
    assert_eq!(path["get"]["parameters"], json!([filters.as_slice(), reading.as_slice()].concat()));
    assert_eq!(
        path["post"]["parameters"],
        json!([reference("body.extras"), reference("select"), reference("preferPost")])
    );
    let writing = [reference("body.extras"), reference("preferReturn")];
    assert_eq!(path["patch"]["parameters"], json!([filters.as_slice(), writing.as_slice()].concat()));
    assert_eq!(
        path["delete"]["parameters"],
        json!([filters.as_slice(), &[reference("preferReturn")]].concat())
    );
    assert_eq!(path["get"]["responses"]["200"]["schema"]["items"], json!({"$ref": "#/definitions/extras"}));
    for (method, status) in [("get", "206"), ("post", "201"), ("patch", "204"), ("delete", "204")] {
        assert!(path[method]["responses"][status]["description"].is_string(), "{method}");
        assert_eq!(path[method]["tags"], json!(["extras"]));
    }
    assert_eq!(document["paths"]["/things"]["get"]["summary"], "Things");
    assert_eq!(document["paths"]["/things"]["get"]["description"], "All kinds of them\nand more");
    assert_eq!(
        document["parameters"]["body.things"],
        json!({
            "name": "things", "description": "things", "required": false, "in": "body",
            "schema": {"$ref": "#/definitions/things"},
        })
    );
    assert_eq!(
        document["parameters"]["rowFilter.things.title"],
        json!({"name": "title", "description": "What it says", "required": false, "in": "query", "type": "string"})
    );
    assert_eq!(
        document["parameters"]["rowFilter.things.odd name"],
        json!({"name": "odd name", "required": false, "in": "query", "type": "string"})
    );
}

#[tokio::test]
async fn columns_have_types_defaults_and_comments() {
    let server = schema_server().start().await;
    let document = document(&server).await;
    let things = &document["definitions"]["things"];
    assert_eq!(things["type"], "object");
    assert_eq!(things["description"], "Things\n\nAll kinds of them\nand more");
    assert_eq!(things["required"], json!(["id", "title", "score"]));
    let labels = json!(["small", "it's big", "huge"]);
    for (column, property) in [
        (
            "id",
            json!({"format": "int32", "type": "integer", "description": "The id\n\nNote:\nThis is a Primary Key.<pk/>",
                "default": null}),
        ),
        (
            "owner_id",
            json!({"format": "int32", "type": "integer",
                "description": "Note:\nThis is a Foreign Key to `owners.id`.<fk table='owners' column='id'/>"}),
        ),
        (
            "title",
            json!({"format": "text", "type": "string", "default": "untitled", "description": "What it says"}),
        ),
        ("kind", json!({"format": "answers.size", "type": "string", "default": "it''s big", "enum": labels})),
        ("kinds", json!({"format": "answers.size[]", "type": "array", "items": {"type": "string"}})),
        // Domains appear as their base type.
        ("score", json!({"format": "int32", "type": "integer", "default": 3})),
        ("nested", json!({"format": "int32", "type": "integer", "default": 3})),
        ("code", json!({"format": "character varying", "type": "string", "maxLength": 6, "default": "abc"})),
        ("sized", json!({"format": "answers.sized", "type": "string", "enum": labels})),
        ("doc", json!({"format": "jsonb"})),
        (
            "short",
            json!({"format": "character", "type": "string", "maxLength": 4, "default": "'ab'::bpchar"}),
        ),
        ("bits", json!({"format": "bit", "type": "string", "maxLength": 3})),
        ("price", json!({"format": "numeric", "type": "number", "default": 1.50})),
        ("ratio", json!({"format": "double precision", "type": "number"})),
        ("active", json!({"format": "boolean", "type": "boolean", "default": true})),
        ("small", json!({"format": "int32", "type": "integer", "default": 1})),
        // PostgreSQL quotes defaults that are not plain integers.
        ("big", json!({"format": "int64", "type": "integer"})),
        ("negative", json!({"format": "int32", "type": "integer"})),
        ("added", json!({"format": "int32", "type": "integer"})),
        ("settings", json!({"format": "jsonb"})),
        ("numbers", json!({"format": "integer[]", "type": "array", "items": {"type": "integer"}})),
        ("words", json!({"format": "text[]", "type": "array", "items": {"type": "string"}})),
        ("day", json!({"format": "date", "type": "string"})),
        ("made", json!({"format": "timestamp with time zone", "type": "string", "default": "now()"})),
        ("raw", json!({"format": "bytea", "type": "string"})),
        ("pair", json!({"format": "answers.pair", "type": "string"})),
        ("odd name", json!({"format": "text", "type": "string"})),
    ] {
        let mut expected = property;
        if expected["default"].is_null() {
            let _none = expected.as_object_mut().map(|object| object.remove("default"));
        }
        let mut found = things["properties"][column].clone();
        if column == "id" {
            let _sequence = found.as_object_mut().map(|object| object.remove("default"));
        }
        assert_eq!(found, expected, "{column}");
    }
    let name = &document["definitions"]["owners"]["properties"]["name"];
    assert_eq!(
        *name,
        json!({"format": "character varying", "type": "string", "maxLength": 20, "default": "nobody"})
    );
    let key = &document["definitions"]["extras"]["properties"]["thing_id"]["description"];
    assert_eq!(
        *key,
        "Note:\nThis is a Primary Key.<pk/>\nThis is a Foreign Key to `things.id`.<fk table='things' column='id'/>"
    );
    assert!(document["definitions"]["no_key"]["required"].is_null());
}

#[tokio::test]
async fn functions_are_paths_with_parameters() {
    let server = schema_server().start().await;
    let document = document(&server).await;
    let rpc = |name: &str| document["paths"][format!("/rpc/{name}")].clone();
    let arguments = |name: &str| rpc(name)["post"]["parameters"][0]["schema"].clone();

    let none = rpc("none");
    assert_eq!(
        (&none["get"]["summary"], &none["get"]["description"]),
        (&json!("Summary"), &json!("Description\nmore"))
    );
    assert!(none["get"]["parameters"].is_null(), "no empty parameter list");
    assert_eq!(arguments("none"), json!({"type": "object", "description": "Summary\n\nDescription\nmore"}));
    assert_eq!(none["get"]["tags"], json!(["(rpc) none"]));
    assert_eq!(
        none["post"]["produces"],
        json!([
            "application/json",
            "application/vnd.pgrst.object+json;nulls=stripped",
            "application/vnd.pgrst.object+json",
        ])
    );
    assert_eq!(none["post"]["parameters"][1], json!({"$ref": "#/parameters/preferParams"}));

    assert_eq!(
        rpc("one")["get"]["parameters"],
        json!([{"name": "a", "in": "query", "required": true, "type": "integer", "format": "int32"}])
    );
    // Volatile functions have no GET; parameters with a default are not required; types on the search path have no schema.
    assert!(rpc("changes")["get"].is_null());
    assert_eq!(
        arguments("changes"),
        json!({
            "type": "object", "required": ["a"],
            "properties": {
                "a": {"format": "int32", "type": "integer"}, "kind": {"format": "size", "type": "string"},
            },
        })
    );
    let typed = rpc("typed");
    for (index, (format, kind)) in [
        ("int32", "integer"),
        ("text", "string"),
        ("jsonb", "string"),
        ("integer[]", "string"),
        ("size", "string"),
        ("size[]", "string"),
        ("numeric", "number"),
        ("boolean", "boolean"),
        ("clients", "string"),
    ]
    .into_iter()
    .enumerate()
    {
        let parameter = &typed["get"]["parameters"][index];
        assert_eq!((&parameter["format"], &parameter["type"]), (&json!(format), &json!(kind)), "{parameter}");
    }
    assert_eq!(
        arguments("typed")["properties"]["d"],
        json!({"format": "integer[]", "type": "array", "items": {"type": "integer"}})
    );
    assert_eq!(
        rpc("spread")["get"]["parameters"][1],
        json!({
            "name": "rest", "in": "query", "required": true, "type": "array", "collectionFormat": "multi",
            "items": {"format": "int32", "type": "integer"},
        })
    );
    // Of overloads, the one with the most parameters; named parameters take precedence over unnamed ones.
    assert_eq!(arguments("over")["required"], json!(["a", "b"]));
    assert_eq!(arguments("raw_or_named")["required"], json!(["a"]));
    assert!(rpc("denied").is_null(), "the role cannot execute it");
}

#[tokio::test]
async fn document_follows_privileges_unless_configured() {
    let server = schema_server().start().await;
    let _granted = server.sql("grant select on answers.hidden to authenticated").await;
    let shown = |token: String| {
        let server = &server;
        async move {
            let response = anon(server, Method::GET, "/").bearer(&token).send().await.expect(200);
            !response.json()["paths"]["/hidden"].is_null()
        }
    };
    assert!(shown(server.token_of("authenticated")).await);
    assert!(!shown(server.token_of("anon")).await);
    assert!(!shown(server.service_key().to_owned()).await);
    let open = schema_server().config("rest.openapi_mode", "ignore-privileges").start().await;
    let document = document(&open).await;
    assert!(document["paths"]["/hidden"].is_object() && document["paths"]["/rpc/denied"].is_object());
    let kind = &document["paths"]["/rpc/changes"]["post"]["parameters"][0]["schema"]["properties"]["kind"];
    assert_eq!(kind["format"], "answers.size", "types off the search path have a schema");
}

#[tokio::test]
async fn each_exposed_schema_has_a_document() {
    let server = schema_server().config("rest.schemas", "answers, public").start().await;
    let first = get(&server, "/").await.expect(200);
    assert_eq!(first.header("content-profile"), "answers");
    let other = anon(&server, Method::GET, "/").header("accept-profile", "public").send().await.expect(200);
    let document = other.json();
    assert_eq!(other.header("content-profile"), "public");
    assert_eq!(document["info"]["title"], "standard public schema", "from the comment of the schema");
    assert!(document["definitions"]["clients"].is_object() && document["definitions"]["owners"].is_null());
    let unknown = anon(&server, Method::GET, "/").header("accept-profile", "nope").send().await;
    assert_eq!(unknown.json()["code"], "PGRST106");
    let _comment = server.database().admin_sql("comment on schema answers is null").await;
    let request = anon(&server, Method::GET, "/");
    let response =
        server.until(SOON, &request, |response| response.json()["info"]["title"] == "PostgREST API").await;
    assert_eq!(response.json()["info"]["description"], "This is a dynamic API generated by PostgREST");
}

#[tokio::test]
async fn security_section_is_optional() {
    let server = schema_server().config("rest.openapi_security_active", "true").start().await;
    let document = document(&server).await;
    assert_eq!(document["security"], json!([{"JWT": []}]));
    assert_eq!(
        document["securityDefinitions"]["JWT"],
        json!({
            "type": "apiKey", "name": "Authorization", "in": "header",
            "description": "Add the token prepending \"Bearer \" (without quotes) to it",
        })
    );
}

#[tokio::test]
async fn root_can_be_a_function_or_disabled() {
    let json = "application/json; charset=utf-8";
    let server = schema_server().config("rest.root_spec", "root").start().await;
    let mine = r#"{"swagger": "mine"}"#;
    for accept in ["*/*", "application/json", "text/unknown, */*"] {
        let response = accepting(&server, "/", accept).send().await;
        assert_eq!(seen(&response), (200, json, mine.to_owned()), "{accept}");
        assert_eq!(response.header("content-range"), "0-0/*");
    }
    assert_eq!(accepting(&server, "/", "text/unknown").send().await.status, 406);
    let options = anon(&server, Method::OPTIONS, "/").send().await;
    assert_eq!(options.header("allow"), "OPTIONS,GET,HEAD,POST");
    let elsewhere = schema_server().config("rest.root_spec", "answers.nope").start().await;
    assert_eq!(get(&elsewhere, "/").await.json()["code"], "PGRST202");

    let disabled = schema_server().config("rest.openapi_mode", "disabled").start().await;
    for method in [Method::GET, Method::POST, Method::OPTIONS] {
        let response = anon(&disabled, method.clone(), "/").send().await;
        let body = json!({
            "code": "PGRST126", "details": null, "hint": null, "message": "Root endpoint metadata is disabled",
        });
        assert_eq!((response.status.as_u16(), response.json()), (404, body), "{method}");
    }
    assert_eq!(get(&disabled, "/owners").await.status, 200);
    // A root function works even if the document is disabled.
    let both =
        schema_server().config("rest.openapi_mode", "disabled").config("rest.root_spec", "answers.root");
    assert_eq!(get(&both.start().await, "/").await.text(), mine);
}
