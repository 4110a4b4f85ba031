//! Request bodies, preferences and responses of writes and calls, as far as `writes` and `calls` do not cover them
//! (rest.md §3.9, §3.10).

use insta::assert_snapshot;

use super::sql;

#[test]
fn csv_body() {
    assert_snapshot!(sql("POST /clients\nContent-Type: text/csv\n\nid,name\n1,\"a,b\"\nNULL,\n"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients"("id", "name") SELECT pgrst_body."id", pgrst_body."name"
    FROM json_to_recordset($1) AS pgrst_body("id" integer, "name" text)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = [{"id":"1","name":"a,b"},{"id":null,"name":""}]
    "#);
}

#[test]
fn form_body() {
    assert_snapshot!(sql("POST /clients\nContent-Type: application/x-www-form-urlencoded\n\nid=1&name=a+b"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients"("id", "name") SELECT pgrst_body."id", pgrst_body."name"
    FROM json_to_record($1) AS pgrst_body("id" integer, "name" text)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"id":"1","name":"a b"}
    "#);
}

#[test]
fn bodies_without_rows() {
    assert_snapshot!(sql("POST /clients\n\n[]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients" SELECT
    FROM json_array_elements($1)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = []
    "#);
    assert_snapshot!(sql("PATCH /clients?id=eq.1\n\n[]"), @r#"
    WITH pgrst_source AS (SELECT 1
    FROM "public"."clients"
    WHERE false) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    "#);
}

#[test]
fn keys_not_in_columns_are_ignored() {
    assert_snapshot!(sql("POST /clients?columns=id\n\n{\"id\":1,\"name\":\"x\",\"odd\":2}"), @r#"
    INSERT INTO "public"."clients"("id") SELECT pgrst_body."id"
    FROM (SELECT $1::integer AS "id") AS pgrst_body
    RETURNING current_setting('response.headers', true), current_setting('response.status', true)
    $1 = 1
    "#);
}

#[test]
fn headers_only_returns_key() {
    assert_snapshot!(sql("POST /tasks_users\nPrefer: return=headers-only\n\n{\"task_id\":1,\"user_id\":2}"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks_users"("task_id", "user_id") SELECT pgrst_body."task_id", pgrst_body."user_id"
    FROM (SELECT $1::integer AS "task_id", $2::integer AS "user_id") AS pgrst_body
    RETURNING "public"."tasks_users".*) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, (SELECT json_build_array(json_extract_path_text(to_json(pgrst_source."task_id"), VARIADIC '{}'), json_extract_path_text(to_json(pgrst_source."user_id"), VARIADIC '{}'))::text
    FROM pgrst_source LIMIT 1) AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = 1
    $2 = 2
    "#);
}

#[test]
fn upsert_by_primary_key_returns_rows() {
    assert_snapshot!(sql("POST /clients?select=name\nPrefer: resolution=merge-duplicates, return=representation, missing=default\n\n[{\"id\":1,\"name\":\"x\"}]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients"("id", "name") SELECT pgrst_body."id", pgrst_body."name"
    FROM jsonb_array_elements($1) AS pgrst_payload(pgrst_element), LATERAL jsonb_to_record(jsonb_build_object() || pgrst_payload.pgrst_element) AS pgrst_body("id" integer, "name" text)
    WHERE set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) + 1)::text, true) <> '0'
    ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id", "name" = EXCLUDED."name"
    WHERE set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) - 1)::text, true) <> '-1'
    RETURNING "public"."clients"."name") SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, nullif(current_setting('pgrst.inserted', true), '')::int8 AS inserted
    FROM (SELECT pgrst_source."name"
    FROM pgrst_source) AS pgrst_t
    $1 = [{"id":1,"name":"x"}]
    "#);
}

#[test]
fn upsert_without_key_is_plain_insert() {
    assert_snapshot!(sql("POST /keyless\nPrefer: resolution=merge-duplicates\n\n{\"a\":1}"), @r#"
    INSERT INTO "public"."keyless"("a") SELECT pgrst_body."a"
    FROM (SELECT $1::integer AS "a") AS pgrst_body
    RETURNING current_setting('response.headers', true), current_setting('response.status', true)
    $1 = 1
    "#);
}

#[test]
fn update_with_defaults() {
    assert_snapshot!(sql("PATCH /tasks?id=eq.1&columns=done,name\nPrefer: missing=default\n\n{\"name\":\"x\"}"), @r#"
    WITH pgrst_source AS (UPDATE "public"."tasks" SET "done" = pgrst_values."done", "name" = pgrst_values."name"
    FROM (SELECT pgrst_body."done" AS "done", pgrst_body."name" AS "name"
    FROM (SELECT $1::jsonb AS pgrst_element) AS pgrst_payload, LATERAL jsonb_to_record(jsonb_build_object('done', false) || pgrst_payload.pgrst_element) AS pgrst_body("done" boolean, "name" text) LIMIT 1) AS pgrst_values
    WHERE "public"."tasks"."id" = $2
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"name":"x"}
    $2 = 1
    "#);
}

#[test]
fn update_uses_first_of_several_objects() {
    assert_snapshot!(sql("PATCH /tasks?id=eq.1\n\n[{\"name\":\"x\"},{\"name\":\"y\"}]"), @r#"
    WITH pgrst_source AS (UPDATE "public"."tasks" SET "name" = pgrst_values."name"
    FROM (SELECT pgrst_body."name" AS "name"
    FROM unnest($1::text[]) AS pgrst_body("name") LIMIT 1) AS pgrst_values
    WHERE "public"."tasks"."id" = $2
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"x","y"}
    $2 = 1
    "#);
}

#[test]
fn all_kinds_of_filters_apply_to_writes() {
    assert_snapshot!(sql("DELETE /projects?meta->>a=eq.x&or=(id.eq.1,tags.cs.{a})&select=id,clients(name),tasks(id)&tasks.limit=1&order=name.desc\nPrefer: return=representation, count=exact"), @r#"
    WITH pgrst_source AS (DELETE
    FROM "public"."projects"
    WHERE ("public"."projects"."meta"->>'a') = $1 AND ("public"."projects"."id" = $2 OR "public"."projects"."tags" @> $3)
    RETURNING "public"."projects"."id", "public"."projects"."name", "public"."projects"."client_id") SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT pgrst_source."id", row_to_json("projects_clients_1".*)::jsonb AS "clients", coalesce("projects_tasks_2"."projects_tasks_2", '[]') AS "tasks"
    FROM pgrst_source
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = pgrst_source."client_id") AS "projects_clients_1" ON TRUE
    LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2")::jsonb AS "projects_tasks_2"
    FROM (SELECT "tasks_2"."id"
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = pgrst_source."id" LIMIT $4::int8) AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE
    ORDER BY pgrst_source."name" DESC) AS pgrst_t
    $1 = x
    $2 = 1
    $3 = {a}
    $4 = 1
    "#);
}

#[test]
fn put_with_composite_key_returns_row() {
    assert_snapshot!(sql("PUT /tasks_users?task_id=eq.1&user_id=eq.2\nPrefer: return=representation\n\n[{\"task_id\":1,\"user_id\":2}]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks_users"("task_id", "user_id") SELECT pgrst_body."task_id", pgrst_body."user_id"
    FROM json_to_recordset($1) AS pgrst_body("task_id" integer, "user_id" integer)
    WHERE pgrst_body."task_id" = $2 AND pgrst_body."user_id" = $3 AND set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) + 1)::text, true) <> '0'
    ON CONFLICT ("task_id", "user_id") DO UPDATE SET "task_id" = EXCLUDED."task_id", "user_id" = EXCLUDED."user_id"
    WHERE set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) - 1)::text, true) <> '-1'
    RETURNING "public"."tasks_users".*) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, nullif(current_setting('pgrst.inserted', true), '')::int8 AS inserted
    FROM (SELECT pgrst_source.*
    FROM pgrst_source) AS pgrst_t
    $1 = [{"task_id":1,"user_id":2}]
    $2 = 1
    $3 = 2
    "#);
}

#[test]
fn void_result() {
    assert_snapshot!(sql("POST /rpc/forget\n\n{}"), @r#"
    WITH pgrst_source AS (SELECT "public"."forget"() AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(pgrst_t), 1) AS page_total, null::text AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
}

#[test]
fn columns_select_arguments() {
    assert_snapshot!(sql("POST /rpc/add?columns=a,b\n\n{\"a\":1,\"b\":2,\"c\":3}"), @r#"
    WITH pgrst_source AS (SELECT "public"."add"("a" := pgrst_args."a", "b" := pgrst_args."b") AS pgrst_scalar
    FROM json_to_record($1) AS pgrst_args("a" integer, "b" integer)) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = {"a":1,"b":2,"c":3}
    $2 = 1000
    "#);
}

#[test]
fn form_of_arguments() {
    assert_snapshot!(sql("POST /rpc/add\nContent-Type: application/x-www-form-urlencoded\n\na=1&b=2&b=3"), @r#"
    WITH pgrst_source AS (SELECT "public"."add"("a" := $1::integer, "b" := $2::integer) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $3::int8) AS pgrst_t
    $1 = 1
    $2 = 3
    $3 = 1000
    "#);
}

#[test]
fn head_counts_rows() {
    assert_snapshot!(sql("HEAD /rpc/projects_below?below=3\nPrefer: count=exact"), @r#"
    WITH pgrst_source AS (SELECT pgrst_call.*
    FROM "public"."projects_below"("below" := $1::integer) AS pgrst_call) SELECT CASE WHEN count(*) < $2::int8 THEN $3::int8 + count(*) ELSE (SELECT count(*)
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_counted) END AS total_result_set, count(pgrst_t) AS page_total, null::text AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $4::int8) AS pgrst_t
    $1 = 3
    $2 = 1000
    $3 = 0
    $4 = 1000
    "#);
}

#[test]
fn call_with_filter_order_and_embed() {
    assert_snapshot!(sql("POST /rpc/projects_below?select=id,upper_name,tasks!inner(id),latest_task(name)&tasks.done=is.true&or=(id.eq.1,name.eq.x)&order=name,id&limit=2&offset=1\n\n{\"below\":3}"), @r#"
    WITH pgrst_source AS (SELECT pgrst_call."id", pgrst_call."upper_name", pgrst_call."name", pgrst_call AS pgrst_row
    FROM json_to_record($1) AS pgrst_args("below" integer), LATERAL "public"."projects_below"("below" := pgrst_args."below") AS pgrst_call) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source."id", pgrst_source."upper_name", coalesce("projects_tasks_1"."projects_tasks_1", '[]') AS "tasks", row_to_json("projects_latest_task_2".*)::jsonb AS "latest_task"
    FROM pgrst_source
    INNER JOIN LATERAL (SELECT json_agg("projects_tasks_1")::jsonb AS "projects_tasks_1"
    FROM (SELECT "tasks_1"."id"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = pgrst_source."id" AND "tasks_1"."done" IS TRUE LIMIT $2::int8) AS "projects_tasks_1") AS "projects_tasks_1" ON "projects_tasks_1"."projects_tasks_1" IS NOT NULL
    LEFT JOIN LATERAL (SELECT "tasks_2"."name"
    FROM "public"."latest_task"(pgrst_source.pgrst_row) AS "tasks_2") AS "projects_latest_task_2" ON TRUE
    WHERE (pgrst_source."id" = $3 OR pgrst_source."name" = $4)
    ORDER BY pgrst_source."name", pgrst_source."id" LIMIT $5::int8 OFFSET $6::int8) AS pgrst_t
    $1 = {"below":3}
    $2 = 1000
    $3 = 1
    $4 = x
    $5 = 2
    $6 = 1
    "#);
}

#[test]
fn domains_are_parsed_by_representation() {
    assert_snapshot!(sql("POST /paints?select=shade\nPrefer: return=representation\n\n[{\"id\":1,\"shade\":\"red\"}]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."paints"("id", "shade") SELECT pgrst_body."id", "public"."color_from_json"(pgrst_body."shade")
    FROM json_to_recordset($1) AS pgrst_body("id" integer, "shade" json)
    RETURNING "public"."paints"."shade") SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT "public"."color_to_json"(pgrst_source."shade") AS "shade"
    FROM pgrst_source) AS pgrst_t
    $1 = [{"id":1,"shade":"red"}]
    "#);
    assert_snapshot!(sql("PATCH /paints?shade=eq.red\n\n{\"shade\":\"blue\"}"), @r#"
    WITH pgrst_source AS (UPDATE "public"."paints" SET "shade" = pgrst_values."shade"
    FROM (SELECT "public"."color_from_json"(pgrst_body."shade") AS "shade"
    FROM json_to_record($1) AS pgrst_body("shade" json) LIMIT 1) AS pgrst_values
    WHERE "public"."paints"."shade" = "public"."color_from_text"($2::text)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"shade":"blue"}
    $2 = red
    "#);
}

#[test]
fn body_as_single_argument() {
    assert_snapshot!(sql("POST /rpc/parse\n\n[1,2]"), @r#"
    WITH pgrst_source AS (SELECT "public"."parse"($1::json) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = [1,2]
    $2 = 1000
    "#);
    assert_snapshot!(sql("POST /rpc/shout\nContent-Type: text/plain\n\nhi"), @r#"
    WITH pgrst_source AS (SELECT "public"."shout"($1::text) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = hi
    $2 = 1000
    "#);
    assert_snapshot!(sql("POST /rpc/shred\nContent-Type: text/xml\n\n<a/>"), @r#"
    WITH pgrst_source AS (SELECT "public"."shred"($1::xml) AS pgrst_scalar) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $2::int8) AS pgrst_t
    $1 = <a/>
    $2 = 1000
    "#);
}

#[test]
fn every_shape_of_result() {
    assert_snapshot!(sql("GET /rpc/numbers"), @r#"
    WITH pgrst_source AS (SELECT "public"."numbers"() AS pgrst_scalar) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t.pgrst_scalar), '[]') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
    assert_snapshot!(sql("POST /rpc/one_project\n\n{}"), @r#"
    WITH pgrst_source AS (SELECT pgrst_call.*
    FROM "public"."one_project"() AS pgrst_call) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(row_to_json(pgrst_t)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source.*
    FROM pgrst_source LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
    assert_snapshot!(sql("POST /rpc/one_project?select=name,clients(name)\n\n{}"), @r#"
    WITH pgrst_source AS (SELECT pgrst_call."name", pgrst_call."client_id"
    FROM "public"."one_project"() AS pgrst_call) SELECT null::int8 AS total_result_set, greatest(count(*), 1) AS page_total, coalesce(string_agg(row_to_json(pgrst_t)::text, ','), 'null') AS body, RESPONSE_SETTINGS
    FROM (SELECT pgrst_source."name", row_to_json("projects_clients_1".*)::jsonb AS "clients"
    FROM pgrst_source
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = pgrst_source."client_id") AS "projects_clients_1" ON TRUE LIMIT $1::int8) AS pgrst_t
    $1 = 1000
    "#);
}
