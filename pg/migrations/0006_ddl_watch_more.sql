-- What the watch of 0003 did not see though `rest` reads it: casts and domains (representations), aggregates (media
-- handlers), indexes (conflict targets), and what comes with an extension. `ALTER ROUTINE` is a function's tag too.

create or replace function extensions.pgrst_ddl_watch() returns event_trigger
language plpgsql set search_path = '' as $$
begin
  if exists (
    select from pg_catalog.pg_event_trigger_ddl_commands() as command
    where command.command_tag in (
        'CREATE SCHEMA', 'ALTER SCHEMA',
        'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE',
        'CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE',
        'CREATE VIEW', 'ALTER VIEW',
        'CREATE MATERIALIZED VIEW', 'ALTER MATERIALIZED VIEW',
        'CREATE FUNCTION', 'ALTER FUNCTION', 'ALTER ROUTINE',
        'CREATE AGGREGATE', 'ALTER AGGREGATE',
        'CREATE TRIGGER',
        'CREATE TYPE', 'ALTER TYPE',
        'CREATE DOMAIN', 'ALTER DOMAIN',
        'CREATE CAST',
        'CREATE INDEX', 'ALTER INDEX',
        'CREATE RULE',
        'CREATE EXTENSION', 'ALTER EXTENSION',
        'COMMENT'
      )
      and command.schema_name is distinct from 'pg_temp'
  ) then
    notify pgrst, 'reload schema';
  end if;
end $$;

create or replace function extensions.pgrst_drop_watch() returns event_trigger
language plpgsql set search_path = '' as $$
begin
  if exists (
    select from pg_catalog.pg_event_trigger_dropped_objects() as dropped
    where dropped.object_type in (
        'schema', 'table', 'foreign table', 'view', 'materialized view', 'function', 'aggregate', 'trigger', 'type',
        'domain constraint', 'cast', 'index', 'rule', 'extension'
      )
      and not dropped.is_temporary
  ) then
    notify pgrst, 'reload schema';
  end if;
end $$;
