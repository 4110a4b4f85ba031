-- Tables, views, materialized views and foreign tables, with columns and primary keys. Partitions are parts of their
-- table. Domains are resolved to what they are made of, so that json and tsvector are recognised behind them.
with recursive domains as (
  select oid, typbasetype as base, typtypmod as modifier from pg_catalog.pg_type where typtype = 'd'
  union all
  select d.oid, t.typbasetype, greatest(d.modifier, t.typtypmod)
  from domains d join pg_catalog.pg_type t on t.oid = d.base where t.typtype = 'd'
),
base_types as (
  select d.oid, d.base, d.modifier from domains d join pg_catalog.pg_type t on t.oid = d.base where t.typtype <> 'd'
),
columns as (
  select
    a.attrelid,
    json_agg(json_build_object(
      'name', a.attname,
      'type_name', format_type(a.atttypid, a.atttypmod),
      'base_type', format_type(coalesce(b.base, t.oid), null),
      'nullable', not (a.attnotnull or (t.typtype = 'd' and t.typnotnull)),
      'default', case
        when a.attidentity = 'd' then (
          select format('nextval(%L)', seq.objid::regclass::text)
          from pg_catalog.pg_depend seq
          join pg_catalog.pg_class sc on sc.oid = seq.objid and sc.relkind = 'S'
          where seq.classid = 'pg_catalog.pg_class'::regclass and seq.refclassid = 'pg_catalog.pg_class'::regclass
            and seq.refobjid = a.attrelid and seq.refobjsubid = a.attnum and seq.deptype = 'i'
          limit 1)
        when a.attidentity <> '' or a.attgenerated <> '' then null
        when ad.oid is not null then pg_get_expr(ad.adbin, ad.adrelid)
        else pg_get_expr(t.typdefaultbin, 0)
      end,
      'max_length', case
        when coalesce(b.base, t.oid) in ('pg_catalog.bpchar'::regtype, 'pg_catalog.varchar'::regtype)
          and coalesce(b.modifier, a.atttypmod) > 4
          then coalesce(b.modifier, a.atttypmod) - 4
        when coalesce(b.base, t.oid) in ('pg_catalog.bit'::regtype, 'pg_catalog.varbit'::regtype)
          and coalesce(b.modifier, a.atttypmod) > 0
          then coalesce(b.modifier, a.atttypmod)
      end,
      'enum_labels', (
        select coalesce(json_agg(e.enumlabel order by e.enumsortorder), '[]')
        from pg_catalog.pg_enum e where e.enumtypid in (t.oid, b.base)),
      'comment', col_description(a.attrelid, a.attnum)
    ) order by a.attnum) as list
  from pg_catalog.pg_attribute a
  join pg_catalog.pg_type t on t.oid = a.atttypid
  left join base_types b on b.oid = t.oid
  left join pg_catalog.pg_attrdef ad on ad.adrelid = a.attrelid and ad.adnum = a.attnum
  where a.attnum > 0 and not a.attisdropped
  group by a.attrelid
),
primary_keys as (
  select c.conrelid, json_agg(a.attname order by a.attname) as list
  from pg_catalog.pg_constraint c
  join pg_catalog.pg_attribute a on a.attrelid = c.conrelid and a.attnum = any (c.conkey)
  where c.contype = 'p'
  group by c.conrelid
),
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
  'schema', n.nspname,
  'name', c.relname,
  'is_view', c.relkind in ('v', 'm'),
  'insertable', c.relkind in ('r', 'p') or (c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & 8 = 8),
  'updatable', c.relkind in ('r', 'p') or (c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & 4 = 4),
  'deletable', c.relkind in ('r', 'p') or (c.relkind in ('v', 'f') and pg_relation_is_updatable(c.oid, true) & 16 = 16),
  'comment', obj_description(c.oid, 'pg_class'),
  'columns', coalesce(columns.list, '[]'),
  'primary_key', coalesce(primary_keys.list, '[]'),
  'partial_keys', coalesce(partial_keys.list, '[]')
)::text
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join columns on columns.attrelid = c.oid
left join primary_keys on primary_keys.conrelid = c.oid
left join partial_keys on partial_keys.indrelid = c.oid
where c.relkind in ('r', 'v', 'm', 'f', 'p')
  and not c.relispartition
  and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
  and n.nspname not like 'pg\_temp\_%' and n.nspname not like 'pg\_toast\_temp\_%'
