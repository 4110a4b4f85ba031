//! Every kind of relationship, how an embed selects one, and what an embed may contain (rest.md §3.7).

use insta::assert_snapshot;

use super::sql;

#[test]
fn many_to_one_by_every_name() {
    assert_snapshot!(sql("GET /tasks?select=projects(id)"), @r#"
    SELECT row_to_json("tasks_projects_1".*)::jsonb AS "projects"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=project_id(id)"), @r#"
    SELECT row_to_json("tasks_project_id_1".*)::jsonb AS "project_id"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_project_id_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=tasks_project_id_fkey(id)"), @r#"
    SELECT row_to_json("tasks_tasks_project_id_fkey_1".*)::jsonb AS "tasks_project_id_fkey"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_tasks_project_id_fkey_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=p:projects!project_id(id)"), @r#"
    SELECT row_to_json("tasks_p_1".*)::jsonb AS "p"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_p_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn one_to_many() {
    assert_snapshot!(sql("GET /clients?select=name,projects(*)"), @r#"
    SELECT "public"."clients"."name", coalesce("clients_projects_1"."clients_projects_1", '[]') AS "projects"
    FROM "public"."clients"
    LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1")::jsonb AS "clients_projects_1"
    FROM (SELECT "projects_1".*
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."client_id" = "public"."clients"."id" LIMIT $1::int8) AS "clients_projects_1") AS "clients_projects_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn one_to_one_from_referenced_side() {
    assert_snapshot!(sql("GET /profiles?select=bio,users(name)"), @r#"
    SELECT "public"."profiles"."bio", row_to_json("profiles_users_1".*)::jsonb AS "users"
    FROM "public"."profiles"
    LEFT JOIN LATERAL (SELECT "users_1"."name"
    FROM "public"."users" AS "users_1"
    WHERE "users_1"."id" = "public"."profiles"."user_id") AS "profiles_users_1" ON TRUE LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn many_to_many_through_junction() {
    assert_snapshot!(sql("GET /users?select=tasks!tasks_users(name)"), @r#"
    SELECT coalesce("users_tasks_1"."users_tasks_1", '[]') AS "tasks"
    FROM "public"."users"
    LEFT JOIN LATERAL (SELECT json_agg("users_tasks_1")::jsonb AS "users_tasks_1"
    FROM (SELECT "tasks_1"."name"
    FROM "public"."tasks" AS "tasks_1"
    INNER JOIN "public"."tasks_users" AS "tasks_users_junction_1" ON "tasks_users_junction_1"."task_id" = "tasks_1"."id"
    WHERE "tasks_users_junction_1"."user_id" = "public"."users"."id" LIMIT $1::int8) AS "users_tasks_1") AS "users_tasks_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn self_reference_by_column_and_by_table() {
    assert_snapshot!(sql("GET /tasks?select=id,parent:parent_id(name),children:tasks(id)"), @r#"
    SELECT "public"."tasks"."id", row_to_json("tasks_parent_1".*)::jsonb AS "parent", coalesce("tasks_children_2"."tasks_children_2", '[]') AS "children"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "tasks_1"."name"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."id" = "public"."tasks"."parent_id") AS "tasks_parent_1" ON TRUE
    LEFT JOIN LATERAL (SELECT json_agg("tasks_children_2")::jsonb AS "tasks_children_2"
    FROM (SELECT "tasks_2"."id"
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."parent_id" = "public"."tasks"."id" LIMIT $1::int8) AS "tasks_children_2") AS "tasks_children_2" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=id,tasks!parent_id(id)"), @r#"
    SELECT "public"."tasks"."id", coalesce("tasks_tasks_1"."tasks_tasks_1", '[]') AS "tasks"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT json_agg("tasks_tasks_1")::jsonb AS "tasks_tasks_1"
    FROM (SELECT "tasks_1"."id"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."parent_id" = "public"."tasks"."id" LIMIT $1::int8) AS "tasks_tasks_1") AS "tasks_tasks_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn hint_selects_relationship() {
    assert_snapshot!(sql("GET /orders?select=id,billing:addresses!billing_fk(street),shipping:addresses!shipping_id(street)&billing.street=eq.x"), @r#"
    SELECT "public"."orders"."id", row_to_json("orders_billing_1".*)::jsonb AS "billing", row_to_json("orders_shipping_2".*)::jsonb AS "shipping"
    FROM "public"."orders"
    LEFT JOIN LATERAL (SELECT "addresses_1"."street"
    FROM "public"."addresses" AS "addresses_1"
    WHERE "addresses_1"."id" = "public"."orders"."billing_id" AND "addresses_1"."street" = $1) AS "orders_billing_1" ON TRUE
    LEFT JOIN LATERAL (SELECT "addresses_2"."street"
    FROM "public"."addresses" AS "addresses_2"
    WHERE "addresses_2"."id" = "public"."orders"."shipping_id") AS "orders_shipping_2" ON TRUE LIMIT $2::int8
    $1 = x
    $2 = 1001
    "#);
}

#[test]
fn hint_selects_direction_of_self_reference() {
    assert_snapshot!(sql("GET /addresses?select=street,orders!shipping_fk(id)"), @r#"
    SELECT "public"."addresses"."street", coalesce("addresses_orders_1"."addresses_orders_1", '[]') AS "orders"
    FROM "public"."addresses"
    LEFT JOIN LATERAL (SELECT json_agg("addresses_orders_1")::jsonb AS "addresses_orders_1"
    FROM (SELECT "orders_1"."id"
    FROM "public"."orders" AS "orders_1"
    WHERE "orders_1"."shipping_id" = "public"."addresses"."id" LIMIT $1::int8) AS "addresses_orders_1") AS "addresses_orders_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn join_types() {
    assert_snapshot!(sql("GET /projects?select=id,clients!left(name),tasks!inner(id)"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_clients_1".*)::jsonb AS "clients", coalesce("projects_tasks_2"."projects_tasks_2", '[]') AS "tasks"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id") AS "projects_clients_1" ON TRUE
    INNER JOIN LATERAL (SELECT json_agg("projects_tasks_2")::jsonb AS "projects_tasks_2"
    FROM (SELECT "tasks_2"."id"
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "public"."projects"."id" LIMIT $1::int8) AS "projects_tasks_2") AS "projects_tasks_2" ON "projects_tasks_2"."projects_tasks_2" IS NOT NULL LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
    assert_snapshot!(sql("GET /projects?select=id,clients!projects_client_id_fkey!inner(name)&clients.name=eq.x"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_clients_1".*)::jsonb AS "clients"
    FROM "public"."projects"
    INNER JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id" AND "clients_1"."name" = $1) AS "projects_clients_1" ON TRUE LIMIT $2::int8
    $1 = x
    $2 = 1001
    "#);
    assert_snapshot!(sql("GET /clients?select=id,projects!inner(id,tasks!inner(id))&projects.tasks.done=is.true"), @r#"
    SELECT "public"."clients"."id", coalesce("clients_projects_1"."clients_projects_1", '[]') AS "projects"
    FROM "public"."clients"
    INNER JOIN LATERAL (SELECT json_agg("clients_projects_1")::jsonb AS "clients_projects_1"
    FROM (SELECT "projects_1"."id", coalesce("projects_tasks_2"."projects_tasks_2", '[]') AS "tasks"
    FROM "public"."projects" AS "projects_1"
    INNER JOIN LATERAL (SELECT json_agg("projects_tasks_2")::jsonb AS "projects_tasks_2"
    FROM (SELECT "tasks_2"."id"
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "projects_1"."id" AND "tasks_2"."done" IS TRUE LIMIT $1::int8) AS "projects_tasks_2") AS "projects_tasks_2" ON "projects_tasks_2"."projects_tasks_2" IS NOT NULL
    WHERE "projects_1"."client_id" = "public"."clients"."id" LIMIT $2::int8) AS "clients_projects_1") AS "clients_projects_1" ON "clients_projects_1"."clients_projects_1" IS NOT NULL LIMIT $3::int8
    $1 = 1000
    $2 = 1000
    $3 = 1001
    "#);
}

#[test]
fn filters_orders_and_ranges_inside_embed() {
    assert_snapshot!(sql("GET /clients?select=id,projects(id,tasks(id))&projects.name=eq.x&projects.order=id.desc&projects.limit=2&projects.offset=1&projects.tasks.order=name&projects.tasks.limit=1"), @r#"
    SELECT "public"."clients"."id", coalesce("clients_projects_1"."clients_projects_1", '[]') AS "projects"
    FROM "public"."clients"
    LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1")::jsonb AS "clients_projects_1"
    FROM (SELECT "projects_1"."id", coalesce("projects_tasks_2"."projects_tasks_2", '[]') AS "tasks"
    FROM "public"."projects" AS "projects_1"
    LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2")::jsonb AS "projects_tasks_2"
    FROM (SELECT "tasks_2"."id"
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "projects_1"."id"
    ORDER BY "tasks_2"."name" LIMIT $1::int8) AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE
    WHERE "projects_1"."client_id" = "public"."clients"."id" AND "projects_1"."name" = $2
    ORDER BY "projects_1"."id" DESC LIMIT $3::int8 OFFSET $4::int8) AS "clients_projects_1") AS "clients_projects_1" ON TRUE LIMIT $5::int8
    $1 = 1
    $2 = x
    $3 = 2
    $4 = 1
    $5 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=id,projects(id)&projects.offset=1"), @r#"
    SELECT "public"."tasks"."id", row_to_json("tasks_projects_1".*)::jsonb AS "projects"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id" OFFSET $1::int8) AS "tasks_projects_1" ON TRUE LIMIT $2::int8
    $1 = 1
    $2 = 1001
    "#);
}

#[test]
fn alias_names_embed() {
    assert_snapshot!(sql("GET /projects?select=id,jobs:tasks(id)&jobs.done=is.true&jobs.order=id&jobs=not.is.null"), @r#"
    SELECT "public"."projects"."id", coalesce("projects_jobs_1"."projects_jobs_1", '[]') AS "jobs"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT json_agg("projects_jobs_1")::jsonb AS "projects_jobs_1"
    FROM (SELECT "tasks_1"."id"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = "public"."projects"."id" AND "tasks_1"."done" IS TRUE
    ORDER BY "tasks_1"."id" LIMIT $1::int8) AS "projects_jobs_1") AS "projects_jobs_1" ON TRUE
    WHERE "projects_jobs_1"."projects_jobs_1" IS DISTINCT
    FROM NULL LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn null_filters() {
    assert_snapshot!(sql("GET /tasks?select=id,projects(id)&projects=is.null"), @r#"
    SELECT "public"."tasks"."id", row_to_json("tasks_projects_1".*)::jsonb AS "projects"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE
    WHERE "tasks_projects_1" IS NOT DISTINCT
    FROM NULL LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=id,projects(id),users(id)&or=(projects.not.is.null,users.is.null)"), @r#"
    SELECT "public"."tasks"."id", row_to_json("tasks_projects_1".*)::jsonb AS "projects", coalesce("tasks_users_2"."tasks_users_2", '[]') AS "users"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."id"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE
    LEFT JOIN LATERAL (SELECT json_agg("tasks_users_2")::jsonb AS "tasks_users_2"
    FROM (SELECT "users_2"."id"
    FROM "public"."users" AS "users_2"
    INNER JOIN "public"."tasks_users" AS "tasks_users_junction_2" ON "tasks_users_junction_2"."user_id" = "users_2"."id"
    WHERE "tasks_users_junction_2"."task_id" = "public"."tasks"."id" LIMIT $1::int8) AS "tasks_users_2") AS "tasks_users_2" ON TRUE
    WHERE ("tasks_projects_1" IS DISTINCT
    FROM NULL OR "tasks_users_2"."tasks_users_2" IS NOT DISTINCT
    FROM NULL) LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn empty_embeds() {
    assert_snapshot!(sql("GET /clients?select=id,projects()"), @r#"
    SELECT "public"."clients"."id"
    FROM "public"."clients"
    LEFT JOIN LATERAL (SELECT count(*)
    FROM (SELECT
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."client_id" = "public"."clients"."id" LIMIT $1::int8) AS "clients_projects_1") AS "clients_projects_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
    assert_snapshot!(sql("GET /clients?select=id,projects(tasks())"), @r#"
    SELECT "public"."clients"."id"
    FROM "public"."clients"
    LEFT JOIN LATERAL (SELECT count(*)
    FROM (SELECT
    FROM "public"."projects" AS "projects_1"
    LEFT JOIN LATERAL (SELECT count(*)
    FROM (SELECT
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "projects_1"."id" LIMIT $1::int8) AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE
    WHERE "projects_1"."client_id" = "public"."clients"."id" LIMIT $2::int8) AS "clients_projects_1") AS "clients_projects_1" ON TRUE LIMIT $3::int8
    $1 = 1000
    $2 = 1000
    $3 = 1001
    "#);
}

#[test]
fn related_order() {
    assert_snapshot!(sql("GET /projects?select=id,c:clients(name)&order=c(name).desc.nullslast,id"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_c_1".*)::jsonb AS "c"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."projects"."client_id") AS "projects_c_1" ON TRUE
    ORDER BY "projects_c_1"."name" DESC NULLS LAST, "public"."projects"."id" LIMIT $1::int8
    $1 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=id,projects(meta)&order=projects(meta->>a)"), @r#"
    SELECT "public"."tasks"."id", row_to_json("tasks_projects_1".*)::jsonb AS "projects"
    FROM "public"."tasks"
    LEFT JOIN LATERAL (SELECT "projects_1"."meta"
    FROM "public"."projects" AS "projects_1"
    WHERE "projects_1"."id" = "public"."tasks"."project_id") AS "tasks_projects_1" ON TRUE
    ORDER BY ("tasks_projects_1"."meta"->>'a') LIMIT $1::int8
    $1 = 1001
    "#);
}

/// The ORDER BY terms of the root level.
fn order(request: &str) -> String {
    let sql = sql(request);
    let order = sql.split("ORDER BY ").nth(1).unwrap();
    order.split(" LIMIT ").next().unwrap().to_owned()
}

#[test]
fn related_order_prefers_outputs_over_columns() {
    let of_client = |order: &str| format!(r#""projects_clients_1"."{order}""#);
    assert_eq!(order("GET /projects?select=clients(name:id)&order=clients(name)"), of_client("name"));
    assert_eq!(order("GET /projects?select=clients(id::text)&order=clients(id)"), of_client("id"));
    assert_eq!(order("GET /tasks?select=projects(meta->a)&order=projects(a)"), r#""tasks_projects_1"."a""#);
    assert_eq!(
        order("GET /tasks?select=projects(x:meta->a)&order=projects(x->b)"),
        r#"(to_jsonb("tasks_projects_1"."x")->'b')"#
    );
    assert_eq!(
        order("GET /tasks?select=projects(id,...clients(client:name))&order=projects(client)"),
        r#""tasks_projects_1"."client""#,
        "lifted by a spread"
    );
    assert_eq!(
        order("GET /projects?select=id,clients(count())&order=clients(count)"),
        of_client("count"),
        "an aggregate"
    );
    assert_eq!(order("GET /projects?select=id,...clients(name:id)&order=clients(name)"), of_client("name"));
    assert_eq!(
        order("GET /tasks?select=done,...projects(total:id.sum())&order=projects(total)"),
        r#"sum("tasks_projects_1"."pgrst_aggregate_2")"#,
        "the aggregate of a spread is the parent's"
    );
    assert_eq!(
        order("GET /projects?select=clients(name:id)&order=clients(id)"),
        "(SELECT \"clients_1\".\"id\"\nFROM \"public\".\"clients\" AS \"clients_1\"\nWHERE \"clients_1\".\"id\" = \
         \"public\".\"projects\".\"client_id\")",
        "a column that is not shown under its name"
    );
}

#[test]
fn computed_relationship() {
    assert_snapshot!(sql("GET /projects?select=id,latest_task!inner(name,users(name))&latest_task.done=is.true"), @r#"
    SELECT "public"."projects"."id", row_to_json("projects_latest_task_1".*)::jsonb AS "latest_task"
    FROM "public"."projects"
    INNER JOIN LATERAL (SELECT "tasks_1"."name", coalesce("tasks_users_2"."tasks_users_2", '[]') AS "users"
    FROM "public"."latest_task"(("public"."projects".*)::"public"."projects") AS "tasks_1"
    LEFT JOIN LATERAL (SELECT json_agg("tasks_users_2")::jsonb AS "tasks_users_2"
    FROM (SELECT "users_2"."name"
    FROM "public"."users" AS "users_2"
    INNER JOIN "public"."tasks_users" AS "tasks_users_junction_2" ON "tasks_users_junction_2"."user_id" = "users_2"."id"
    WHERE "tasks_users_junction_2"."task_id" = "tasks_1"."id" LIMIT $1::int8) AS "tasks_users_2") AS "tasks_users_2" ON TRUE
    WHERE "tasks_1"."done" IS TRUE) AS "projects_latest_task_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
}

#[test]
fn views_inherit_relationships_of_tables() {
    assert_snapshot!(sql("GET /project_cards?select=title,clients(name),tasks(id)"), @r#"
    SELECT "public"."project_cards"."title", row_to_json("project_cards_clients_1".*)::jsonb AS "clients", coalesce("project_cards_tasks_2"."project_cards_tasks_2", '[]') AS "tasks"
    FROM "public"."project_cards"
    LEFT JOIN LATERAL (SELECT "clients_1"."name"
    FROM "public"."clients" AS "clients_1"
    WHERE "clients_1"."id" = "public"."project_cards"."customer") AS "project_cards_clients_1" ON TRUE
    LEFT JOIN LATERAL (SELECT json_agg("project_cards_tasks_2")::jsonb AS "project_cards_tasks_2"
    FROM (SELECT "tasks_2"."id"
    FROM "public"."tasks" AS "tasks_2"
    WHERE "tasks_2"."project_id" = "public"."project_cards"."card_id" LIMIT $1::int8) AS "project_cards_tasks_2") AS "project_cards_tasks_2" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
    assert_snapshot!(sql("GET /clients?select=name,project_cards(title)"), @r#"
    SELECT "public"."clients"."name", coalesce("clients_project_cards_1"."clients_project_cards_1", '[]') AS "project_cards"
    FROM "public"."clients"
    LEFT JOIN LATERAL (SELECT json_agg("clients_project_cards_1")::jsonb AS "clients_project_cards_1"
    FROM (SELECT "project_cards_1"."title"
    FROM "public"."project_cards" AS "project_cards_1"
    WHERE "project_cards_1"."customer" = "public"."clients"."id" LIMIT $1::int8) AS "clients_project_cards_1") AS "clients_project_cards_1" ON TRUE LIMIT $2::int8
    $1 = 1000
    $2 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=id,project_cards!inner(title)&project_cards.title=eq.x"), @r#"
    SELECT "public"."tasks"."id", row_to_json("tasks_project_cards_1".*)::jsonb AS "project_cards"
    FROM "public"."tasks"
    INNER JOIN LATERAL (SELECT "project_cards_1"."title"
    FROM "public"."project_cards" AS "project_cards_1"
    WHERE "project_cards_1"."card_id" = "public"."tasks"."project_id" AND "project_cards_1"."title" = $1) AS "tasks_project_cards_1" ON TRUE LIMIT $2::int8
    $1 = x
    $2 = 1001
    "#);
}
