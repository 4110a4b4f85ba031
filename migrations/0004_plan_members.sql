-- Who works on a plan, and as what. A row is an invitation until it is accepted; only accepted rows give rights.
create table public.plan_members (
  id uuid primary key default gen_random_uuid(),
  plan_id uuid not null references public.plans (id) on delete cascade,
  user_id uuid references auth.users (id) on delete cascade,
  -- As invited. Null only for an owner who signed up without an address.
  email text check (char_length(email) <= 320 and email ~ '^[^@[:space:]]+@[^@[:space:]]+$'),
  role text not null default 'viewer' check (role in ('owner', 'manager', 'viewer')),
  invite_accepted boolean not null default false,
  -- The secret in the invitation's link; gone once it was used.
  invite_token uuid default gen_random_uuid(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint plan_members_accepted_by_somebody check (invite_accepted = (user_id is not null)),
  constraint plan_members_token_until_accepted check (invite_accepted = (invite_token is null)),
  constraint plan_members_invited_by_email check (invite_accepted or email is not null),
  constraint plan_members_once_per_user unique (plan_id, user_id)
);
comment on table public.plan_members is 'Members of plans and open invitations.';
create unique index plan_members_once_per_email on public.plan_members (plan_id, lower(email));
create unique index plan_members_invite_token on public.plan_members (invite_token);
create index plan_members_user_id on public.plan_members (user_id, plan_id, role) where invite_accepted;

create trigger set_updated_at before update on public.plan_members
  for each row execute function app_private.set_updated_at();

-- The caller's plans, optionally only those where he has one of these roles. Policies write
-- `plan_id = any (array(select app_private.my_plans()))`: computed once per statement, and an index can be used.
-- Definer, because the policies of plan_members ask it too and would call themselves.
create function app_private.my_plans(roles text[] default '{owner,manager,viewer}') returns setof uuid
language sql stable security definer set search_path = '' rows 20 as $$
  select m.plan_id
  from public.plan_members m
  where m.user_id = (select auth.uid()) and m.invite_accepted and m.role = any (roles)
$$;
revoke execute on function app_private.my_plans(text[]) from public;
grant execute on function app_private.my_plans(text[]) to authenticated, service_role;

-- Whoever makes a plan owns it.
create function app_private.make_creator_owner() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token)
  select new.id, u.id, nullif(u.email, ''), 'owner', true, null
  from auth.users u
  where u.id = new.user_id;
  return null;
end $$;
create trigger make_creator_owner after insert on public.plans
  for each row when (new.user_id is not null) execute function app_private.make_creator_owner();

-- A plan always has an owner, and plans.user_id is always one of them. Two owners who leave, or demote each other, at
-- the same moment must not both succeed: each locks the plan first and counts afterwards, with what the other has
-- committed; and as each then writes the plan, a repeatable-read transaction fails rather than count stale rows.
create function app_private.keep_an_owner() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  heir uuid;
begin
  perform from public.plans p where p.id = old.plan_id for no key update;
  if not found then
    return null; -- The plan itself was deleted, its members with it.
  end if;

  select m.user_id into heir
  from public.plan_members m
  join public.plans p on p.id = m.plan_id
  where m.plan_id = old.plan_id and m.role = 'owner' and m.invite_accepted
  order by m.user_id is not distinct from p.user_id desc, m.created_at, m.id
  limit 1;

  if heir is not null then
    update public.plans set user_id = heir where id = old.plan_id;
  elsif exists (select from auth.users u where u.id = old.user_id) then
    raise exception 'Cannot remove the last owner of the plan. Assign another owner first'
      using errcode = 'check_violation', constraint = 'plan_keeps_an_owner', table = 'plan_members', schema = 'public';
  else
    -- The last owner's account was deleted: nobody could ever manage the plan again.
    delete from public.plans where id = old.plan_id;
  end if;
  return null;
end $$;
create constraint trigger plan_keeps_an_owner_on_delete after delete on public.plan_members
  deferrable initially immediate
  for each row when (old.role = 'owner' and old.invite_accepted)
  execute function app_private.keep_an_owner();
create constraint trigger plan_keeps_an_owner_on_update after update on public.plan_members
  deferrable initially immediate
  for each row when (
    old.role = 'owner' and old.invite_accepted
    and (new.role <> 'owner' or not new.invite_accepted or new.plan_id <> old.plan_id or new.user_id <> old.user_id)
  )
  execute function app_private.keep_an_owner();

-- For the app when it finds no row of its own. Argument names are part of the wire.
create function public.get_user_plan_role(plan_id uuid, user_id uuid) returns text
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  caller uuid := (select auth.uid());
begin
  if caller is null then
    return null;
  end if;
  if caller is distinct from get_user_plan_role.user_id
    and not public.is_admin()
    and not exists (select from app_private.my_plans() as mine (id) where mine.id = get_user_plan_role.plan_id)
  then
    return null;
  end if;
  return (
    select m.role
    from public.plan_members m
    where m.plan_id = get_user_plan_role.plan_id and m.user_id = get_user_plan_role.user_id and m.invite_accepted
  );
end $$;
revoke execute on function public.get_user_plan_role(uuid, uuid) from public;
grant execute on function public.get_user_plan_role(uuid, uuid) to authenticated, service_role;

-- Trigger functions are called by their triggers; nobody else has a use for them.
revoke execute on function app_private.set_updated_at(), app_private.make_creator_owner(), app_private.keep_an_owner()
  from public;
