-- Aggregates in the exposed schemas ($1), over a row type or anyelement, that return a domain named after a media
-- type.
select json_build_object(
  'function', json_build_object('schema', n.nspname, 'name', p.proname),
  'relation', case when ac.oid is not null then json_build_object('schema', an.nspname, 'name', ac.relname) end,
  'media', lower(t.typname)
)::text
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_type t on t.oid = p.prorettype and t.typtype = 'd'
left join pg_catalog.pg_class ac on p.pronargs = 1 and ac.reltype = p.proargtypes[0] and ac.relkind <> 'c'
left join pg_catalog.pg_namespace an on an.oid = ac.relnamespace
where (t.typname ~* '^[A-Za-z0-9.-]+/[A-Za-z0-9.\+-]+$' or t.typname = '*/*')
  and n.nspname = any ($1::text[])
  and p.prokind = 'a' and p.pronargs = 1
  and (ac.oid is not null or p.proargtypes[0] = 'pg_catalog.anyelement'::regtype)
