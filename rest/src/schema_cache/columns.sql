-- Columns of the relations in relations.sql. Passing their oids as an array makes PostgreSQL use the index of
-- pg_attribute, most of which belongs to indexes, sequences and TOAST tables. There are no per-column lookups: 30,000
-- of them would take longer than everything else.
select a.attrelid, a.xmin, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
  -- Always generated: not writable, so neither its own default nor that of its type applies.
  a.attidentity = 'a' or a.attgenerated <> ''
from pg_catalog.pg_attribute a
where a.attnum > 0 and not a.attisdropped
  and a.attrelid = any (array(
    select c.oid
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'v', 'm', 'f', 'p')
      and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
      and c.relpersistence <> 't'))
