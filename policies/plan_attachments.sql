alter table public.plan_attachments enable row level security;
revoke all on public.plan_attachments from anon, authenticated, service_role;
grant select, delete on public.plan_attachments to authenticated;
grant insert (id, plan_id, title, file_url) on public.plan_attachments to authenticated;
grant update (title, updated_at) on public.plan_attachments to authenticated;
grant all on public.plan_attachments to service_role;

drop policy if exists "members read" on public.plan_attachments;
create policy "members read" on public.plan_attachments
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())));

drop policy if exists "owners and managers add" on public.plan_attachments;
create policy "owners and managers add" on public.plan_attachments
  for insert to authenticated
  -- The file lies in the plan's own folder: a link to another plan's file would lead nowhere for those who may not read it,
  -- and deleting the row would delete that file.
  with check (
    plan_id = any (array(select app_private.my_plans('{owner,manager}')))
    and split_part(file_url, '/', 1) = plan_id::text
  );

drop policy if exists "owners and managers edit" on public.plan_attachments;
create policy "owners and managers edit" on public.plan_attachments
  for update to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners and managers delete" on public.plan_attachments;
create policy "owners and managers delete" on public.plan_attachments
  for delete to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner,manager}'))));
