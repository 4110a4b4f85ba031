-- Read by everybody, written by nobody.
alter table profiles enable row level security;
grant select on profiles to anon, authenticated, service_role;

drop policy if exists "everybody reads" on profiles;
create policy "everybody reads" on profiles for select to anon, authenticated using (true);
