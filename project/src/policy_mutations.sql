-- Statements that change one right each, of the tables $1 (schema.table) and of the functions of public.
with tables as (
  select c.oid, c.relacl, c.relowner, n.nspname || '.' || c.relname as name, format('%I.%I', n.nspname, c.relname) as quoted,
    -- The rights of other tables belong to the service that made them.
    n.nspname = 'public' as is_ours
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname || '.' || c.relname = any ($1)
),
policies as (
  select t.name, t.quoted, t.oid, p.polname, p.polcmd, p.polroles, pg_catalog.pg_get_expr(p.polqual, p.polrelid) as using_text,
    pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) as check_text
  from tables t join pg_catalog.pg_policy p on p.polrelid = t.oid
),
roles as (
  select r.oid, r.rolname, r.rolbypassrls from pg_catalog.pg_roles r where r.rolname in ('anon', 'authenticated', 'service_role')
),
privileges (name, command) as (values ('SELECT', 'r'), ('INSERT', 'a'), ('UPDATE', 'w'), ('DELETE', 'd')),
functions as (
  select p.oid, p.oid::regprocedure::text as signature
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where n.nspname = 'public' and p.prokind = 'f' and p.prorettype <> 'pg_catalog.trigger'::regtype
    and p.proowner = basalt.project_owner()::text::regrole
)
select name as table, format('drop policy %I on %s', polname, quoted) as sql from policies
union all
select name, format('alter policy %I on %s using (true)', polname, quoted) from policies where using_text <> 'true'
union all
select name, format('alter policy %I on %s with check (true)', polname, quoted) from policies where check_text <> 'true'
union all
select t.name, format('alter table %s disable row level security', t.quoted) from tables t
where exists (
  select from roles r
  where not r.rolbypassrls and pg_catalog.has_any_column_privilege(r.oid, t.oid, 'SELECT, INSERT, UPDATE')
)
union all
select t.name, format('revoke %s on %s from %I', g.privilege_type, t.quoted, r.rolname)
from tables t
cross join pg_catalog.aclexplode(t.relacl) as g
join roles r on r.oid = g.grantee
join privileges p on p.name = g.privilege_type
where t.is_ours
union all
select t.name, format('revoke %s (%I) on %s from %I', g.privilege_type, a.attname, t.quoted, r.rolname)
from tables t
join pg_catalog.pg_attribute a on a.attrelid = t.oid and not a.attisdropped
cross join pg_catalog.aclexplode(a.attacl) as g
join roles r on r.oid = g.grantee
where t.is_ours
union all
select t.name, format('grant %s on %s to %I', p.name, t.quoted, r.rolname)
from tables t cross join roles r cross join privileges p
where t.is_ours and not pg_catalog.has_table_privilege(r.oid, t.oid, p.name)
  and (
    r.rolbypassrls
    or exists (
      select from policies y where y.oid = t.oid and r.oid = any (y.polroles) and y.polcmd::text in (p.command, '*')
    )
  )
union all
select null, format('revoke execute on function %s from %I', f.signature, r.rolname)
from functions f cross join roles r
where pg_catalog.has_function_privilege(r.oid, f.oid, 'EXECUTE')
union all
select null, format('grant execute on function %s to %I', f.signature, r.rolname)
from functions f cross join roles r
where not pg_catalog.has_function_privilege(r.oid, f.oid, 'EXECUTE')
order by 1, 2
