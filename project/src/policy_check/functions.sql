-- Functions of the project that run with their owner's rights and the caller's search path.
select n.nspname || '.' || p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')' as name
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.prosecdef and p.proowner = $1::text::regrole
  and not exists (select from unnest(p.proconfig) as setting where setting like 'search\_path=%')
  and not exists (
    select from pg_catalog.pg_depend d
    where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  )
order by 1
