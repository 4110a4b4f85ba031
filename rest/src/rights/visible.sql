-- Which of the objects (schemas $2, names $3, kinds $4) the role $1 may use, by their numbers from 1. A kind is `relation`,
-- `function` for any of that name, a function with the names of its parameters in order as `f(a, b)`, `overload ` and its
-- parameters as `a => integer, b => text`, or for a column `column of ` and a relation, or `column`, of any schema: a junction
-- may be in another one.
select string_agg(w.number::text, ',')
from unnest($2::text[], $3::text[], $4::text[]) with ordinality as w(schema, name, kind, number)
join pg_catalog.pg_namespace n on n.nspname = w.schema and has_schema_privilege($1::name, n.oid, 'usage')
where case
  when w.kind = 'relation' then exists (
    select from pg_catalog.pg_class c
    where c.relnamespace = n.oid and c.relname = w.name and c.relkind in ('r', 'v', 'm', 'f', 'p')
      and has_any_column_privilege($1::name, c.oid, 'select'))
  -- No such column is hidden: where it is not known whose column is meant, any may be.
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
