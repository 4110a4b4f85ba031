-- Policies of all tables, with what they ask.
select n.nspname::text as schema, c.relname::text as table, c.oid as relation, p.polname::text as name,
  case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE' else 'ALL' end as command,
  -- 0 is PUBLIC, which has no name.
  array(select r.rolname::text from pg_catalog.pg_roles r where r.oid = any (p.polroles) order by 1) as roles,
  0 = any (p.polroles) as is_for_everyone,
  pg_catalog.pg_get_expr(p.polqual, p.polrelid) as using_text,
  pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) as check_text,
  -- Whether one of its roles may give the command at all.
  0 = any (p.polroles) or exists (
    select
    from unnest(p.polroles) as role (oid)
    cross join unnest(
      case p.polcmd when 'r' then '{SELECT}'::text[] when 'a' then '{INSERT}' when 'w' then '{UPDATE}' when 'd' then '{DELETE}'
      else '{SELECT,INSERT,UPDATE,DELETE}' end) as privilege (name)
    where pg_catalog.has_table_privilege(role.oid, c.oid, privilege.name)
      or (privilege.name <> 'DELETE' and pg_catalog.has_any_column_privilege(role.oid, c.oid, privilege.name))
  ) as has_privilege
from pg_catalog.pg_policy p
join pg_catalog.pg_class c on c.oid = p.polrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
order by 1, 2, 4
