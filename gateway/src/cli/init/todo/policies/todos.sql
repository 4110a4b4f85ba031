-- A new table grants nothing. This file runs again whenever it changes.

alter table public.todos enable row level security;
revoke all on public.todos from anon, authenticated, service_role;
grant select, insert, update, delete on public.todos to authenticated;
grant all on public.todos to service_role;

drop policy if exists "people read their own todos" on public.todos;
create policy "people read their own todos" on public.todos
  for select to authenticated
  using (user_id = (select auth.uid()));

drop policy if exists "people add their own todos" on public.todos;
create policy "people add their own todos" on public.todos
  for insert to authenticated
  with check (user_id = (select auth.uid()));

drop policy if exists "people change their own todos" on public.todos;
create policy "people change their own todos" on public.todos
  for update to authenticated
  using (user_id = (select auth.uid()))
  with check (user_id = (select auth.uid()));

drop policy if exists "people delete their own todos" on public.todos;
create policy "people delete their own todos" on public.todos
  for delete to authenticated
  using (user_id = (select auth.uid()));
