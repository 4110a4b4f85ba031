-- Relation $1 with row-level security: the first of commands $3 for which no policy applies to role $2, and the
-- policies for the first command. If several relations match, the one whose schema comes first in $4.
with policies as (
  select p.polrelid as relation, quote_ident(p.polname) as name,
    case p.polcmd
      when 'r' then '{SELECT}' when 'a' then '{INSERT}' when 'w' then '{UPDATE}' when 'd' then '{DELETE}'
      else '{SELECT,INSERT,UPDATE,DELETE}'
    end::text[] as commands
  from pg_catalog.pg_policy p
  where p.polpermissive
    and exists (
      select from unnest(p.polroles) as granted(role)
      where granted.role = 0 or pg_has_role($2, granted.role, 'member'))
)
select format('%I.%I', n.nspname, c.relname),
  (
    select command.name
    from unnest($3::text[]) with ordinality as command(name, number)
    where not exists (select from policies where policies.relation = c.oid and command.name = any (policies.commands))
    order by command.number
    limit 1),
  (
    select string_agg(policies.name, ', ' order by policies.name)
    from policies
    where policies.relation = c.oid and ($3::text[])[1] = any (policies.commands))
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relname = $1 and c.relrowsecurity
order by array_position($4::text[], n.nspname::text) nulls last, n.nspname
limit 1
