-- Read by everybody, written by nobody.
alter table projects enable row level security;
grant select on projects to anon, authenticated, service_role;

drop policy if exists "everybody reads" on projects;
create policy "everybody reads" on projects for select to anon, authenticated using (true);
