-- Builds the GRANT statement that gives role $3 the privileges it lacks on object $2 of kind $1: those of $4, or else
-- of $5, on a relation. If several objects have that name, the one whose schema comes first in $6.
with candidates as (
  select n.nspname as schema, lacking.list, null as signature
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  cross join lateral (
    select coalesce(
      string_agg(p.name, ', ' order by p.number) filter (where p.name = any ($4::text[])),
      string_agg(p.name, ', ' order by p.number)) as list
    from unnest($5::text[]) with ordinality as p(name, number)
    where not has_table_privilege($3, c.oid, p.name)
  ) lacking
  where $1 in ('table', 'view', 'materialized view', 'foreign table') and c.relname = $2
    and c.relkind in ('r', 'v', 'm', 'f', 'p')
  union all
  select n.nspname, 'USAGE', null
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where $1 = 'sequence' and c.relname = $2 and c.relkind = 'S' and not has_sequence_privilege($3, c.oid, 'USAGE')
  union all
  select n.nspname, 'EXECUTE', p.oid::regprocedure::text
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where $1 = 'function' and p.proname = $2
    and not has_function_privilege($3, p.oid, 'EXECUTE')
  union all
  select n.nspname, 'USAGE', quote_ident(n.nspname)
  from pg_catalog.pg_namespace n
  where $1 = 'schema' and n.nspname = $2 and not has_schema_privilege($3, n.oid, 'USAGE')
)
select format('GRANT %s ON %s%s TO %I;', list,
  case
    when $1 in ('table', 'view', 'materialized view', 'foreign table') then ''
    else upper($1) || ' '
  end,
  coalesce(signature, format('%I.%I', schema, $2)), $3)
from candidates
where list is not null
order by array_position($6::text[], schema::text) nulls last, schema
limit 1
