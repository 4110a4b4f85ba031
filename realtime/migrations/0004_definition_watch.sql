-- Tells the server at once that tables, rights, policies or publications have changed: subscriptions are checked against them, and
-- changes are sent by them. Only a superuser may create event triggers; elsewhere the server looks every few seconds.

create or replace function realtime.notify_definitions() returns event_trigger
language plpgsql set search_path = '' as $$
begin
  notify basalt_realtime;
end $$;

do $$
begin
  if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
    drop event trigger if exists basalt_realtime_definitions;
    create event trigger basalt_realtime_definitions on ddl_command_end
      when tag in (
        'CREATE PUBLICATION', 'ALTER PUBLICATION', 'DROP PUBLICATION',
        'ALTER TABLE', 'DROP TABLE', 'ALTER SCHEMA', 'DROP SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN',
        'CREATE POLICY', 'ALTER POLICY', 'DROP POLICY', 'GRANT', 'REVOKE'
      )
      execute function realtime.notify_definitions();
  end if;
end $$;
