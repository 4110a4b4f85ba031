-- What the services grant on their schemas, tables and functions. `postgres` is a member of the roles that own some of them, so a REVOKE
-- in a project's SQL takes effect, and requests of the service fail. On Supabase it has no effect, because `postgres` granted none of
-- these rights. Therefore the server records them after its own migrations, and grants again what is missing.

create table basalt.service_grants (
  kind text not null check (kind in ('schema', 'table', 'function')),
  identity text not null,
  -- A quoted role, or `public`.
  grantee text not null,
  privilege text not null,
  is_grantable boolean not null,
  primary key (kind, identity, grantee, privilege)
);
alter table basalt.service_grants enable row level security;

create function basalt.current_service_grants() returns setof basalt.service_grants
language sql stable set search_path = '' as $$
  with objects as (
    select 'schema' as kind, pg_catalog.quote_ident(n.nspname) as identity, n.nspowner as owner,
      coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner)) as acl
    from pg_catalog.pg_namespace n where n.nspname in ('auth', 'storage', 'realtime')
    union all
    select o.kind, o.identity, c.relowner, coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))
    from basalt.service_objects o join pg_catalog.pg_class c on c.oid = pg_catalog.to_regclass(o.identity)
    where o.kind = 'table' and o.schema_name in ('auth', 'storage', 'realtime')
    union all
    select o.kind, o.identity, p.proowner, coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
    from basalt.service_objects o join pg_catalog.pg_proc p on p.oid = pg_catalog.to_regprocedure(o.identity)
    where o.kind = 'function' and o.schema_name in ('auth', 'storage', 'realtime')
  )
  select kind, identity,
    case a.grantee when 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end,
    a.privilege_type, pg_catalog.bool_or(a.is_grantable)
  from objects, pg_catalog.aclexplode(objects.acl) as a
  where a.grantee <> objects.owner
  group by 1, 2, 3, 4
$$;

-- Recorded grants that do not exist, each with the statement that restores it.
create function basalt.missing_service_grants() returns table (identity text, lost text, statement text)
language sql stable set search_path = '' as $$
  select s.identity, pg_catalog.format('%s to %s', pg_catalog.lower(s.privilege), s.grantee),
    pg_catalog.format('grant %s on %s %s to %s%s', s.privilege, s.kind, s.identity, s.grantee,
      case when s.is_grantable then ' with grant option' else '' end)
  from basalt.service_grants s
  where not exists (
      select from basalt.current_service_grants() c
      where (c.kind, c.identity, c.grantee, c.privilege) = (s.kind, s.identity, s.grantee, s.privilege)
    )
    and (s.grantee = 'public' or exists (
      select from pg_catalog.pg_roles r where pg_catalog.quote_ident(r.rolname) = s.grantee
    ))
    and case s.kind
      when 'schema' then pg_catalog.to_regnamespace(s.identity) is not null
      when 'table' then pg_catalog.to_regclass(s.identity) is not null
      else pg_catalog.to_regprocedure(s.identity) is not null
    end
  order by 1, 2
$$;

create function basalt.record_service_grants() returns void
language sql set search_path = '' as $$
  delete from basalt.service_grants;
  insert into basalt.service_grants select * from basalt.current_service_grants()
$$;
revoke all on all functions in schema basalt from public;
