alter table public.organizations enable row level security;
revoke all on public.organizations from anon, authenticated, service_role;
grant select, delete on public.organizations to authenticated;
grant insert (id, plan_id, name, ein, mission, vision, "values", logo_url, updated_at) on public.organizations to authenticated;
grant update (plan_id, name, ein, mission, vision, "values", logo_url, updated_at) on public.organizations to authenticated;
grant all on public.organizations to service_role;

drop policy if exists "members read" on public.organizations;
create policy "members read" on public.organizations
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())));

drop policy if exists "owners and managers add" on public.organizations;
create policy "owners and managers add" on public.organizations
  for insert to authenticated
  with check (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers edit" on public.organizations;
create policy "owners and managers edit" on public.organizations
  for update to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers delete" on public.organizations;
create policy "owners and managers delete" on public.organizations
  for delete to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));
