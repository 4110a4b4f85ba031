alter table public.person_settings enable row level security;
revoke all on public.person_settings from anon, authenticated, service_role;
grant select, update, delete on public.person_settings to authenticated;
grant insert (user_id, time_zone) on public.person_settings to authenticated;
grant all on public.person_settings to service_role;

drop policy if exists "users read their settings" on public.person_settings;
create policy "users read their settings" on public.person_settings
  for select to authenticated
  using (user_id = (select auth.uid()) and (select app_private.has_required_factor()));

drop policy if exists "users add their settings" on public.person_settings;
create policy "users add their settings" on public.person_settings
  for insert to authenticated
  with check (user_id = (select auth.uid()) and (select app_private.has_required_factor()));

drop policy if exists "users change their settings" on public.person_settings;
create policy "users change their settings" on public.person_settings
  for update to authenticated
  using (user_id = (select auth.uid()) and (select app_private.has_required_factor()));

drop policy if exists "users delete their settings" on public.person_settings;
create policy "users delete their settings" on public.person_settings
  for delete to authenticated
  using (user_id = (select auth.uid()) and (select app_private.has_required_factor()));
