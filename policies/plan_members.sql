alter table public.plan_members enable row level security;
revoke all on public.plan_members from anon, authenticated, service_role;
grant select, delete on public.plan_members to authenticated;
-- The server assigns the id: it is the idempotency key of the invitation's mail.
grant insert (plan_id, user_id, email, role, invite_accepted, invite_token) on public.plan_members to authenticated;
-- Acceptance goes through accept_invitation() alone.
grant update (role, updated_at) on public.plan_members to authenticated;
grant all on public.plan_members to service_role;

-- An open invitation holds its token: only those who may send one for the same role see it. A manager who reads the
-- token of an owner's invitation could accept it.
drop policy if exists "members see members, inviters also invitations" on public.plan_members;
create policy "members see members, inviters also invitations" on public.plan_members
  for select to authenticated
  using (
    (invite_accepted and plan_id = any (array(select app_private.my_plans())))
    or plan_id = any (array(select app_private.my_plans('{owner}')))
    or (role <> 'owner' and plan_id = any (array(select app_private.my_plans('{manager}'))))
  );

drop policy if exists "managers invite, owners also owners" on public.plan_members;
create policy "managers invite, owners also owners" on public.plan_members
  for insert to authenticated
  with check (
    not invite_accepted
    and user_id is null
    and (
      plan_id = any (array(select app_private.my_plans('{owner}')))
      or (role <> 'owner' and plan_id = any (array(select app_private.my_plans('{manager}'))))
    )
  );

drop policy if exists "owners change roles" on public.plan_members;
create policy "owners change roles" on public.plan_members
  for update to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner}'))));

drop policy if exists "owners remove members" on public.plan_members;
create policy "owners remove members" on public.plan_members
  for delete to authenticated
  using (plan_id = any (array(select app_private.my_plans('{owner}'))));
