-- The project's SQL cannot switch off row-level security on a service's table. `postgres` is a member of
-- supabase_storage_admin and supabase_realtime_admin so that projects can create policies there, and membership also
-- permits `alter table … disable row level security`, which would open every private bucket. The statement fails with
-- the error that it gets where `postgres` does not own the tables.
--
-- Only a superuser may create event triggers. Elsewhere the start of the server restores row-level security
-- (core/src/system_migrations/row_security.rs).

create or replace function basalt.guard_row_security() returns event_trigger
language plpgsql set search_path = '' as $$
declare
  unprotected text;
begin
  -- The server's own login passes, as do the owner of a foreign cluster (oid 10) and a dump that such a login restores:
  -- their scripts may alter a table before they enable row-level security on it. `postgres` never passes, not even while
  -- a project file runs as a superuser or after `set role`.
  if exists (
    select from pg_catalog.pg_roles where rolname = session_user and rolsuper and (rolname <> 'postgres' or oid = 10)
  ) and not exists (
    select from pg_catalog.pg_roles where rolname = current_user and rolname = 'postgres' and oid <> 10
  ) then
    return;
  end if;
  select pg_catalog.format('%s.%s', n.nspname, c.relname) into unprotected
  from pg_catalog.pg_event_trigger_ddl_commands() as command
  join pg_catalog.pg_class c on c.oid = command.objid and command.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname in ('auth', 'storage', 'realtime', 'functions') and c.relowner = n.nspowner
    and c.relkind in ('r', 'p') and not c.relrowsecurity
  limit 1;
  if unprotected is not null then
    raise exception 'must be owner of table %', unprotected using
      errcode = '42501', hint = 'Row-level security stays on for tables of the services. Create policies that allow the access.';
  end if;
end $$;

do $$
begin
  if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
    drop event trigger if exists basalt_guard_row_security;
    create event trigger basalt_guard_row_security on ddl_command_end when tag in ('ALTER TABLE')
      execute function basalt.guard_row_security();
    -- Also under session_replication_role = replica.
    alter event trigger basalt_guard_row_security enable always;
  end if;
end $$;
