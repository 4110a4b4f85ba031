alter table public.plan_activity enable row level security;
revoke all on public.plan_activity from anon, authenticated, service_role;
-- Triggers write it.
grant select on public.plan_activity to authenticated;
grant all on public.plan_activity to service_role;

drop policy if exists "members read 90 days" on public.plan_activity;
create policy "members read 90 days" on public.plan_activity
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())) and created_at > now() - interval '90 days');
