-- The link in an invitation's mail holds a token of its own, which only the reader of the mail has: it proves the address. The token in
-- `plan_members`, which inviters copy, proves nothing. Mail tokens are stored hashed and end with the invitation.

alter table public.plan_members add column invited_by uuid references auth.users (id) on delete set null;
alter table public.plan_members alter column invited_by set default auth.uid();
create index plan_members_invited_by on public.plan_members (invited_by);
comment on column public.plan_members.invited_by is 'Who made the invitation; null if unknown.';

-- One row for each attempt to mail an invitation.
create table app_private.invitation_mails (
  id bigint generated always as identity primary key,
  member_id uuid not null references public.plan_members (id) on delete cascade,
  token_hash bytea not null unique,
  created_at timestamptz not null default now(),
  -- The row of the outbox. Null: not queued, because of `refusal`, or because the server stopped meanwhile.
  mail_id bigint,
  refusal text check (char_length(refusal) <= 500)
);
comment on table app_private.invitation_mails is 'Attempts to mail an invitation, with the hash of the token in its link. For the server only.';
create index invitation_mails_member on app_private.invitation_mails (member_id, id);
alter table app_private.invitation_mails enable row level security;
revoke all on app_private.invitation_mails from public;

create function app_private.invitation_token_hash(token text) returns bytea
language sql immutable strict set search_path = '' as $$
  select sha256(convert_to(lower(token), 'UTF8'))
$$;

-- The open invitation of a link. `is_proof`: the token came by mail.
create function app_private.open_invitation(token uuid, plan uuid)
returns table (member_id uuid, is_proof boolean)
language sql stable security definer set search_path = '' rows 1 as $$
  select m.id, m.invite_token is distinct from token
  from public.plan_members m
  where m.plan_id = plan and not m.invite_accepted and m.created_at > now() - interval '14 days'
    and (
      m.invite_token = token
      or m.id in (
        select s.member_id
        from app_private.invitation_mails s
        where s.token_hash = app_private.invitation_token_hash(token::text)
      )
    )
$$;

-- Whether `token` was mailed to `address` with an invitation that is still open.
create function app_private.proves_address(token text, address text) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (
    select
    from app_private.invitation_mails s
    join public.plan_members m on m.id = s.member_id
    where s.token_hash = app_private.invitation_token_hash(token)
      and not m.invite_accepted and m.created_at > now() - interval '14 days' and lower(m.email) = lower(address)
  )
$$;

-- A sign-up that carries the token of a mail needs no second mail: the address is confirmed, and auth answers with a session. The token
-- itself is not stored.
create function app_private.confirm_invited_user() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if new.email_confirmed_at is null and app_private.proves_address(new.raw_user_meta_data ->> 'invitation_token', new.email) then
    new.email_confirmed_at := now();
  end if;
  new.raw_user_meta_data := new.raw_user_meta_data - 'invitation_token';
  return new;
end $$;
create trigger confirm_invited_user before insert on auth.users
  for each row when (new.raw_user_meta_data ? 'invitation_token')
  execute function app_private.confirm_invited_user();

create function app_private.prove_invited_identity() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if app_private.proves_address(new.identity_data ->> 'invitation_token', new.identity_data ->> 'email') then
    new.identity_data := new.identity_data || '{"email_verified": true}';
  end if;
  new.identity_data := new.identity_data - 'invitation_token';
  return new;
end $$;
create trigger prove_invited_identity before insert on auth.identities
  for each row when (new.identity_data ? 'invitation_token')
  execute function app_private.prove_invited_identity();

-- As the mail has it: the account's name, unless it could pass for an address or a link.
create function app_private.inviter_name(metadata jsonb, address text) returns text
language sql immutable set search_path = '' as $$
  select case when name.text = '' or name.text ~ '[@/<>:"[:cntrl:]]' then address else left(name.text, 60) end
  from (
    select btrim(coalesce(nullif(metadata ->> 'organization_name', ''), metadata ->> 'name', '')) as text
  ) as name
$$;

-- As in 0005, also for the token of a mail, and with more of what the invitation is about. Whether the address has an account is shown to the
-- reader of the mail only: others could find out who has one.
drop function public.get_invitation(uuid, uuid);
create function public.get_invitation(token uuid, plan uuid)
returns table (
  plan_title text, role text, email text, inviter text, expires_at timestamptz, is_proof boolean, has_account boolean
)
language sql stable security definer set search_path = '' as $$
  select p.title, m.role, m.email, app_private.inviter_name(u.raw_user_meta_data, u.email),
    m.created_at + interval '14 days', o.is_proof,
    case when o.is_proof then exists (
      select from auth.users a
      where lower(a.email) = lower(m.email) and a.email_confirmed_at is not null and a.deleted_at is null
    ) end
  from app_private.open_invitation(token, plan) o
  join public.plan_members m on m.id = o.member_id
  join public.plans p on p.id = m.plan_id
  left join auth.users u on u.id = m.invited_by
$$;
comment on function public.get_invitation(uuid, uuid) is 'What an open invitation is for; no row when it is unknown, used or expired.';
revoke execute on function public.get_invitation(uuid, uuid) from public;
grant execute on function public.get_invitation(uuid, uuid) to anon, authenticated, service_role;

-- As in 0007; the token of a mail proves the address.
create or replace function public.accept_invitation(token uuid, plan uuid) returns text
language plpgsql security definer set search_path = '' as $$
declare
  caller uuid := (select auth.uid());
  address text;
  is_confirmed boolean;
  is_proven boolean;
  found_by record;
  invited record;
begin
  if caller is null then
    raise exception 'Sign in to accept this invitation' using errcode = '42501';
  end if;

  select * into found_by from app_private.open_invitation(accept_invitation.token, accept_invitation.plan);
  -- Locked: of two acceptances at once, the second finds the invitation used.
  select m.id, m.role, m.email into invited
  from public.plan_members m
  where m.id = found_by.member_id and not m.invite_accepted
  for update;
  if not found then
    raise exception 'This invitation is no longer valid' using errcode = 'PT404',
      hint = 'Ask an owner of the plan for a new one.';
  end if;

  select u.email, u.email_confirmed_at is not null, exists (
    select from auth.identities i
    where i.user_id = u.id and lower(i.identity_data ->> 'email') = lower(u.email)
      and i.identity_data -> 'email_verified' = 'true'
  )
  into address, is_confirmed, is_proven
  from auth.users u where u.id = caller;
  if lower(address) is distinct from lower(invited.email) then
    raise exception 'This invitation is for another e-mail address' using errcode = '42501',
      hint = 'Sign in with the address it was sent to.';
  end if;
  if is_confirmed and not is_proven and found_by.is_proof then
    update auth.identities i
    set identity_data = i.identity_data || '{"email_verified": true}', updated_at = now()
    where i.user_id = caller and lower(i.identity_data ->> 'email') = lower(address);
    is_proven := true;
  end if;
  if not (is_confirmed and is_proven) then
    raise exception 'Confirm your e-mail address first' using errcode = '42501',
      hint = 'Sign in once by a link that is mailed to the address (signInWithOtp), then accept the invitation again.';
  end if;
  if exists (select from public.plan_members m where m.plan_id = accept_invitation.plan and m.user_id = caller) then
    raise exception 'You are a member of this plan already' using errcode = '23505';
  end if;

  update public.plan_members m
  set user_id = caller, invite_accepted = true, invite_token = null
  where m.id = invited.id;
  delete from app_private.invitation_mails s where s.member_id = invited.id;
  return invited.role;
end $$;

-- For the server, which mails invitations: a new token for the link. The last ten attempts are kept.
create function public.begin_invitation_mail(member_id uuid)
returns table (attempt_id bigint, token uuid, expires_at timestamptz)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  made uuid := gen_random_uuid();
  made_id bigint;
begin
  insert into app_private.invitation_mails (member_id, token_hash)
  select m.id, app_private.invitation_token_hash(made::text)
  from public.plan_members m
  where m.id = begin_invitation_mail.member_id and not m.invite_accepted
  returning id into made_id;
  if made_id is null then
    return;
  end if;
  delete from app_private.invitation_mails s
  where s.member_id = begin_invitation_mail.member_id and s.id <= (
    select t.id
    from app_private.invitation_mails t
    where t.member_id = begin_invitation_mail.member_id
    order by t.id desc
    offset 10 limit 1
  );
  return query
  select made_id, made, m.created_at + interval '14 days'
  from public.plan_members m
  where m.id = begin_invitation_mail.member_id;
end $$;
revoke execute on function public.begin_invitation_mail(uuid) from public;
grant execute on function public.begin_invitation_mail(uuid) to service_role;

create function public.note_invitation_mail(attempt_id bigint, mail_id bigint, refusal text) returns void
language sql security definer set search_path = '' as $$
  update app_private.invitation_mails s
  set mail_id = note_invitation_mail.mail_id, refusal = left(note_invitation_mail.refusal, 500)
  where s.id = note_invitation_mail.attempt_id
$$;
revoke execute on function public.note_invitation_mail(bigint, bigint, text) from public;
grant execute on function public.note_invitation_mail(bigint, bigint, text) to service_role;

-- How the newest mail of each open invitation fared, for those who see the invitation: `sending`, `waiting` (an attempt failed, another
-- follows), `sent`, `failed`. No row: no mail was tried, or it is too long ago to be known.
create function public.get_invitation_mails(plan uuid)
returns table (member_id uuid, state text, mailed_at timestamptz)
language sql stable security definer set search_path = '' as $$
  with newest as (
    select distinct on (s.member_id) s.member_id, s.mail_id, s.created_at
    from app_private.invitation_mails s
    join public.plan_members m on m.id = s.member_id
    where m.plan_id = plan and not m.invite_accepted
      and (
        plan = any (array(select app_private.my_plans('{owner}')))
        or (m.role <> 'owner' and plan = any (array(select app_private.my_plans('{manager}'))))
      )
    -- What was refused changes nothing about a mail that went out before.
    order by s.member_id, s.mail_id is null, s.id desc
  ),
  known as (
    select * from functions.mail_states(array(select n.mail_id from newest n where n.mail_id is not null))
  )
  select n.member_id,
    case
      when n.mail_id is null and n.created_at > now() - interval '1 minute' then 'sending'
      when n.mail_id is null or k.state = 'dead' then 'failed'
      when k.state = 'queued' then case when k.has_failed then 'waiting' else 'sending' end
      else 'sent'
    end,
    n.created_at
  from newest n
  left join known k on k.id = n.mail_id
  where n.mail_id is null or k.id is not null
$$;
revoke execute on function public.get_invitation_mails(uuid) from public;
grant execute on function public.get_invitation_mails(uuid) to authenticated;

revoke execute on function app_private.inviter_name(jsonb, text), app_private.invitation_token_hash(text), app_private.open_invitation(uuid, uuid),
  app_private.proves_address(text, text), app_private.confirm_invited_user(), app_private.prove_invited_identity() from public;

-- For a person whose plan went from the screen: whether it was deleted, or they were taken from its team. Ids are not guessable.
create function public.plan_exists(plan uuid) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from public.plans p where p.id = plan)
$$;
revoke execute on function public.plan_exists(uuid) from public;
grant execute on function public.plan_exists(uuid) to authenticated;

-- The mail now says who invites and how long the link is good for, below the template's text.
update public.app_settings
set value = jsonb_set(value, '{body}', to_jsonb(
  '<p>{{inviterEmail}} has invited you to work on the strategic plan <strong>{{planTitle}}</strong> as {{role}}.</p><p><a class="button" href="{{inviteUrl}}">Accept the invitation</a></p>'::text
))
where key = 'invite_email_template'
  and value ->> 'body' = '<p>Hello,</p><p>{{inviterEmail}} has invited you to work on the strategic plan <strong>{{planTitle}}</strong> as {{role}}.</p><p><a href="{{inviteUrl}}">Accept the invitation</a></p><p>The link is good for 14 days. If you did not expect it, you can ignore this message.</p>';
