//! Select lists: columns, computed columns, casts, aggregates and spreads (rest.md §3.3, §3.8).

use insta::assert_snapshot;

use super::sql;

#[test]
fn empty_select_returns_all_columns() {
    assert_snapshot!(sql("GET /clients?select="), @r#"
    SELECT "public"."clients".*
    FROM "public"."clients" LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn columns_casts_and_aliases() {
    assert_snapshot!(sql("GET /projects?select=*,n:name,client_id::text,upper_name,as_text:meta->a->>b::int,meta->n->-1,\"odd, name\""), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."projects") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."projects".*, "public"."projects"."name" AS "n", CAST("public"."projects"."client_id" AS text) AS "client_id", "public"."projects"."upper_name", CAST(("public"."projects"."meta"->'a'->>'b') AS int) AS "as_text", ("public"."projects"."meta"->'n'->'-1'::int) AS "n", "public"."projects"."odd, name"
    FROM "public"."projects" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
}

#[test]
fn column_named_count_counts_rows() {
    assert_snapshot!(sql("GET /projects?select=count"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, CASE WHEN count(*) >= $1::int8 THEN EXISTS (SELECT
    FROM (SELECT 1
    FROM "public"."projects") AS pgrst_counted LIMIT 1 OFFSET $2::int8) END AS is_truncated
    FROM (SELECT "public"."projects"."count"
    FROM "public"."projects" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    $3 = 1000
    "#);
    assert_snapshot!(sql("GET /clients?select=name,projects(count)"), @r#"
    SELECT "public"."clients"."name", coalesce("clients_projects_1"."clients_projects_1", '[]') AS "projects"
    FROM "public"."clients"
    LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1")::jsonb AS "clients_projects_1"
    FROM (SELECT "projects_1"."count"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."client_id" = "public"."clients"."id" LIMIT $1::int8) AS "clients_projects_1") AS "clients_projects_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn aggregates() {
    assert_snapshot!(sql("GET /tasks?select=count()"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, count(*) >= $1::int8 AS is_truncated
    FROM (SELECT count(*) AS "count"
    FROM "public"."tasks" LIMIT $2::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    "#);
    assert_snapshot!(sql("GET /tasks?select=project_id,id.sum(),id.avg(),id.min(),last:id.max(),name.count(),all:count()::text"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, count(*) >= $1::int8 AS is_truncated
    FROM (SELECT "public"."tasks"."project_id", sum("public"."tasks"."id") AS "sum", avg("public"."tasks"."id") AS "avg", min("public"."tasks"."id") AS "min", max("public"."tasks"."id") AS "last", count("public"."tasks"."name") AS "count", CAST(count(*) AS text) AS "all"
    FROM "public"."tasks"
    GROUP BY 1 LIMIT $2::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    "#);
    assert_snapshot!(sql("GET /projects?select=meta->>a,total:meta->n->0::int.sum()::float8"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, count(*) >= $1::int8 AS is_truncated
    FROM (SELECT ("public"."projects"."meta"->>'a') AS "a", CAST(sum(CAST(("public"."projects"."meta"->'n'->'0'::int) AS int)) AS float8) AS "total"
    FROM "public"."projects"
    GROUP BY 1 LIMIT $2::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    "#);
}

#[test]
fn aggregates_inside_embed() {
    assert_snapshot!(sql("GET /projects?select=name,tasks(done,id.max())&tasks.done=is.true"), @r#"
    SELECT "public"."projects"."name", coalesce("projects_tasks_1"."projects_tasks_1", '[]') AS "tasks"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_1")::jsonb AS "projects_tasks_1"
    FROM (SELECT "tasks_1"."done", max("tasks_1"."id") AS "max"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = "public"."projects"."id" AND "tasks_1"."done" IS TRUE
    GROUP BY 1 LIMIT $1::int8) AS "projects_tasks_1") AS "projects_tasks_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn to_one_spread() {
    assert_snapshot!(sql("GET /tasks?select=name,...projects(project:name,meta->>a)"), @r#"
    SELECT "public"."tasks"."name", "tasks_projects_1"."project" AS "project", "tasks_projects_1"."a" AS "a"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "project", ("projects_1"."meta"->>'a') AS "a"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=name,...projects!inner(...clients(client:name))"), @r#"
    SELECT "public"."tasks"."name", "tasks_projects_1"."client" AS "client"
    FROM "public"."tasks"
    INNER JOIN LATERAL (SELECT "projects_clients_2"."client" AS "client"
    FROM "public"."projects" AS "projects_1"
    LEFT JOIN LATERAL (SELECT "clients_2"."name" AS "client"
    FROM "public"."clients" AS "clients_2"
    WHERE "clients_2"."id" = "projects_1"."client_id") AS "projects_clients_2" ON TRUE
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn spread_containing_embed() {
    assert_snapshot!(sql("GET /tasks?select=name,...projects(clients(name))"), @r#"
    SELECT "public"."tasks"."name", "tasks_projects_1"."clients" AS "clients"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT row_to_json("projects_clients_2".*)::jsonb AS "clients"
    FROM "public"."projects" AS "projects_1"
    LEFT JOIN LATERAL (SELECT "clients_2"."name"
    FROM "public"."clients" AS "clients_2"
    WHERE "clients_2"."id" = "projects_1"."client_id") AS "projects_clients_2" ON TRUE
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn many_to_many_spread() {
    assert_snapshot!(sql("GET /tasks?select=id,...users(user:name,id)&users.order=name.desc&users.limit=2"), @r#"
    SELECT "public"."tasks"."id", coalesce("tasks_users_1"."user", '[]') AS "user", coalesce("tasks_users_1"."id", '[]') AS "id"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT json_agg("tasks_users_1"."user")::jsonb AS "user", json_agg("tasks_users_1"."id")::jsonb AS "id"
    FROM (SELECT "users_1"."name" AS "user", "users_1"."id" AS "id"
    FROM "public"."users" AS "users_1"
    INNER JOIN "public"."tasks_users" AS "tasks_users_junction_1" ON "tasks_users_junction_1"."user_id" = "users_1"."id"
    WHERE "tasks_users_junction_1"."task_id" = "public"."tasks"."id"
    ORDER BY "users_1"."name" DESC LIMIT $1::int8) AS "tasks_users_1") AS "tasks_users_1" ON TRUE LIMIT $2::int8
    $1 = 2
    $2 = 1001
    "#);
}

#[test]
fn aggregate_lifted_by_spread() {
    assert_snapshot!(sql("GET /tasks?select=done,...projects(...clients(name),id.count())"), @r#"
    SELECT null::int8 AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS, count(*) >= $1::int8 AS is_truncated
    FROM (SELECT "public"."tasks"."done", count("tasks_projects_1"."pgrst_aggregate_2") AS "count", "tasks_projects_1"."name" AS "name"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id" AS "pgrst_aggregate_2", "projects_clients_3"."name" AS "name"
    FROM "public"."projects" AS "projects_1"
    LEFT JOIN LATERAL (SELECT "clients_3"."name" AS "name"
    FROM "public"."clients" AS "clients_3"
    WHERE "clients_3"."id" = "projects_1"."client_id") AS "projects_clients_3" ON TRUE
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE
    GROUP BY 1, 3 LIMIT $2::int8) AS pgrst_t
    $1 = 1000
    $2 = 1000
    "#);
}

#[test]
fn domains_are_formatted_by_representation() {
    assert_snapshot!(sql("GET /paints"), @r#"
    SELECT "public"."paints"."id", "public"."color_to_json"("public"."paints"."shade") AS "shade"
    FROM "public"."paints" LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /paints?select=shade,raw:shade::text&shade=eq.red&shade=in.(a,b)&order=shade"), @r#"
    SELECT "public"."color_to_json"("public"."paints"."shade") AS "shade", CAST("public"."color_to_json"("public"."paints"."shade") AS text) AS "raw"
    FROM "public"."paints"
    WHERE "public"."paints"."shade" = "public"."color_from_text"($1::text) AND "public"."paints"."shade" = ANY (ARRAY(SELECT "public"."color_from_text"(pgrst_element)
    FROM unnest($2::text[]) AS pgrst_element))
    ORDER BY "public"."paints"."shade" LIMIT $3::int8
    $1 = red
    $2 = {"a","b"}
    $3 = 1001
    "#);
}
