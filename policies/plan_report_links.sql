alter table public.plan_report_links enable row level security;
revoke all on public.plan_report_links from anon, authenticated, service_role;
-- The database makes the token, and a link is never changed: visitors read through get_shared_report().
grant select, delete on public.plan_report_links to authenticated;
grant insert (plan_id, valid_days) on public.plan_report_links to authenticated;
grant all on public.plan_report_links to service_role;

drop policy if exists "owners and managers read" on public.plan_report_links;
create policy "owners and managers read" on public.plan_report_links
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers add" on public.plan_report_links;
create policy "owners and managers add" on public.plan_report_links
  for insert to authenticated
  with check (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers revoke" on public.plan_report_links;
create policy "owners and managers revoke" on public.plan_report_links
  for delete to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));
