//! Function calls.

use insta::assert_snapshot;

use super::sql;

#[test]
fn named_arguments_in_body() {
    assert_snapshot!(sql("POST /rpc/add\n\n{\"a\":1,\"b\":2}"), @r#"
    WITH pgrst_source AS (SELECT "public"."add"("a" := pgrst_args."a", "b" := pgrst_args."b") AS pgrst_scalar
    FROM json_to_record($1) AS pgrst_args("a" integer, "b" integer)) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = {"a":1,"b":2}
    $2 = 1000
    "#);
}

#[test]
fn first_object_of_array_applies() {
    assert_snapshot!(sql("POST /rpc/add\n\n[{\"a\":1,\"b\":2}]"), @r#"
    WITH pgrst_source AS (SELECT "public"."add"("a" := pgrst_args."a", "b" := pgrst_args."b") AS pgrst_scalar
    FROM (SELECT *
    FROM json_to_recordset($1) AS pgrst_args("a" integer, "b" integer) LIMIT 1) AS pgrst_args) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = [{"a":1,"b":2}]
    $2 = 1000
    "#);
}

#[test]
fn literals_in_query_string() {
    assert_snapshot!(sql("GET /rpc/add?a=1&b=2"), @r#"
    WITH pgrst_source AS (SELECT "public"."add"("a" := $1::integer, "b" := $2::integer) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $3::int8) AS pgrst_t
    $1 = 1
    $2 = 2
    $3 = 1000
    "#);
}

#[test]
fn defaulted_arguments_are_omitted() {
    assert_snapshot!(sql("POST /rpc/hello\n\n{}"), @r#"
    WITH pgrst_source AS (SELECT "public"."hello"() AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
}

#[test]
fn rows_are_read_like_a_relation() {
    assert_snapshot!(
        sql("GET /rpc/projects_below?below=4&select=name,clients(name)&tags=cs.{x}&order=id&limit=2\nPrefer: count=exact"),
        @r#"
    WITH pgrst_source AS (SELECT pgrst_call."name", pgrst_call."id", pgrst_call."tags", pgrst_call."client_id"
    FROM "public"."projects_below"("below" := $1::integer) AS pgrst_call) SELECT CASE WHEN count(*) < $2::int8 THEN $3::int8 + count(*) ELSE (SELECT count(*)
    FROM (SELECT 1
    FROM pgrst_source
    WHERE pgrst_source."tags" @> $4) AS pgrst_counted) END AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source."name", row_to_json("projects_clients_1".*)::jsonb AS "clients"
    FROM pgrst_source
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = pgrst_source."client_id") AS "projects_clients_1" ON TRUE
    WHERE pgrst_source."tags" @> $5
    ORDER BY pgrst_source."id" LIMIT $6::int8) AS pgrst_t
    $1 = 4
    $2 = 2
    $3 = 0
    $4 = {x}
    $5 = {x}
    $6 = 2
    "#
    );
}

#[test]
fn raw_body_is_passed_to_unnamed_parameter() {
    assert_snapshot!(sql("POST /rpc/digest\nContent-Type: application/octet-stream\n\nabc"), @r#"
    WITH pgrst_source AS (SELECT "public"."digest"($1::bytea) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = \x616263
    $2 = 1000
    "#);
}

#[test]
fn raw_body_is_ignored_if_all_parameters_are_optional() {
    let sql = sql("POST /rpc/hello\nContent-Type: text/plain\n\nabc");
    assert!(sql.contains("\"public\".\"hello\"() AS pgrst_scalar"), "{sql}");
}

#[test]
fn variadic_parameter_collects_values() {
    assert_snapshot!(sql("GET /rpc/concat_all?rest=a&rest=b"), @r#"
    WITH pgrst_source AS (SELECT "public"."concat_all"(VARIADIC "rest" := $1::text[]) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = {"a","b"}
    $2 = 1000
    "#);
    assert_snapshot!(sql("POST /rpc/concat_all\n\n{\"rest\":[\"a\",\"b\"]}"), @r#"
    WITH pgrst_source AS (SELECT "public"."concat_all"(VARIADIC "rest" := pgrst_args."rest") AS pgrst_scalar
    FROM json_to_record($1) AS pgrst_args("rest" text[])) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = {"rest":["a","b"]}
    $2 = 1000
    "#);
}

#[test]
fn function_is_called_even_without_body() {
    // With `count(*)` PostgreSQL could skip the call of a stable function.
    let void = sql("POST /rpc/forget\n\n{}");
    assert!(void.contains("greatest(count(pgrst_t), 1) AS page_total, null::text AS body"), "{void}");
    let head = sql("HEAD /rpc/hello");
    assert!(head.contains("greatest(count(pgrst_t), 1) AS page_total, null::text AS body"), "{head}");
    let rows = sql("HEAD /rpc/projects_below?below=4");
    assert!(rows.contains("count(pgrst_t) AS page_total, null::text AS body"), "{rows}");
}

#[test]
fn empty_key_denotes_unnamed_parameter() {
    for (function, parameter) in [("parse", "json"), ("shout", "text"), ("shred", "xml"), ("digest", "bytea")]
    {
        let request = format!("POST /rpc/{function}\n\n{{\"\":\"x\"}}");
        let call = format!("\"public\".\"{function}\"($1::{parameter})");
        assert!(sql(&request).contains(&call), "{}", sql(&request));
    }
    assert!(crate::refusal("POST /rpc/hello\n\n{\"\":\"x\"}").starts_with("404 PGRST202"));
    assert!(crate::refusal("GET /rpc/shout?=x").starts_with("404 PGRST202"), "of a body only");
}
