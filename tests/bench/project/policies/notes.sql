-- Private to their owner.
alter table notes enable row level security;
grant select, insert on notes to authenticated, service_role;
drop policy if exists "owners read" on notes;
create policy "owners read" on notes for select to authenticated using (owner_id = (select auth.uid()));
drop policy if exists "owners add" on notes;
create policy "owners add" on notes for insert to authenticated with check (owner_id = (select auth.uid()));

alter table readings enable row level security;
grant select on readings to authenticated, service_role;
drop policy if exists "owners read" on readings;
create policy "owners read" on readings for select to authenticated using (owner_id = (select auth.uid()));
