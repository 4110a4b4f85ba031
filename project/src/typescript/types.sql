-- All types: a column may be of any schema's. `attributes` are those of types made by CREATE TYPE … AS (…).
select t.oid, n.nspname::text as schema, t.typname::text as name, t.typrelid as relation,
  case when t.typname like '\_%' and t.typelem <> 0 then t.typelem else 0::oid end as element,
  pg_catalog.format_type(t.oid, null) as format,
  array(select e.enumlabel::text from pg_catalog.pg_enum e where e.enumtypid = t.oid order by e.enumsortorder) as labels,
  array(
    select a.attname::text
    from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and c.relkind = 'c' and a.attnum > 0 and not a.attisdropped
    order by a.attnum
  ) as attribute_names,
  array(
    select a.atttypid
    from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and c.relkind = 'c' and a.attnum > 0 and not a.attisdropped
    order by a.attnum
  ) as attribute_types
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_class c on c.oid = t.typrelid
