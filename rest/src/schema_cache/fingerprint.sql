-- How many versions of what there are: any change makes new row versions. Temporary objects are left out, and so are
-- the system's own, which have the lowest numbers.
select concat_ws(' ',
  (select concat(count(*), '/', sum(c.xmin::text::int8)) from pg_catalog.pg_class c
   where c.oid >= 16384 and c.relkind in ('r', 'v', 'm', 'f', 'p') and c.relpersistence <> 't'),
  (select concat(count(*), '/', sum(c.xmin::text::int8)) from pg_catalog.pg_constraint c
   where c.oid >= 16384 and c.contype in ('p', 'u', 'f')),
  (select concat(count(*), '/', sum(p.xmin::text::int8)) from pg_catalog.pg_proc p
   where p.oid >= 16384),
  (select concat(count(*), '/', sum(a.xmin::text::int8)) from pg_catalog.pg_attribute a
   join pg_catalog.pg_class c on c.oid = a.attrelid
   where a.attrelid >= 16384 and a.attnum > 0
     and c.relkind in ('r', 'v', 'm', 'f', 'p', 'c') and c.relpersistence <> 't')
)
