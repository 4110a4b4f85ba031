//! The status of each SQLSTATE.

use http::Method;
use serde_json::json;

use super::super::anon;
use super::{check, schema_server};

#[tokio::test]
async fn every_sqlstate_has_its_status() {
    let server = schema_server().expect_log("").start().await;
    let user = server.token_of("authenticated");
    for (code, message, visitor, known) in [
        ("08000", "m", 503, 503),
        ("08P01", "m", 503, 503),
        ("09000", "m", 500, 500),
        ("0L000", "m", 403, 403),
        ("0LP01", "m", 403, 403),
        ("0P000", "m", 403, 403),
        ("23503", "m", 409, 409),
        ("23505", "m", 409, 409),
        ("25006", "m", 405, 405),
        ("21000", "UPDATE requires a WHERE clause", 400, 400),
        ("21000", "DELETE requires a WHERE clause", 400, 400),
        ("21000", "something else", 500, 500),
        ("22023", "role \"x\" does not exist", 401, 401),
        ("22023", "something else", 400, 400),
        ("25000", "m", 500, 500),
        ("25P01", "m", 500, 500),
        ("28000", "m", 403, 403),
        ("28P01", "m", 403, 403),
        ("2D000", "m", 500, 500),
        ("38000", "m", 500, 500),
        ("39000", "m", 500, 500),
        ("3B000", "m", 500, 500),
        ("40001", "m", 500, 500),
        ("40P01", "m", 500, 500),
        ("53400", "m", 500, 500),
        ("53000", "m", 503, 503),
        ("53300", "m", 503, 503),
        ("54000", "m", 500, 500),
        ("54001", "m", 500, 500),
        ("55000", "m", 500, 500),
        ("55P03", "m", 500, 500),
        ("57P01", "m", 503, 503),
        ("57000", "m", 500, 500),
        ("57014", "m", 500, 500),
        ("58000", "m", 500, 500),
        ("58030", "m", 500, 500),
        ("F0000", "m", 500, 500),
        ("HV000", "m", 500, 500),
        ("HV00C", "m", 500, 500),
        ("P0001", "m", 400, 400),
        ("P0000", "m", 500, 500),
        ("P0002", "m", 500, 500),
        ("P0004", "m", 500, 500),
        ("XX000", "m", 500, 500),
        ("XX001", "m", 500, 500),
        ("42883", "function f() does not exist", 404, 404),
        ("42883", "function xmlagg(text) does not exist", 406, 406),
        ("42P01", "m", 404, 404),
        ("42501", "m", 401, 403),
        ("42P17", "m", 500, 500),
        // Any other SQLSTATE.
        ("22000", "m", 400, 400),
        ("22P02", "m", 400, 400),
        ("23502", "m", 400, 400),
        ("23514", "m", 400, 400),
        ("42703", "m", 400, 400),
        ("42P10", "m", 400, 400),
        ("42601", "m", 400, 400),
        ("3F000", "m", 400, 400),
        ("0A000", "m", 400, 400),
        ("44000", "m", 400, 400),
        ("ABCDE", "m", 400, 400),
        ("12345", "m", 400, 400),
    ] {
        let arguments = json!({"code": code, "message": message, "detail": "d", "hint": "h"});
        for (token, status) in [(None, visitor), (Some(&user), known)] {
            let mut request = anon(&server, Method::POST, "/rpc/fail").json(&arguments);
            if let Some(token) = token {
                request = request.bearer(token);
            }
            let response = request.send().await;
            check(&response, status, [json!(code), json!(message), json!("d"), json!("h")], code);
            if status == 401 {
                assert_eq!(response.header("www-authenticate"), "Bearer");
            }
        }
    }
}

#[tokio::test]
async fn postgresql_errors_are_returned_unchanged() {
    let server = schema_server().expect_log("").start().await;
    let post = |path: &str, body| anon(&server, Method::POST, path).json(&body).send();
    let null = json!(null);
    let owner = json!({"id": 1, "name": "x"});
    let taken = json!("duplicate key value violates unique constraint \"owners_pkey\"");
    check(
        &post("/owners", owner).await,
        409,
        [json!("23505"), taken, json!("Key (id)=(1) already exists."), null.clone()],
        "unique",
    );
    let orphan = json!({"thing_id": 99});
    let missing =
        "insert or update on table \"extras\" violates foreign key constraint \"extras_thing_id_fkey\"";
    check(
        &post("/extras", orphan).await,
        409,
        [
            json!("23503"),
            json!(missing),
            json!("Key (thing_id)=(99) is not present in table \"things\"."),
            null.clone(),
        ],
        "foreign key",
    );
    let negative = post("/things", json!({"score": -1, "nested": 1})).await;
    assert_eq!((negative.status.as_u16(), negative.json()["code"].as_str()), (400, Some("23514")));
    let wrong = anon(&server, Method::GET, "/owners?id=eq.x").send().await;
    let message = json!("invalid input syntax for type integer: \"x\"");
    check(&wrong, 400, [json!("22P02"), message, null.clone(), null.clone()], "syntax");
    let raised = post("/rpc/fail", json!({"code": "P0001", "message": "text"})).await;
    check(&raised, 400, [json!("P0001"), json!("text"), null.clone(), null.clone()], "raise");
    // anon has a short statement timeout.
    let slow = post("/rpc/wait", json!({"seconds": 20})).await;
    let message = json!("canceling statement due to statement timeout");
    check(&slow, 500, [json!("57014"), message, null.clone(), null], "timeout");
}
