-- Stored queries of the views that requests can reach ($1: exposed schemas and the extra search path). Passing their
-- oids as an array makes PostgreSQL use the index of pg_class, most of which is tables, indexes and sequences.
select json_build_object(
  'oid', c.oid::int8,
  'view', json_build_object('schema', n.nspname, 'name', c.relname),
  'tree', r.ev_action::text
)::text
from pg_catalog.pg_rewrite r
join pg_catalog.pg_class c on c.oid = r.ev_class
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where r.rulename = '_RETURN' and c.relkind in ('v', 'm') and n.nspname = any ($1::text[])
  and c.oid = any (array(select v.ev_class from pg_catalog.pg_rewrite v where v.rulename = '_RETURN'))
