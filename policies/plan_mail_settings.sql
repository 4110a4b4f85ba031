alter table public.plan_mail_settings enable row level security;
revoke all on public.plan_mail_settings from anon, authenticated, service_role;
grant select, update, delete on public.plan_mail_settings to authenticated;
grant insert (user_id, plan_id, digest, reminders, mentions) on public.plan_mail_settings to authenticated;
grant all on public.plan_mail_settings to service_role;

-- Members decide for themselves, and only about plans that they see.
drop policy if exists "members read their own" on public.plan_mail_settings;
create policy "members read their own" on public.plan_mail_settings
  for select to authenticated
  using (user_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans())));

drop policy if exists "members add their own" on public.plan_mail_settings;
create policy "members add their own" on public.plan_mail_settings
  for insert to authenticated
  with check (user_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans())));

drop policy if exists "members change their own" on public.plan_mail_settings;
create policy "members change their own" on public.plan_mail_settings
  for update to authenticated
  using (user_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans())));

drop policy if exists "members delete their own" on public.plan_mail_settings;
create policy "members delete their own" on public.plan_mail_settings
  for delete to authenticated
  using (user_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans())));
