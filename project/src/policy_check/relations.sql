-- Tables without row-level security, and views that run with their owner's rights, of the exposed schemas $1.
select n.nspname || '.' || c.relname as name, c.relkind in ('r', 'p') as is_table
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = any ($1)
  and (
    (c.relkind in ('r', 'p') and not c.relrowsecurity)
    or (c.relkind = 'v' and not exists (
      select from pg_catalog.pg_options_to_table(c.reloptions) as o
      where o.option_name = 'security_invoker' and o.option_value::boolean
    ))
  )
order by 1
