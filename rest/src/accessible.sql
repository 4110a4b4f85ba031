-- Relations and functions in schema $1 that the current role may access.
select json_build_object(
  'relations', (
    select coalesce(json_agg(c.relname), '[]')
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relkind in ('r', 'v', 'm', 'f', 'p') and not c.relispartition
      and (has_table_privilege(c.oid, 'select, insert, update, delete, truncate, references, trigger')
        or has_any_column_privilege(c.oid, 'select, insert, update, references'))),
  'routines', (
    select coalesce(json_agg(distinct p.proname), '[]')
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname = $1 and has_function_privilege(p.oid, 'execute'))
)::text
