-- The stored queries of the views of the schemas $1.
select c.oid, r.ev_action::text as tree
from pg_catalog.pg_rewrite r
join pg_catalog.pg_class c on c.oid = r.ev_class
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where r.rulename = '_RETURN' and c.relkind in ('v', 'm') and n.nspname = any ($1)
