-- Read by everybody, written by nobody.
alter table task_tags enable row level security;
grant select on task_tags to anon, authenticated, service_role;

drop policy if exists "everybody reads" on task_tags;
create policy "everybody reads" on task_tags for select to anon, authenticated using (true);
