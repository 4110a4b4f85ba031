alter table public.subscription_prompt enable row level security;
revoke all on public.subscription_prompt from anon, authenticated, service_role;
grant select on public.subscription_prompt to anon, authenticated;
grant insert, update, delete on public.subscription_prompt to authenticated;
grant all on public.subscription_prompt to service_role;

drop policy if exists "everyone reads" on public.subscription_prompt;
create policy "everyone reads" on public.subscription_prompt
  for select to anon, authenticated
  using (true);

drop policy if exists "administrators add" on public.subscription_prompt;
create policy "administrators add" on public.subscription_prompt
  for insert to authenticated
  with check ((select public.is_admin()));

drop policy if exists "administrators edit" on public.subscription_prompt;
create policy "administrators edit" on public.subscription_prompt
  for update to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators delete" on public.subscription_prompt;
create policy "administrators delete" on public.subscription_prompt
  for delete to authenticated
  using ((select public.is_admin()));
