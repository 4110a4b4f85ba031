-- Column names by attribute number: stored queries name columns by number.
select json_build_object(
  'oid', c.oid::int8,
  'relation', json_build_object('schema', n.nspname, 'name', c.relname),
  'columns', (
    select coalesce(json_object_agg(a.attnum, a.attname), '{}')
    from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
)::text
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'v', 'm', 'f', 'p')
  and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
