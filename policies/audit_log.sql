alter table public.audit_log enable row level security;
revoke all on public.audit_log from anon, authenticated, service_role;
grant select on public.audit_log to authenticated;
-- Nothing is ever changed or deleted.
grant select, insert on public.audit_log to service_role;

drop policy if exists "administrators read" on public.audit_log;
create policy "administrators read" on public.audit_log
  for select to authenticated
  using ((select public.is_admin()));
