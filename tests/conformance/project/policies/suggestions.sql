-- A letter box: visitors put in, only the service takes out.
alter table suggestions enable row level security;
grant insert on suggestions to anon, authenticated;
grant select, insert, update, delete on suggestions to service_role;

drop policy if exists "everybody suggests" on suggestions;
create policy "everybody suggests" on suggestions for insert to anon, authenticated with check (true);
