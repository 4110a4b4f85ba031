-- An invitation that is unknown, used or expired is no fault of the server's: 404 in the place of P0002, which is 500.

create or replace function public.accept_invitation(token uuid, plan uuid) returns text
language plpgsql security definer set search_path = '' as $$
declare
  caller uuid := (select auth.uid());
  confirmed text;
  invited record;
begin
  if caller is null then
    raise exception 'Sign in to accept this invitation' using errcode = '42501';
  end if;

  -- Locked: of two acceptances at once, the second finds the invitation used.
  select m.id, m.role, m.email into invited
  from public.plan_members m
  where m.invite_token = accept_invitation.token and m.plan_id = accept_invitation.plan
    and not m.invite_accepted and m.created_at > now() - interval '14 days'
  for update;
  if not found then
    raise exception 'This invitation is no longer valid' using errcode = 'PT404',
      hint = 'Ask an owner of the plan for a new one.';
  end if;

  select u.email into confirmed from auth.users u where u.id = caller and u.email_confirmed_at is not null;
  if lower(confirmed) is distinct from lower(invited.email) then
    raise exception 'This invitation is for another e-mail address' using errcode = '42501',
      hint = 'Sign in with the address it was sent to.';
  end if;
  if exists (select from public.plan_members m where m.plan_id = accept_invitation.plan and m.user_id = caller) then
    raise exception 'You are a member of this plan already' using errcode = '23505';
  end if;

  update public.plan_members m
  set user_id = caller, invite_accepted = true, invite_token = null
  where m.id = invited.id;
  return invited.role;
end $$;
