alter table public.priorities enable row level security;
revoke all on public.priorities from anon, authenticated, service_role;
grant select, delete on public.priorities to authenticated;
grant insert (id, plan_id, title, description) on public.priorities to authenticated;
grant update (title, description, position, updated_at) on public.priorities to authenticated;
grant all on public.priorities to service_role;

drop policy if exists "members read" on public.priorities;
create policy "members read" on public.priorities
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())));

drop policy if exists "owners and managers add" on public.priorities;
create policy "owners and managers add" on public.priorities
  for insert to authenticated
  with check (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers edit" on public.priorities;
create policy "owners and managers edit" on public.priorities
  for update to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers delete" on public.priorities;
create policy "owners and managers delete" on public.priorities
  for delete to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));
