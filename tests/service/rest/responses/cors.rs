//! OPTIONS, CORS and HEAD (rest.md §3.13).

use http::Method;

use super::super::anon;
use super::schema_server;

const EXPOSED: &str = "Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, \
                       Transfer-Encoding, Range-Unit, Retry-After, Preference-Applied, Proxy-Status, Basalt-Truncated";

#[tokio::test]
async fn preflight_needs_no_key_and_no_table() {
    let server = schema_server().start().await;
    // No key, an invalid token, a table that does not exist.
    for path in ["/rest/v1/owners", "/rest/v1/", "/rest/v1/rpc/nope", "/rest/v1/no/such/path"] {
        let response = server
            .request(Method::OPTIONS, path)
            .header("origin", "https://app.example")
            .header("access-control-request-method", "PATCH")
            .header("access-control-request-headers", "apikey,authorization,x-client-info,prefer")
            .header("authorization", "Bearer nonsense")
            .send()
            .await
            .expect(200);
        assert!(response.body.is_empty());
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            ("access-control-allow-methods", "GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD"),
            (
                "access-control-allow-headers",
                "Authorization, apikey,authorization,x-client-info,prefer, Accept, Accept-Language, Content-Language",
            ),
            ("access-control-max-age", "86400"),
        ] {
            assert_eq!(response.header(name), value, "{path}");
        }
        assert!(!response.headers.contains_key("access-control-allow-credentials"));
    }
    let bare = server
        .request(Method::OPTIONS, "/rest/v1/owners")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "GET");
    let bare = bare.send().await;
    assert_eq!(
        bare.header("access-control-allow-headers"),
        "Authorization, Accept, Accept-Language, Content-Language"
    );
}

#[tokio::test]
async fn errors_have_cors_headers_too() {
    let server = schema_server().start().await;
    let origin = "https://app.example";
    for (path, status) in [
        ("/owners", 200),
        ("/nope", 404),
        ("/owners?id=noop.1", 400),
        ("/hidden", 401),
        ("/rpc/fail?code=PT418", 418),
        ("/owners?limit=-1", 416),
        ("/a/b", 404),
        ("/", 200),
    ] {
        let response = anon(&server, Method::GET, path).header("origin", origin).send().await.expect(status);
        assert_eq!(response.header("access-control-allow-origin"), "*", "{path}");
        assert_eq!(response.header("access-control-expose-headers"), EXPOSED, "{path}");
        let silent = anon(&server, Method::GET, path).send().await.expect(status);
        assert!(!silent.headers.contains_key("access-control-allow-origin"), "{path}");
        assert!(!silent.headers.contains_key("access-control-expose-headers"), "{path}");
    }
    // Rejected by the API key check, by the token check, and by the body limit.
    let keyless = server.get("/rest/v1/owners").header("origin", origin).send().await.expect(401);
    assert_eq!(keyless.header("access-control-allow-origin"), "*");
    let forged = anon(&server, Method::GET, "/owners").header("origin", origin).bearer("a.b.c").send().await;
    assert_eq!((forged.status.as_u16(), forged.header("access-control-allow-origin")), (401, "*"));
}

#[tokio::test]
async fn only_configured_origins_are_echoed() {
    let server = schema_server()
        .config("server.cors_origins", "https://app.example, https://admin.example")
        .start()
        .await;
    let ask = |method: Method, origin: &'static str| {
        let request = anon(&server, method.clone(), "/owners").header("origin", origin);
        if method == Method::OPTIONS {
            request.header("access-control-request-method", "GET")
        } else {
            request
        }
    };
    for method in [Method::GET, Method::OPTIONS] {
        for origin in ["https://app.example", "https://admin.example"] {
            let response = ask(method.clone(), origin).send().await.expect(200);
            assert_eq!(response.header("access-control-allow-origin"), origin);
            assert_eq!(response.header("access-control-allow-credentials"), "true");
        }
        for origin in ["https://evil.example", "http://app.example", "https://app.example.evil", "null"] {
            let response = ask(method.clone(), origin).send().await.expect(200);
            for name in response.headers.keys() {
                assert!(!name.as_str().starts_with("access-control-"), "{method} {origin}: {name}");
            }
        }
    }
    let varies = ask(Method::GET, "https://app.example").send().await;
    let vary: Vec<&str> =
        varies.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(vary.join(", "), "Accept, Prefer, Range, Origin");
}

#[tokio::test]
async fn options_lists_allowed_methods() {
    let server = schema_server().start().await;
    for (path, allow) in [
        ("/", "OPTIONS,GET,HEAD"),
        ("/owners", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("/no_key", "OPTIONS,GET,HEAD,POST,PATCH,DELETE"),
        ("/parts", "OPTIONS,GET,HEAD,POST,PATCH,DELETE"),
        // Privileges of the role are not considered.
        ("/hidden", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("/simple", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("/joined", "OPTIONS,GET,HEAD"),
        ("/triggered", "OPTIONS,GET,HEAD,POST"),
        ("/stored", "OPTIONS,GET,HEAD"),
        ("/rpc/none", "OPTIONS,GET,HEAD,POST"),
        ("/rpc/one", "OPTIONS,GET,HEAD,POST"),
        ("/rpc/changes", "OPTIONS,POST"),
        ("/rpc/over", "OPTIONS,GET,HEAD,POST"),
        // Without both headers it is not a preflight.
        ("/owners?select=nonsense&id=eq.1", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
    ] {
        let response = anon(&server, Method::OPTIONS, path).send().await.expect(200);
        assert_eq!(response.header("allow"), allow, "{path}");
        assert_eq!(response.header("content-length"), "0", "{path}");
        assert_eq!(response.header("access-control-allow-origin"), "*", "{path}");
        assert!(response.body.is_empty() && !response.headers.contains_key("content-type"), "{path}");
    }
    for (path, code) in
        [("/nope", "PGRST205"), ("/parts_1", "PGRST205"), ("/rpc/nope", "PGRST202"), ("/owners/", "PGRST125")]
    {
        let response = anon(&server, Method::OPTIONS, path).send().await.expect(404);
        assert_eq!(response.json()["code"], code, "{path}");
    }
    // A plain OPTIONS needs a key, an exposed schema and a valid query.
    let broken = anon(&server, Method::OPTIONS, "/owners?id=noop.1").send().await.expect(400);
    assert_eq!(broken.json()["code"], "PGRST100");
    let negative = anon(&server, Method::OPTIONS, "/owners?limit=-1").send().await.expect(416);
    assert_eq!(negative.json()["code"], "PGRST103");
    assert_eq!(server.request(Method::OPTIONS, "/rest/v1/owners").send().await.status, 401);
    let elsewhere = anon(&server, Method::OPTIONS, "/owners").header("accept-profile", "nope").send().await;
    assert_eq!(elsewhere.json()["code"], "PGRST106");
    // With only an origin, the response has CORS headers.
    let read = anon(&server, Method::OPTIONS, "/owners").header("origin", "https://a.example").send().await;
    assert_eq!(read.header("access-control-expose-headers"), EXPOSED);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let server = schema_server().start().await;
    for path in [
        "/owners?select=id,name&id=lt.3&order=id",
        "/owners?offset=100",
        "/things?select=id,owners(name)",
        "/rpc/none",
        "/rpc/all_owners?id=eq.1",
        "/",
        "/nope",
        "/hidden",
        "/owners?id=noop.1",
        "/owners?limit=-1",
        "/rpc/nope",
        "/a/b",
        "/rpc/fail?code=PT418",
        "/owners?name=eq.1&id=eq.x",
    ] {
        for prefer in ["count=exact", "handling=lenient"] {
            let ask = |method| anon(&server, method, path).header("prefer", prefer).send();
            let (got, headed) = (ask(Method::GET).await, ask(Method::HEAD).await);
            assert_eq!(got.status, headed.status, "{path}");
            assert!(headed.body.is_empty() && !headed.headers.contains_key("content-length"), "{path}");
            for name in got
                .headers
                .keys()
                .filter(|name| !["content-length", "x-request-id", "date"].contains(&name.as_str()))
            {
                assert_eq!(got.headers.get(name), headed.headers.get(name), "{path} {name}");
            }
        }
    }
    // A HEAD writes nothing.
    let called = anon(&server, Method::HEAD, "/rpc/rename_all").send().await;
    assert_eq!(called.status, 405);
}
