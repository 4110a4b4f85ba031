-- Read by everybody, written by nobody.
alter table clients enable row level security;
grant select on clients to anon, authenticated, service_role;

drop policy if exists "everybody reads" on clients;
create policy "everybody reads" on clients for select to anon, authenticated using (true);
