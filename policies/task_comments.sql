alter table public.task_comments enable row level security;
revoke all on public.task_comments from anon, authenticated, service_role;
grant select, delete on public.task_comments to authenticated;
-- The author is the caller: the column's default, which clients may repeat.
grant insert (id, task_id, author_id, body, mentions) on public.task_comments to authenticated;
grant update (body, mentions, updated_at) on public.task_comments to authenticated;
grant all on public.task_comments to service_role;

drop policy if exists "members read" on public.task_comments;
create policy "members read" on public.task_comments
  for select to authenticated
  using (plan_id = any (array(select app_private.my_plans())));

drop policy if exists "owners and managers comment" on public.task_comments;
create policy "owners and managers comment" on public.task_comments
  for insert to authenticated
  with check (author_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "authors edit" on public.task_comments;
create policy "authors edit" on public.task_comments
  for update to authenticated
  using (author_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "authors and owners delete" on public.task_comments;
create policy "authors and owners delete" on public.task_comments
  for delete to authenticated
  using (
    plan_id = any (array(select app_private.my_plans('{owner}')))
    or (author_id = (select auth.uid()) and plan_id = any (array(select app_private.my_plans('{manager}'))))
  );
