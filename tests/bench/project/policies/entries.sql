-- Private to their owner.
alter table entries enable row level security;
grant select, insert, update, delete on entries to authenticated, service_role;

drop policy if exists "owners read" on entries;
create policy "owners read" on entries for select to authenticated using (owner_id = (select auth.uid()));
drop policy if exists "owners write" on entries;
create policy "owners write" on entries for all to authenticated
  using (owner_id = (select auth.uid())) with check (owner_id = (select auth.uid()));
grant execute on function count_entries(boolean) to authenticated, service_role;
