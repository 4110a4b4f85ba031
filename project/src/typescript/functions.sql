-- Functions of the schemas $1 that can be called: no triggers, aggregates, window functions, procedures. Of the arguments
-- all are listed, those that are results too; `modes` and `names` are null where all are plain, or none has a name.
select n.nspname::text as schema, p.proname::text as name,
  coalesce(p.proallargtypes, p.proargtypes::oid[]) as types, p.proargmodes::text[] as modes, p.proargnames as names,
  p.pronargs::int4 as input_count, p.pronargdefaults::int4 as default_count,
  p.prorettype as returns, r.typrelid as returned_relation, p.proretset as is_set,
  p.proretset and p.prorows > 1 as has_many_rows,
  pg_catalog.pg_get_function_arguments(p.oid) as arguments, pg_catalog.pg_get_function_result(p.oid) as result
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_type r on r.oid = p.prorettype
where n.nspname = any ($1) and p.prokind = 'f'
  and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
