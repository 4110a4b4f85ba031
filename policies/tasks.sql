alter table public.tasks enable row level security;
revoke all on public.tasks from anon, authenticated, service_role;
grant select, delete on public.tasks to authenticated;
grant insert (id, priority_id, title, description, measure_success, due_date, responsible_party, responsible_ids, is_completed) on public.tasks to authenticated;
grant update (priority_id, title, description, measure_success, due_date, responsible_party, responsible_ids, is_completed, position, updated_at) on public.tasks to authenticated;
grant all on public.tasks to service_role;

drop policy if exists "members read" on public.tasks;
create policy "members read" on public.tasks
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())));

drop policy if exists "owners and managers add" on public.tasks;
create policy "owners and managers add" on public.tasks
  for insert to authenticated
  with check (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers edit" on public.tasks;
create policy "owners and managers edit" on public.tasks
  for update to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers delete" on public.tasks;
create policy "owners and managers delete" on public.tasks
  for delete to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));
