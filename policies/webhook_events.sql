-- The server writes.
alter table public.webhook_events enable row level security;
revoke all on public.webhook_events from anon, authenticated, service_role;
grant select on public.webhook_events to authenticated;
grant all on public.webhook_events to service_role;

drop policy if exists "administrators read" on public.webhook_events;
create policy "administrators read" on public.webhook_events
  for select to authenticated
  using ((select public.is_admin()));
