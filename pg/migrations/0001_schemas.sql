-- Schemas that belong to no service, and who may use them.

-- Objects of extensions. `postgres` installs into it (trusted extensions, or a project file that runs elevated).
create schema if not exists extensions;
grant all on schema extensions to postgres, dashboard_user;
grant usage on schema extensions to public, anon, authenticated, service_role;

-- Empty: projects list it in `api.schemas`, and the cache must find it.
create schema if not exists graphql_public;
grant usage on schema graphql_public to postgres, anon, authenticated, service_role;

create schema if not exists vault;
grant usage on schema vault to postgres, service_role;

-- Where `create extension pg_cron with schema cron` and `pg_net` expect to find their schemas. On somebody else's
-- server the real extensions may be at hand, and those want to make the schemas themselves.
do $$
declare
  wanted record;
begin
  for wanted in select * from (values ('cron', 'pg_cron'), ('net', 'pg_net')) as schemas (name, extension) loop
    continue when current_user <> 'supabase_admin'
      and exists (select from pg_catalog.pg_available_extensions where name = wanted.extension);
    execute format('create schema if not exists %I', wanted.name);
    execute format('grant usage on schema %I to postgres', wanted.name);
  end loop;
end $$;

-- From PostgreSQL 15 on, only the database's owner may create in `public`. Project files run as `postgres`.
do $$
begin
  grant all on schema public to postgres;
  grant usage on schema public to anon, authenticated, service_role;
  if not pg_catalog.has_schema_privilege('postgres', 'public', 'create') then
    raise exception 'the role % may not grant rights on schema public', current_user
      using errcode = '42501',
        hint = format('Let its owner run: grant all on schema public to %I with grant option;', current_user);
  end if;
end $$;

-- Present in every project upstream. One that the server does not have, or that only a superuser may install, is left
-- out: a project that uses it gets PostgreSQL's own answer.
do $$
declare
  extension text;
begin
  foreach extension in array array['uuid-ossp', 'pgcrypto', 'pg_stat_statements'] loop
    continue when not exists (select from pg_catalog.pg_available_extensions where name = extension);
    begin
      execute format('create extension if not exists %I with schema extensions', extension);
    exception when insufficient_privilege then
      raise warning 'extension %: %', extension, sqlerrm;
    end;
  end loop;
end $$;
