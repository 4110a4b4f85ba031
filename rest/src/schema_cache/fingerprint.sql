-- Counts of catalog row versions: any change creates new ones. A load counts the rows that it reads (Tally), so the
-- conditions must match those of relations.sql, constraints.sql and columns.sql.
with relations as materialized (
  select c.oid, c.xmin
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'v', 'm', 'f', 'p')
    and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    and c.relpersistence <> 't'
)
select concat_ws(' ',
  (select concat(count(*), '/', coalesce(sum(c.xmin::text::int8), 0)) from relations c),
  (select concat(count(*), '/', coalesce(sum(c.xmin::text::int8), 0)) from pg_catalog.pg_constraint c
   where c.contype in ('p', 'u', 'f') and (c.contype <> 'f' or c.conparentid = 0) and c.conrelid <> 0),
  (select concat(count(*), '/', coalesce(sum(a.xmin::text::int8), 0)) from pg_catalog.pg_attribute a
   where a.attnum > 0 and not a.attisdropped and a.attrelid = any (array(select c.oid from relations c))),
  (select concat(count(*), '/', coalesce(sum(p.xmin::text::int8), 0)) from pg_catalog.pg_proc p
   where p.oid >= 16384)
)
