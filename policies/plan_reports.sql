alter table public.plan_reports enable row level security;
revoke all on public.plan_reports from anon, authenticated, service_role;
grant select on public.plan_reports to authenticated;
grant insert (plan_id, first_day, last_day, time_zone, excluded_priorities, comment) on public.plan_reports to authenticated;
grant update (first_day, last_day, time_zone, excluded_priorities, comment) on public.plan_reports to authenticated;
grant all on public.plan_reports to service_role;

drop policy if exists "members read" on public.plan_reports;
create policy "members read" on public.plan_reports
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())));

drop policy if exists "owners and managers add" on public.plan_reports;
create policy "owners and managers add" on public.plan_reports
  for insert to authenticated
  with check (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers edit" on public.plan_reports;
create policy "owners and managers edit" on public.plan_reports
  for update to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));
