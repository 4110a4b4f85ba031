-- Functions in the exposed schemas ($1). Functions with unnamed arguments are included only if they have exactly one,
-- of a type that can take a raw body.
with recursive domains as (
  select oid, typbasetype as base from pg_catalog.pg_type where typtype = 'd'
  union all
  select d.oid, t.typbasetype from domains d join pg_catalog.pg_type t on t.oid = d.base where t.typtype = 'd'
),
base_types as (
  select d.oid, d.base from domains d join pg_catalog.pg_type t on t.oid = d.base where t.typtype <> 'd'
)
select json_build_object(
  'name', json_build_object('schema', n.nspname, 'name', p.proname),
  'params', coalesce(params.list, '[]'),
  'set', p.proretset,
  'void', p.prorettype = 'pg_catalog.void'::regtype,
  'composite', bt.typtype = 'c' or coalesce(p.proargmodes::text[] && '{t,b,o}', false),
  'row_type', json_build_object('schema', bn.nspname, 'name', bt.typname),
  'media', case when rt.typtype = 'd' and (rt.typname ~* '^[A-Za-z0-9.-]+/[A-Za-z0-9.\+-]+$' or rt.typname = '*/*')
    then lower(rt.typname) end,
  'volatility', p.provolatile,
  'config', coalesce(to_json(p.proconfig), '[]'),
  'comment', obj_description(p.oid, 'pg_proc')
)::text
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_type rt on rt.oid = p.prorettype
left join base_types rb on rb.oid = rt.oid
join pg_catalog.pg_type bt on bt.oid = coalesce(rb.base, rt.oid)
join pg_catalog.pg_namespace bn on bn.oid = bt.typnamespace
cross join lateral (
  select
    json_agg(json_build_object(
      'name', arg.name,
      'type_name', format_type(arg.type, null),
      'wide_type', case format_type(arg.type, null)
        when 'bit' then 'bit varying'
        when 'bit[]' then 'bit varying[]'
        when 'character' then 'character varying'
        when 'character[]' then 'character varying[]'
        else format_type(arg.type, null)
      end,
      'required', arg.number <= p.pronargs - p.pronargdefaults,
      'variadic', arg.mode = 'v'
    ) order by arg.number) as list,
    count(*) filter (where arg.name = '') as unnamed,
    count(*) as total,
    bool_or(arg.type in ('pg_catalog.json'::regtype, 'pg_catalog.jsonb'::regtype, 'pg_catalog.text'::regtype,
                         'pg_catalog.bytea'::regtype, 'pg_catalog.xml'::regtype)) as takes_raw
  from (
    select coalesce(p.proargnames[a.position], '') as name, a.type, coalesce(p.proargmodes[a.position], 'i') as mode,
           row_number() over (order by a.position) as number
    from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as a(type, position)
    where coalesce(p.proargmodes[a.position], 'i') in ('i', 'b', 'v')
  ) arg
) params
where p.prokind = 'f'
  and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
  and n.nspname = any ($1::text[])
  and (params.unnamed = 0 or (params.total = 1 and params.takes_raw))
order by n.nspname, p.proname, p.oid
