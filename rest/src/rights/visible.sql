-- Numbers, from 1, of the objects (schemas $2, names $3, kinds $4) that role $1 may access. A kind is `relation`,
-- `function` for any function of that name, `f(a, b)` for a function with these parameter names in order, `overload `
-- followed by parameters as `a => integer, b => text`, `column of ` followed by a relation, or `column` in any
-- schema, because a junction may be in another one.
select string_agg(w.number::text, ',')
from unnest($2::text[], $3::text[], $4::text[]) with ordinality as w(schema, name, kind, number)
join pg_catalog.pg_namespace n on n.nspname = w.schema and has_schema_privilege($1::name, n.oid, 'usage')
where case
  when w.kind = 'relation' then exists (
    select from pg_catalog.pg_class c
    where c.relnamespace = n.oid and c.relname = w.name and c.relkind in ('r', 'v', 'm', 'f', 'p')
      and has_any_column_privilege($1::name, c.oid, 'select'))
  -- True unless the role lacks access to some column of that name: the relation is unknown, so it may be any of them.
  when w.kind = 'column' or w.kind like 'column of %' then not exists (
    select from pg_catalog.pg_class c
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = w.name
    where c.relkind in ('r', 'v', 'm', 'f', 'p')
      and w.kind in ('column', 'column of ' || c.relname)
      and not has_column_privilege($1::name, c.oid, a.attnum, 'select'))
  else exists (
    select from pg_catalog.pg_proc p
    where p.pronamespace = n.oid and p.proname = w.name and has_function_privilege($1::name, p.oid, 'execute')
      and (w.kind = 'function' or exists (
        select
        from (
          select coalesce(p.proargnames[a.position], '') as name, format_type(a.type, null) as type, a.position
          from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as a(type, position)
          where coalesce(p.proargmodes[a.position], 'i') in ('i', 'b', 'v')
        ) a
        having w.kind in (
          p.proname || '(' || coalesce(string_agg(a.name, ', ' order by a.name collate "C"), '') || ')',
          'overload ' || coalesce(string_agg(a.name || ' => ' || a.type, ', ' order by a.position), '')))))
end
