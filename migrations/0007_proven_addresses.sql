-- An invitation is for who reads the mail that it came in. That an address is confirmed does not say so where sign-ups are
-- confirmed without mail; the identity does: auth sets its `email_verified` when a code or a link from a mail was used,
-- or when an administrator vouched for the address. A client cannot write it.

-- An invitation that becomes one for an owner gets a new token: managers may have read the old one.
create function app_private.renew_owner_token() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.invite_token := gen_random_uuid();
  return new;
end $$;
revoke execute on function app_private.renew_owner_token() from public;
create trigger renew_owner_token before update of role on public.plan_members
  for each row when (new.role = 'owner' and old.role <> 'owner' and not new.invite_accepted)
  execute function app_private.renew_owner_token();

-- As in 0006, and for proven addresses only.
create or replace function public.accept_invitation(token uuid, plan uuid) returns text
language plpgsql security definer set search_path = '' as $$
declare
  caller uuid := (select auth.uid());
  address text;
  is_proven boolean;
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

  select u.email, u.email_confirmed_at is not null and exists (
    select from auth.identities i
    where i.user_id = u.id and lower(i.identity_data ->> 'email') = lower(u.email)
      and i.identity_data -> 'email_verified' = 'true'
  )
  into address, is_proven
  from auth.users u where u.id = caller;
  if lower(address) is distinct from lower(invited.email) then
    raise exception 'This invitation is for another e-mail address' using errcode = '42501',
      hint = 'Sign in with the address it was sent to.';
  end if;
  if not is_proven then
    raise exception 'Confirm your e-mail address first' using errcode = '42501',
      hint = 'Sign in once by a link that is mailed to the address (signInWithOtp), then accept the invitation again.';
  end if;
  if exists (select from public.plan_members m where m.plan_id = accept_invitation.plan and m.user_id = caller) then
    raise exception 'You are a member of this plan already' using errcode = '23505';
  end if;

  update public.plan_members m
  set user_id = caller, invite_accepted = true, invite_token = null
  where m.id = invited.id;
  return invited.role;
end $$;
