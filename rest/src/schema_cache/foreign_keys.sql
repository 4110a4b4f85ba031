-- Foreign keys; those that partitions inherit are left out. Unique when the columns are a primary key or a unique
-- constraint, in any order.
select json_build_object(
  'constraint', c.conname,
  'table', json_build_object('schema', tn.nspname, 'name', t.relname),
  'foreign', json_build_object('schema', fn.nspname, 'name', f.relname),
  'columns', (
    select json_agg(json_build_array(ta.attname, fa.attname) order by k.position)
    from unnest(c.conkey, c.confkey) with ordinality as k(own, referred, position)
    join pg_catalog.pg_attribute ta on ta.attrelid = c.conrelid and ta.attnum = k.own
    join pg_catalog.pg_attribute fa on fa.attrelid = c.confrelid and fa.attnum = k.referred),
  'is_unique', exists (
    select 1 from pg_catalog.pg_constraint u
    where u.conrelid = c.conrelid and u.contype in ('p', 'u') and u.conkey @> c.conkey and u.conkey <@ c.conkey)
)::text
from pg_catalog.pg_constraint c
join pg_catalog.pg_class t on t.oid = c.conrelid
join pg_catalog.pg_namespace tn on tn.oid = t.relnamespace
join pg_catalog.pg_class f on f.oid = c.confrelid
join pg_catalog.pg_namespace fn on fn.oid = f.relnamespace
where c.contype = 'f' and c.conparentid = 0
order by tn.nspname, t.relname, c.conname
