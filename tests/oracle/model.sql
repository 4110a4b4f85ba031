-- What the generator must know of the schemas in the setting model.schemas, as one JSON document.
with
  rel as (
    select c.oid, c.relname, n.nspname, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (current_setting('model.schemas')::name[]) and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
  ),
  relations as (
    select json_agg(json_build_object(
      'schema', nspname, 'name', relname, 'is_table', relkind in ('r', 'p'),
      'columns', coalesce((
        select json_agg(json_build_object('name', attname, 'type', format_type(atttypid, null), 'category', typcategory,
                                          'is_generated', attgenerated <> '' or attidentity = 'a') order by attnum)
        from pg_attribute join pg_type t on t.oid = atttypid where attrelid = rel.oid and attnum > 0 and not attisdropped), '[]'),
      'key', coalesce((
        select json_agg(attname order by array_position(conkey, attnum)) from pg_constraint join pg_attribute on attrelid = rel.oid and attnum = any (conkey)
        where conrelid = rel.oid and contype = 'p'), '[]'),
      'unique', coalesce((
        select json_agg((select json_agg(attname) from pg_attribute where attrelid = rel.oid and attnum = any (conkey)) order by conname)
        from pg_constraint where conrelid = rel.oid and contype = 'u'), '[]')
    ) order by nspname, relname) as it from rel
  ),
  foreign_keys as (
    select coalesce(json_agg(json_build_object('name', conname, 'from', f.relname, 'to', t.relname,
      'columns', (select json_agg(attname order by array_position(conkey, attnum)) from pg_attribute where attrelid = conrelid and attnum = any (conkey))
    ) order by conname), '[]') as it
    from pg_constraint join rel f on f.oid = conrelid join rel t on t.oid = confrelid where contype = 'f' and conparentid = 0
  ),
  origins as (
    select coalesce(json_agg(distinct jsonb_build_array(v.relname, t.relname)), '[]') as it
    from pg_depend d join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
    join rel v on v.oid = r.ev_class join rel t on t.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
    where v.oid <> t.oid
  ),
  functions as (
    select coalesce(json_agg(json_build_object(
      'name', proname, 'is_set', proretset, 'is_variadic', provariadic <> 0, 'defaults', pronargdefaults,
      'returns', (select relname from rel join pg_type y on y.typrelid = rel.oid where y.oid = prorettype),
      'computed_for', (select relname from rel join pg_type y on y.typrelid = rel.oid where pronargs = 1 and y.oid = proargtypes[0] and coalesce(proargnames[1], '') = ''),
      'is_composite', coalesce(y.typtype = 'c' or proargmodes && '{o,b,t}'::"char"[], false),
      'arguments', coalesce((
        select json_agg(json_build_object('name', coalesce(proargnames[i], ''), 'type', format_type(coalesce(proallargtypes[i], proargtypes[i - 1]), null)) order by i)
        from generate_series(1, coalesce(array_length(proallargtypes, 1), pronargs)) i where coalesce(proargmodes[i], 'i') in ('i', 'b', 'v')), '[]'),
      'outputs', coalesce((
        select json_agg(json_build_object('name', proargnames[i], 'type', format_type(proallargtypes[i], null)) order by i)
        from generate_series(1, coalesce(array_length(proallargtypes, 1), 0)) i where proargmodes[i] in ('o', 'b', 't')), '[]')
    ) order by proname, p.oid), '[]') as it
    from pg_proc p join pg_namespace n on n.oid = pronamespace join pg_type y on y.oid = prorettype
    where n.nspname = any (current_setting('model.schemas')::name[]) and prokind = 'f' and prorettype <> 'trigger'::regtype
  )
select json_build_object('relations', relations.it, 'foreign_keys', foreign_keys.it, 'origins', origins.it, 'functions', functions.it)
from relations, foreign_keys, origins, functions
