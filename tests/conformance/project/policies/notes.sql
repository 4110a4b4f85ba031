-- Private to their owner. Visitors may ask and see nothing.
alter table notes enable row level security;
grant select on notes to anon;
grant select, insert, update, delete on notes to authenticated, service_role;

drop policy if exists "owners read" on notes;
create policy "owners read" on notes for select to authenticated using (owner_id = (select auth.uid()));
drop policy if exists "owners add" on notes;
create policy "owners add" on notes for insert to authenticated with check (owner_id = (select auth.uid()));
drop policy if exists "owners change" on notes;
create policy "owners change" on notes for update to authenticated
  using (owner_id = (select auth.uid())) with check (owner_id = (select auth.uid()));
drop policy if exists "owners delete" on notes;
create policy "owners delete" on notes for delete to authenticated using (owner_id = (select auth.uid()));
