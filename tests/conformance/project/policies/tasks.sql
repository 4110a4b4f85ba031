-- Read by everybody, written by nobody.
alter table tasks enable row level security;
grant select on tasks to anon, authenticated, service_role;

drop policy if exists "everybody reads" on tasks;
create policy "everybody reads" on tasks for select to anon, authenticated using (true);
