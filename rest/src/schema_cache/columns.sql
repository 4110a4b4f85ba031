-- Columns of the relations in relations.sql. As an array their numbers lead into the index of pg_attribute, most of
-- which is about indexes, sequences and TOAST tables. Nothing is looked up for a column here: 30,000 look-ups of
-- anything take longer than all the rest.
select a.attrelid, a.xmin, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
  -- Always generated: it cannot be written, so it has no default, and its type's does not count either.
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
