-- Who may do what in schema auth (auth.md 4.3): row-level security without policies on every table, so a
-- stray grant still shows nothing; the API roles may name the schema and call its functions, no more;
-- postgres, the role of users' SQL, has every table right and may pass it on, but makes nothing here.

set local role supabase_auth_admin;

do $$
declare
  item record;
begin
  for item in
    select c.relname
    from pg_catalog.pg_class c
    where c.relnamespace = 'auth'::regnamespace and c.relkind = 'r' and not c.relrowsecurity
      and pg_catalog.pg_get_userbyid(c.relowner) = current_user
  loop
    execute format('alter table auth.%I enable row level security', item.relname);
  end loop;
end
$$;

revoke all on schema auth from public;
revoke all on all tables in schema auth from public, anon, authenticated, service_role;
revoke all on all sequences in schema auth from public, anon, authenticated, service_role;

grant usage on schema auth to anon, authenticated, service_role, postgres;
grant all on all tables in schema auth to postgres with grant option;
grant all on all sequences in schema auth to postgres with grant option;
grant all on all routines in schema auth to postgres;

alter default privileges in schema auth grant all on tables to postgres with grant option;
alter default privileges in schema auth grant all on sequences to postgres with grant option;
alter default privileges in schema auth grant all on routines to postgres;

-- The dashboard's role reads and edits as upstream lets it; it exists only beside a full Supabase role set.
do $$
begin
  if exists (select from pg_catalog.pg_roles where rolname = 'dashboard_user') then
    grant usage on schema auth to dashboard_user;
    grant all on all tables in schema auth to dashboard_user;
    grant all on all sequences in schema auth to dashboard_user;
    grant all on all routines in schema auth to dashboard_user;
    alter default privileges in schema auth grant all on tables to dashboard_user;
    alter default privileges in schema auth grant all on sequences to dashboard_user;
    alter default privileges in schema auth grant all on routines to dashboard_user;
  end if;
end
$$;

set local role none;
