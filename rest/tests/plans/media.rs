//! Every format of the body (rest.md §3.12).

use insta::assert_snapshot;

use super::{refusal, sql};

#[test]
fn single_object() {
    assert_snapshot!(sql("GET /clients?id=eq.1\nAccept: application/vnd.pgrst.object+json"), @r#"
    SELECT "public"."clients".*
    FROM "public"."clients"
    WHERE "public"."clients"."id" = $1 LIMIT $2::int8
    $1 = 1
    $2 = 1001
    "#);
}

#[test]
fn without_nulls() {
    assert_snapshot!(sql("GET /clients\nAccept: application/vnd.pgrst.array+json;nulls=stripped"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_strip_nulls(json_agg(pgrst_t)), '[]') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."clients".*
    FROM "public"."clients" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
    assert_snapshot!(sql("GET /clients?id=eq.1\nAccept: application/vnd.pgrst.object+json;nulls=stripped"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, string_agg(json_strip_nulls(row_to_json(pgrst_t))::text, ',') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients"
    WHERE "public"."clients"."id" = $2) AS pgrst_counted LIMIT 1 OFFSET $3::int8) END AS is_truncated
    FROM (SELECT "public"."clients".*
    FROM "public"."clients"
    WHERE "public"."clients"."id" = $4 LIMIT $5::int8) AS pgrst_t
    $1 = 1000
    $2 = 1
    $3 = 1000
    $4 = 1
    $5 = 1000
    "#);
}

#[test]
fn csv() {
    assert_snapshot!(sql("GET /clients?select=id,name\nAccept: text/csv"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce((SELECT string_agg(pgrst_key, ',')
    FROM json_object_keys((array_agg(row_to_json(pgrst_t)))[1]) AS pgrst_key), '') || E'\n' || coalesce(string_agg(substring(pgrst_t::text, 2, length(pgrst_t::text) - 2), E'\n'), '') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."clients"."id", "public"."clients"."name"
    FROM "public"."clients" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
}

#[test]
fn geojson() {
    assert_snapshot!(sql("GET /clients?select=id\nAccept: application/geo+json"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, json_build_object('type', 'FeatureCollection', 'features', coalesce(json_agg(ST_AsGeoJSON(pgrst_t)::json), '[]')) AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."clients"."id"
    FROM "public"."clients" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
}

#[test]
fn execution_plans() {
    assert_snapshot!(sql("GET /clients?select=id\nAccept: application/vnd.pgrst.plan"), @r#"
    EXPLAIN (FORMAT TEXT) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."clients"."id"
    FROM "public"."clients" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
    assert_snapshot!(sql("GET /clients?select=id\nAccept: application/vnd.pgrst.plan+json; for=\"text/csv\"; options=analyze|verbose|settings|buffers|wal"), @r#"
    EXPLAIN (FORMAT JSON, ANALYZE, VERBOSE, SETTINGS, BUFFERS, WAL) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce((SELECT string_agg(pgrst_key, ',')
    FROM json_object_keys((array_agg(row_to_json(pgrst_t)))[1]) AS pgrst_key), '') || E'\n' || coalesce(string_agg(substring(pgrst_t::text, 2, length(pgrst_t::text) - 2), E'\n'), '') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."clients"."id"
    FROM "public"."clients" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
    assert_snapshot!(sql("POST /clients\nAccept: application/vnd.pgrst.plan+text\n\n{\"id\":1}"), @r#"
    EXPLAIN (FORMAT TEXT) WITH pgrst_source AS (INSERT INTO "public"."clients"("id") SELECT pgrst_body."id"
    FROM (SELECT $1::integer AS "id") AS pgrst_body
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = 1
    "#);
    assert_snapshot!(sql("GET /rpc/hello\nAccept: application/vnd.pgrst.plan+text; options=;"), @r#"
    EXPLAIN (FORMAT TEXT) WITH pgrst_source AS (SELECT "public"."hello"() AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
}

#[test]
fn media_type_of_write() {
    assert_snapshot!(sql("POST /clients\nAccept: application/vnd.pgrst.object+json\nPrefer: return=representation\n\n{\"id\":1}"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients"("id") SELECT pgrst_body."id"
    FROM (SELECT $1::integer AS "id") AS pgrst_body
    RETURNING "public"."clients".*) SELECT null::int8 AS total_result_set, count(*) AS page_total, string_agg(row_to_json(pgrst_t)::text, ',') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT pgrst_source.*
    FROM pgrst_source) AS pgrst_t
    $1 = 1
    "#);
    assert_snapshot!(sql("DELETE /clients?id=eq.1\nAccept: text/csv\nPrefer: return=representation"), @r#"
    WITH pgrst_source AS (DELETE
    FROM "public"."clients"
    WHERE "public"."clients"."id" = $1
    RETURNING "public"."clients".*) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce((SELECT string_agg(pgrst_key, ',')
    FROM json_object_keys((array_agg(row_to_json(pgrst_t)))[1]) AS pgrst_key), '') || E'\n' || coalesce(string_agg(substring(pgrst_t::text, 2, length(pgrst_t::text) - 2), E'\n'), '') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT pgrst_source.*
    FROM pgrst_source) AS pgrst_t
    $1 = 1
    "#);
}

#[test]
fn media_type_of_call() {
    assert_snapshot!(sql("GET /rpc/hello\nAccept: text/csv"), @r#"
    WITH pgrst_source AS (SELECT "public"."hello"() AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce((SELECT string_agg(pgrst_key, ',')
    FROM json_object_keys((array_agg(row_to_json(pgrst_t)))[1]) AS pgrst_key), '') || E'\n' || coalesce(string_agg(substring(pgrst_t::text, 2, length(pgrst_t::text) - 2), E'\n'), '') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
    assert_snapshot!(sql("GET /rpc/projects_below?below=2\nAccept: application/vnd.pgrst.object+json"), @r#"
    WITH pgrst_source AS (SELECT pgrst_call.*
    FROM "public"."projects_below"("below" := $1::integer) AS pgrst_call) SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8
    $1 = 2
    $2 = 1000
    "#);
}

#[test]
fn media_type_handler_of_database() {
    assert_snapshot!(sql("GET /clients\nAccept: text/html"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, "public"."as_html"(pgrst_t) AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."clients".*
    FROM "public"."clients" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
    assert_snapshot!(sql("GET /clients?id=eq.1\nAccept: text/unknown, text/html;q=0.5"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, "public"."as_html"(pgrst_t) AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."clients"
    WHERE "public"."clients"."id" = $2) AS pgrst_counted LIMIT 1 OFFSET $3::int8) END AS is_truncated
    FROM (SELECT "public"."clients".*
    FROM "public"."clients"
    WHERE "public"."clients"."id" = $4 LIMIT $5::int8) AS pgrst_t
    $1 = 1000
    $2 = 1
    $3 = 1000
    $4 = 1
    $5 = 1000
    "#);
}

#[test]
fn anyelement_aggregate_takes_rows_of_any_shape() {
    let body = |request: &str| {
        let sql = sql(request);
        sql.split(" AS body").next().unwrap().rsplit(", ").next().unwrap().to_owned()
    };
    let yaml = r#""public"."as_yaml"(pgrst_t)"#;
    assert_eq!(body("GET /clients\nAccept: text/yaml"), yaml);
    assert_eq!(body("GET /clients?select=name\nAccept: text/yaml"), yaml);
    assert_eq!(body("GET /projects?select=id,clients(name)\nAccept: text/yaml"), yaml);
    assert_eq!(
        refusal("GET /clients?select=name\nAccept: text/html"),
        "406 PGRST107 None of these media types are available: text/html",
        "an aggregate over the rows of a relation needs all their columns"
    );
    // The request does not name the media type.
    assert!(!sql("GET /clients\nAccept: */*").contains("as_anything"));
    assert_eq!(
        refusal("GET /clients\nAccept: text/unknown"),
        "406 PGRST107 None of these media types are available: text/unknown"
    );
}

#[test]
fn called_overload_determines_media_type() {
    assert!(sql("GET /rpc/page\nAccept: text/html").contains("(SELECT pgrst_source.pgrst_scalar"));
    assert_eq!(
        refusal("GET /rpc/page?number=1\nAccept: text/html"),
        "406 PGRST107 None of these media types are available: text/html"
    );
}
