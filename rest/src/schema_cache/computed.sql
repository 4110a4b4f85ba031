-- Computed relationships: functions with one argument of a relation's row type that return rows of a relation. Joins
-- through pg_type, because pg_class has no index on row types.
select json_build_object(
  'function', json_build_object('schema', n.nspname, 'name', p.proname),
  'origin', json_build_object('schema', an.nspname, 'name', ac.relname),
  'target', json_build_object('schema', rn.nspname, 'name', rc.relname),
  'to_one', not p.proretset or p.prorows = 1
)::text
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_type at on at.oid = p.proargtypes[0]
join pg_catalog.pg_class ac on ac.oid = at.typrelid and ac.relkind in ('r', 'v', 'm', 'f', 'p')
join pg_catalog.pg_namespace an on an.oid = ac.relnamespace
join pg_catalog.pg_type rt on rt.oid = p.prorettype
join pg_catalog.pg_class rc on rc.oid = rt.typrelid and rc.relkind in ('r', 'v', 'm', 'f', 'p')
join pg_catalog.pg_namespace rn on rn.oid = rc.relnamespace
where p.prokind = 'f' and p.pronargs = 1
order by n.nspname, p.proname, p.oid
