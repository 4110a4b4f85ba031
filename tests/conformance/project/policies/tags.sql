-- Read by everybody, written by nobody.
alter table tags enable row level security;
grant select on tags to anon, authenticated, service_role;

drop policy if exists "everybody reads" on tags;
create policy "everybody reads" on tags for select to anon, authenticated using (true);
