//! GET and HEAD on relations.

use insta::assert_snapshot;

use super::sql;

#[test]
fn flat_select() {
    assert_snapshot!(sql("GET /clients?select=id,n:name::text&name=eq.x&order=id.desc.nullslast&limit=5"), @r#"
    SELECT "public"."clients"."id", CAST("public"."clients"."name" AS text) AS "n"
    FROM "public"."clients"
    WHERE "public"."clients"."name" = $1
    ORDER BY "public"."clients"."id" DESC NULLS LAST LIMIT $2::int8
    $1 = x
    $2 = 5
    "#);
}

#[test]
fn no_limit_without_max_rows() {
    assert_snapshot!(sql("GET /clients"), @r#"
    SELECT "public"."clients".*
    FROM "public"."clients" LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn operators() {
    assert_snapshot!(
        sql("GET /projects?select=id&id=in.(1,2)&name=like(any).{O*,P*}&tags=cs.{a}&name=not.is.null&body=fts(english).cat&name=wfts.dog&id=isdistinct.5&name=not.ilike.*a*"),
        @r#"
    SELECT "public"."projects"."id"
    FROM "public"."projects"
    WHERE "public"."projects"."id" = ANY ($1) AND "public"."projects"."name" LIKE ANY ($2) AND "public"."projects"."tags" @> $3 AND NOT ("public"."projects"."name" IS NULL) AND "public"."projects"."body" @@ to_tsquery($4, $5) AND to_tsvector("public"."projects"."name") @@ websearch_to_tsquery($6) AND "public"."projects"."id" IS DISTINCT
    FROM $7 AND NOT ("public"."projects"."name" ILIKE $8) LIMIT $9::int8
    $1 = {"1","2"}
    $2 = {O%,P%}
    $3 = {a}
    $4 = english
    $5 = cat
    $6 = dog
    $7 = 5
    $8 = %a%
    $9 = 1001
    "#
    );
}

#[test]
fn json_paths() {
    assert_snapshot!(sql("GET /projects?select=meta->a->>b,tags->0&meta->n->1=gt.3&order=meta->>a"), @r#"
    SELECT ("public"."projects"."meta"->'a'->>'b') AS "b", (to_jsonb("public"."projects"."tags")->'0'::int) AS "tags"
    FROM "public"."projects"
    WHERE ("public"."projects"."meta"->'n'->'1'::int) > $1
    ORDER BY ("public"."projects"."meta"->>'a') LIMIT $2::int8
    $1 = 3
    $2 = 1001
    "#);
}

#[test]
fn logic_trees() {
    assert_snapshot!(sql("GET /tasks?select=id&or=(id.eq.1,not.and(name.is.null,id.in.(2,3)))&not.and=(id.gt.5,done.is.true)"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE ("public"."tasks"."id" = $1 OR NOT ("public"."tasks"."name" IS NULL AND "public"."tasks"."id" = ANY ($2))) AND NOT ("public"."tasks"."id" > $3 AND "public"."tasks"."done" IS TRUE) LIMIT $4::int8
    $1 = 1
    $2 = {"2","3"}
    $3 = 5
    $4 = 1001
    "#);
}

#[test]
fn every_kind_of_embed() {
    assert_snapshot!(sql("GET /projects?select=id,clients(name),tasks(id,users(name))&tasks.order=id&tasks.limit=3"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_clients_1".*)::jsonb AS "clients", coalesce("projects_tasks_2"."projects_tasks_2", '[]') AS "tasks"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id") AS "projects_clients_1" ON TRUE
    LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2")::jsonb AS "projects_tasks_2"
    FROM (SELECT "tasks_2"."id", coalesce("tasks_users_3"."tasks_users_3", '[]') AS "users"
    FROM "public"."tasks" AS "tasks_2"
    LEFT JOIN LATERAL (SELECT json_agg("tasks_users_3")::jsonb AS "tasks_users_3"
    FROM (SELECT "users_3"."name"
    FROM "public"."users" AS "users_3"
    INNER JOIN "public"."tasks_users" AS "tasks_users_junction_3" ON "tasks_users_junction_3"."user_id" = "users_3"."id"
    WHERE "tasks_users_junction_3"."task_id" = "tasks_2"."id" LIMIT $1::int8) AS "tasks_users_3") AS "tasks_users_3" ON TRUE
    WHERE "tasks_2"."project_id" = "public"."projects"."id"
    ORDER BY "tasks_2"."id" LIMIT $2::int8) AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE LIMIT $3::int8
    $1 = 1000
    $2 = 3
    $3 = 1001
    "#);
}

#[test]
fn one_to_one_embed_is_object() {
    assert_snapshot!(sql("GET /users?select=name,profiles(bio)"), @r#"
    SELECT "public"."users"."name", row_to_json("users_profiles_1".*)::jsonb AS "profiles"
    FROM "public"."users"
    LEFT JOIN LATERAL (SELECT "profiles_1"."bio"
    FROM "public"."profiles" AS "profiles_1"
    WHERE "profiles_1"."user_id" = "public"."users"."id") AS "users_profiles_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn count_tests_inner_embeds_with_exists() {
    assert_snapshot!(
        sql("GET /projects?select=id,tasks!inner(id)&tasks.done=is.false&limit=2&offset=4\nPrefer: count=exact"),
        @r#"
    SELECT CASE WHEN count(*) > 0 AND count(*) < $1::int8 THEN $2::int8 + count(*) ELSE (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."projects"
    WHERE EXISTS (SELECT 1
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = "public"."projects"."id" AND "tasks_1"."done" IS FALSE)) AS pgrst_counted) END AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS
    FROM (SELECT "public"."projects"."id", coalesce("projects_tasks_1"."projects_tasks_1", '[]') AS "tasks"
    FROM "public"."projects"
    INNER JOIN LATERAL (SELECT json_agg("projects_tasks_1")::jsonb AS "projects_tasks_1"
    FROM (SELECT "tasks_1"."id"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = "public"."projects"."id" AND "tasks_1"."done" IS FALSE LIMIT $3::int8) AS "projects_tasks_1") AS "projects_tasks_1" ON "projects_tasks_1"."projects_tasks_1" IS NOT NULL LIMIT $4::int8 OFFSET $5::int8) AS pgrst_t
    $1 = 2
    $2 = 4
    $3 = 1000
    $4 = 2
    $5 = 4
    "#
    );
}

#[test]
fn null_filters_and_empty_embeds() {
    assert_snapshot!(sql("GET /projects?select=id,clients(name),tasks!inner()&clients=is.null&or=(tasks.is.null,id.eq.1)"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_clients_1".*)::jsonb AS "clients"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id") AS "projects_clients_1" ON TRUE
    WHERE "projects_clients_1" IS NOT DISTINCT
    FROM NULL AND (NOT EXISTS (SELECT 1
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "public"."projects"."id") OR "public"."projects"."id" = $1) AND EXISTS (SELECT 1
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "public"."projects"."id") LIMIT $2::int8
    $1 = 1
    $2 = 1001
    "#);
}

#[test]
fn related_orders() {
    assert_snapshot!(sql("GET /projects?select=id,clients(id)&order=clients(name).desc,clients(id)"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_clients_1".*)::jsonb AS "clients"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT "clients_1"."id"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id") AS "projects_clients_1" ON TRUE
    ORDER BY (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id") DESC, "projects_clients_1"."id" LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn spreads_and_aggregates() {
    assert_snapshot!(sql("GET /tasks?select=done,...projects(project:name,total:id.sum()::text)"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, count(*) >= $1::int8 AS is_truncated
    FROM (SELECT "public"."tasks"."done", "tasks_projects_1"."project" AS "project", CAST(sum("tasks_projects_1"."pgrst_aggregate_2") AS text) AS "total"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "project", "projects_1"."id" AS "pgrst_aggregate_2"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE
    GROUP BY 1, 2 LIMIT $2::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    "#);
}

#[test]
fn to_many_spread_yields_arrays() {
    assert_snapshot!(sql("GET /projects?select=id,...tasks!inner(task:name)&tasks.order=id"), @r#"
    SELECT "public"."projects"."id", coalesce("projects_tasks_1"."task", '[]') AS "task"
    FROM "public"."projects"
    INNER JOIN LATERAL (SELECT json_agg("projects_tasks_1"."task")::jsonb AS "task"
    FROM (SELECT "tasks_1"."name" AS "task"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = "public"."projects"."id"
    ORDER BY "tasks_1"."id" LIMIT $1::int8) AS "projects_tasks_1") AS "projects_tasks_1" ON "projects_tasks_1"."task" IS NOT NULL LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn computed_relationship_takes_row() {
    assert_snapshot!(sql("GET /projects?select=id,latest_task(name)"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_latest_task_1".*)::jsonb AS "latest_task"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT "tasks_1"."name"
    FROM "public"."latest_task"(("public"."projects".*)::"public"."projects") AS "tasks_1") AS "projects_latest_task_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn estimated_count_adds_planner_estimate() {
    assert_snapshot!(sql("HEAD /projects?name=eq.x\nPrefer: count=estimated"), @r#"
    SELECT CASE WHEN count(*) < $1::int8 THEN $2::int8 + count(*) ELSE (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."projects"
    WHERE "public"."projects"."name" = $3 LIMIT $4::int8) AS pgrst_counted) END AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $5::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."projects"
    WHERE "public"."projects"."name" = $6) AS pgrst_counted LIMIT 1 OFFSET $7::int8) END AS is_truncated
    FROM (SELECT "public"."projects".*
    FROM "public"."projects"
    WHERE "public"."projects"."name" = $8 LIMIT $9::int8) AS pgrst_t
    $1 = 1000
    $2 = 0
    $3 = x
    $4 = 1001
    $5 = 1000
    $6 = x
    $7 = 1000
    $8 = x
    $9 = 1000
    ---
    EXPLAIN (FORMAT JSON) SELECT 1
    FROM "public"."projects"
    WHERE "public"."projects"."name" = $1
    $1 = x
    ---
    WITH RECURSIVE pgrst_below(oid) AS (SELECT c.oid
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (('public', 'projects')) UNION SELECT d.refobjid
    FROM pgrst_below b JOIN pg_catalog.pg_rewrite r ON r.ev_class = b.oid JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass) SELECT CASE WHEN (SELECT bool_or(pg_catalog.row_security_active(oid))
    FROM pgrst_below) THEN (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."projects"
    WHERE "public"."projects"."name" = $1 LIMIT $2::int8) AS pgrst_counted) END
    $1 = x
    $2 = 1001
    "#);
}

#[test]
fn plan_explains_entire_statement() {
    assert_snapshot!(
        sql("GET /clients?id=eq.1\nAccept: application/vnd.pgrst.plan+text; for=\"application/vnd.pgrst.object+json\"; options=analyze|buffers;"),
        @r#"
    EXPLAIN (FORMAT TEXT, ANALYZE, BUFFERS) SELECT null::int8 AS total_result_set, count(*) AS page_total, string_agg(row_to_json(pgrst_t)::text, ',') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
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
    "#
    );
}

#[test]
fn groups_are_returned_and_rows_counted() {
    assert_snapshot!(sql("GET /tasks?select=project_id,count()&done=is.true&order=project_id\nPrefer: count=exact"), @r#"
    SELECT (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."tasks"
    WHERE "public"."tasks"."done" IS TRUE) AS pgrst_counted) AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, count(*) >= $1::int8 AS is_truncated
    FROM (SELECT "public"."tasks"."project_id", count(*) AS "count"
    FROM "public"."tasks"
    WHERE "public"."tasks"."done" IS TRUE
    GROUP BY 1
    ORDER BY "public"."tasks"."project_id" LIMIT $2::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    "#);
}

#[test]
fn null_filter_matches_embed_by_name_only() {
    assert_snapshot!(sql("GET /tasks?select=id,parent:parent_id()&parent_id=is.null&parent=is.not_null"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."parent_id" IS NULL AND EXISTS (SELECT 1
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."id" = "public"."tasks"."parent_id") LIMIT $1::int8
    $1 = 1001
    "#);
}
