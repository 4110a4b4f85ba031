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
relations as (
  select c.oid, c.relname, c.relkind, n.nspname
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'v', 'm', 'f', 'p')
    and not c.relispartition
    and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    and n.nspname not like 'pg\_temp\_%' and n.nspname not like 'pg\_toast\_temp\_%'
),
attributes as materialized (
  select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attidentity, a.attgenerated
  from relations join pg_catalog.pg_attribute a on a.attrelid = relations.oid
  where a.attnum > 0 and not a.attisdropped
),
-- What a type says is found out once for each, not for each column.
types as materialized (
  select
    used.atttypid, used.atttypmod,
    format_type(used.atttypid, used.atttypmod) as type_name,
    format_type(coalesce(b.base, t.oid), null) as base_type,
    t.typtype = 'd' and t.typnotnull as not_null,
    pg_get_expr(t.typdefaultbin, 0) as default_value,
    case
      when coalesce(b.base, t.oid) in ('pg_catalog.bpchar'::regtype, 'pg_catalog.varchar'::regtype)
        and coalesce(b.modifier, used.atttypmod) > 4
        then coalesce(b.modifier, used.atttypmod) - 4
      when coalesce(b.base, t.oid) in ('pg_catalog.bit'::regtype, 'pg_catalog.varbit'::regtype)
        and coalesce(b.modifier, used.atttypmod) > 0
        then coalesce(b.modifier, used.atttypmod)
    end as max_length,
    (select coalesce(json_agg(e.enumlabel order by e.enumsortorder), '[]')
     from pg_catalog.pg_enum e where e.enumtypid in (t.oid, b.base)) as enum_labels
  from (select distinct atttypid, atttypmod from attributes) used
  join pg_catalog.pg_type t on t.oid = used.atttypid
  left join base_types b on b.oid = t.oid
),
columns as (
  select
    a.attrelid,
    json_agg(json_build_object(
      'name', a.attname,
      'type_name', t.type_name,
      'base_type', t.base_type,
      'nullable', not (a.attnotnull or t.not_null),
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
        else t.default_value
      end,
      'max_length', t.max_length,
      'enum_labels', t.enum_labels,
      'comment', d.description
    ) order by a.attnum) as list
  from attributes a
  join types t on t.atttypid = a.atttypid and t.atttypmod = a.atttypmod
  left join pg_catalog.pg_attrdef ad on ad.adrelid = a.attrelid and ad.adnum = a.attnum
  left join pg_catalog.pg_description d
    on d.objoid = a.attrelid and d.objsubid = a.attnum and d.classoid = 'pg_catalog.pg_class'::regclass
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
  'schema', c.nspname,
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
from relations c
left join columns on columns.attrelid = c.oid
left join primary_keys on primary_keys.conrelid = c.oid
left join partial_keys on partial_keys.indrelid = c.oid
