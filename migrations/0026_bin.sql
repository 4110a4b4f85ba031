-- A deleted plan stays in the bin for 30 days, from where its owners restore it. Nothing of it is visible meanwhile: every policy asks
-- my_plans(), which leaves it out.

alter table public.plans add column deleted_at timestamptz;
comment on column public.plans.deleted_at is 'When an owner moved it to the bin; null for a plan in use.';
create index plans_deleted_at on public.plans (id, deleted_at) where deleted_at is not null;

create or replace function app_private.my_plans(roles text[] default '{owner,manager,viewer}') returns setof uuid
language sql stable security definer set search_path = '' rows 20 as $$
  select m.plan_id
  from public.plan_members m
  where m.user_id = (select auth.uid()) and m.invite_accepted and m.role = any (roles)
    and (select app_private.has_required_factor())
    and not exists (select from public.plans p where p.id = m.plan_id and p.deleted_at is not null)
$$;

-- The same for plans in the bin.
create function app_private.my_deleted_plans() returns setof uuid
language sql stable security definer set search_path = '' rows 5 as $$
  select m.plan_id
  from public.plan_members m
  join public.plans p on p.id = m.plan_id
  where m.user_id = (select auth.uid()) and m.invite_accepted and m.role = 'owner' and p.deleted_at is not null
    and (select app_private.has_required_factor())
$$;

-- Pages that show the plan ask again who may see it. Row changes do not reach them: the changed row is hidden from its members.
create function app_private.announce_plan(plan uuid) returns void
language sql security definer set search_path = '' as $$
  select realtime.send('{}', 'team', 'plan:' || plan, true)
$$;

create function public.move_plan_to_bin(plan uuid) returns setof uuid
language plpgsql security definer set search_path = '' as $$
begin
  if plan is null or plan <> all (array(select app_private.my_plans('{owner}'))) then return; end if;
  update public.plans p set deleted_at = now() where p.id = plan and p.deleted_at is null;
  if found then
    perform app_private.announce_plan(plan);
    return next plan;
  end if;
end $$;
comment on function public.move_plan_to_bin is 'Moves a plan of the caller to the bin for 30 days; no row if the caller does not own it.';

create function public.restore_plan(plan uuid) returns setof uuid
language plpgsql security definer set search_path = '' as $$
declare
  owner uuid;
  allowed record;
begin
  if plan is null or plan <> all (array(select app_private.my_deleted_plans())) then return; end if;
  select p.user_id into owner from public.plans p where p.id = plan;
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of plans ' || owner::text, 0));
  select * into allowed from app_private.limits_of(owner);
  if (select count(*) from public.plans p where p.user_id = owner and p.deleted_at is null) >= allowed.max_plans then
    raise exception using
      errcode = 'check_violation', constraint = 'limit_of_plans',
      message = pg_catalog.format('Your subscription (%s) includes %s %s.', allowed.plan_name, allowed.max_plans,
        case allowed.max_plans when 1 then 'plan' else 'plans' end),
      hint = 'Upgrade your subscription, or delete another plan.';
  end if;
  update public.plans p set deleted_at = null where p.id = plan and p.deleted_at is not null;
  if found then
    perform app_private.announce_plan(plan);
    return next plan;
  end if;
end $$;
comment on function public.restore_plan is 'Takes a plan of the caller out of the bin.';

create function public.delete_plan_for_good(plan uuid) returns setof uuid
language sql security definer set search_path = '' as $$
  delete from public.plans p where p.id = plan and p.id = any (array(select app_private.my_deleted_plans())) returning p.id
$$;
comment on function public.delete_plan_for_good is 'Deletes a plan of the caller that is in the bin, with its files.';

create function public.get_deleted_plans()
returns table (id uuid, title text, deleted_at timestamptz, deleted_for_good_at timestamptz)
language sql stable security definer set search_path = '' as $$
  select p.id, p.title, p.deleted_at, p.deleted_at + interval '30 days'
  from public.plans p
  where p.id = any (array(select app_private.my_deleted_plans()))
  order by p.deleted_at desc, p.id
  limit 100
$$;
comment on function public.get_deleted_plans is 'The caller''s plans in the bin.';

-- For the server's job; a part at a time, so that no transaction gets long.
create function app_private.purge_deleted_plans() returns bigint
language sql security definer set search_path = '' as $$
  with purged as (
    delete from public.plans p
    where p.id in (
      select d.id from public.plans d where d.deleted_at < now() - interval '30 days' order by d.deleted_at limit 20 for update skip locked
    )
    returning p.id
  )
  select count(*) from purged
$$;
revoke execute on function app_private.my_deleted_plans(), app_private.announce_plan(uuid), app_private.purge_deleted_plans() from public;
revoke execute on function public.move_plan_to_bin(uuid), public.restore_plan(uuid), public.delete_plan_for_good(uuid),
  public.get_deleted_plans() from public, anon;
grant execute on function public.move_plan_to_bin(uuid), public.restore_plan(uuid), public.delete_plan_for_good(uuid),
  public.get_deleted_plans() to authenticated;

-- What is in the bin does not count as a plan of the subscription. Its files do, until it is deleted for good.
create or replace function app_private.limit_plans() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  owner uuid;
  allowed record;
begin
  if (select auth.uid()) is null then return null; end if;
  for owner in select distinct a.user_id from added a where a.user_id is not null order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of plans ' || owner::text, 0));
    select * into allowed from app_private.limits_of(owner);
    if (select count(*) from public.plans p where p.user_id = owner and p.deleted_at is null) > allowed.max_plans then
      raise exception using
        errcode = 'check_violation', constraint = 'limit_of_plans',
        message = pg_catalog.format('Your subscription (%s) includes %s %s.', allowed.plan_name, allowed.max_plans,
          case allowed.max_plans when 1 then 'plan' else 'plans' end),
        hint = 'Upgrade your subscription, or delete a plan.';
    end if;
  end loop;
  return null;
end $$;
create or replace function public.get_my_limits()
returns table (plan_name text, plans bigint, max_plans integer, max_members integer, bytes bigint, max_bytes bigint)
language sql stable security definer set search_path = '' as $$
  select l.plan_name,
    (select count(*) from public.plans p where p.user_id = (select auth.uid()) and p.deleted_at is null), l.max_plans, l.max_members,
    app_private.bytes_of((select auth.uid())), l.max_bytes
  from app_private.limits_of((select auth.uid())) l
  where (select auth.uid()) is not null and app_private.has_required_factor()
$$;

-- A plan in the bin is deleted for its members, and nobody joins it.
create or replace function public.plan_exists(plan uuid) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from public.plans p where p.id = plan and p.deleted_at is null)
$$;
create or replace function app_private.open_invitation(token uuid, plan uuid)
returns table (member_id uuid, is_proof boolean)
language sql stable security definer set search_path = '' rows 1 as $$
  select m.id, m.invite_token is distinct from token
  from public.plan_members m
  join public.plans p on p.id = m.plan_id and p.deleted_at is null
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
