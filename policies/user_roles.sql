alter table public.user_roles enable row level security;
revoke all on public.user_roles from anon, authenticated, service_role;
grant select, insert, update, delete on public.user_roles to authenticated;
grant all on public.user_roles to service_role;

drop policy if exists "own roles are visible, all to administrators" on public.user_roles;
create policy "own roles are visible, all to administrators" on public.user_roles
  for select to authenticated
  using (user_id = (select auth.uid()) or (select public.is_admin()));

drop policy if exists "administrators appoint" on public.user_roles;
create policy "administrators appoint" on public.user_roles
  for insert to authenticated
  with check ((select public.is_admin()));

drop policy if exists "administrators change" on public.user_roles;
create policy "administrators change" on public.user_roles
  for update to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators dismiss" on public.user_roles;
create policy "administrators dismiss" on public.user_roles
  for delete to authenticated
  using ((select public.is_admin()));
