-- Read by everybody, written by nobody.
alter table samples enable row level security;
grant select on samples to anon, authenticated, service_role;

drop policy if exists "everybody reads" on samples;
create policy "everybody reads" on samples for select to anon, authenticated using (true);
