-- The columns that each policy reads, of its own table and of others, and whether an index begins with them.
select p.polrelid as relation, p.polname::text as policy, n.nspname || '.' || c.relname as table, a.attname::text as column,
  exists (
    select from pg_catalog.pg_index i
    where i.indrelid = c.oid and i.indisvalid and i.indkey[0] = a.attnum
  ) as is_indexed
from pg_catalog.pg_depend d
join pg_catalog.pg_policy p on p.oid = d.objid
join pg_catalog.pg_class c on c.oid = d.refobjid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid
where d.classid = 'pg_catalog.pg_policy'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass
  and d.refobjsubid > 0 and c.relkind in ('r', 'p', 'm')
order by 3, 4
