alter table public.plans enable row level security;
revoke all on public.plans from anon, authenticated, service_role;
grant select, delete on public.plans to authenticated;
-- The server assigns the id. Files, upload URLs, the channel and invitation links are keyed by it, and signed URLs outlive the
-- plan: a client that could reuse the id of a deleted plan would inherit them. `user_id` is checked on insert and never updated.
grant insert (user_id, title, description, start_date, estimated_end_date) on public.plans to authenticated;
grant update (title, description, start_date, estimated_end_date, archived_at, updated_at) on public.plans to authenticated;
grant all on public.plans to service_role;

-- `user_id` is asked as well: RETURNING of an insert is judged before the trigger has made the creator a member.
drop policy if exists "members see their plans" on public.plans;
create policy "members see their plans" on public.plans
  for select to authenticated
  using (
    (user_id = (select auth.uid()) and deleted_at is null and (select app_private.has_required_factor()))
    or id = any (array(select app_private.my_plans()))
  );

drop policy if exists "everybody makes plans of his own" on public.plans;
create policy "everybody makes plans of his own" on public.plans
  for insert to authenticated
  with check (user_id = (select auth.uid()) and (select app_private.has_required_factor()));

drop policy if exists "owners and managers edit" on public.plans;
create policy "owners and managers edit" on public.plans
  for update to authenticated
  using (id = any (array(select app_private.my_plans('{owner,manager}'))));

drop policy if exists "owners delete" on public.plans;
create policy "owners delete" on public.plans
  for delete to authenticated
  using (id = any (array(select app_private.my_plans('{owner}'))));
