-- The services' tables and functions are out of the project's reach. `postgres` is a member of the roles that own schemas
-- storage and realtime, because PostgreSQL requires that for creating policies there; membership also permits to alter,
-- drop or take over what those roles own. Such statements fail as they do on Supabase, where `postgres` is no member.
-- What projects do still works: policies, triggers and indexes on the tables, and objects of their own in the schemas.
--
-- Only a superuser may create event triggers. Elsewhere the start of the server reports a changed owner.

-- What the services own, by name: after a statement that drops or takes over a table, the catalog no longer tells.
create table basalt.service_objects (
  schema_name text not null,
  identity text not null,
  kind text not null check (kind in ('table', 'function')),
  primary key (schema_name, identity, kind)
);
alter table basalt.service_objects enable row level security;

-- Called at each start, after the services' migrations.
create function basalt.record_service_objects() returns void
language sql set search_path = '' as $$
  insert into basalt.service_objects (schema_name, identity, kind)
  select n.nspname, pg_catalog.format('%I.%I', n.nspname, c.relname), 'table'
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname in ('auth', 'storage', 'realtime', 'functions', 'basalt') and c.relowner = n.nspowner
    -- Partitions come and go.
    and c.relkind in ('r', 'p') and not c.relispartition
  union all
  select n.nspname, (pg_catalog.pg_identify_object('pg_catalog.pg_proc'::pg_catalog.regclass, p.oid, 0)).identity, 'function'
  from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where n.nspname in ('auth', 'storage', 'realtime', 'functions', 'basalt') and p.proowner = n.nspowner
  on conflict do nothing
$$;

-- Whether the statement comes from the server or from a superuser's own login, and not from `postgres`, which is never
-- exempt: not while a project file runs as a superuser, and not after `set role`. The guards run as their owner, so
-- current_user does not tell.
create function basalt.is_servers_statement() returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from pg_catalog.pg_roles where rolname = session_user and rolsuper and (rolname <> 'postgres' or oid = 10)
  ) and not exists (
    select from pg_catalog.pg_roles where rolname = current_setting('role') and rolname = 'postgres' and oid <> 10
  )
$$;

create function basalt.guard_service_objects() returns event_trigger
language plpgsql security definer set search_path = '' as $$
declare
  object record;
  -- Migrations enable row-level security on these tables, where it is on already. What else they say of a table counts.
  remaining text := regexp_replace(current_query(),
    'alter\s+table\s+(if\s+exists\s+)?(only\s+)?[\w."]+\s+enable\s+row\s+level\s+security', '', 'gi');
begin
  if basalt.is_servers_statement() then
    return;
  end if;
  select o.kind, o.identity into object
  from pg_catalog.pg_event_trigger_ddl_commands() as command
  join basalt.service_objects o on o.schema_name = command.schema_name and o.identity = command.object_identity
    and o.kind = command.object_type
  where o.kind <> 'table' or remaining = current_query()
    or remaining ~* format('alter\s+table\s+[^;]*\m%s\M', split_part(o.identity, '.', 2))
  limit 1;
  if object is not null then
    raise exception 'must be owner of % %', object.kind, object.identity using
      errcode = '42501', hint = 'It belongs to a service. Policies, triggers and indexes on its tables are allowed.';
  end if;
end $$;

create function basalt.guard_service_objects_drop() returns event_trigger
language plpgsql security definer set search_path = '' as $$
declare
  object record;
begin
  if basalt.is_servers_statement() then
    return;
  end if;
  select o.kind, o.identity into object
  from pg_catalog.pg_event_trigger_dropped_objects() as dropped
  join basalt.service_objects o on o.schema_name = dropped.schema_name and o.identity = dropped.object_identity
    and o.kind = dropped.object_type
  limit 1;
  if object is not null then
    raise exception 'must be owner of % %', object.kind, object.identity using
      errcode = '42501', hint = 'It belongs to a service, which does not work without it.';
  end if;
end $$;
revoke all on all functions in schema basalt from public;

do $$
begin
  if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
    create event trigger basalt_guard_service_objects on ddl_command_end
      when tag in ('ALTER TABLE', 'CREATE FUNCTION', 'ALTER FUNCTION', 'CREATE RULE')
      execute function basalt.guard_service_objects();
    create event trigger basalt_guard_service_objects_drop on sql_drop
      execute function basalt.guard_service_objects_drop();
    -- Also under session_replication_role = replica.
    alter event trigger basalt_guard_service_objects enable always;
    alter event trigger basalt_guard_service_objects_drop enable always;
  end if;
end $$;
