//! POST, PATCH, DELETE and PUT on relations.

use insta::assert_snapshot;

use super::sql;

#[test]
fn minimal_insert_reads_nothing() {
    assert_snapshot!(sql("POST /clients\n\n{\"id\":1,\"name\":\"x\"}"), @r#"
    INSERT INTO "public"."clients"("id", "name") SELECT pgrst_body."id", pgrst_body."name"
    FROM (SELECT $1::integer AS "id", $2::text AS "name") AS pgrst_body
    RETURNING current_setting('response.headers', true), current_setting('response.status', true)
    $1 = 1
    $2 = x
    "#);
}

#[test]
fn bulk_insert_with_columns_and_representation() {
    assert_snapshot!(
        sql("POST /tasks?columns=\"id\",\"name\"&select=id,projects(name)\nPrefer: return=representation\n\n[{\"id\":1}]"),
        @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks"("id", "name") SELECT pgrst_body."id", pgrst_body."name"
    FROM unnest($1::integer[], $2::text[]) AS pgrst_body("id", "name")
    RETURNING "public"."tasks"."id", "public"."tasks"."project_id") SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT pgrst_source."id", row_to_json("tasks_projects_1".*)::jsonb AS "projects"
    FROM pgrst_source
    LEFT JOIN LATERAL (SELECT "projects_1"."name"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = pgrst_source."project_id") AS "tasks_projects_1" ON TRUE) AS pgrst_t
    $1 = {"1"}
    $2 = {NULL}
    "#
    );
}

#[test]
fn missing_keys_take_defaults() {
    assert_snapshot!(sql("POST /tasks?columns=id,name,done\nPrefer: missing=default\n\n[{\"name\":\"x\"}]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks"("done", "id", "name") SELECT pgrst_body."done", pgrst_body."id", pgrst_body."name"
    FROM jsonb_array_elements($1) AS pgrst_payload(pgrst_element), LATERAL jsonb_to_record(jsonb_build_object('done', false, 'id', nextval('public.tasks_id_seq')) || pgrst_payload.pgrst_element) AS pgrst_body("done" boolean, "id" integer, "name" text)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = [{"name":"x"}]
    "#);
}

#[test]
fn row_of_defaults() {
    assert_snapshot!(sql("POST /tasks\n\n{}"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks" DEFAULT VALUES
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    "#);
    assert_snapshot!(sql("POST /tasks\n\n[{},{}]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks" SELECT
    FROM json_array_elements($1)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = [{},{}]
    "#);
}

#[test]
fn upsert_counts_inserted_rows() {
    assert_snapshot!(
        sql("POST /tasks_users?on_conflict=task_id,user_id\nPrefer: resolution=merge-duplicates\n\n[{\"task_id\":1,\"user_id\":2}]"),
        @r#"
    WITH pgrst_source AS (INSERT INTO "public"."tasks_users"("task_id", "user_id") SELECT pgrst_body."task_id", pgrst_body."user_id"
    FROM unnest($1::integer[], $2::integer[]) AS pgrst_body("task_id", "user_id")
    WHERE set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) + 1)::text, true) <> '0'
    ON CONFLICT ("task_id", "user_id") DO UPDATE SET "task_id" = EXCLUDED."task_id", "user_id" = EXCLUDED."user_id"
    WHERE set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) - 1)::text, true) <> '-1'
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, nullif(current_setting('pgrst.inserted', true), '')::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"1"}
    $2 = {"2"}
    "#
    );
}

#[test]
fn upsert_that_ignores_duplicates() {
    assert_snapshot!(sql("POST /clients\nPrefer: resolution=ignore-duplicates, return=headers-only\n\n[{\"id\":1}]"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients"("id") SELECT pgrst_body."id"
    FROM unnest($1::integer[]) AS pgrst_body("id")
    ON CONFLICT ("id") DO NOTHING
    RETURNING "public"."clients".*) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, (SELECT json_build_array(json_extract_path_text(to_json(pgrst_source."id"), VARIADIC '{}'))::text
    FROM pgrst_source LIMIT 1) AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"1"}
    "#);
}

#[test]
fn update_with_one_object() {
    assert_snapshot!(
        sql("PATCH /tasks?id=eq.1&or=(done.is.true,name.eq.x)&select=id,latest:name\nPrefer: return=representation\n\n{\"done\":true}"),
        @r#"
    WITH pgrst_source AS (UPDATE "public"."tasks" SET "done" = pgrst_values."done"
    FROM (SELECT pgrst_body."done" AS "done"
    FROM (SELECT $1::boolean AS "done") AS pgrst_body) AS pgrst_values
    WHERE "public"."tasks"."id" = $2 AND ("public"."tasks"."done" IS TRUE OR "public"."tasks"."name" = $3)
    RETURNING "public"."tasks"."id", "public"."tasks"."name") SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT pgrst_source."id", pgrst_source."name" AS "latest"
    FROM pgrst_source) AS pgrst_t
    $1 = true
    $2 = 1
    $3 = x
    "#
    );
}

#[test]
fn update_without_values_changes_nothing() {
    assert_snapshot!(sql("PATCH /tasks\n\n{}"), @r#"
    WITH pgrst_source AS (SELECT 1
    FROM "public"."tasks"
    WHERE false) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    "#);
}

#[test]
fn delete_with_filter() {
    assert_snapshot!(sql("DELETE /tasks?id=in.(5,6)"), @r#"
    WITH pgrst_source AS (DELETE
    FROM "public"."tasks"
    WHERE "public"."tasks"."id" = ANY ($1)
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"5","6"}
    "#);
}

#[test]
fn put_upserts_row() {
    assert_snapshot!(sql("PUT /clients?id=eq.5\n\n{\"id\":5,\"name\":\"x\"}"), @r#"
    WITH pgrst_source AS (INSERT INTO "public"."clients"("id", "name") SELECT pgrst_body."id", pgrst_body."name"
    FROM json_to_record($1) AS pgrst_body("id" integer, "name" text)
    WHERE pgrst_body."id" = $2 AND set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) + 1)::text, true) <> '0'
    ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id", "name" = EXCLUDED."name"
    WHERE set_config('pgrst.inserted', (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) - 1)::text, true) <> '-1'
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, nullif(current_setting('pgrst.inserted', true), '')::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = {"id":5,"name":"x"}
    $2 = 5
    "#);
}

#[test]
fn computed_relationship_after_write_needs_row() {
    assert_snapshot!(
        sql("PATCH /projects?id=eq.1&select=*,upper_name,latest_task(name)\nPrefer: return=representation\n\n{\"name\":\"x\"}"),
        @r#"
    WITH pgrst_source AS (UPDATE "public"."projects" SET "name" = pgrst_values."name"
    FROM (SELECT pgrst_body."name" AS "name"
    FROM (SELECT $1::text AS "name") AS pgrst_body) AS pgrst_values
    WHERE "public"."projects"."id" = $2
    RETURNING "public"."projects"."id", "public"."projects"."name", "public"."projects"."client_id", "public"."projects"."meta", "public"."projects"."tags", "public"."projects"."body", "public"."projects"."upper_name", ("public"."projects".*)::"public"."projects" AS pgrst_row) SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT pgrst_source."id", pgrst_source."name", pgrst_source."client_id", pgrst_source."meta", pgrst_source."tags", pgrst_source."body", pgrst_source."upper_name", row_to_json("projects_latest_task_1".*)::jsonb AS "latest_task"
    FROM pgrst_source
    LEFT JOIN LATERAL (SELECT "tasks_1"."name"
    FROM "public"."latest_task"(pgrst_source.pgrst_row) AS "tasks_1") AS "projects_latest_task_1" ON TRUE) AS pgrst_t
    $1 = x
    $2 = 1
    "#
    );
}

#[test]
fn upsert_names_predicate_of_partial_index() {
    assert_snapshot!(
        sql("POST /pages?on_conflict=slug,tenant\nPrefer: resolution=ignore-duplicates\n\n{\"tenant\":1,\"slug\":\"x\"}"),
        @r#"
    WITH pgrst_source AS (INSERT INTO "public"."pages"("slug", "tenant") SELECT pgrst_body."slug", pgrst_body."tenant"
    FROM (SELECT $1::text AS "slug", $2::integer AS "tenant") AS pgrst_body
    ON CONFLICT ("slug", "tenant")
    WHERE ((NOT gone)) DO NOTHING
    RETURNING 1) SELECT null::int8 AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, null::text AS location, null::int8 AS inserted
    FROM (SELECT 1
    FROM pgrst_source) AS pgrst_t
    $1 = x
    $2 = 1
    "#
    );
    let without_target =
        sql("POST /pages\nPrefer: resolution=ignore-duplicates\n\n{\"tenant\":1,\"slug\":\"x\"}");
    assert!(without_target.contains("ON CONFLICT (\"id\") DO NOTHING"), "{without_target}");
}
