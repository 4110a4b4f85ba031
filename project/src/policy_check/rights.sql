-- The rights of every table that is exposed ($1) or has a policy file ($2, schema.table): one line for each right, so that two states can be
-- compared. Rights of owners and superusers are left out.
with tables as (
  select c.oid, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity, n.nspname || '.' || c.relname as name
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p') and (n.nspname = any ($1) or n.nspname || '.' || c.relname = any ($2))
)
select t.name as table, 'row-level security' as right
from tables t where t.relrowsecurity
union all
select t.name, 'row-level security for the owner'
from tables t where t.relforcerowsecurity
union all
select t.name, format('policy "%s" %s for %s to %s using (%s) with check (%s)', p.polname,
  case when p.polpermissive then 'permissive' else 'restrictive' end, p.polcmd,
  array(select coalesce(r.rolname, 'public') from unnest(p.polroles) as role (oid) left join pg_catalog.pg_roles r on r.oid = role.oid order by 1),
  pg_catalog.pg_get_expr(p.polqual, p.polrelid), pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
from tables t join pg_catalog.pg_policy p on p.polrelid = t.oid
union all
select t.name, format('grant %s to %s', g.privilege_type, coalesce(r.rolname, 'public'))
from tables t cross join pg_catalog.aclexplode(t.relacl) as g left join pg_catalog.pg_roles r on r.oid = g.grantee
where g.grantee <> t.relowner
union all
select t.name, format('grant %s (%s) to %s', g.privilege_type, a.attname, coalesce(r.rolname, 'public'))
from tables t
join pg_catalog.pg_attribute a on a.attrelid = t.oid
cross join pg_catalog.aclexplode(a.attacl) as g
left join pg_catalog.pg_roles r on r.oid = g.grantee
where g.grantee <> t.relowner and not a.attisdropped
order by 1, 2
