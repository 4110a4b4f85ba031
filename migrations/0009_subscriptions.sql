-- Plans for sale, and the subscriptions of users: the server's copy of what the card provider knows.

create table public.subscription_plans (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  description text,
  price numeric(12, 2) not null,
  "interval" text not null default 'month',
  stripe_price_id text not null,
  features jsonb not null default '[]',
  active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint subscription_plans_name_1_to_500 check (char_length(name) <= 500 and name ~ '[^[:space:]]'),
  constraint subscription_plans_description_at_most_5000 check (char_length(description) <= 5000),
  constraint subscription_plans_price_not_negative check (price >= 0),
  constraint subscription_plans_interval_known check ("interval" in ('day', 'week', 'month', 'year')),
  constraint subscription_plans_stripe_price_id_once unique (stripe_price_id),
  constraint subscription_plans_stripe_price_id_1_to_255 check (char_length(stripe_price_id) between 1 and 255),
  constraint subscription_plans_features_are_texts check (
    jsonb_typeof(features) = 'array'
    and not jsonb_path_exists(features, '$[*] ? (@.type() != "string")')
    and octet_length(features::text) <= 20000
  )
);
comment on table public.subscription_plans is 'Plans for sale.';

create table public.stripe_customers (
  user_id uuid not null references auth.users (id) on delete cascade,
  livemode boolean not null,
  stripe_customer_id text not null unique,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (user_id, livemode)
);
comment on table public.stripe_customers is 'The card provider''s customer for each user and mode. For the server only.';

create table public.user_subscriptions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  stripe_subscription_id text not null unique,
  stripe_customer_id text not null,
  stripe_price_id text,
  status text not null,
  -- True whenever the subscription ends with the period, also where the provider says so by `cancel_at` alone.
  cancel_at_period_end boolean not null default false,
  cancel_at timestamptz,
  current_period_end timestamptz,
  trial_end timestamptz,
  ended_at timestamptz,
  livemode boolean not null default false,
  last_event_id text,
  -- When this was the provider's state: an older state never replaces a newer one.
  state_as_of timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint user_subscriptions_status_known check (
    status in ('incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused')
  )
);
comment on table public.user_subscriptions is 'Subscriptions of users, as the card provider last reported them.';
create index user_subscriptions_user_id on public.user_subscriptions (user_id);
create index user_subscriptions_stripe_customer_id on public.user_subscriptions (stripe_customer_id);
create index user_subscriptions_stripe_price_id on public.user_subscriptions (stripe_price_id);

create table public.webhook_events (
  -- The provider's id, so that an event sent twice is stored once.
  id text primary key,
  source text not null default 'stripe',
  event_type text not null,
  status text not null default 'pending',
  outcome text,
  payload jsonb not null,
  error_message text,
  attempts integer not null default 0,
  -- End of the lease, or time of the next retry. Null: no retry unless an administrator asks for one.
  next_attempt_at timestamptz,
  event_created_at timestamptz,
  created_at timestamptz not null default now(),
  processed_at timestamptz,
  updated_at timestamptz not null default now(),
  constraint webhook_events_id_1_to_255 check (char_length(id) between 1 and 255),
  constraint webhook_events_source_lower check (source = lower(source)),
  constraint webhook_events_status_known check (status in ('pending', 'processed', 'failed'))
);
comment on table public.webhook_events is 'Inbox of what the card provider sends.';
create index webhook_events_newest on public.webhook_events (created_at desc, id);
create index webhook_events_due on public.webhook_events (next_attempt_at) where status <> 'processed';

create trigger set_updated_at before update on public.subscription_plans
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.stripe_customers
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.user_subscriptions
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.webhook_events
  for each row execute function app_private.set_updated_at();

-- For the server. Returns `applied`, or `stale` where the row has a newer state or the subscription has ended for good. Two
-- calls for one subscription need no further lock: the upsert locks the row and then compares. The user never changes.
create function public.apply_subscription_state(p jsonb) returns text
language plpgsql security definer set search_path = '' as $$
declare
  changed integer;
begin
  insert into public.user_subscriptions as known (
    user_id, stripe_subscription_id, stripe_customer_id, stripe_price_id, status, cancel_at_period_end, cancel_at,
    current_period_end, trial_end, ended_at, livemode, state_as_of, last_event_id
  )
  values (
    (p ->> 'user_id')::uuid, p ->> 'subscription_id', p ->> 'customer_id', p ->> 'price_id', p ->> 'status',
    coalesce((p ->> 'cancel_at_period_end')::boolean, false), (p ->> 'cancel_at')::timestamptz,
    (p ->> 'current_period_end')::timestamptz, (p ->> 'trial_end')::timestamptz, (p ->> 'ended_at')::timestamptz,
    coalesce((p ->> 'livemode')::boolean, false), (p ->> 'state_as_of')::timestamptz, p ->> 'event_id'
  )
  on conflict (stripe_subscription_id) do update
  set stripe_price_id = excluded.stripe_price_id,
    status = excluded.status,
    cancel_at_period_end = excluded.cancel_at_period_end,
    cancel_at = excluded.cancel_at,
    current_period_end = excluded.current_period_end,
    trial_end = excluded.trial_end,
    ended_at = excluded.ended_at,
    state_as_of = excluded.state_as_of,
    last_event_id = excluded.last_event_id
  where excluded.state_as_of >= known.state_as_of
    and not (
      known.status in ('canceled', 'incomplete_expired') and excluded.status not in ('canceled', 'incomplete_expired')
    );
  get diagnostics changed = row_count;
  return case changed when 0 then 'stale' else 'applied' end;
end $$;
revoke execute on function public.apply_subscription_state(jsonb) from public;
grant execute on function public.apply_subscription_state(jsonb) to service_role;

-- The user's subscriptions; the first is the current one. Argument names are part of the API.
create function public.get_user_subscription(user_id uuid)
returns table (
  subscription_id text, plan_name text, status text, cancel_at_period_end boolean, current_period_end timestamptz,
  plan_features jsonb
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  if get_user_subscription.user_id is null then
    return;
  end if;
  if get_user_subscription.user_id is distinct from (select auth.uid()) and not public.is_admin() then
    raise exception 'Not allowed to read this subscription' using errcode = '42501';
  end if;
  return query
  select s.stripe_subscription_id, coalesce(p.name, 'Standard Plan'),
    -- The app knows five values (specification 2, section 4).
    case when s.status in ('unpaid', 'paused') then 'past_due' else s.status end,
    s.cancel_at_period_end, s.current_period_end, coalesce(p.features, '[]')
  from public.user_subscriptions s
  left join public.subscription_plans p on p.stripe_price_id = s.stripe_price_id
  where s.user_id = get_user_subscription.user_id and s.status <> 'incomplete_expired'
  order by
    array_position(array['active', 'trialing', 'past_due', 'unpaid', 'paused', 'incomplete', 'canceled'], s.status),
    s.created_at desc;
end $$;
revoke execute on function public.get_user_subscription(uuid) from public;
grant execute on function public.get_user_subscription(uuid) to authenticated, service_role;

create function public.get_webhook_events(source_filter text default null)
returns table (
  id text, source text, event_type text, status text, payload jsonb, error_message text, created_at timestamptz,
  processed_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
begin
  if not public.is_admin() then
    raise exception 'Administrators only' using errcode = '42501';
  end if;
  return query
  select e.id, e.source, e.event_type, e.status, e.payload, e.error_message, e.created_at, e.processed_at
  from public.webhook_events e
  where coalesce(source_filter, '') in ('', 'all') or e.source = lower(source_filter)
  order by e.created_at desc, e.id
  limit 200;
end $$;
revoke execute on function public.get_webhook_events(text) from public;
grant execute on function public.get_webhook_events(text) to authenticated, service_role;
