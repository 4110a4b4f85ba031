//! Every `PGRST` code that a request can cause.

use http::Method;
use serde_json::{Value, json};

use super::super::anon;
use super::{check, schema_server};

/// Method and path, `Name: value` headers, body; expected status, code, message, details, hint.
type Case = (&'static str, &'static [&'static str], &'static str, u16, [&'static str; 4]);

/// No such text.
const NULL: &str = "\0";

const CASES: &[Case] = &[
    (
        "GET /owners?id=noop.1",
        &[],
        "",
        400,
        ["PGRST100", "\"failed to parse filter (noop.1)\" (line 1, column 1)", "*", NULL],
    ),
    (
        "GET /owners?select=id)",
        &[],
        "",
        400,
        ["PGRST100", "\"failed to parse select parameter (id))\" *", "*", NULL],
    ),
    ("GET /owners?order=id.up", &[], "", 400, ["PGRST100", "\"failed to parse order (id.up)\" *", "*", NULL]),
    ("GET /owners?or=()", &[], "", 400, ["PGRST100", "\"failed to parse logic tree (())\" *", "*", NULL]),
    (
        "POST /owners?columns=",
        &[],
        "{}",
        400,
        ["PGRST100", "\"failed to parse columns parameter ()\" *", "*", NULL],
    ),
    ("POST /rpc/one?a=1", &[], "{}", 400, ["PGRST100", "\"failed to parse filter (1)\" *", "*", NULL]),
    ("PATCH /rpc/none", &[], "{}", 405, ["PGRST101", "Cannot use the PATCH method on RPC", NULL, NULL]),
    ("PUT /rpc/nope", &[], "{}", 405, ["PGRST101", "Cannot use the PUT method on RPC", NULL, NULL]),
    ("DELETE /rpc/none", &[], "", 405, ["PGRST101", "Cannot use the DELETE method on RPC", NULL, NULL]),
    ("POST /owners", &[], "{", 400, ["PGRST102", "Empty or invalid json", NULL, NULL]),
    (
        "POST /owners",
        &[],
        "[{\"id\":7},{\"x\":1}]",
        400,
        ["PGRST102", "All object keys must match", NULL, NULL],
    ),
    (
        "POST /owners",
        &["content-type: text/plain"],
        "x",
        400,
        ["PGRST102", "Content-Type not acceptable: text/plain", NULL, NULL],
    ),
    (
        "POST /owners",
        &["content-type: text/csv"],
        "id,name\n1",
        400,
        ["PGRST102", "All lines must have same number of fields", NULL, NULL],
    ),
    (
        "GET /owners?limit=-1",
        &[],
        "",
        416,
        [
            "PGRST103",
            "Requested range not satisfiable",
            "Limit should be greater than or equal to zero.",
            NULL,
        ],
    ),
    (
        "GET /owners",
        &["range: 5-2"],
        "",
        416,
        [
            "PGRST103",
            "Requested range not satisfiable",
            "The lower boundary must be lower than or equal to the upper boundary in the Range header.",
            NULL,
        ],
    ),
    (
        "GET /owners?offset=100",
        &["prefer: count=exact"],
        "",
        416,
        [
            "PGRST103",
            "Requested range not satisfiable",
            "An offset of 100 was requested, but there are only 3 rows.",
            NULL,
        ],
    ),
    (
        "PUT /owners?name=eq.x",
        &[],
        "{\"id\":1}",
        405,
        ["PGRST105", "Filters must include all and only primary key columns with 'eq' operators", NULL, NULL],
    ),
    (
        "GET /owners",
        &["accept-profile: nope"],
        "",
        406,
        ["PGRST106", "Invalid schema: nope", NULL, "Only the following schemas are exposed: answers"],
    ),
    (
        "PATCH /owners",
        &["content-profile: nope"],
        "{}",
        406,
        ["PGRST106", "Invalid schema: nope", NULL, "Only the following schemas are exposed: answers"],
    ),
    (
        "GET /no_key",
        &["accept: a/b"],
        "",
        406,
        ["PGRST107", "None of these media types are available: a/b", NULL, NULL],
    ),
    (
        "GET /owners?things.id=eq.1",
        &[],
        "",
        400,
        [
            "PGRST108",
            "'things' is not an embedded resource in this request",
            NULL,
            "Verify that 'things' is included in the 'select' query parameter.",
        ],
    ),
    (
        "GET /owners?order=things(id)",
        &[],
        "",
        400,
        [
            "PGRST108",
            "'things' is not an embedded resource in this request",
            NULL,
            "Verify that 'things' is included in the 'select' query parameter.",
        ],
    ),
    (
        "POST /rpc/respond",
        &[],
        "{\"headers\":\"{}\"}",
        500,
        [
            "PGRST111",
            "response.headers guc must be a JSON array composed of objects with a single key and a string value",
            NULL,
            NULL,
        ],
    ),
    (
        "POST /rpc/respond",
        &[],
        "{\"status\":\"many\"}",
        500,
        ["PGRST112", "response.status guc must be a valid status code", NULL, NULL],
    ),
    (
        "PUT /owners?id=eq.1&limit=1",
        &[],
        "{\"id\":1}",
        400,
        ["PGRST114", "limit/offset querystring parameters are not allowed for PUT", NULL, NULL],
    ),
    (
        "PUT /owners?id=eq.1",
        &[],
        "{\"id\":2}",
        400,
        ["PGRST115", "Payload values do not match URL in primary key column(s)", NULL, NULL],
    ),
    (
        "GET /owners",
        &["accept: application/vnd.pgrst.object+json"],
        "",
        406,
        ["PGRST116", "Cannot coerce the result to a single JSON object", "The result contains 3 rows", NULL],
    ),
    ("TRACE /owners", &[], "", 405, ["PGRST117", "Unsupported HTTP method: TRACE", NULL, NULL]),
    ("POST /", &[], "{}", 405, ["PGRST117", "Unsupported HTTP method: POST", NULL, NULL]),
    (
        "GET /owners?select=id,things(id)&order=things(id)",
        &[],
        "",
        400,
        [
            "PGRST118",
            "A related order on 'things' is not possible",
            "'owners' and 'things' do not form a many-to-one or one-to-one relationship",
            NULL,
        ],
    ),
    (
        "GET /owners",
        &["prefer: handling=strict, a, b=c"],
        "",
        400,
        ["PGRST122", "Invalid preferences given with handling=strict", "Invalid preferences: a, b=c", NULL],
    ),
    (
        "PATCH /owners?id=gt.0",
        &["prefer: handling=strict, max-affected=1"],
        "{\"name\":\"x\"}",
        400,
        [
            "PGRST124",
            "Query result exceeds max-affected preference constraint",
            "The query affects 3 rows",
            NULL,
        ],
    ),
    ("GET /owners/1", &[], "", 404, ["PGRST125", "Invalid path specified in request URL", NULL, NULL]),
    (
        "GET /owners?select=id,...things(id.sum())",
        &[],
        "",
        400,
        [
            "PGRST127",
            "Feature not implemented",
            "Aggregates are not implemented for one-to-many or many-to-many spreads.",
            NULL,
        ],
    ),
    (
        "POST /rpc/none",
        &["prefer: handling=strict, max-affected=1"],
        "{}",
        400,
        [
            "PGRST128",
            "Function must return SETOF or TABLE when max-affected preference is used with handling=strict",
            NULL,
            NULL,
        ],
    ),
    (
        "GET /owners?select=id,qqqq(a)",
        &[],
        "",
        400,
        [
            "PGRST200",
            "Could not find a relationship between 'owners' and 'qqqq' in the schema cache",
            "Searched for a foreign key relationship between 'owners' and 'qqqq' in the schema 'answers', but no \
             matches were found.",
            NULL,
        ],
    ),
    (
        "GET /owners?select=id,thing(id)",
        &[],
        "",
        400,
        [
            "PGRST200",
            "Could not find a relationship between 'owners' and 'thing' in the schema cache",
            "Searched for a foreign key relationship between 'owners' and 'thing' in the schema 'answers', but no \
             matches were found.",
            "Perhaps you meant 'things' instead of 'thing'.",
        ],
    ),
    (
        "GET /things?select=id,owners!wrong(id)",
        &[],
        "",
        400,
        [
            "PGRST200",
            "Could not find a relationship between 'things' and 'owners' in the schema cache",
            "Searched for a foreign key relationship between 'things' and 'owners' using the hint 'wrong' in the \
             schema 'answers', but no matches were found.",
            NULL,
        ],
    ),
    (
        "POST /rpc/nope_at_all",
        &[],
        "{\"b\":1,\"a\":2}",
        404,
        [
            "PGRST202",
            "Could not find the function answers.nope_at_all(a, b) in the schema cache",
            "Searched for the function answers.nope_at_all with parameters a, b or with a single unnamed json/jsonb \
             parameter, but no matches were found in the schema cache.",
            NULL,
        ],
    ),
    (
        "GET /rpc/nope_at_all",
        &[],
        "",
        404,
        [
            "PGRST202",
            "Could not find the function answers.nope_at_all without parameters in the schema cache",
            "Searched for the function answers.nope_at_all without parameters, but no matches were found in the \
             schema cache.",
            NULL,
        ],
    ),
    (
        "GET /rpc/rename_al",
        &[],
        "",
        404,
        [
            "PGRST202",
            "Could not find the function answers.rename_al without parameters in the schema cache",
            "Searched for the function answers.rename_al without parameters, but no matches were found in the \
             schema cache.",
            "Perhaps you meant to call the function answers.rename_all",
        ],
    ),
    (
        "GET /rpc/one?aa=1",
        &[],
        "",
        404,
        [
            "PGRST202",
            "Could not find the function answers.one(aa) in the schema cache",
            "Searched for the function answers.one with parameter aa, but no matches were found in the schema cache.",
            "Perhaps you meant to call the function answers.one(a)",
        ],
    ),
    (
        "POST /rpc/nope_at_all",
        &["content-type: text/plain"],
        "x",
        404,
        [
            "PGRST202",
            "Could not find the function answers.nope_at_all in the schema cache",
            "Searched for the function answers.nope_at_all with a single unnamed text parameter, but no matches were \
             found in the schema cache.",
            NULL,
        ],
    ),
    (
        "GET /rpc/ambiguous?a=1",
        &[],
        "",
        300,
        [
            "PGRST203",
            "Could not choose the best candidate function between: answers.ambiguous(a => integer), \
             answers.ambiguous(a => text)",
            NULL,
            "Try renaming the parameters or the function itself in the database so function overloading can be resolved",
        ],
    ),
    (
        "POST /owners",
        &[],
        "{\"nope\":1}",
        400,
        ["PGRST204", "Could not find the 'nope' column of 'owners' in the schema cache", NULL, NULL],
    ),
    (
        "GET /owner",
        &[],
        "",
        404,
        [
            "PGRST205",
            "Could not find the table 'answers.owner' in the schema cache",
            NULL,
            "Perhaps you meant the table 'answers.owners'",
        ],
    ),
    (
        "GET /completely_else",
        &[],
        "",
        404,
        ["PGRST205", "Could not find the table 'answers.completely_else' in the schema cache", NULL, NULL],
    ),
    ("DELETE /owners", &[], "", 400, ["21000", "DELETE requires a WHERE clause", NULL, NULL]),
    ("PATCH /owners", &[], "{\"name\":\"x\"}", 400, ["21000", "UPDATE requires a WHERE clause", NULL, NULL]),
    (
        "GET /owners?zzzzzzzz=eq.1",
        &[],
        "",
        400,
        ["42703", "column owners.zzzzzzzz does not exist", NULL, NULL],
    ),
];

#[tokio::test]
async fn every_code_has_its_status_and_texts() {
    let server = schema_server().start().await;
    for (request, headers, body, status, [code, message, details, hint]) in CASES {
        let (method, path) = request.split_once(' ').unwrap();
        let mut ask = anon(&server, method.parse().unwrap(), path);
        if !body.is_empty() {
            ask = ask.header("content-type", "application/json").body(*body);
        }
        for header in *headers {
            let (name, value) = header.split_once(": ").unwrap();
            ask = ask.header(name, value);
        }
        let response = ask.send().await;
        let error = response.json();
        // `*` stands for our own text.
        let text = |wanted: &str, key: &str| match wanted {
            NULL => Value::Null,
            _ => match (wanted.strip_suffix('*'), error[key].as_str()) {
                (Some(start), Some(found)) if found.starts_with(start) => json!(found),
                _ => json!(wanted),
            },
        };
        let expected = [json!(code), text(message, "message"), text(details, "details"), text(hint, "hint")];
        check(&response, *status, expected, request);
    }
}

#[tokio::test]
async fn ambiguous_relationships_are_listed() {
    let server = schema_server().start().await;
    let response = anon(&server, Method::GET, "/letters?select=id,owners(id)").send().await;
    let detail = |name: &str, column: &str| {
        json!({
            "cardinality": "many-to-one", "embedding": "letters with owners",
            "relationship": format!("{name} using letters({column}) and owners(id)"),
        })
    };
    let details = [detail("letters_recipient_fk", "recipient"), detail("letters_sender_fk", "sender")];
    check(
        &response,
        300,
        [
            json!("PGRST201"),
            json!("Could not embed because more than one relationship was found for 'letters' and 'owners'"),
            json!(details),
            json!(
                "Try changing 'owners' to one of the following: 'owners!letters_recipient_fk', \
                 'owners!letters_sender_fk'. Find the desired relationship in the 'details' key."
            ),
        ],
        "PGRST201",
    );
    assert!(!response.headers.contains_key("location"), "a 300 leads nowhere");
}

#[tokio::test]
async fn codes_that_depend_on_a_setting() {
    let server = schema_server()
        .config("rest.aggregates", "false")
        .config("rest.openapi_mode", "disabled")
        .start()
        .await;
    let response = anon(&server, Method::GET, "/owners?select=id.sum()").send().await;
    let null = Value::Null;
    let message = "Use of aggregate functions is not allowed";
    check(&response, 400, [json!("PGRST123"), json!(message), null.clone(), null.clone()], message);
    let response = anon(&server, Method::GET, "/").send().await;
    let message = "Root endpoint metadata is disabled";
    check(&response, 404, [json!("PGRST126"), json!(message), null.clone(), null.clone()], message);

    let closed =
        schema_server().config("rest.anon_role", "").config("server.require_apikey", "false").start().await;
    let response = closed.get("/rest/v1/owners").send().await;
    let message = "Anonymous access is disabled";
    check(&response, 401, [json!("PGRST302"), json!(message), null.clone(), null], message);
    assert_eq!(response.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn invalid_tokens_get_their_codes() {
    let server = schema_server().config("rest.jwt_aud", "app").start().await;
    let signed = |claims: Value| server.token(&claims);
    let none = "eyJhbGciOiJub25lIn0.eyJyb2xlIjoiYW5vbiJ9.";
    let no_key = json!("None of the keys was able to decode the JWT");
    let unsecured = json!("JWT is unsecured but expected 'alg' was not 'none'");
    let null = Value::Null;
    for (token, code, message, details) in [
        (String::new(), "PGRST301", "Empty JWT is sent in Authorization header", &null),
        ("a".to_owned(), "PGRST301", "Expected 3 parts in JWT; got 1", &null),
        ("a.b".to_owned(), "PGRST301", "Expected 3 parts in JWT; got 2", &null),
        (
            format!("{}x", signed(json!({"role": "anon"}))),
            "PGRST301",
            "No suitable key or wrong key type",
            &no_key,
        ),
        ("x.y.z".to_owned(), "PGRST301", "JWT cryptographic operation failed", &null),
        (none.to_owned(), "PGRST301", "Wrong or unsupported encoding algorithm", &unsecured),
        ("a.b.c.d.e".to_owned(), "PGRST301", "Expected 3 parts in JWT; got 5", &null),
        (signed(json!({"exp": 1})), "PGRST303", "JWT expired", &null),
        (signed(json!({"nbf": 99_999_999_999_i64})), "PGRST303", "JWT not yet valid", &null),
        (signed(json!({"iat": 99_999_999_999_i64})), "PGRST303", "JWT issued at future", &null),
        (signed(json!({"exp": 1, "nbf": "x"})), "PGRST303", "JWT expired", &null),
        (signed(json!({"aud": "other"})), "PGRST303", "JWT not in audience", &null),
        (signed(json!({"aud": ["other"]})), "PGRST303", "JWT not in audience", &null),
        (signed(json!({"exp": "soon"})), "PGRST303", "The JWT 'exp' claim must be a number", &null),
        (signed(json!({"nbf": {}})), "PGRST303", "The JWT 'nbf' claim must be a number", &null),
        (signed(json!({"iat": "x"})), "PGRST303", "The JWT 'iat' claim must be a number", &null),
        (
            signed(json!({"aud": 5})),
            "PGRST303",
            "The JWT 'aud' claim must be a string or an array of strings",
            &null,
        ),
    ] {
        let response =
            anon(&server, Method::GET, "/no/such/path").header("authorization", &format!("Bearer {token}"));
        let response = response.send().await;
        if token.is_empty() {
            // hyper trims the space after the scheme; the token is still empty.
            assert_eq!(response.json()["code"], code);
        }
        check(&response, 401, [json!(code), json!(message), details.clone(), null.clone()], message);
        let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{message}\"");
        assert_eq!(response.header("www-authenticate"), challenge);
    }
    for audience in
        [json!({"aud": "app"}), json!({"aud": ["x", "app"]}), json!({"aud": []}), json!({"aud": null})]
    {
        let response = anon(&server, Method::GET, "/owners").bearer(&signed(audience)).send().await;
        assert_eq!(response.status, 200);
    }
}

#[tokio::test]
async fn minimal_errors_have_no_details_or_hints() {
    let server = schema_server().config("rest.client_error_verbosity", "minimal").start().await;
    for (path, code) in [
        ("/owner", "PGRST205"),
        ("/owners?limit=-1", "PGRST103"),
        ("/rpc/fail?code=23514&message=m&detail=d&hint=h", "23514"),
        ("/rpc/fail?code=PT418&message=m&detail=d&hint=h", "PT418"),
    ] {
        let response = anon(&server, Method::GET, path).send().await;
        let body = response.json();
        assert_eq!(body["code"], code);
        assert!(body["message"].is_string());
        assert!(body["details"].is_null() && body["hint"].is_null(), "{body}");
    }
    let beyond = anon(&server, Method::GET, "/owners?offset=9").header("prefer", "count=exact").send().await;
    assert!(beyond.json()["details"].is_null());
}

#[tokio::test]
async fn first_failed_check_decides_the_error() {
    let server = schema_server().start().await;
    // Each request has the error of its line and of all lines below.
    for (method, path, headers, code) in [
        (Method::GET, "/a/b?id=noop.1", &["authorization: Bearer a.b"][..], "PGRST301"),
        (Method::PATCH, "/a/b?id=noop.1", &["accept-profile: nope", "content-profile: nope"], "PGRST125"),
        (Method::PATCH, "/rpc/nope?id=noop.1", &["content-profile: nope"], "PGRST106"),
        (Method::DELETE, "/rpc/nope?id=noop.1", &["range: 5-2"], "PGRST101"),
        (Method::GET, "/nope?id=noop.1&limit=-1", &["range: 5-2"], "PGRST100"),
        (Method::GET, "/nope?limit=-1", &["range: 5-2"], "PGRST103"),
        (Method::POST, "/nope?select=id", &["content-type: text/plain"], "PGRST102"),
        (Method::GET, "/nope?select=nope(id)&x.id=eq.1", &["accept: a/b"], "PGRST205"),
        (Method::GET, "/rpc/nope?select=nope(id)&x.id=eq.1", &["accept: a/b"], "PGRST202"),
        (Method::GET, "/owners?select=nope(id)&x.id=eq.1", &["accept: a/b"], "PGRST108"),
        (Method::GET, "/owners?select=nope(id),things(id)&order=things(id)", &["accept: a/b"], "PGRST200"),
        (Method::GET, "/owners?select=id,...things(id.sum())&order=things(id)", &["accept: a/b"], "PGRST118"),
        (Method::GET, "/owners?select=id,...things(id.sum())", &["accept: a/b"], "PGRST127"),
        (Method::GET, "/owners?select=nope", &["accept: a/b", "prefer: handling=strict, x"], "PGRST107"),
        (Method::GET, "/owners?select=nope", &["prefer: handling=strict, x"], "PGRST122"),
        (Method::GET, "/owners?select=nope", &[], "42703"),
    ] {
        let mut request = anon(&server, method.clone(), path);
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let response = request.body("{").send().await;
        assert_eq!(response.json()["code"], code, "{method} {path}");
    }
}
