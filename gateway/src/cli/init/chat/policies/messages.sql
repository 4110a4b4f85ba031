-- A new table grants nothing. This file runs again whenever it changes.

alter table public.messages enable row level security;
revoke all on public.messages from anon, authenticated, service_role;
grant select, delete on public.messages to authenticated;
-- The author's name and id are the token's, not the page's.
grant insert (body) on public.messages to authenticated;
grant all on public.messages to service_role;

drop policy if exists "guests read every message" on public.messages;
create policy "guests read every message" on public.messages
  for select to authenticated
  using (true);

drop policy if exists "guests write as themselves" on public.messages;
create policy "guests write as themselves" on public.messages
  for insert to authenticated
  with check (user_id = (select auth.uid()));

drop policy if exists "guests delete their own messages" on public.messages;
create policy "guests delete their own messages" on public.messages
  for delete to authenticated
  using (user_id = (select auth.uid()));
