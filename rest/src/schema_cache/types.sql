-- Types of columns, each with its modifier; properties are determined once per type rather than per column. Domains
-- are resolved to their base types, so that json and tsvector are recognised below them.
with recursive domains as (
  select oid, typbasetype as base, typtypmod as modifier from pg_catalog.pg_type where typtype = 'd'
  union all
  select d.oid, t.typbasetype, greatest(d.modifier, t.typtypmod)
  from domains d join pg_catalog.pg_type t on t.oid = d.base where t.typtype = 'd'
),
base_types as (
  select d.oid, d.base, d.modifier from domains d join pg_catalog.pg_type t on t.oid = d.base where t.typtype <> 'd'
),
used as (
  select distinct a.atttypid, a.atttypmod
  from pg_catalog.pg_attribute a
  where a.attnum > 0 and not a.attisdropped
    and a.attrelid = any (array(
      select c.oid
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'v', 'm', 'f', 'p')
        and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
        and c.relpersistence <> 't'))
)
select json_build_object(
  'oid', used.atttypid::int8,
  'modifier', used.atttypmod,
  'type_name', format_type(used.atttypid, used.atttypmod),
  'base_type', format_type(coalesce(b.base, t.oid), null),
  'not_null', t.typtype = 'd' and t.typnotnull,
  'default', pg_get_expr(t.typdefaultbin, 0),
  'max_length', case
    when coalesce(b.base, t.oid) in ('pg_catalog.bpchar'::regtype, 'pg_catalog.varchar'::regtype)
      and coalesce(b.modifier, used.atttypmod) > 4
      then coalesce(b.modifier, used.atttypmod) - 4
    when coalesce(b.base, t.oid) in ('pg_catalog.bit'::regtype, 'pg_catalog.varbit'::regtype)
      and coalesce(b.modifier, used.atttypmod) > 0
      then coalesce(b.modifier, used.atttypmod)
  end,
  'enum_labels', (
    select coalesce(json_agg(e.enumlabel order by e.enumsortorder), '[]')
    from pg_catalog.pg_enum e where e.enumtypid in (t.oid, b.base)),
  'base_oid', coalesce(b.base, t.oid)::int8,
  -- Whether to_json renders a value as its text. This holds for all non-built-in types except arrays, rows and those
  -- with a cast to json.
  'is_text', coalesce(b.base, t.oid) >= 16384 and exists (
    select from pg_catalog.pg_type base
    where base.oid = coalesce(b.base, t.oid)
      and base.typtype in ('b', 'e', 'r', 'm')
      and base.typsubscript <> 'pg_catalog.array_subscript_handler'::regproc
      and not exists (
        select from pg_catalog.pg_cast c
        where c.castsource = base.oid and c.casttarget = 'pg_catalog.json'::regtype))
)::text
from used
join pg_catalog.pg_type t on t.oid = used.atttypid
left join base_types b on b.oid = t.oid
