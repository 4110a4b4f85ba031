alter table public.app_settings enable row level security;
revoke all on public.app_settings from anon, authenticated, service_role;
grant select, insert, update, delete on public.app_settings to authenticated;
grant all on public.app_settings to service_role;

drop policy if exists "administrators read" on public.app_settings;
create policy "administrators read" on public.app_settings
  for select to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators add" on public.app_settings;
create policy "administrators add" on public.app_settings
  for insert to authenticated
  with check ((select public.is_admin()));

drop policy if exists "administrators edit" on public.app_settings;
create policy "administrators edit" on public.app_settings
  for update to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators delete" on public.app_settings;
create policy "administrators delete" on public.app_settings
  for delete to authenticated
  using ((select public.is_admin()));
