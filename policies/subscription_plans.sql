alter table public.subscription_plans enable row level security;
revoke all on public.subscription_plans from anon, authenticated, service_role;
grant select on public.subscription_plans to anon, authenticated;
grant insert, update, delete on public.subscription_plans to authenticated;
grant all on public.subscription_plans to service_role;

drop policy if exists "what is for sale is public" on public.subscription_plans;
create policy "what is for sale is public" on public.subscription_plans
  for select to anon, authenticated
  using (active or (select public.is_admin()));

drop policy if exists "administrators add" on public.subscription_plans;
create policy "administrators add" on public.subscription_plans
  for insert to authenticated
  with check ((select public.is_admin()));

drop policy if exists "administrators edit" on public.subscription_plans;
create policy "administrators edit" on public.subscription_plans
  for update to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators delete" on public.subscription_plans;
create policy "administrators delete" on public.subscription_plans
  for delete to authenticated
  using ((select public.is_admin()));
