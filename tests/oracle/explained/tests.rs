//! Differences similar to those a rule explains, which the rule must not accept.

use serde_json::json;

use super::super::case::{Case, as_role};
use super::super::response::{Response, View};
use super::rules;

fn response(status: u16, kind: &str, body: &str) -> View {
    View::from_response(&Response {
        status,
        reason: String::new(),
        headers: vec![("content-type".to_owned(), kind.to_owned())],
        body: body.as_bytes().to_vec(),
    })
}

fn error(status: u16, code: &str, message: &str, hint: Option<&str>) -> View {
    let body = json!({ "code": code, "details": null, "hint": hint, "message": message });
    response(status, "application/json", &body.to_string())
}

fn rows(body: &str) -> View {
    response(200, "application/json", body)
}

/// Whether the rule makes one of the two.
fn explains(name: &str, case: &Case, expected: &View, actual: &View) -> bool {
    let rule = rules().find(|rule| rule.name == name).expect("there is such a rule");
    let (mut expected, mut actual) = (expected.clone(), actual.clone());
    (rule.apply)(case, &mut expected, &mut actual) && expected == actual
}

fn get(target: &str) -> Case {
    Case::get("bazaar-generated:1".to_owned(), target)
}

fn write(method: &str, target: &str, body: &str, headers: &[(&str, &str)]) -> Case {
    let mut case = get(target);
    case.method = method.to_owned();
    case.body = Some(body.to_owned());
    case.headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    case
}

#[test]
fn csv_rule_accepts_only_reordered_columns() {
    let csv = |body| response(200, "text/csv", body);
    let case = get("/t?select=a,b(c)");
    let expected = csv("q\"r,Ref,b\n1,2,\"[{}]\"\n,4,[]");
    assert!(explains("embed-order", &case, &expected, &csv("q\"r,b,Ref\n1,\"[{}]\",2\n,[],4")));
    assert!(!explains("embed-order", &case, &expected, &csv("q\"r,b,Ref\n1,\"[{}]\",4\n,[],2")));
    assert!(!explains("embed-order", &case, &expected, &csv("b,q\"r,Ref\n1,\"[{}]\",2\n,[],4")));
}

#[test]
fn written_rows_may_differ_only_in_order() {
    let case = write("PATCH", "/t?order=id", "{}", &[]);
    assert!(explains(
        "write-order",
        &case,
        &rows("[{\"id\":2},{\"id\":1}]"),
        &rows("[{\"id\":1},{\"id\":2}]")
    ));
    assert!(!explains(
        "write-order",
        &case,
        &rows("[]"),
        &error(400, "42703", "column t.x does not exist", None)
    ));
}

#[test]
fn unknown_order_column_must_be_in_the_order() {
    let headers = [("Prefer", "return=representation")];
    let actual = error(400, "42703", "column e_1.nope does not exist", None);
    let case = write("PATCH", "/t?select=e(id)&e.order=nope", "{}", &headers);
    assert!(explains("unknown-order-on-writes", &case, &rows("[]"), &actual));
    let case = write("PATCH", "/t?select=e(nope)&e.order=id", "{}", &headers);
    assert!(!explains("unknown-order-on-writes", &case, &rows("[]"), &actual));
}

#[test]
fn set_literal_must_be_in_the_request() {
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let case = write("POST", "/rpc/f", "v=null", &headers);
    assert!(explains("json-literal", &case, &rows("[\"null\",null]"), &rows("[null,null]")));
    assert!(!explains("json-literal", &case, &rows("[\"null\",null]"), &rows("[true,null]")));
    let json = write("POST", "/rpc/f", "{\"v\":null}", &[]);
    assert!(!explains("json-literal", &json, &rows("[\"null\",null]"), &rows("[null,null]")));
}

#[test]
fn embed_windows_keep_the_rows_own_columns() {
    let case = write("DELETE", "/t?select=id,e(id)&e.limit=0&order=id", "", &[]);
    let actual = |body| {
        let mut view = rows(body);
        view.set_header("preference-applied", "return=representation");
        view
    };
    let expected = actual("[{\"id\":2,\"e\":[{\"id\":1}]},{\"id\":1,\"e\":[]}]");
    let ours = actual("[{\"id\":1,\"e\":[]},{\"id\":2,\"e\":[]}]");
    assert!(explains("embed-ranges-on-writes", &case, &expected, &ours));
    let ours = actual("[{\"id\":1,\"e\":[]},{\"id\":3,\"e\":[]}]");
    assert!(!explains("embed-ranges-on-writes", &case, &expected, &ours));
}

#[test]
fn grant_hints_are_only_for_service_role() {
    let message = "permission denied for function f";
    let hint = "Grant the required privileges to the current role with: GRANT EXECUTE ON FUNCTION f() TO service_role;";
    let (expected, actual) = (error(403, "42501", message, None), error(403, "42501", message, Some(hint)));
    for (role, is_explained) in [("service_role", true), ("authenticated", false)] {
        let case = write("POST", "/rpc/f", "{}", &[("Authorization", &as_role(role))]);
        assert_eq!(explains("grant-hint", &case, &expected, &actual), is_explained, "{role}");
    }
}

#[test]
fn suggestion_must_be_for_the_same_function() {
    let message = "Could not find the function s.f(x) in the schema cache";
    let hint = |call: &str| {
        let hint = format!("Perhaps you meant to call the function {call}");
        error(404, "PGRST202", message, Some(&hint))
    };
    let case = write("POST", "/rpc/f", "{\"x\":1}", &[]);
    assert!(explains("hint-threshold", &case, &hint("s.f(a, b)"), &hint("s.f(a)")));
    assert!(!explains("hint-threshold", &case, &hint("s.f(a, b)"), &hint("s.g(a)")));
}

#[test]
fn requested_cast_may_fail_first() {
    let cast = |from: &str, to: &str| error(400, "42846", &format!("cannot cast type {from} to {to}"), None);
    let case = get("/t?select=a::jsonb,e(b::int)");
    assert!(explains("two-errors", &case, &cast("money", "integer"), &cast("integer", "jsonb")));
    assert!(!explains("two-errors", &case, &cast("money", "numeric"), &cast("integer", "jsonb")));
}

#[test]
fn names_with_nul_or_empty_names_are_rejected() {
    let refused = |found: &str, expecting: &str| {
        let body = json!({ "code": "PGRST100", "details": format!("unexpected {found} expecting {expecting}"), "hint": null,
                           "message": "\"failed to parse tree path ( )\" (line 1, column 1)" });
        response(400, "application/json", &body.to_string())
    };
    let missing = error(400, "42703", "column t.a does not exist", None);
    let nul = refused("\"\\\"\"", "name without NUL");
    assert!(explains("nul", &get("/t?select=\"a%00b\""), &missing, &nul));
    assert!(!explains("nul", &get("/t?select=\"ab\""), &missing, &nul));
    let empty = error(400, "42601", "zero-length delimited identifier at or near \"\"\"\"", None);
    assert!(explains("blank-name", &get("/t?%20=eq.1"), &empty, &refused("\" \"", "field name")));
    assert!(!explains("blank-name", &get("/t?a=eq.1"), &empty, &refused("\" \"", "field name")));
}

#[test]
fn value_is_unread_only_if_another_filter_matches_no_row() {
    let expected = error(400, "22P02", "invalid input syntax for type bigint: \"{\"", None);
    assert!(explains(
        "list-of-representations",
        &get("/masks?mm=not.in.({)&town=gt.9"),
        &expected,
        &rows("[]")
    ));
    assert!(!explains("list-of-representations", &get("/masks?mm=not.in.({)"), &expected, &rows("[]")));
    assert!(!explains(
        "list-of-representations",
        &get("/masks?mm=in.({)&town=gt.9"),
        &expected,
        &rows("[{}]")
    ));
}

#[test]
fn empty_grouping_embed_must_be_named() {
    let missing = error(400, "42703", "column \"e\" does not exist", None);
    let case = get("/t?select=...u(id.count()),e!left()");
    assert!(explains("empty-in-spread", &case, &missing, &rows("[]")));
    assert!(!explains("empty-in-spread", &get("/t?select=...u(id.count()),e(id)"), &missing, &rows("[]")));
}

#[test]
fn only_an_empty_upsert_may_count_its_aggregate() {
    let prefer = [("Prefer", "resolution=merge-duplicates,return=representation")];
    let (expected, actual) = (rows("[{\"n\":0}]"), response(201, "application/json", "[{\"n\":0}]"));
    let case = |body| write("POST", "/t?select=n:count()", body, &prefer);
    assert!(explains("aggregate-of-nothing", &case("[]"), &expected, &actual));
    assert!(!explains("aggregate-of-nothing", &case("[{\"id\":1}]"), &expected, &actual));
}

#[test]
fn only_ragged_csv_lines_are_rejected() {
    let actual = error(400, "PGRST102", "All lines must have same number of fields", None);
    let case = |body| write("POST", "/t", body, &[("Content-Type", "text/csv")]);
    assert!(explains("ragged-lines", &case("a,b\n1,2,x"), &response(201, "", ""), &actual));
    assert!(explains("ragged-lines", &case("a,b\n1"), &response(201, "", ""), &actual));
    assert!(!explains("ragged-lines", &case("a,b\n1,2"), &response(201, "", ""), &actual));
}

#[test]
fn embed_order_and_grouping_must_be_in_the_request() {
    let hidden = error(400, "42703", "column t_e_1.doc does not exist", None);
    assert!(explains("order-by-hidden", &get("/t?select=e(id)&order=e(doc->a)"), &hidden, &rows("[]")));
    assert!(!explains("order-by-hidden", &get("/t?select=e(doc)&order=e(id)"), &hidden, &rows("[]")));
    let ambiguous = error(400, "42702", "column reference \"e\" is ambiguous", None);
    assert!(explains("grouped-by-name", &get("/t?select=id,e(id),count()"), &ambiguous, &rows("[]")));
    assert!(!explains("grouped-by-name", &get("/t?select=id,e,count()"), &ambiguous, &rows("[]")));
    let whole = "column \"t_e_1.*\" must appear in the GROUP BY clause or be used in an aggregate function";
    let whole = error(400, "42803", whole, None);
    assert!(explains("grouped-by-name", &get("/t?select=id,e(id),n:count()"), &whole, &rows("[]")));
    assert!(!explains("grouped-by-name", &get("/t?select=id,e(id)"), &whole, &rows("[]")));
    let unsorted = error(404, "42883", "could not identify an ordering operator for type json", None);
    assert!(explains(
        "json-order-of-call",
        &get("/rpc/f?select=e(id)&e.order=doc->a"),
        &unsorted,
        &rows("[]")
    ));
    assert!(!explains("json-order-of-call", &get("/t?select=e(id)&e.order=doc->a"), &unsorted, &rows("[]")));
}

#[test]
fn body_is_unread_only_without_a_matching_row() {
    let none = |rows| {
        let body = json!({ "code": "PGRST116", "details": format!("The result contains {rows} rows"), "hint": null, "message": "m" });
        response(406, "application/json", &body.to_string())
    };
    let actual = error(400, "22P02", "invalid input syntax for type integer: \"1.5\"", None);
    let case = write("PATCH", "/t?id=eq.9", "{\"a\": \"1.5\"}", &[("Prefer", "missing=default")]);
    assert!(explains("defaults-by-row", &case, &none(0), &actual));
    assert!(!explains("defaults-by-row", &case, &none(2), &actual));
}
