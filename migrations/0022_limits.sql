-- What a subscription includes: how many plans, people on each plan, and bytes of files. Null means no limit.

alter table public.subscription_plans
  add column max_plans integer,
  add column max_members integer,
  add column max_bytes bigint,
  -- The plan of users without a subscription.
  add column is_free boolean not null default false,
  add constraint subscription_plans_limits_are_positive check (max_plans >= 1 and max_members >= 1 and max_bytes >= 0);
comment on column public.subscription_plans.max_plans is 'Plans that a subscriber may own; null: no limit.';
comment on column public.subscription_plans.max_members is 'People on each plan, open invitations included; null: no limit.';
comment on column public.subscription_plans.max_bytes is 'Bytes of files in all plans of a subscriber; null: no limit.';
comment on column public.subscription_plans.is_free is 'Whether it is the plan of users without a subscription.';
create unique index subscription_plans_one_free on public.subscription_plans (is_free) where is_free;

-- Not active: an update of the server must not limit users. An administrator activates it, after which it is shown and applies.
insert into public.subscription_plans
  (name, description, price, stripe_price_id, features, max_plans, max_members, max_bytes, is_free, active)
values ('Free', 'For a first plan.', 0, 'free', '[]', 1, 3, 104857600, true, false)
on conflict do nothing;

-- What applies to a user: nothing to administrators; else the limits of the running subscription; else those of the Free plan.
-- A subscription whose plan was deleted keeps running without limits. Without an active Free plan there are none either.
create function app_private.limits_of(owner uuid)
returns table (plan_name text, max_plans integer, max_members integer, max_bytes bigint)
language sql stable security definer set search_path = '' rows 1 as $$
  with running as (
    select s.stripe_price_id
    from public.user_subscriptions s
    where s.user_id = limits_of.owner and s.status in ('active', 'trialing', 'past_due')
    order by array_position(array['active', 'trialing', 'past_due'], s.status), s.created_at desc
    limit 1
  )
  select p.name, p.max_plans, p.max_members, p.max_bytes
  from public.subscription_plans p
  where not exists (select from public.user_roles r where r.user_id = limits_of.owner and r.role = 'admin')
    and case when exists (select from running) then p.stripe_price_id = (select stripe_price_id from running) else p.is_free and p.active end
$$;

-- Bytes of the files of a user's plans.
create function app_private.bytes_of(owner uuid) returns bigint
language sql stable security definer set search_path = '' as $$
  select coalesce(sum((o.metadata ->> 'size')::bigint), 0)::bigint
  from public.plans p
  join storage.objects o on o.bucket_id = 'plan_files' and o.name like p.id || '/%'
  where p.user_id = bytes_of.owner
$$;

-- For the policy of uploads: whether the plan's owner has room left. The size of the new file is not known yet;
-- limit_files() counts it.
create function app_private.has_room_for_files(plan text) returns boolean
language sql stable security definer set search_path = '' as $$
  select not exists (
    select from public.plans p cross join app_private.limits_of(p.user_id) l
    where p.id::text = plan and l.max_bytes <= app_private.bytes_of(p.user_id)
  )
$$;
revoke execute on function app_private.limits_of(uuid), app_private.bytes_of(uuid), app_private.has_room_for_files(text) from public;
grant execute on function app_private.has_room_for_files(text) to authenticated, service_role;

-- The triggers run after the statement: a stranger gets the policy's refusal. The lock lets two tabs at once see each other.
-- The server itself (no user in the request) is not limited, and what a user had before a limit was lowered stays.
create function app_private.limit_plans() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  owner uuid;
  allowed record;
begin
  if (select auth.uid()) is null then return null; end if;
  for owner in select distinct a.user_id from added a where a.user_id is not null order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of plans ' || owner::text, 0));
    select * into allowed from app_private.limits_of(owner);
    if (select count(*) from public.plans p where p.user_id = owner) > allowed.max_plans then
      raise exception using
        errcode = 'check_violation', constraint = 'limit_of_plans',
        message = pg_catalog.format('Your subscription (%s) includes %s %s.', allowed.plan_name, allowed.max_plans,
          case allowed.max_plans when 1 then 'plan' else 'plans' end),
        hint = 'Upgrade your subscription, or delete a plan.';
    end if;
  end loop;
  return null;
end $$;
create trigger limit_plans after insert on public.plans
  referencing new table as added for each statement execute function app_private.limit_plans();

create function app_private.limit_members() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  plan uuid;
  allowed record;
begin
  if (select auth.uid()) is null then return null; end if;
  for plan in select distinct a.plan_id from added a order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of members ' || plan::text, 0));
    select l.* into allowed from public.plans p cross join app_private.limits_of(p.user_id) l where p.id = plan;
    if (select count(*) from public.plan_members m where m.plan_id = plan) > allowed.max_members then
      raise exception using
        errcode = 'check_violation', constraint = 'limit_of_members',
        message = pg_catalog.format('The subscription of this plan''s owner (%s) includes %s people on each plan.',
          allowed.plan_name, allowed.max_members),
        hint = 'Upgrade the subscription, or remove a member or an invitation.';
    end if;
  end loop;
  return null;
end $$;
create trigger limit_members after insert on public.plan_members
  referencing new table as added for each statement execute function app_private.limit_members();

create function app_private.limit_files() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  owner uuid;
  allowed record;
begin
  if (select auth.uid()) is null then return null; end if;
  for owner in select distinct p.user_id from added a join public.plans p on p.id = a.plan_id where p.user_id is not null order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of files ' || owner::text, 0));
    select * into allowed from app_private.limits_of(owner);
    if app_private.bytes_of(owner) > allowed.max_bytes then
      raise exception using
        errcode = 'check_violation', constraint = 'limit_of_files',
        message = pg_catalog.format('The subscription of this plan''s owner (%s) includes %s of files.', allowed.plan_name,
          pg_catalog.pg_size_pretty(allowed.max_bytes)),
        hint = 'Upgrade the subscription, or delete files.';
    end if;
  end loop;
  return null;
end $$;
create trigger limit_files after insert on public.plan_attachments
  referencing new table as added for each statement execute function app_private.limit_files();
revoke execute on function app_private.limit_plans(), app_private.limit_members(), app_private.limit_files() from public;

-- What the caller has used of what is included; no row without limits.
create function public.get_my_limits()
returns table (plan_name text, plans bigint, max_plans integer, max_members integer, bytes bigint, max_bytes bigint)
language sql stable security definer set search_path = '' as $$
  select l.plan_name, (select count(*) from public.plans p where p.user_id = (select auth.uid())), l.max_plans, l.max_members,
    app_private.bytes_of((select auth.uid())), l.max_bytes
  from app_private.limits_of((select auth.uid())) l
  where (select auth.uid()) is not null and app_private.has_required_factor()
$$;
-- The same of a plan's owner, for those who may invite and upload.
create function public.get_plan_limits(plan uuid)
returns table (plan_name text, members bigint, max_members integer, bytes bigint, max_bytes bigint, is_mine boolean)
language sql stable security definer set search_path = '' as $$
  select l.plan_name, (select count(*) from public.plan_members m where m.plan_id = p.id), l.max_members,
    app_private.bytes_of(p.user_id), l.max_bytes, p.user_id = (select auth.uid())
  from public.plans p cross join app_private.limits_of(p.user_id) l
  where p.id = plan and p.id = any (array(select app_private.my_plans('{owner,manager}')))
$$;
revoke execute on function public.get_my_limits(), public.get_plan_limits(uuid) from public, anon;
grant execute on function public.get_my_limits(), public.get_plan_limits(uuid) to authenticated;
