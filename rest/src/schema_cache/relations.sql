-- Tables, views, materialized views and foreign tables, one value per cell. Partitions belong to their table; they
-- are included only for the names of their columns. Columns (columns.sql), keys (constraints.sql) and comments
-- (comments.sql) are queried separately.
with
-- If a full index covers the same columns, no predicate is needed to select an index.
partial_keys as (
  select i.indrelid, json_agg(json_build_object(
      'columns', (
        select json_agg(a.attname)
        from pg_catalog.pg_attribute a
        where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])),
      'predicate', pg_get_expr(i.indpred, i.indrelid)
    ))::text as list
  from pg_catalog.pg_index i
  where i.indisunique and i.indisvalid and i.indexprs is null and i.indpred is not null
    and not exists (
      select from pg_catalog.pg_index f
      where f.indrelid = i.indrelid and f.indisunique and f.indisvalid and f.indexprs is null and f.indpred is null
        and (f.indkey::int2[])[0:f.indnkeyatts - 1] @> (i.indkey::int2[])[0:i.indnkeyatts - 1]
        and (f.indkey::int2[])[0:f.indnkeyatts - 1] <@ (i.indkey::int2[])[0:i.indnkeyatts - 1])
  group by i.indrelid
)
select c.oid, c.xmin, n.nspname, c.relname, c.relkind, c.relispartition,
  case when c.relkind in ('v', 'f') then pg_relation_is_updatable(c.oid, true) end,
  -- Triggers BEFORE (2) each row (1) that fire on INSERT (4). Relations of other kinds are not followed further.
  c.relkind <> 'r' or c.relhastriggers
    and exists (select from pg_catalog.pg_trigger t where t.tgrelid = c.oid and t.tgtype & 7 = 7),
  partial_keys.list
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join partial_keys on partial_keys.indrelid = c.oid
where c.relkind in ('r', 'v', 'm', 'f', 'p')
  and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
  and c.relpersistence <> 't'
