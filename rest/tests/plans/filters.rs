//! Every operator, quantifier and connective (rest.md §3.4, §3.5, §3.6).

use insta::assert_snapshot;

use super::sql;

#[test]
fn comparisons() {
    assert_snapshot!(sql("GET /tasks?select=id&id=eq.1&id=neq.2&id=gt.3&id=gte.4&id=lt.5&id=lte.6"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."id" = $1 AND "public"."tasks"."id" <> $2 AND "public"."tasks"."id" > $3 AND "public"."tasks"."id" >= $4 AND "public"."tasks"."id" < $5 AND "public"."tasks"."id" <= $6 LIMIT $7::int8
    $1 = 1
    $2 = 2
    $3 = 3
    $4 = 4
    $5 = 5
    $6 = 6
    $7 = 1001
    "#);
}

#[test]
fn patterns() {
    assert_snapshot!(sql("GET /tasks?select=id&name=like.*a*&name=ilike.b*&name=match.^c.*&name=imatch.d$"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."name" LIKE $1 AND "public"."tasks"."name" ILIKE $2 AND "public"."tasks"."name" ~ $3 AND "public"."tasks"."name" ~* $4 LIMIT $5::int8
    $1 = %a%
    $2 = b%
    $3 = ^c.*
    $4 = d$
    $5 = 1001
    "#);
}

#[test]
fn quantifiers() {
    assert_snapshot!(sql("GET /tasks?select=id&id=eq(any).{1,2}&id=gt(all).{3}&id=lte(any).{4}&name=like(all).{a*,b}&name=ilike(any).{c*}&name=match(any).{^d}&name=imatch(all).{e}"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."id" = ANY ($1) AND "public"."tasks"."id" > ALL ($2) AND "public"."tasks"."id" <= ANY ($3) AND "public"."tasks"."name" LIKE ALL ($4) AND "public"."tasks"."name" ILIKE ANY ($5) AND "public"."tasks"."name" ~ ANY ($6) AND "public"."tasks"."name" ~* ALL ($7) LIMIT $8::int8
    $1 = {1,2}
    $2 = {3}
    $3 = {4}
    $4 = {a%,b}
    $5 = {c%}
    $6 = {^d}
    $7 = {e}
    $8 = 1001
    "#);
}

#[test]
fn containment_and_ranges() {
    assert_snapshot!(sql("GET /projects?select=id&tags=cs.{a}&tags=cd.{a,b}&tags=ov.{c}&meta=cs.{\"a\":1}&tags=sl.[1,2)&tags=sr.[3,4)&tags=nxr.[5,6)&tags=nxl.[7,8)&tags=adj.[9,10)"), @r#"
    SELECT "public"."projects"."id"
    FROM "public"."projects"
    WHERE "public"."projects"."tags" @> $1 AND "public"."projects"."tags" <@ $2 AND "public"."projects"."tags" && $3 AND "public"."projects"."meta" @> $4 AND "public"."projects"."tags" << $5 AND "public"."projects"."tags" >> $6 AND "public"."projects"."tags" &< $7 AND "public"."projects"."tags" &> $8 AND "public"."projects"."tags" -|- $9 LIMIT $10::int8
    $1 = {a}
    $2 = {a,b}
    $3 = {c}
    $4 = {"a":1}
    $5 = [1,2)
    $6 = [3,4)
    $7 = [5,6)
    $8 = [7,8)
    $9 = [9,10)
    $10 = 1001
    "#);
}

#[test]
fn text_search_on_tsvector_and_text() {
    assert_snapshot!(sql("GET /projects?select=id&body=fts.a&body=plfts(english).b&body=phfts.c&body=wfts(german).d"), @r#"
    SELECT "public"."projects"."id"
    FROM "public"."projects"
    WHERE "public"."projects"."body" @@ to_tsquery($1) AND "public"."projects"."body" @@ plainto_tsquery($2, $3) AND "public"."projects"."body" @@ phraseto_tsquery($4) AND "public"."projects"."body" @@ websearch_to_tsquery($5, $6) LIMIT $7::int8
    $1 = a
    $2 = english
    $3 = b
    $4 = c
    $5 = german
    $6 = d
    $7 = 1001
    "#);
    assert_snapshot!(sql("GET /projects?select=id&name=fts.a&name=plfts(english).b&meta=phfts.c&meta->>a=wfts.d&unknown=fts(simple).e"), @r#"
    SELECT "public"."projects"."id"
    FROM "public"."projects"
    WHERE to_tsvector("public"."projects"."name") @@ to_tsquery($1) AND to_tsvector($2, "public"."projects"."name") @@ plainto_tsquery($3, $4) AND to_tsvector("public"."projects"."meta") @@ phraseto_tsquery($5) AND to_tsvector(("public"."projects"."meta"->>'a')) @@ websearch_to_tsquery($6) AND "public"."projects"."unknown" @@ to_tsquery($7, $8) LIMIT $9::int8
    $1 = a
    $2 = english
    $3 = english
    $4 = b
    $5 = c
    $6 = d
    $7 = simple
    $8 = e
    $9 = 1001
    "#);
}

#[test]
fn is_and_isdistinct() {
    assert_snapshot!(sql("GET /tasks?select=id&done=is.true&done=is.false&done=is.unknown&name=is.null&name=is.not_null&name=isdistinct.null"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."done" IS TRUE AND "public"."tasks"."done" IS FALSE AND "public"."tasks"."done" IS UNKNOWN AND "public"."tasks"."name" IS NULL AND "public"."tasks"."name" IS NOT NULL AND "public"."tasks"."name" IS DISTINCT
    FROM $1 LIMIT $2::int8
    $1 = null
    $2 = 1001
    "#);
}

#[test]
fn negations() {
    assert_snapshot!(sql("GET /tasks?select=id&id=not.eq.1&name=not.like(any).{a,b}&id=not.in.(1,2)&done=not.is.true&name=not.isdistinct.x&name=not.fts.a"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE NOT ("public"."tasks"."id" = $1) AND NOT ("public"."tasks"."name" LIKE ANY ($2)) AND NOT ("public"."tasks"."id" = ANY ($3)) AND NOT ("public"."tasks"."done" IS TRUE) AND NOT ("public"."tasks"."name" IS DISTINCT
    FROM $4) AND NOT (to_tsvector("public"."tasks"."name") @@ to_tsquery($5)) LIMIT $6::int8
    $1 = 1
    $2 = {a,b}
    $3 = {"1","2"}
    $4 = x
    $5 = a
    $6 = 1001
    "#);
}

#[test]
fn lists() {
    assert_snapshot!(sql("GET /tasks?select=id&id=in.()&id=in.(1)&name=in.(\"a,b\",c\"d,NULL)&name=not.in.()"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."id" = ANY ($1) AND "public"."tasks"."id" = ANY ($2) AND "public"."tasks"."name" = ANY ($3) AND NOT ("public"."tasks"."name" = ANY ($4)) LIMIT $5::int8
    $1 = {}
    $2 = {"1"}
    $3 = {"a,b","c\"d","NULL"}
    $4 = {}
    $5 = 1001
    "#);
}

#[test]
fn json_in_filters() {
    assert_snapshot!(sql("GET /projects?select=id&meta->>a=eq.1&meta->n->0=gt.2&meta->a->>b=like.*x&tags->>0=eq.y&meta->n->-1=is.null"), @r#"
    SELECT "public"."projects"."id"
    FROM "public"."projects"
    WHERE ("public"."projects"."meta"->>'a') = $1 AND ("public"."projects"."meta"->'n'->'0'::int) > $2 AND ("public"."projects"."meta"->'a'->>'b') LIKE $3 AND (to_jsonb("public"."projects"."tags")->>'0'::int) = $4 AND ("public"."projects"."meta"->'n'->'-1'::int) IS NULL LIMIT $5::int8
    $1 = 1
    $2 = 2
    $3 = %x
    $4 = y
    $5 = 1001
    "#);
}

#[test]
fn values_that_resemble_syntax() {
    assert_snapshot!(sql("GET /tasks?select=id&name=eq.null&name=eq.&name=eq.\"x\"&name=eq.a,b.(c)"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."name" = $1 AND "public"."tasks"."name" = $2 AND "public"."tasks"."name" = $3 AND "public"."tasks"."name" = $4 LIMIT $5::int8
    $1 = null
    $2 = 
    $3 = "x"
    $4 = a,b.(c)
    $5 = 1001
    "#);
}

#[test]
fn connectives() {
    assert_snapshot!(sql("GET /tasks?select=id&and=(id.gte.0,or(name.is.null,not.and(id.eq.1,name.in.(a,\"x,y\"))))"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE ("public"."tasks"."id" >= $1 AND ("public"."tasks"."name" IS NULL OR NOT ("public"."tasks"."id" = $2 AND "public"."tasks"."name" = ANY ($3)))) LIMIT $4::int8
    $1 = 0
    $2 = 1
    $3 = {"a","x,y"}
    $4 = 1001
    "#);
    assert_snapshot!(sql("GET /tasks?select=id&not.or=(id.eq.1,name.like.*a*)&or=(id.eq.2)&or=(name.not.eq.x,done.is.false)"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE NOT ("public"."tasks"."id" = $1 OR "public"."tasks"."name" LIKE $2) AND ("public"."tasks"."id" = $3) AND (NOT ("public"."tasks"."name" = $4) OR "public"."tasks"."done" IS FALSE) LIMIT $5::int8
    $1 = 1
    $2 = %a%
    $3 = 2
    $4 = x
    $5 = 1001
    "#);
}

#[test]
fn logic_inside_embed() {
    assert_snapshot!(sql("GET /projects?select=id,tasks(id)&tasks.or=(done.is.true,name.eq.x)&tasks.not.and=(id.eq.1,id.eq.2)"), @r#"
    SELECT "public"."projects"."id", coalesce("projects_tasks_1"."projects_tasks_1", '[]') AS "tasks"
    FROM "public"."projects"
    LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_1")::jsonb AS "projects_tasks_1"
    FROM (SELECT "tasks_1"."id"
    FROM "public"."tasks" AS "tasks_1"
    WHERE "tasks_1"."project_id" = "public"."projects"."id" AND ("tasks_1"."done" IS TRUE OR "tasks_1"."name" = $1) AND NOT ("tasks_1"."id" = $2 AND "tasks_1"."id" = $3) LIMIT $4::int8) AS "projects_tasks_1") AS "projects_tasks_1" ON TRUE LIMIT $5::int8
    $1 = x
    $2 = 1
    $3 = 2
    $4 = 1000
    $5 = 1001
    "#);
}

#[test]
fn orders() {
    assert_snapshot!(sql("GET /projects?select=id&order=name,id.asc,client_id.desc,meta->>a.nullsfirst,meta->n->0.desc.nullslast,tags->0.asc.nullsfirst"), @r#"
    SELECT "public"."projects"."id"
    FROM "public"."projects"
    ORDER BY "public"."projects"."name", "public"."projects"."id" ASC, "public"."projects"."client_id" DESC, ("public"."projects"."meta"->>'a') NULLS FIRST, ("public"."projects"."meta"->'n'->'0'::int) DESC NULLS LAST, (to_jsonb("public"."projects"."tags")->'0'::int) ASC NULLS FIRST LIMIT $1::int8
    $1 = 1001
    "#);
}

#[test]
fn limits_and_offsets() {
    assert_snapshot!(sql("GET /tasks?select=id&limit=0"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $1::int8
    $1 = 0
    "#);
    assert_snapshot!(sql("GET /tasks?select=id&offset=5"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $1::int8 OFFSET $2::int8
    $1 = 1001
    $2 = 5
    "#);
    assert_snapshot!(sql("GET /tasks?select=id&limit=5000&offset=2"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $1::int8 OFFSET $2::int8
    $1 = 1001
    $2 = 2
    "#);
    assert_snapshot!(sql("GET /tasks?select=id&limit=10\nRange: 3-5"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $1::int8 OFFSET $2::int8
    $1 = 3
    $2 = 3
    "#);
    assert_snapshot!(sql("GET /tasks?select=id\nRange: 7-"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $1::int8 OFFSET $2::int8
    $1 = 1001
    $2 = 7
    "#);
}

#[test]
fn counts() {
    assert_snapshot!(sql("GET /tasks?select=id&done=is.true\nPrefer: count=exact"), @r#"
    SELECT CASE WHEN count(*) < $1::int8 THEN $2::int8 + count(*) ELSE (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."tasks"
    WHERE "public"."tasks"."done" IS TRUE) AS pgrst_counted) END AS total_result_set, count(*) AS page_total, coalesce(json_agg(pgrst_t), '[]') AS body, RESPONSE_SETTINGS
    FROM (SELECT "public"."tasks"."id"
    FROM "public"."tasks"
    WHERE "public"."tasks"."done" IS TRUE LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 0
    $3 = 1000
    "#);
    assert_snapshot!(sql("GET /tasks?select=id&limit=2&offset=1\nPrefer: count=planned"), @r#"
    SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $1::int8 OFFSET $2::int8
    $1 = 2
    $2 = 1
    ---
    EXPLAIN (FORMAT JSON) SELECT 1
    FROM "public"."tasks"
    ---
    WITH RECURSIVE pgrst_below(oid) AS (SELECT c.oid
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (('public', 'tasks')) UNION SELECT d.refobjid
    FROM pgrst_below b JOIN pg_catalog.pg_rewrite r ON r.ev_class = b.oid JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass) SELECT CASE WHEN (SELECT bool_or(pg_catalog.row_security_active(oid))
    FROM pgrst_below) THEN (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."tasks" LIMIT $1::int8) AS pgrst_counted) END
    $1 = 1002
    "#);
    assert_snapshot!(sql("HEAD /tasks?select=id\nPrefer: count=exact"), @r#"
    SELECT CASE WHEN count(*) < $1::int8 THEN $2::int8 + count(*) ELSE (SELECT count(*)
    FROM (SELECT 1
    FROM "public"."tasks") AS pgrst_counted) END AS total_result_set, count(*) AS page_total, null::text AS body, RESPONSE_SETTINGS
    FROM (SELECT "public"."tasks"."id"
    FROM "public"."tasks" LIMIT $3::int8) AS pgrst_t
    $1 = 1000
    $2 = 0
    $3 = 1000
    "#);
}
