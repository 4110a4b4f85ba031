-- The server writes: a user who could would have a subscription for nothing.
alter table public.user_subscriptions enable row level security;
revoke all on public.user_subscriptions from anon, authenticated, service_role;
grant select on public.user_subscriptions to authenticated;
grant all on public.user_subscriptions to service_role;

drop policy if exists "own subscriptions are visible, all to administrators" on public.user_subscriptions;
create policy "own subscriptions are visible, all to administrators" on public.user_subscriptions
  for select to authenticated
  using (user_id = (select auth.uid()) or (select public.is_admin()));
