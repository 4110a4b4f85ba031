-- Tables, views, materialized views and foreign tables of the schemas $1.
select c.oid, n.nspname::text as schema, c.relname::text as name, c.relkind::text as kind,
  -- As information_schema.views has it, triggers and rules included: bit 3 is INSERT, bit 2 is UPDATE.
  (pg_catalog.pg_relation_is_updatable(c.oid, true) & 8) <> 0 as can_insert,
  (pg_catalog.pg_relation_is_updatable(c.oid, true) & 4) <> 0 as can_update
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = any ($1) and c.relkind in ('r', 'p', 'f', 'v', 'm')
