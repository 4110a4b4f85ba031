-- Columns of the relations of the schemas $1. A domain's column has the type below the domain.
select c.oid as relation, a.attnum::int4 as number, a.attname::text as name,
  case when t.typtype = 'd' then t.typbasetype else t.oid end as type,
  not (a.attnotnull or (t.typtype = 'd' and t.typnotnull)) as is_nullable,
  a.atthasdef or a.attidentity <> '' as has_default,
  a.attidentity = 'a' or a.attgenerated <> '' as is_generated,
  -- A trigger or rule in the place of a view's INSERT or UPDATE may use every column.
  pg_catalog.pg_column_is_updatable(c.oid, a.attnum, false)
    or exists (
      select from pg_catalog.pg_trigger g
      -- The bits of INSTEAD OF, and of INSERT and UPDATE.
      where g.tgrelid = c.oid and not g.tgisinternal and g.tgtype & 64 <> 0 and g.tgtype & 20 <> 0
    )
    or exists (
      select from pg_catalog.pg_rewrite r
      -- UPDATE and INSERT, without a condition.
      where r.ev_class = c.oid and r.is_instead and r.ev_type in ('2', '3') and r.ev_qual::text = '<>'
    ) as is_writable
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_type t on t.oid = a.atttypid
where n.nspname = any ($1) and c.relkind in ('r', 'p', 'f', 'v', 'm') and a.attnum > 0 and not a.attisdropped
