-- Tables, views, materialized views and foreign tables. Partitions are parts of their table: they are here for the
-- names of their columns only. Columns come by themselves (columns.sql), and so do keys (constraints.sql).
with
unique_indexes as (
  select indrelid, indpred, (indkey::int2[])[0:indnkeyatts - 1] as key
  from pg_catalog.pg_index
  where indisunique and indisvalid and indexprs is null
),
-- Where a full index is over the same columns, no condition is needed to mean it.
partial_keys as (
  select u.indrelid, json_agg(json_build_object(
      'columns', (
        select json_agg(a.attname)
        from pg_catalog.pg_attribute a where a.attrelid = u.indrelid and a.attnum = any (u.key)),
      'predicate', pg_get_expr(u.indpred, u.indrelid)
    )) as list
  from unique_indexes u
  where u.indpred is not null
    and not exists (
      select from unique_indexes f
      where f.indrelid = u.indrelid and f.indpred is null and f.key @> u.key and f.key <@ u.key)
  group by u.indrelid
)
select json_build_object(
  'oid', c.oid::int8,
  'is_partition', c.relispartition,
  'relation', json_build_object(
    'schema', n.nspname,
    'name', c.relname,
    'is_view', c.relkind in ('v', 'm'),
    'insertable', c.relkind in ('r', 'p') or (c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & 8 = 8),
    'updatable', c.relkind in ('r', 'p') or (c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & 4 = 4),
    'deletable', c.relkind in ('r', 'p') or (c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & 16 = 16),
    'comment', obj_description(c.oid, 'pg_class'),
    'partial_keys', coalesce(partial_keys.list, '[]'))
)::text
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join partial_keys on partial_keys.indrelid = c.oid
where c.relkind in ('r', 'v', 'm', 'f', 'p')
  and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
  and c.relpersistence <> 't'
