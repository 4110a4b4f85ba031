-- What the invitation screen calls. The token is a secret that came by mail; it is good for 14 days and for the
-- invited address only.

create function public.get_invitation(token uuid, plan uuid)
returns table (plan_title text, role text, email text)
language sql stable security definer set search_path = '' as $$
  select p.title, m.role, m.email
  from public.plan_members m
  join public.plans p on p.id = m.plan_id
  where m.invite_token = token and m.plan_id = plan
    and not m.invite_accepted and m.created_at > now() - interval '14 days'
$$;
comment on function public.get_invitation(uuid, uuid) is 'What an open invitation is for; no row when it is unknown, used or expired.';
revoke execute on function public.get_invitation(uuid, uuid) from public;
grant execute on function public.get_invitation(uuid, uuid) to anon, authenticated, service_role;

-- Answers the role that the caller now has.
create function public.accept_invitation(token uuid, plan uuid) returns text
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
    raise exception 'This invitation is no longer valid' using errcode = 'P0002',
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
revoke execute on function public.accept_invitation(uuid, uuid) from public;
grant execute on function public.accept_invitation(uuid, uuid) to authenticated, service_role;
