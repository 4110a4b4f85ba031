-- Grants and row-level security of realtime.messages are the realtime service's. A plan's members meet on its channel: they see who
-- else is there, and that the team has changed. The page shows presence keys as people, so a member is present as themselves only.

drop policy if exists "members hear their plans' channels" on realtime.messages;
create policy "members hear their plans' channels" on realtime.messages
  for select to authenticated
  using ((select realtime.topic()) = any (array(select 'plan:' || mine.id from app_private.my_plans() as mine (id))));

drop policy if exists "members speak on their plans' channels" on realtime.messages;
create policy "members speak on their plans' channels" on realtime.messages
  for insert to authenticated
  with check (
    (select realtime.topic()) = any (array(select 'plan:' || mine.id from app_private.my_plans() as mine (id)))
    and (
      extension <> 'presence'
      or (select current_setting('realtime.presence_key', true)) = (select auth.uid())::text
    )
  );
