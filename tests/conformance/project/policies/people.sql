-- Read by everybody, written by nobody.
alter table people enable row level security;
grant select on people to anon, authenticated, service_role;

drop policy if exists "everybody reads" on people;
create policy "everybody reads" on people for select to anon, authenticated using (true);
